"""Every step of the pipeline, declared once.

The command line and its help, the paths, the source files that make a job run again, the phases and dvc.yaml follow from
this file. A new step is its module, its entry here, its slice (config/slices.py), its rule (workflow/rules) and its test.
Nothing heavy is imported: `tdjepa --help` reads this file.
"""

from dataclasses import dataclass, field, replace

# Kinds of files and where they lie.
PATHS = {
    "episodes": "data/{scale}/episodes/{env}/episodes.h5",
    "mined": "data/{scale}/mined/{env}/{name}",  # split.json, validation.json, test.json, pairs.parquet
    "split": "data/{scale}/mined/{env}/split.json",
    "manifest": "data/{scale}/mined/{env}/{manifest}.json",
    "held_out": "data/{scale}/mined/{env}/pairs.parquet",
    "training": "results/{scale}/train/{env}/{method}/{seed}",
    "checkpoint": "results/{scale}/train/{env}/{method}/{seed}/epoch_{epoch:02d}.safetensors",
    "curve": "results/{scale}/train/{env}/{method}/{seed}/curve.csv",
    "rows": "results/{scale}/rows/{env}/{method}_{seed}.parquet",
    "floors": "results/{scale}/rows/{env}/floors.parquet",
    "ceiling": "results/{scale}/rows/{env}/ceiling.parquet",
    "sweep": "results/{scale}/rows/{env}/{sweep}/{method}_{seed}.parquet",  # deeper: they are not the protocol's
    "all_floors": "results/{scale}/floors/{env}.parquet",  # on all test pairs: about the environment
    "pairs": "results/{scale}/diagnostics/{env}/{method}_{seed}_pairs.parquet",
    "aliasing": "results/{scale}/diagnostics/{env}/{method}_{seed}_aliasing.json",
    "probe": "results/{scale}/diagnostics/{env}/{method}_{seed}_probe.json",
    "picture": "results/{scale}/pictures/{env}/{method}_{seed}_{name}",  # d_psi_0.gif, landscape.pdf
    "evidence": "results/{scale}/evidence/{name}",
    "report": "results/{scale}/report/{name}",
    "recipes": "results/{scale}/recipes/{name}",  # measured times, so not part of the report
    "page": "results/{scale}/page/index.html",
    "paper": "results/{scale}/paper.pdf",
    "log": "results/{scale}/logs/{name}",
    "benchmark": "results/{scale}/benchmarks/{name}",
}
# Big files have a card beside them with their sha256, and jobs are compared by the card.
BIG = {"episodes", "checkpoint", "rows", "floors", "ceiling", "sweep", "pairs", "page"}

TABLES = (
    *("method_comparison", "main", "literature", "ablations", "navigation", "rank_split", "phases", "geometry"),
    *("contact_gates", "reacher_protocol", "cost_matrix"),  # so far the paper's eleven; then our own
    *("floors", "training_seeds", "three_frames", "split_leak"),
    *("rank_epochs", "disagreement", "probe", "data", "claims"),
)
FIGURES = (
    *("alignment", "pipeline", "cost_matrix", "epoch_curve", "offline", "calibration"),  # the paper's six
    *("training_seeds", "variants", "aliasing", "training"),
)


@dataclass(frozen=True)
class Option:
    """One option of a verb: its name, its help, and what else argparse takes. A kind "path" stands for Path."""

    name: str
    help: str
    more: dict = field(default_factory=dict)


def flag(name: str, help: str) -> Option:
    return Option(name, help, {"action": "store_true"})


def value(name: str, help: str, kind: type | str = "path", **more) -> Option:
    return Option(name, help, {"type": kind, **more})


ENV = Option("env", "environment (default two_room)", {"default": "two_room"})
METHOD = Option("method", "method of params.yaml (default tdjepa)", {"default": "tdjepa"})
SEED = value("seed", "training seed (default: the first of params.yaml)", int)
SCALE = (
    value("params", "parameter file", default="params.yaml"),
    Option("scale", "smoke, desk or paper (default: scale in params.yaml)"),
)
SLICE = Option("slice", "the parameters of this one job as JSON, instead of --params and --scale")
FILES = {  # options that name a file; left out, it is the one in its usual place
    "episodes": value("episodes", "episodes.h5"),
    "split": value("split", "split.json"),
    "manifest": value("manifest", "test.json or validation.json"),
    "held_out": value("pairs", "pairs.parquet of `mine`"),
    "training": value("checkpoints", "folder of the training"),
    "checkpoint": value("checkpoint", "a checkpoint"),
}
OUT = value("out", "where to write (default: the usual place of the scale)")
DOCS = value("docs", "copy the table into this file, between its marks")
ROWS = (value("rows", "rows files", nargs="+"), value("pairs", "pairs files of `diagnose`", nargs="+"))
PER = {"env": (ENV,), "training": (ENV, METHOD, SEED), "scale": ()}  # what one job is about: the options that name it


