"""Verbs that are more than one call of a module's `run`: what they find, check or print beside it."""

import json
from pathlib import Path

from tdjepa.base.errors import UserError
from tdjepa.steps.paths import path


def fetch(call, cfg, out):
    from tdjepa.steps import fetch

    mirrors = tuple(call.args.mirror or call.p.fetch.mirrors)
    return fetch.run(cfg, out, mirrors=mirrors, trust_first_use=call.args.trust_first_use)


def take(call, cfg, out, file):
    from tdjepa.steps import take

    return take.run(cfg, out, file or Path(call.p.collect.file[cfg.env].path))


def train(call, cfg, episodes, split, out, runtime, backbone):
    from tdjepa.base.allocator import keep_memory
    from tdjepa.steps import train

    keep_memory()
    if cfg.method.backbone and not backbone:
        backbone = call.file("checkpoint", "backbone", method=cfg.method.backbone, epoch=cfg.train.epochs)
    return train.run(cfg, episodes, split, out, runtime, backbone) | {"folder": out, "file": out / "curve.csv"}


def evaluate(call, sweep, times):
    from tdjepa.steps import evaluate

    if call.scale and sweep and sweep not in call.p.evaluate.sweeps:
        known = ", ".join(call.p.evaluate.sweeps)
        raise UserError(f"--sweep {sweep}: must be one of evaluate.sweeps: {known}")
    if call.args.method == "floors" and sweep:
        raise UserError(f"--sweep {sweep}: the floors do not plan, so they have no sweeps; leave it out")
    cfg, floors = call.cfg, call.cfg.method_name == "floors"
    out = call.file("floors" if floors else "sweep" if sweep else "rows", "out")
    episodes, manifest = call["episodes"], call["manifest"]
    times = times or out.with_name(out.stem + ".times.csv")
    if floors:
        table = evaluate.run_floors(cfg, episodes, manifest, out)
    else:
        table = evaluate.run(cfg, episodes, manifest, evaluate.checkpoints(cfg, call["checkpoints"]), out, times)
    print(f"success: {evaluate.criterion(cfg.env)}\n{evaluate.shown(table, times)}")
    return {"rows": len(table), "file": out}


def ceiling(call, cfg, episodes, split, manifest, sweep):
    from tdjepa.steps import ceiling

    if sweep and call.scale and sweep not in call.p.evaluate.sweeps:
        raise UserError(f"--sweep {sweep}: must be one of evaluate.sweeps: {', '.join(call.p.evaluate.sweeps)}")
    out = call.file("ceiling_sweep" if sweep else "ceiling", "out")
    return _planned(cfg, ceiling.run(cfg, episodes, split, manifest, out), out)


def ladder(cfg, episodes, split, manifest, out):
    from tdjepa.steps import ladder

    return _planned(cfg, ladder.run(cfg, episodes, split, manifest, out), out)


def _planned(cfg, table, out):
    from tdjepa.steps import evaluate

    print(f"success: {evaluate.criterion(cfg.env)}\n{evaluate.shown(table)}")
    return {"rows": len(table), "file": out}


def diagnose(call, cfg, episodes, pairs, checkpoint, out, aliasing):
    from tdjepa.steps import diagnose

    wanted = len(cfg.epochs)
    if checkpoint and len(checkpoint) != wanted:
        epochs = ", ".join(map(str, cfg.epochs))
        given = f"--checkpoint: {len(checkpoint)} given"
        raise UserError(f"{given}; give {wanted}, those of the epochs {epochs} in this order")
    checkpoint = checkpoint or [call.file("checkpoint", epoch=epoch) for epoch in cfg.epochs]
    return diagnose.run(cfg, episodes, pairs, checkpoint, out, aliasing or call.file("aliasing", "aliasing"))


def picture(call, cfg, episodes, manifest, checkpoints, pair, cost):
    from tdjepa.steps import evaluate, pictures

    if cost is None:
        costs, deployed = [cell.cost for cell in cfg.cells], cfg.evaluate.protocol[cfg.env].deployed
        cost = deployed if deployed in costs else costs[0]
    out = call.file("picture", "out", name=f"{cost}_{pair}.gif")
    saved = evaluate.checkpoints(cfg, checkpoints)
    return pictures.rollout(cfg, episodes, manifest, saved, pair, cost, out) | {"file": out}


