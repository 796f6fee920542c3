"""params.yaml: one clear line per mistake, all at once, before anything runs; overlays, recipes, slices."""

import copy
import json

import jsonschema
import pytest

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config.load import resolve, resolve_every_scale
from tdjepa.config.overlay import merge
from tdjepa.config.params import Params
from tdjepa.config.parse import parse
from tdjepa.config.schema import schema
from tdjepa.config.slices import collect_slice, evaluate_slice, fetch_slice, mine_slice, slice_json, train_slice
from tdjepa.config.yaml_file import read_yaml

RAW = read_yaml(ROOT / "params.yaml")
SCALES = tuple(RAW["scales"])
SCALES_SAID = f"{', '.join(SCALES)}, or one of them with _as_published"


@pytest.fixture
def raw():
    return copy.deepcopy(RAW)


def test_every_scale_is_valid_and_frozen(raw):
    for scale in SCALES:
        p = resolve(raw, scale)
        assert p.scale == scale
        with pytest.raises(Exception, match="frozen"):
            p.train.lr = 1.0


def test_a_method_is_like_another_at_every_scale(raw):
    raw["methods"]["mine"] = {"like": "lewm_original", "label": "mine", "terms": {"one_step": {"weight": 2.0}}}
    for scale in raw["scales"]:
        p = resolve(raw, scale)
        mine, like = p.methods["mine"], p.methods["lewm_original"]
        assert mine.terms.sigreg == like.terms.sigreg == p.methods["lewm"].terms.sigreg
        assert mine.terms.one_step == like.terms.one_step.model_copy(update={"weight": 2.0})
    raw["scales"]["desk"]["methods"]["lewm"] = {"terms": {"sigreg": {"weight": 5.0}}}
    assert resolve(raw, "desk").methods["mine"].terms.sigreg.weight == 5.0


@pytest.mark.parametrize("like", ["lewn", "mine", "other"])
def test_a_method_is_like_nothing_or_itself(raw, like):
    said = "is not defined" if like == "lewn" else "leads back"
    raw["methods"] |= {"mine": {"like": like}, "other": {"like": "mine"}}
    with pytest.raises(UserError, match=rf"methods\.(mine|other)\.like = .*: {said}"):
        resolve(raw, "smoke")


def test_a_scale_is_like_another_but_for_what_it_says(raw):
    raw["scales"]["quick"] = {"like": "desk", "train_seeds": [3072], "train": {"lr": 1.0e-3}}
    recipes = {"reacher": {"train": {"steps_per_epoch": 1}}, "push_t": None}
    raw["scales"]["quicker"] = {"like": "quick", "recipes": recipes}
    desk, quick, quicker = (resolve(raw, scale) for scale in ("desk", "quick", "quicker"))
    train = desk.train.model_copy(update={"lr": 1.0e-3})
    assert quick == desk.model_copy(update={"scale": "quick", "train_seeds": (3072,), "train": train})
    assert (quicker.train, quicker.train_seeds) == (quick.train, quick.train_seeds)
    assert {name for name in quick.recipes if quick.recipes[name] != quicker.recipes.get(name)} == {"reacher", "push_t"}
    assert train_slice(quicker, "reacher", "tdjepa", 3072).train.steps_per_epoch == 1
    raw["scales"]["desk"]["train"]["batch"] = 16
    assert resolve(raw, "quicker").train.batch == 16


@pytest.mark.parametrize(
    ("like", "said"),
    [
        ("dsek", r"is not defined there \(paper, desk, smoke, rehearsal, mine, other\); did you mean 'desk'\?"),
        (3, r"is not defined there \(.*\)"),
        ("mine", r"leads back to itself \(mine -> mine\)"),
        ("other", r"leads back to itself \(mine -> other -> mine\)"),
    ],
)
def test_a_scale_is_like_nothing_or_itself(raw, like, said):
    raw["scales"] |= {"mine": {"like": like}, "other": {"like": "mine"}}
    with pytest.raises(UserError, match=rf"^params\.yaml: scales\.(mine|other)\.like = .*: {said}$"):
        resolve(raw, "mine")
    assert resolve(raw, "smoke")
    with pytest.raises(UserError, match="like = "):
        resolve_every_scale(raw, "smoke")


