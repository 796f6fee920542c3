"""What each verb of the command line does: from the arguments to one call of the module that does the work.

Heavy imports happen inside the verbs, so that `tdjepa --help` stays instant.
"""

import json
from pathlib import Path

from tdjepa.base.errors import UserError


def _params(args):
    from tdjepa.config.load import load

    return load(args.params, args.scale)


def _slice(args, record, make):
    """The job's parameters: from --slice if given, else cut out of params.yaml. -> (slice, scale or None)"""
    from tdjepa.config.parse import parse

    if args.slice:
        try:
            raw = json.loads(args.slice)
        except ValueError as error:
            raise UserError(f"--slice: not JSON ({error})") from None
        return parse(record, raw, "--slice"), None
    p = _params(args)
    _known(p, args)
    return make(p), p.scale


def _known(p, args):
    """Names that become folders are checked against the parameters first."""
    from tdjepa.config.records.base import ENVS

    if getattr(args, "env", None) is not None and args.env not in ENVS:
        raise UserError(f"--env {args.env}: must be one of {', '.join(ENVS)}")
    methods = (*p.methods, "floors") if args.verb is evaluate else tuple(p.methods)  # nobody trains the floors
    if getattr(args, "method", None) is not None and args.method not in methods:
        raise UserError(f"--method {args.method}: not among methods: {', '.join(methods)}")
    if hasattr(args, "seed") and args.seed is None:
        args.seed = p.train_seeds[0]


def _path(given, scale, usual, flag):
    if given is not None:
        return given
    if scale is None:
        raise UserError(f"{flag}: needed beside --slice")
    return Path(usual)


def _done(**facts):
    """The short table at the end of a verb."""
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"  {name:<{width}}  {f'{value:.4g}' if isinstance(value, float) else value}")


def collect(args):
    from tdjepa.config.slices import (
        CollectSlice,
        collect_slice,
    )
    from tdjepa.steps import collect
    from tdjepa.steps import paths as layout

    cfg, scale = _slice(args, CollectSlice, lambda p: collect_slice(p, args.env))
    out = _path(args.out, scale, scale and layout.episodes(scale, args.env), "--out")
    card = collect.run(cfg, out)
    shown = ("episodes", "rows", "length_mean", "success_share", "trivial_share", "sha256")
    _done(**{name: card[name] for name in shown}, file=out)


def fetch(args):
    from tdjepa.config.slices import (
        FetchSlice,
        fetch_slice,
    )
    from tdjepa.steps import fetch as released
    from tdjepa.steps import paths as layout

    cfg, scale = _slice(args, FetchSlice, lambda p: fetch_slice(p, args.env))
    out = _path(args.out, scale, scale and layout.episodes(scale, cfg.env), "--out")
    mirrors = tuple(args.mirror or _params(args).fetch.mirrors)
    card = released.run(cfg, out, mirrors=mirrors, trust_first_use=args.trust_first_use)
    shown = ("episodes", "rows", "length_mean", "success_share", "trivial_share", "checksum", "sha256")
    _done(**{name: card[name] for name in shown}, file=out)


def pack(args):
    from tdjepa.data import chunked
    from tdjepa.steps import paths as layout

    p = _params(args)
    _known(p, args)
    episodes = args.episodes or Path(layout.episodes(p.scale, args.env))
    if args.out.resolve() == episodes.resolve():
        raise UserError(f"--out {args.out}: is the file that is read; name another one")
    card = chunked.pack(episodes, args.out, args.storage)
    shown = ("episodes", "rows", "raw_bytes", "bytes", "sha256")
    _done(**{name: card[name] for name in shown}, file=args.out)


def sheet(args):
    from tdjepa.steps import paths as layout
    from tdjepa.tools import contact_sheet as sheet

    p = _params(args)
    _known(p, args)
    episodes = args.episodes or Path(layout.episodes(p.scale, args.env))
    out = args.out or episodes.with_name("sheet.png")
    sheet.run(episodes, out)
    _done(file=out)