def landscape(call, cfg, checkpoints):
    from tdjepa.steps import evaluate, pictures

    out = call.file("picture", "out", name="landscape.pdf")
    if out.suffix not in ("", ".pdf", ".png"):
        raise UserError(f"--out {out}: is written as .pdf and .png; name it {out.with_suffix('.pdf')}")
    saved = evaluate.checkpoints(cfg, checkpoints)
    jumps = pictures.landscape(cfg, saved[max(saved)], out)
    shown = {f"jump at the wall, {name}": f"{jump:.2f} std" for name, jump in jumps.items()}
    return {**shown, "pdf": out.with_suffix(".pdf"), "png": out.with_suffix(".png")}


ANYBODYS = '{"seed": 20260714, "bootstrap": 2000, "level": 0.95}'  # rows of anybody's can be judged anywhere


def _judged(call):
    """(parameters of judging, rows files, pairs files) of `judge` and `claims`."""
    from tdjepa.evidence.guard import require_rows, rows_of

    args = call.args
    if args.slice is None and args.rows and args.out and not args.params.exists():
        args.slice = ANYBODYS
    if not args.rows and call.scale is None:
        raise UserError("--rows: needed beside --slice")
    if args.rows:
        return call.cfg, args.rows, args.pairs or []
    rows = rows_of(call.scale)
    require_rows(rows, call.scale)
    return call.cfg, rows, args.pairs or sorted(Path("results", call.scale, "diagnostics").glob("*/*_pairs.parquet"))


def judge(call, out):
    from tdjepa.evidence import judge
    from tdjepa.evidence.rows import unused_columns

    cfg, rows, pairs = _judged(call)
    stats = judge.run(rows, out, cfg, pairs)
    for cell in stats["cells"]:
        for problem in judge.incomplete(cell):
            print(f"  incomplete: {cell['id']}: {problem}")
    facts = {"cells": len(stats["cells"]), "comparisons": len(stats["comparisons"])}
    return {**facts, "unused_columns": ", ".join(unused_columns(rows)) or "none", "file": out / "stats.json"}


def claims(call, ledger, train_seed):
    from tdjepa.evidence import claims, headlines, known_cells
    from tdjepa.evidence import ledger as declared

    if call.args.out is None and call.args.slice is None and not call.args.rows:
        claims.show(Path(path("evidence/claims.json", call.scale)))
        return None
    cfg, rows, pairs = _judged(call)
    if train_seed is None and call.scale:
        train_seed = call.p.train_seeds[0]
    if call.scale:
        known_cells.require(declared.read(ledger), call.p, ledger)
    out = call["out"]
    print(headlines.terminal(claims.run(ledger, rows, pairs, out, cfg, train_seed)))
    return {"file": out / "claims.json"}


def render(cfg, out, only):
    from tdjepa.report import gather

    return gather.run(cfg, out, only)


def page(cfg, call, times):
    from tdjepa.report.page import build

    return build.run(cfg, call.args.out, times)


def paper(p, out, report):
    from tdjepa.evidence.guard import require_rows, rows_of
    from tdjepa.report import pdf

    require_rows(rows_of(p.scale), p.scale)
    pdf.build(Path("paper"), report or Path(path("report", p.scale)), out)
    return {"file": out}


def summary(p, readme):
    from tdjepa.report import gather

    if readme:
        try:
            gather.update_readme(p, readme)
        except FileNotFoundError as error:
            hint = f"`tdjepa render --scale {p.scale}` makes it from what has been run"
            raise UserError(f"{error.filename}: no such file; {hint}") from None
    gather.show(p)


def verify(call, p, bands, bytes, write):
    from tdjepa.base.artefacts import read_json
    from tdjepa.evidence import bands as known
    from tdjepa.evidence import checksums

    if bytes:
        listed = Path("workflow", "checksums", f"{p.scale}.json")
        if write:
            return {"files": checksums.write(p.scale, call.args.params, listed), "list": listed}
        equal, text = checksums.compare(p.scale, call.args.params, listed)
        print(text)
        return 0 if equal else 1
    known.require_run(p.scale)
    stats = read_json(path("evidence/stats.json", p.scale))
    bands = bands or Path("workflow", "bands", f"{p.scale}.yaml")
    if write:
        return {"cells": len(known.write(stats, bands)), "file": bands}
    results = known.verify(stats, known.of_run(known.read(bands), p, stats))
    print(known.report(results))
    return 0 if all(result == "pass" for result, *_ in results) else 1