BASE = [
    (("train", "lr"), -1.0, "train.lr = -1.0: input should be greater than 0"),
    (("envs",), ["two_rom"], "'cube'; did you mean 'two_room'?"),
    (("methods_run",), ["tdjepa", "tdjepa_no_hing"], "did you mean 'tdjepa_no_hinge'?"),
    (("model", "encoder", "patches"), 3, "model.encoder.patches = 3: no such key; did you mean 'patch'?"),
]


def at(key: tuple, value) -> dict:
    """A tree with one value."""
    return {key[0]: at(key[1:], value)} if key else value


@pytest.mark.parametrize(("key", "value", "said"), BASE, ids=[".".join(b[0]) for b in BASE])
@pytest.mark.parametrize("scale", SCALES)
def test_the_base_is_checked_at_every_scale_also_where_the_scale_overlays_it(raw, scale, key, value, said):
    base = raw
    for part in key[:-1]:
        base = base[part]
    good, base[key[-1]] = base.get(key[-1]), value
    raw["scales"][scale] = merge(raw["scales"][scale], at(key, good) if good else {})
    with pytest.raises(UserError) as error:
        resolve(raw, scale)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"params.yaml: {'.'.join(key)}")
    assert line.endswith(said)


TOO_COARSE = {"readout": "keypoints", "keypoints": {"cell": 64}}
KINDS = ("collect", "push_t", "kinds")


def at_shares(*shares: float) -> dict:
    names = ("expert", "wander")
    return {n: {"policy": n, "share": share, "noise": [0, 0.1]} for n, share in zip(names, shares, strict=True)}