def mine(args):
    from tdjepa.config.slices import (
        MineSlice,
        mine_slice,
    )
    from tdjepa.steps import mine
    from tdjepa.steps import paths as layout

    cfg, scale = _slice(args, MineSlice, lambda p: mine_slice(p, args.env))
    episodes = _path(args.episodes, scale, scale and layout.episodes(scale, args.env), "--episodes")
    out = _path(args.out, scale, scale and layout.mined(scale, args.env, ""), "--out")
    _done(**mine.run(cfg, episodes, out), folder=out)


def train(args):
    from tdjepa.base.allocator import keep_memory
    from tdjepa.config.parse import parse
    from tdjepa.config.records.model import Runtime
    from tdjepa.config.slices import (
        TrainSlice,
        train_slice,
    )
    from tdjepa.steps import paths as layout
    from tdjepa.steps import train as training

    keep_memory()
    cfg, scale = _slice(args, TrainSlice, lambda p: train_slice(p, args.env, args.method, args.seed))
    episodes = _path(args.episodes, scale, scale and layout.episodes(scale, args.env), "--episodes")
    split = _path(args.split, scale, scale and layout.mined(scale, args.env, "split.json"), "--split")
    out = _path(args.out, scale, scale and layout.training(scale, args.env, args.method, args.seed), "--out")
    asked = {"snapshot_every": args.snapshot_every, "reader_workers": args.reader_workers, "memory_mb": args.memory_mb}
    runtime = training.DEFAULT_RUNTIME if scale is None else _params(args).runtime
    runtime = runtime.model_dump() | {name: value for name, value in asked.items() if value is not None}
    runtime = parse(Runtime, runtime, "--")
    initial, before = args.initial, cfg.method.continues
    if before and scale and initial is None:
        initial = Path(layout.checkpoint(scale, cfg.env, before.method, cfg.seed, before.epoch))
    _done(**training.run(cfg, episodes, split, out, runtime, initial), folder=out)


def evaluate(args):
    from tdjepa.config.slices import (
        EvaluateSlice,
        evaluate_slice,
    )
    from tdjepa.steps import evaluate as evaluation
    from tdjepa.steps import paths as layout

    def make(p):
        if args.sweep and args.sweep not in p.evaluate.sweeps:
            raise UserError(f"--sweep {args.sweep}: must be one of evaluate.sweeps: {', '.join(p.evaluate.sweeps)}")
        return evaluate_slice(p, args.env, args.method, 0 if args.method == "floors" else args.seed, args.sweep)

    cfg, scale = _slice(args, EvaluateSlice, make)
    method, env, floors = cfg.method_name, cfg.env, cfg.method_name == "floors"
    if floors and args.sweep:
        raise UserError(f"--sweep {args.sweep}: the floors do not plan, so they have no sweeps; leave it out")
    episodes = _path(args.episodes, scale, scale and layout.episodes(scale, env), "--episodes")
    locked = _path(
        args.manifest, scale, scale and layout.mined(scale, env, f"{cfg.evaluate.manifest}.json"), "--manifest"
    )
    seed = "" if floors else cfg.seed
    usual = scale and (
        layout.sweep(scale, args.sweep, env, method, seed) if args.sweep else layout.rows(scale, env, method, seed)
    )
    out = _path(args.out, scale, usual, "--out")
    times = args.times or out.with_name(out.stem + ".times.csv")
    if floors:
        table = evaluation.run_floors(cfg, episodes, locked, out)
    else:
        folder = _path(
            args.checkpoints, scale, scale and layout.training(scale, env, method, cfg.seed), "--checkpoints"
        )
        checkpoints = {e: folder / f"epoch_{e:02d}.safetensors" for e in cfg.epochs}
        table = evaluation.run(cfg, episodes, locked, checkpoints, out, times)
    from tdjepa.envs.base import make as make_env

    print(f"success: {make_env(env).success_text}\n{evaluation.shown(table, times)}")
    _done(rows=len(table), file=out)


def floors(args):
    from tdjepa.config.records.base import ENVS
    from tdjepa.report.gather import around, insert
    from tdjepa.tools import floors

    p, envs = _params(args), tuple(args.env or ENVS)
    if unknown := set(envs) - set(ENVS):
        raise UserError(f"--env {min(unknown)}: must be one of {', '.join(ENVS)}")
    if args.docs:
        around(args.docs, f"floors:{p.scale}")  # a mistake shall not wait until all is evaluated
    text = floors.run(p, envs).to_markdown()
    print(text, end="")
    if args.docs:
        insert(args.docs, f"floors:{p.scale}", text)