@dataclass(frozen=True)
class Verb:
    """A command of `tdjepa`. The function of its name in cli/verbs.py does it, else the one that `module` names after a
    colon, else its `run`. It takes by name what it needs (cli/call.py)."""

    name: str
    help: str
    module: str = ""
    options: tuple[Option, ...] = ()
    takes: tuple[str, ...] = ()  # kinds of files
    slice: str = ""  # config.slices.<slice>_slice cuts it; by default the name of the step
    shown: tuple[str, ...] = ()  # of the facts that the function returns; by default all


@dataclass(frozen=True)
class Step(Verb):
    """A verb whose jobs the workflow runs. They run again when their slice, a file that they take or a source file behind
    `module` has changed."""

    phase: str = ""  # the DVC stage and the target <phase>_all; without one only on request
    per: str = "scale"
    jobs: str = "once"  # which there are: a function of config/runs.py
    gives: tuple[str, ...] = ()  # kinds of files, or the names in a folder: "evidence/stats.json"
    out: str = ""  # the kind that --out names, if it is not the first that the step gives
    verb: str = ""  # the verb that its rule calls, if it has none of its own


DATA_FACTS = ("episodes", "rows", "length_mean", "success_share", "trivial_share", "checksum", "sha256")
COLLECT = Step(
    "collect",
    "make demonstrations of one environment",
    "tdjepa.steps.collect",
    phase="collect",
    per="env",
    jobs="generated",
    gives=("episodes",),
    shown=DATA_FACTS,
)
FETCH = replace(
    COLLECT,
    name="fetch",
    help="the released demonstrations instead of collected ones",
    module="tdjepa.steps.fetch",
    options=(
        Option("mirror", "fetch from this URL instead (repeat it for a second choice)", {"action": "append"}),
        flag("trust-first-use", "take a file whose sha256 nobody knows, and record it"),
    ),
    jobs="released",
)
MINE = Step(
    "mine",
    "split, locked manifests and held-out pairs of a data set",
    "tdjepa.steps.mine",
    phase="mine",
    per="env",
    jobs="envs",
    takes=("episodes",),
    gives=("mined/split.json", "mined/validation.json", "mined/test.json", "mined/pairs.parquet"),
)
TRAIN = Step(
    "train",
    "train one model; after a kill the same command continues where it was",
    "tdjepa.steps.train",
    (
        value("initial", "checkpoint to continue from, for a method with `continues`", nargs="?"),
        value("snapshot-every", "steps between two snapshots", int),
        value("reader-workers", "threads that read ahead", int),
        value("memory-mb", "bound on the frames that they hold", int),
    ),
    phase="train",
    per="training",
    jobs="trainings",
    takes=("episodes", "split"),
    gives=("checkpoint", "curve"),
    out="training",
)
EVALUATE = Step(
    "evaluate",
    "plan on a locked manifest; --method floors gives random, zero and replay",
    "tdjepa.steps.evaluate",
    (
        value("times", "where to write the seconds of each plan"),
        Option("sweep", "planner settings beside the protocol's: a name of evaluate.sweeps", {"default": ""}),
    ),
    slice="evaluate",
    phase="evaluate",
    per="training",
    jobs="trainings",
    takes=("episodes", "manifest", "training"),
    gives=("rows",),
)
DIAGNOSE = Step(
    "diagnose",
    "latent distances of held-out pairs, and the aliasing of the encoder",
    "tdjepa.steps.diagnose",
    (
        value("checkpoint", "the checkpoints of the curve's epochs, in order", nargs="+"),
        value("aliasing", "where to write the aliasing diagnostic"),
    ),
    phase="evaluate",
    per="training",
    jobs="diagnosed",
    takes=("episodes", "held_out"),
    gives=("pairs", "aliasing"),
)
PROBE = Step(
    "probe",
    "can the true state be read from the latent, and from imagined ones?",
    "tdjepa.steps.probe",
    phase="evaluate",
    per="training",
    jobs="diagnosed",
    takes=("episodes", "split", "checkpoint"),
    gives=("probe",),
)
CEILING = Step(
    "ceiling",
    "the protocol's planner with the true simulator as its model",
    "tdjepa.steps.ceiling",
    phase="evaluate",
    per="env",
    jobs="ceilings",
    takes=("episodes", "split", "manifest"),
    gives=("ceiling",),
)
JUDGE = Step(
    "judge",
    "statistics of evaluation rows",
    "tdjepa.evidence.judge",
    ROWS,
    slice="judge",
    phase="judge",
    gives=("evidence/stats.json", "evidence/cells.csv", "evidence/metrics.json"),
)
CLAIMS = Step(
    "claims",
    "verdicts on the paper's claims: the stored ones, or with --out new ones",
    "tdjepa.evidence.claims",
    (
        *ROWS,
        value("ledger", "claims with their tests (default paper/claims.yaml)", default="paper/claims.yaml"),
        value("train-seed", "the training of the paper's protocol (default: the first)", int),
    ),
    slice="judge",
    phase="judge",
    gives=("evidence/claims.json",),
)
RENDER = Step("", "", slice="report", phase="render", verb="render")
RENDERED = {  # part of the report -> its files; three jobs, so that a changed caption draws no figure
    "tables": tuple(f"report/tables/{name}.{kind}" for name in TABLES for kind in ("tex", "md")),
    "figures": tuple(f"report/figures/{name}.{kind}" for name in FIGURES for kind in ("pdf", "png")),
    "numbers": ("report/numbers.tex", "report/summary.md"),
}
PAGE = Step(
    "page",
    "everything as one web page that opens offline",
    "tdjepa.report.page.build",
    (value("times", "benchmark files or expected seconds (default: what this machine measured)", nargs="+"),),
    slice="report",
    phase="page",
    gives=("page",),
)
PAPER = Step("paper", "the PDF", "tdjepa.report.pdf", phase="paper", gives=("paper",))
PICTURE = Step(
    "picture",
    "one planned episode as a GIF, beside its goal and with the imagined costs",
    "tdjepa.steps.pictures",
    (
        value("pair", "which pair of the manifest (default 0)", int, default=0),
        Option("cost", "planning cost (default: the deployed one)"),
    ),
    slice="evaluate",
    per="training",
    takes=("episodes", "manifest", "training"),
    out="picture",
)
LANDSCAPE = Step(
    "landscape",
    "Two-Room: the costs from everywhere to one goal",
    "tdjepa.steps.pictures",
    slice="evaluate",
    per="training",
    takes=("training",),
    out="picture",
)
STEPS = {
    step.name: step
    for step in (
        *(COLLECT, FETCH, MINE, TRAIN, EVALUATE),
        replace(EVALUATE, name="sweep", jobs="sweeps", gives=("sweep",), verb="evaluate"),
        replace(EVALUATE, name="floors", per="env", jobs="envs", gives=("floors",), verb="evaluate"),
        *(CEILING, DIAGNOSE, PROBE, JUDGE, CLAIMS),
        *(replace(RENDER, name=part, module=f"tdjepa.report.{part}", gives=files) for part, files in RENDERED.items()),
        *(PAGE, PAPER, PICTURE, LANDSCAPE),
    )
}
PHASES = tuple(dict.fromkeys(step.phase for step in STEPS.values() if step.phase))
RUN = ("envs", "methods_run", "train_seeds")
SECTIONS = {  # of params.yaml: what the slices and file names of a phase are cut from
    "collect": ("envs", "collect", "fetch", "mine"),
    "mine": ("envs", "mine"),
    "train": (*RUN, "mine", "model", "train", "recipes", "methods"),
    "evaluate": (*RUN, "mine", "train", "methods", "evaluate", "diagnose"),
    "judge": (*RUN, "evaluate", "diagnose", "judge"),
    "paper": (),
}
ALL_SECTIONS = (*SECTIONS["train"], "collect", "fetch", "evaluate", "diagnose", "judge", "render")
SECTIONS |= {"render": ALL_SECTIONS, "page": ALL_SECTIONS}


def options(verb: Verb) -> tuple[Option, ...]:
    """All options of a verb. Those of a step follow from what it takes and gives; its own ones win."""
    files = tuple(FILES[kind] for kind in verb.takes if kind in FILES)
    if not isinstance(verb, Step):
        return (*verb.options, *files)
    usual = (*PER[verb.per], *SCALE, SLICE, *files, OUT)
    own = {option.name for option in verb.options}
    return (*(option for option in usual if option.name not in own), *verb.options)