RC_AUX = ("methods", "rc_aux", "terms", "budget_reachability")
BAD = [
    (("train", "lr"), -1.0, "train.lr = -1.0", "greater than 0"),
    (("train", "lr"), "fast", "train.lr = 'fast'", "valid number"),
    (("train", "lr"), "-5e-5", "train.lr = -5e-05", "greater than 0"),
    (("train", "epochs"), 2.5, "train.epochs = 2.5", "integer"),
    (("train", "precison"), "fp32", "train.precison = 'fp32'", "no such key; did you mean 'precision'?"),
    (("train", "precision"), "fp16", "train.precision = 'fp16'", "'bf16_fp32_projectors'; did you mean 'bf16'?"),
    (("mine", "split", "train"), 0.9, "mine.split", "sum to 1"),
    (KINDS, at_shares(0.5, 0.4), "collect.push_t.kinds: the shares (expert 0.5, wander 0.4)", "0.9, but must sum to 1"),
    ((*KINDS, "expert", "noise"), [0.4, 0.1], "push_t.kinds.expert.noise: [0.4, 0.1]", "write the lower bound first"),
    ((*KINDS, "expert", "policy"), "expret", "push_t.kinds.expert.policy = 'expret'", "did you mean 'expert'?"),
    (("model", "encoder"), TOO_COARSE, "model.encoder.keypoints.cell = 64: 224-px frames", "(two_room/tdjepa and "),
    (("evaluate", "plan_seeds"), [], "evaluate.plan_seeds = []", "at least 1"),
    (("evaluate", "planner", "elites"), 301, "evaluate.planner.elites", "exceeds candidates"),
    (("evaluate", "planner", "horizon"), 11, "evaluate.planner.horizon: 11", "longer than evaluate.budget: 50"),
    (
        *(("evaluate", "planner", "horizon"), 6, "evaluate.planner.horizon: 6"),
        "exceeds model.head.budgets: 5, the most steps that the head of rc_aux",
    ),
    (("evaluate", "planner", "history"), 4, "planner.history: 4", "exceeds model.predictor.history: 3"),
    (("evaluate", "protocol", "two_room", "solver"), "mpc", "evaluate.protocol.two_room.solver = 'mpc'", "'gradient'"),
    (("evaluate", "protocol", "two_room", "planner"), {"elite": 3}, "two_room.planner.elite = 3", "mean 'elites'?"),
    (("evaluate", "renderer"), "libary", "evaluate.renderer = 'libary'", "did you mean 'library'?"),
    (("evaluate", "restore"), "setled", "evaluate.restore = 'setled'", "did you mean 'settled'?"),
    (("evaluate", "costs", "first_gate"), "true", "evaluate.costs.first_gate = 'true'", "'reset' or 'state'"),
    (("evaluate", "costs", "contact_distance"), 0.0, "costs.contact_distance = 0.0", "greater than 0"),
    (("evaluate", "costs", "gate_threshold"), 40.0, "evaluate.costs.gate_threshold = 40.0", "no such key"),
    (("evaluate", "sweeps", "blend", "plan_seed"), -1, "sweeps.blend.plan_seed = -1", "greater than or equal to 0"),
    (("evaluate", "sweeps", "blend", "manifest"), "curve", "sweeps.blend.manifest = 'curve'", "did you mean 'curves'?"),
    (("evaluate", "sweeps", "blend", "cells"), [{"epoch": "curves"}], "epoch = 'curves'", "integer"),
    (("mine", "pair_draw"), "start", "mine.pair_draw = 'start'", "'start_first' or 'gap_first'"),
    (("mine", "manifest_draw"), "all", "mine.manifest_draw = 'all'", "'by_part' or 'all_episodes'"),
    (("evaluate", "curve_cost"), "l1", "evaluate.curve_cost = 'l1'", "'soft_gate'"),
    (("evaluate", "sweeps", "blend", "cells"), [{"alpha": [0.1, 2.0]}], "alpha = 2.0", "less than or equal to 1"),
    (("evaluate", "sweeps", "blend", "cells"), [{"colours": 1}], "blend.cells.entry_1.colours = 1", "mean 'colour'?"),
    (("evaluate", "sweeps", "blend", "methods"), ["tdjpea"], "evaluate.sweeps.blend.methods", "mean 'tdjepa'?"),
    (("evaluate", "sweeps", "gates", "methods"), ["lewm"], "evaluate.sweeps.gates", "hard_gate needs head mrn or"),
    (("evaluate", "sweeps", "gates", "envs"), ["two_room"], "evaluate.sweeps.gates", "geometry, which two_room lacks"),
    (("methods", "tdjepa", "costs"), ["hard_gate"], "methods.tdjepa.costs", "hard_gate needs contact geometry"),
    (("evaluate", "designs", "main", "pairs"), 201, "evaluate.designs.main.pairs: 201", "test manifest's 200 goals"),
    (("evaluate", "designs", "main", "plan_seeds"), 99, "main.plan_seeds: 99", "exceeds the 10 of evaluate.plan_seeds"),
    (("evaluate", "designs", "third"), {}, "evaluate.designs.third", "'main' or 'protocol'"),
    (
        ("evaluate", "sweeps", "budget", "pairs"),
        51,
        "evaluate.sweeps.budget.pairs: 51",
        "validation manifest's 50 goals",
    ),
    (("methods", "tdjepa", "window"), 5, "methods.tdjepa.window", "too short"),
    (("methods", "lewm", "costs"), ["d_psi"], "methods.lewm.costs", "d_psi needs head mrn or symmetric, but head is"),
    (("methods", "lewm", "costs"), ["rc_aux"], "methods.lewm.costs", "rc_aux needs head budget_reachability"),
    (("methods", "tdjepa", "head"), "none", "methods.tdjepa.head", "none does not fit: terms.temporal trains mrn or"),
    (("methods", "tdjepa", "head"), "reachability", "methods.tdjepa.head", "by terms.pair_reachability, which is"),
    (
        ("methods", "tdjepa", "terms", "temporal"),
        None,
        "methods.tdjepa.head",
        "by terms.temporal or terms.value, which is",
    ),
    (("methods", "lewm", "terms"), {"one_step": None, "sigreg": None}, "methods.lewm.terms", "at least one term"),
    (("methods", "lewm", "terms", "contrast"), {}, "methods.lewm.terms.contrast", "no such key"),
    (("methods", "rc_aux", "window"), 7, "methods.rc_aux.window", "need 8"),
    ((*RC_AUX, "horizon"), 6, "budget_reachability.horizon: 6", "exceeds model.head.budgets: 5"),
    (("methods", "tdjepa_no_hinge", "restart"), 10, "no_hinge.restart: 10 is not before", "train.epochs: 10"),
    (("methods", "tdjepa_no_hinge", "envs"), ["pushT"], "no_hinge.envs.0 = 'pushT'", "'push_t'"),
    (("methods_run",), ["tdjepa", "dreamer"], "methods_run", "'dreamer' is not defined under methods (tdjepa, lewm, "),
    (("envs",), ["two_rooms"], "envs.0 = 'two_rooms'", "did you mean 'two_room'?"),
    (("collect", "min_length"), 25, "collect.min_length", "must exceed"),
    (("recipes",), {"a": {"when": {}, "train": {"batches": 3}}}, "recipes.a.train.batches = 3", "mean 'batch'?"),
    (("recipes",), [{"when": {}, "terms": {"sigrek": {}}}], "recipes.entry_1.terms.sigrek", "no such key"),
    (("recipes",), {"a": {"when": {"method": "lewn"}}}, "recipes.a.when.method: 'lewn'", "did you mean 'lewm'?"),
    (("recipes",), {"a": {"when": {"env": "cub"}}}, "recipes.a.when.env = 'cub'", "did you mean 'cube'?"),
    (("recipes",), {"a": {"when": {}, "train": {"lr": -1.0}}}, "train.lr = -1.0", "greater than 0"),
    (("collect", "source"), {"cub": "released"}, "collect.source.cub = 'cub'", "did you mean 'cube'?"),
    (("modle",), {}, "modle = {}", "no such key; did you mean 'model'?"),
    (("train_seeds",), ["3072"], "train_seeds.0 = '3072'", "integer"),
    (("collect", "source"), {"two_room": "realesed"}, "collect.source.two_room = 'realesed'", "'released'"),
    (("scale",), "smoke", "params.yaml: scales.paper.scale", "no such key"),
    (("collect", "storage"), "zipped", "collect.storage = 'zipped'", "'packed'"),
]