def picture(args):
    from tdjepa.config.slices import (
        EvaluateSlice,
        evaluate_slice,
    )
    from tdjepa.steps import paths as layout
    from tdjepa.steps import pictures

    cfg, scale = _slice(args, EvaluateSlice, lambda p: evaluate_slice(p, args.env, args.method, args.seed))
    env, place = cfg.env, (scale, cfg.env, cfg.method_name, cfg.seed)
    cost = args.cost or cfg.cells[0].cost
    if not args.cost and cfg.evaluate.protocol[env].deployed in (cell.cost for cell in cfg.cells):
        cost = cfg.evaluate.protocol[env].deployed
    episodes = _path(args.episodes, scale, scale and layout.episodes(scale, env), "--episodes")
    manifest = f"{cfg.evaluate.manifest}.json"
    locked = _path(args.manifest, scale, scale and layout.mined(scale, env, manifest), "--manifest")
    folder = _path(args.checkpoints, scale, scale and layout.training(*place), "--checkpoints")
    out = _path(args.out, scale, scale and layout.picture(*place, f"{cost}_{args.pair}.gif"), "--out")
    checkpoints = {e: folder / f"epoch_{e:02d}.safetensors" for e in cfg.epochs}
    _done(**pictures.rollout(cfg, episodes, locked, checkpoints, args.pair, cost, out), file=out)


def landscape(args):
    from tdjepa.config.slices import (
        EvaluateSlice,
        evaluate_slice,
    )
    from tdjepa.steps import paths as layout
    from tdjepa.steps import pictures

    cfg, scale = _slice(args, EvaluateSlice, lambda p: evaluate_slice(p, args.env, args.method, args.seed))
    place = (scale, cfg.env, cfg.method_name, cfg.seed)
    folder = _path(args.checkpoints, scale, scale and layout.training(*place), "--checkpoints")
    out = _path(args.out, scale, scale and layout.picture(*place, "landscape.pdf"), "--out")
    if out.suffix not in ("", ".pdf", ".png"):
        raise UserError(f"--out {out}: is written as .pdf and .png; name it {out.with_suffix('.pdf')}")
    jumps = pictures.landscape(cfg, folder / f"epoch_{max(cfg.epochs):02d}.safetensors", out)
    shown = {f"jump at the wall, {name}": f"{jump:.2f} std" for name, jump in jumps.items()}
    _done(**shown, pdf=out.with_suffix(".pdf"), png=out.with_suffix(".png"))


def diagnose(args):
    from tdjepa.config.slices import (
        DiagnoseSlice,
        diagnose_slice,
    )
    from tdjepa.steps import diagnose as run
    from tdjepa.steps import paths as layout

    cfg, scale = _slice(args, DiagnoseSlice, lambda p: diagnose_slice(p, args.env, args.method, args.seed))
    if args.checkpoint and len(args.checkpoint) != len(cfg.epochs):
        epochs = ", ".join(map(str, cfg.epochs))
        raise UserError(
            f"--checkpoint: {len(args.checkpoint)} given; give {len(cfg.epochs)}, those of the epochs {epochs} in this order"
        )
    place = (scale, cfg.env, cfg.method_name, cfg.seed)
    facts = run.run(
        cfg,
        _path(args.episodes, scale, scale and layout.episodes(scale, cfg.env), "--episodes"),
        _path(args.pairs, scale, scale and layout.mined(scale, cfg.env, "pairs.parquet"), "--pairs"),
        args.checkpoint
        or [_path(None, scale, scale and layout.checkpoint(*place, epoch), "--checkpoint") for epoch in cfg.epochs],
        _path(args.out, scale, scale and layout.diagnostic(*place, "pairs.parquet"), "--out"),
        _path(args.aliasing, scale, scale and layout.diagnostic(*place, "aliasing.json"), "--aliasing"),
    )
    _done(**facts)