def recipes(p, docs, what, grid, env, trial, jobs):
    if what != "run":
        return _search(p, docs, what, grid or Path("workflow", "search", f"{p.scale}.yaml"), env, trial, jobs)
    from tdjepa.tools import recipes

    _table(docs, f"recipes:{p.scale}", lambda: recipes.run(p).to_markdown())
    return {"figure": path("recipes/success_over_cpu.png", p.scale)}


def _search(p, docs, what, file, env, trial, parallel):
    from tdjepa.config import trials
    from tdjepa.config.records.keys import meant
    from tdjepa.tools import search, search_text

    if parallel < 1:
        raise UserError(f"--jobs {parallel}: at least one")
    grid = trials.read(file)
    wanted = trials.jobs(p, grid, str(file))
    for name in trial or ():
        if name not in grid.trials:
            raise UserError(f"--trial {name}: not among the trials of {file}{meant(name, grid.trials)}")
    chosen = [j for j in wanted if (not env or j.train.env in env) and (not trial or j.trial in trial)]
    facts = search.run(p, chosen, parallel) if what == "search" else {"trials": len(chosen)}
    found = search_text.gather(p.scale, wanted)
    _table(docs, f"search:{p.scale}", lambda: search_text.markdown(p, found, wanted))
    if docs:
        search_text.draw(p, found)
        search_text.insert_earlier(docs, file.with_name("earlier.yaml"))
    return {**facts, "finished": sum(map(len, found.values())), "declared": len(wanted)}


def floors(p, env, docs):
    from tdjepa.config.records.base import ENVS
    from tdjepa.tools import floors

    _table(docs, f"floors:{p.scale}", lambda: floors.run(p, tuple(env or ENVS)).to_markdown())


def power(p, rows, difference, simulations, docs):
    from tdjepa.evidence.guard import rows_of
    from tdjepa.tools import power

    files, runs = rows or rows_of(p.scale), _some(simulations)
    _table(docs, f"power:{p.scale}", lambda: power.run(p, files, difference, runs).to_markdown())


def coverage(simulations, out, docs):
    from tdjepa.tools import coverage

    runs = _some(simulations)
    _table(docs, "coverage", lambda: coverage.run(runs, out).to_markdown())
    return {"file": out}


def _some(simulations: int) -> int:
    if simulations < 1:
        raise UserError(f"--simulations {simulations}: at least 1 is needed")
    return simulations


def _table(docs, mark: str, make) -> None:
    """Print what `make` gives, and copy it into a file of prose if one is named."""
    from tdjepa.report.gather import around, insert

    if docs:
        around(docs, mark)  # a mistake shall not wait until all is computed
    text = make()
    print(text, end="")
    if docs:
        insert(docs, mark, text)


def import_(cfg, source, config, sha256, episodes, out):
    from tdjepa.model import released

    card = released.run_import(cfg, source, config, episodes, out, sha256)
    return {"source": card["source"], "checked": card["checked"], "parameters": card["parameters"]["all"], "file": out}


def cost(p, train_tflops, plan_tflops, peak_tflops, spent, measure):
    from tdjepa.tools import cost, time_spent

    if spent and measure:
        raise UserError("--spent and --measure: one of them; a run that was made, or one to come")
    return time_spent.run(p.scale) if spent else cost.run(p, train_tflops, plan_tflops, peak_tflops, measure)


def bench(name, env, size, docs):
    import importlib

    options = {key: found for key, found in (("env", env), ("size", size), ("docs", docs)) if found is not None}
    taken = {"collect": {"env"}, "encoder": {"env"}, "train": {"size"}, "plan": {"size"}, "profile": {"size", "docs"}}
    for key in options.keys() - taken.get(name, set()):
        raise UserError(f"--{key}: bench {name} does not take it; leave it out")
    module = importlib.import_module(f"tdjepa.tools.bench.{name}")
    options.pop("docs", None)
    found = module.run(**options)
    print(json.dumps(found))
    if docs:
        from tdjepa.config.load import load
        from tdjepa.report.gather import insert

        insert(docs, f"profile:{found['size']}", module.table(found, load("params.yaml", found["size"])).to_markdown())