@pytest.mark.parametrize(("key", "value", "names", "allows"), BAD, ids=[".".join(b[0]) + f"={b[1]!r}" for b in BAD])
def test_a_mistake_is_one_line_with_key_value_and_what_is_allowed(raw, key, value, names, allows):
    raw["scales"]["paper"] = merge(raw["scales"]["paper"], at(key, value))
    with pytest.raises(UserError) as error:
        resolve(raw, "paper")
    line = next(line for line in str(error.value).splitlines() if names in line)
    assert allows in line
    assert line.startswith("params")


def test_all_mistakes_are_named_at_once(raw):
    raw["scales"]["desk"]["train"].update(lr=-1.0, batch="many", colour="red")
    with pytest.raises(UserError) as error:
        resolve(raw, "desk")
    assert [line.split()[1] for line in str(error.value).splitlines()] == ["train.batch", "train.lr", "train.colour"]


def test_unknown_scale_and_missing_section(raw):
    for scale, meant in (("huge", ""), ("dsk", r"; did you mean 'desk'\?")):
        with pytest.raises(UserError, match=rf"scale = '{scale}': must be one of {SCALES_SAID}{meant}$"):
            resolve(raw, scale)
    del raw["judge"]
    with pytest.raises(UserError, match="judge: missing"):
        resolve(raw, "desk")