def probe(args):
    from tdjepa.config.slices import (
        ProbeSlice,
        probe_slice,
    )
    from tdjepa.steps import paths as layout
    from tdjepa.steps import probe

    cfg, scale = _slice(args, ProbeSlice, lambda p: probe_slice(p, args.env, args.method, args.seed))
    place = (scale, cfg.env, cfg.method_name, cfg.seed)
    facts = probe.run(
        cfg,
        _path(args.episodes, scale, scale and layout.episodes(scale, cfg.env), "--episodes"),
        _path(args.split, scale, scale and layout.mined(scale, cfg.env, "split.json"), "--split"),
        _path(args.checkpoint, scale, scale and layout.checkpoint(*place, cfg.last_epoch), "--checkpoint"),
        _path(args.out, scale, scale and layout.diagnostic(*place, "probe.json"), "--out"),
    )
    _done(**facts)


def ceiling(args):
    from tdjepa.config.slices import (
        EvaluateSlice,
        ceiling_slice,
    )
    from tdjepa.envs.base import make
    from tdjepa.steps import ceiling
    from tdjepa.steps import evaluate as evaluation
    from tdjepa.steps import paths as layout

    cfg, scale = _slice(args, EvaluateSlice, lambda p: ceiling_slice(p, args.env))
    manifest = f"{cfg.evaluate.manifest}.json"
    table = ceiling.run(
        cfg,
        _path(args.episodes, scale, scale and layout.episodes(scale, cfg.env), "--episodes"),
        _path(args.split, scale, scale and layout.mined(scale, cfg.env, "split.json"), "--split"),
        _path(args.manifest, scale, scale and layout.mined(scale, cfg.env, manifest), "--manifest"),
        out := _path(args.out, scale, scale and layout.rows(scale, cfg.env, "ceiling"), "--out"),
    )
    print(f"success: {make(cfg.env).success_text}\n{evaluation.shown(table)}")
    _done(rows=len(table), file=out)


def import_(args):
    from tdjepa.config.slices import (
        TrainSlice,
        train_slice,
    )
    from tdjepa.model import released
    from tdjepa.steps import paths as layout

    cfg, scale = _slice(args, TrainSlice, lambda p: train_slice(p, args.env, args.method, args.seed))
    episodes = _path(args.episodes, scale, scale and layout.episodes(scale, cfg.env), "--episodes")
    card = released.run_import(cfg, args.source, args.config, episodes, args.out, args.sha256)
    _done(source=card["source"], checked=card["checked"], parameters=card["parameters"]["all"], file=args.out)


def export(args):
    from tdjepa.model import released

    card = released.run_export(args.checkpoint, args.out, args.style)
    _done(tensors=card["tensors"], sha256=card["sha256"], folder=args.out)


ANYBODYS = '{"seed": 20260714, "bootstrap": 2000, "level": 0.95}'  # rows of anybody's can be judged anywhere


def _judged(args):
    """(parameters of judging, scale or None, rows files, pairs files) of `judge` and `claims`."""
    from tdjepa.config.records.evidence import Judge

    if args.slice is None and args.rows and args.out and not args.params.exists():
        args.slice = ANYBODYS
    cfg, scale = _slice(args, Judge, lambda p: p.judge)
    if not args.rows and scale is None:
        raise UserError("--rows: needed beside --slice")
    found = Path("results", scale or "", "rows").rglob("[!.]*.parquet")  # those of sweeps lie a folder deeper
    rows = args.rows or sorted(found)
    pairs = args.pairs or ([] if args.rows else sorted(Path("results", scale, "diagnostics").glob("*/*_pairs.parquet")))
    return cfg, scale, rows, pairs


def judge(args):
    from tdjepa.evidence import judge
    from tdjepa.evidence.rows import unused_columns
    from tdjepa.steps import paths as layout

    cfg, scale, rows, pairs = _judged(args)
    out = _path(args.out, scale, scale and layout.evidence(scale, ""), "--out")
    stats = judge.run(rows, out, cfg, pairs)
    for cell in stats["cells"]:
        if cell["n_missing"]:
            print(f"  incomplete: {cell['id']}: {cell['n_missing']} of its rows are missing")
    facts = {"cells": len(stats["cells"]), "comparisons": len(stats["comparisons"])}
    _done(**facts, unused_columns=", ".join(unused_columns(rows)) or "none", file=out / "stats.json")