def test_recipes_apply_in_order_and_only_where_they_match(raw):
    raw["recipes"] = raw["scales"]["desk"]["recipes"] = [
        {"when": {}, "train": {"batch": 16}},
        {"when": {"method": "lewm"}, "train": {"batch": 8}, "model": {"encoder": {"depth": 7}}},
        {"when": {"env": "cube"}, "train": {"batch": 4}},
    ]
    p = resolve(raw, "desk")
    lewm, tdjepa = (train_slice(p, "two_room", m, 1) for m in ("lewm", "tdjepa"))
    assert (lewm.train.batch, tdjepa.train.batch) == (8, 16)
    assert (lewm.model.encoder.depth, lewm.model.encoder.width) == (7, tdjepa.model.encoder.width)


def test_the_order_of_recipes_and_cells_survives_canonical_json(raw):
    recipes = {"b": {"when": {}, "train": {"lr": 1.0}}, "a": {"when": {}, "train": {"lr": 2.0}}}
    raw["scales"]["desk"] |= {"recipes": recipes}
    before = resolve(raw, "desk")
    after = parse(Params, json.loads(slice_json(before)), "a slice")
    assert list(after.recipes.values()) == list(before.recipes.values())
    for name, sweep in before.evaluate.sweeps.items():
        assert list(after.evaluate.sweeps[name].cells.values()) == list(sweep.cells.values())
    assert slice_json(after) == slice_json(before)


def test_a_recipe_changes_the_loss_terms_that_a_method_has_and_adds_none(raw):
    raw["scales"]["desk"]["recipes"] = [  # a list is taken as it is; names merge with those of the base
        {"when": {"env": "cube"}, "terms": {"sigreg": {"weight": 0.5}, "temporal": {"weight": 2.0}}}
    ]
    p = resolve(raw, "desk")
    plain, lewm, tdjepa = (
        train_slice(p, env, method, 1).method.terms
        for env, method in (("two_room", "tdjepa"), ("cube", "lewm"), ("cube", "tdjepa"))
    )
    assert plain == p.methods["tdjepa"].terms
    assert (lewm.sigreg.weight, lewm.temporal) == (0.5, None)
    assert tdjepa.sigreg == plain.sigreg.model_copy(update={"weight": 0.5})
    assert tdjepa.temporal == plain.temporal.model_copy(update={"weight": 2.0})


def test_a_slice_holds_what_its_job_needs_and_nothing_else(raw):
    before = resolve(raw, "desk")
    changed = copy.deepcopy(raw)
    changed["scales"]["desk"]["recipes"] = [{"when": {"method": "lewm"}, "train": {"lr": 1.0e-4}}]
    after = resolve(changed, "desk")

    same = [(collect_slice,), (mine_slice,), (train_slice, "tdjepa", 3072), (evaluate_slice, "lewm", 3072)]
    for of, *job in [*same, other := (train_slice, "lewm", 3072)]:
        old, new = (slice_json(of(p, "two_room", *job)) for p in (before, after))
        assert (old != new) == ((of, *job) == other)


def test_another_mirror_changes_no_slice_and_another_checksum_does(raw):
    before = fetch_slice(resolve(raw, "paper"), "cube")
    raw["fetch"]["mirrors"] = ["http://localhost:1"]
    assert fetch_slice(resolve(raw, "paper"), "cube") == before
    raw["fetch"]["sha256"] = {"cube": "0" * 64}
    assert fetch_slice(resolve(raw, "paper"), "cube") != before


def test_committed_schema_is_the_generated_one(raw):
    committed = json.loads((ROOT / "workflow/schemas/params.schema.json").read_text())
    assert committed == schema(), "run: tdjepa params --schema > workflow/schemas/params.schema.json"
    jsonschema.validate(raw, committed)
    raw["scales"]["quick"] = {"like": "desk", "train": {"lr": 1.0e-3}}
    jsonschema.validate(raw, committed)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**raw, "trian": {}}, committed)