def claims(args):
    from tdjepa.evidence import claims
    from tdjepa.steps import paths as layout

    cfg, scale, rows, pairs = _judged(args)
    out = _path(args.out, scale, scale and layout.evidence(scale, ""), "--out")
    seed = args.train_seed if args.train_seed is not None else _params(args).train_seeds[0] if scale else None
    judged = claims.run(args.ledger, rows, pairs, out, cfg, seed)
    print(claims.terminal(judged))
    _done(file=Path(out, "claims.json"))


def verify(args):
    from tdjepa.base.artefacts import read_json
    from tdjepa.evidence import bands, checksums
    from tdjepa.steps import paths as layout

    p = _params(args)
    if args.bytes:
        path = Path("workflow", "checksums", f"{p.scale}.json")
        if args.write:
            _done(files=checksums.write(p.scale, args.params, path), list=path)
            return 0
        equal, text = checksums.compare(p.scale, args.params, path)
        print(text)
        return 0 if equal else 1
    stats = read_json(layout.evidence(p.scale))
    path = args.bands or Path("workflow", "bands", f"{p.scale}.yaml")
    if args.write:
        _done(cells=len(bands.write(stats, path)), file=path)
        return 0
    results = bands.verify(stats, bands.read(path))
    print(bands.report(results))
    return 0 if all(result == "pass" for result, *_ in results) else 1


def render(args):
    from tdjepa.config.params import Params
    from tdjepa.report import gather as collected

    cfg, _ = _slice(args, Params, lambda p: p)
    _done(**collected.run(cfg, args.out, args.only))


def paper(args):
    from tdjepa.report import pdf
    from tdjepa.steps import paths as layout

    p = _params(args)
    out = args.out or Path(layout.paper(p.scale))
    pdf.build(Path("paper"), Path(layout.report(p.scale)), out)
    _done(file=out)


def page(args):
    from tdjepa.config.params import Params
    from tdjepa.report.page import build as run

    cfg, _ = _slice(args, Params, lambda p: p)
    _done(**run.run(cfg, args.out, args.times))


def summary(args):
    from tdjepa.report import gather as collected

    p = _params(args)
    if args.readme:
        try:
            collected.update_readme(p, args.readme)
        except FileNotFoundError as error:
            raise UserError(
                f"{error.filename}: no such file; `tdjepa render --scale {p.scale}` makes it from what has been run"
            ) from None
    collected.show(p)


def recipes(args):
    from tdjepa.report.gather import around, insert
    from tdjepa.steps import paths as layout
    from tdjepa.tools import recipes

    p = _params(args)
    if args.docs:
        around(args.docs, f"recipes:{p.scale}")
    text = recipes.run(p).to_markdown()
    print(text, end="")
    if args.docs:
        insert(args.docs, f"recipes:{p.scale}", text)
    _done(figure=layout.recipes(p.scale, "success_over_cpu.png"))


def status(args):
    from tdjepa.tools import status

    status.run(_params(args))


def cost(args):
    from tdjepa.tools import cost
    from tdjepa.tools import time_spent as spent

    if args.spent and args.measure:
        raise UserError(
            "--spent and --measure: one of them; the first is about a run that was made, the second about one to come"
        )
    if args.spent:
        return spent.run(_params(args).scale)
    cost.run(_params(args), args.train_tflops, args.plan_tflops, args.peak_tflops, args.measure)


def doctor(args):
    from tdjepa.tools import doctor

    return doctor.run(_params(args))


def check(args):
    from tdjepa.config.schema import schema

    if args.schema:
        print(json.dumps(schema(), indent=1, sort_keys=True))
        return
    p = _params(args)
    _done(scale=p.scale, envs=", ".join(p.envs), methods=", ".join(p.methods_run), train_seeds=str(list(p.train_seeds)))


def bench(args):
    import importlib

    options = {name: value for name, value in (("env", args.env), ("size", args.size)) if value is not None}
    for name in options.keys() - {"collect": {"env"}, "train": {"size"}, "plan": {"size"}}.get(args.name, set()):
        raise UserError(f"--{name}: bench {args.name} does not take it; leave it out")
    print(json.dumps(importlib.import_module(f"tdjepa.tools.bench.{args.name}").run(**options)))
