"""Made-up episodes, rows and diagnostics in the project's formats, for tests of what comes after them."""

import itertools
import json

import numpy as np
import pandas as pd

from conftest import ROOT
from tdjepa.base.artefacts import write_card
from tdjepa.config import runs
from tdjepa.config.records.base import ENVS
from tdjepa.config.slices import evaluate_slice
from tdjepa.data import store
from tdjepa.evidence import claims, judge
from tdjepa.report import inputs
from tdjepa.steps.evaluate import planner_hash

PAIRS = [(3, 0), (3, 12), (5, 2), (8, 7), (9, 1), (11, 4)]  # (episode, start); episode 3 has two


def outcomes(success, method="tdjepa", cost="d_psi", epoch=2, train_seeds=None, plan_seeds=None, pairs=None, **fixed):
    """Rows from success (T, P, E), NaN = no row."""
    success = np.asarray(success, float)
    t, p, e = success.shape
    train_seeds = range(3072, 3072 + t) if train_seeds is None else train_seeds
    plan_seeds = [20260714, 7, 11, 13, 17, 19, 23, 29, 31, 37][:p] if plan_seeds is None else plan_seeds
    pairs = [(i, 0) for i in range(e)] if pairs is None else pairs
    floor = method in ("random", "zero", "replay", "simulator")
    cell = {"epoch": epoch, "solver": "icem", "cost": cost, "w": 1.0}
    cell |= {"epoch": 0, "solver": "none", "cost": "none"} if floor else {}
    rows = [
        {"scale": "smoke", "env": "two_room", "method": method, "train_seed": 0 if floor else train_seed, **cell}
        | {"plan_seed": plan_seed, "episode": episode, "start": start, "success": bool(success[i, j, k])}
        | {"trivial": False, "steps": 10, **fixed}
        for i, train_seed in enumerate(train_seeds)
        for j, plan_seed in enumerate(plan_seeds)
        for k, (episode, start) in enumerate(pairs)
        if not np.isnan(success[i, j, k])
    ]
    return pd.DataFrame(rows)


def random_outcomes(seed, shape, rate=0.6):
    return (np.random.default_rng(seed).random(shape) < rate).astype(float)


def rows_of(*frames):
    return pd.concat(frames, ignore_index=True)


RATES = {"d_psi": 0.6, "l2": 0.8, "blend": 0.7, "hard_gate": 0.7, "soft_gate": 0.7}  # of TD-JEPA; baselines 0.5
SWEEPS = ("blend", "gates", "reacher_protocol", "solvers", "three_frames", "epoch_nine")  # of tables and claims
ABLATIONS = ("tdjepa_continued", "tdjepa_symmetric_head", "tdjepa_no_hinge", "tdjepa_no_rollout")


def planned(cell):
    """The columns that say how rows were planned, as an evaluation writes them for a cell of the parameters."""
    names = ("design", "epoch", "solver", "cost", "w", "setting", "alpha", "refinements")
    return {name: getattr(cell, name) for name in names} | {
        "candidates": cell.planner.candidates,
        "history": cell.planner.history,
        "planner": planner_hash(cell),
    }


def everything(folder, params):
    """Rows of every table, planned as the parameters say: four environments, the paper's methods with their costs and
    sweeps by both designs, one epoch curve, contact and start distances; and pairs of Push-T."""
    rng, files, main = np.random.default_rng(1), [], params.evaluate.designs["main"]
    pairs = [(i, 3) for i in range(main.pairs)]
    params = params.model_copy(update={"envs": ENVS})

    def add(env, method, cell, seeds, rate):
        success = rng.random((len(seeds), len(cell.plan_seeds), cell.pairs)) < rate
        frame = outcomes(success, method, train_seeds=seeds, plan_seeds=cell.plan_seeds, pairs=pairs[: cell.pairs])
        frame = frame.assign(env=env, scale=params.scale, **planned(cell))
        if env == "push_t":
            frame["contact"] = frame["success"] | (frame["episode"] % 2 == 0)
            frame["start_distance"] = 50.0 + 37 * frame["episode"] % len(pairs)
            frame["to_move"] = 2.0 * frame["episode"]
        files.append(write(folder / "all" / f"{len(files)}.parquet", frame))

    def rate(method, cell):
        if cell.setting == "reacher_protocol":
            return cell.w
        if cell.epoch < params.train.epochs:
            return 0.06 * cell.epoch
        return 0.5 if method in ("lewm", "rc_aux_tdj", "rc_aux") else 0.3 if method in ABLATIONS else RATES[cell.cost]

    for env in ENVS:
        floor = {"setting": "main", "alpha": np.nan, "refinements": 0, "candidates": 0, "history": 0}
        seeds = params.evaluate.plan_seeds
        for method, chance, n, m in (("random", 0.2, main.plan_seeds, len(pairs)), ("simulator", 0.9, 1, 16)):
            frame = outcomes(rng.random((1, n, m)) < chance, method, plan_seeds=seeds[:n], pairs=pairs[:m])
            frame = frame.assign(env=env, scale=params.scale, **floor)
            files.append(write(folder / "all" / f"{len(files)}.parquet", frame))
        for method in ("lewm", "rc_aux_tdj", "rc_aux", "tdjepa", *(ABLATIONS if env == "push_t" else ())):
            for cell in evaluate_slice(params, env, method, params.train_seeds[0]).cells:
                if cell.epoch == params.train.epochs:
                    n = params.evaluate.designs[cell.design].trainings
                    add(env, method, cell, runs.train_seeds_of(params, method)[:n], rate(method, cell))
                elif (env, method, cell.cost) == ("two_room", "tdjepa", params.evaluate.curve_cost):
                    add(env, method, cell, params.train_seeds[:1], 0.06 * cell.epoch)
    for name in SWEEPS:
        sweep = params.evaluate.sweeps[name]
        for env, method in itertools.product(sweep.envs, sweep.methods):
            for cell in evaluate_slice(params, env, method, params.train_seeds[0], name).cells:
                add(env, method, cell, runs.train_seeds_of(params, method)[: sweep.train_seeds], rate(method, cell))
    for method, cost in (("tdjepa_leaky", "d_psi"), ("lewm_leaky", "l2")):
        cells = evaluate_slice(params, "two_room", method, params.train_seeds[0]).cells
        seeds = runs.train_seeds_of(params, method)
        add("two_room", method, next(c for c in cells if c.cost == cost), seeds, 0.9)
    found = []
    for method in ("tdjepa", "lewm"):
        for seed in params.train_seeds:
            tau, end = rng.integers(1, 26, 200), rng.integers(0, 60, 200)
            key = {"env": "push_t", "method": method, "train_seed": seed, "episode": np.arange(200) // 4}
            frame = pd.DataFrame(
                {**key, "tau": tau, "near": end <= 10, "far": end >= 25, "l2": tau + rng.normal(0, 9, 200)}
            )
            d_psi = tau / 5 + rng.normal(0, 0.3, 200) if method == "tdjepa" else np.nan
            found.append(write(folder / "all_pairs" / f"{method}_{seed}.parquet", frame.assign(d_psi=d_psi)))
    return files, found


def results(folder, params):
    """A whole made-up run of Two-Room for these parameters, as the arguments of `inputs.read` (without stats and params)."""
    rng = np.random.default_rng(0)
    design = params.evaluate.designs["main"]
    t, p, e = len(params.train_seeds), design.plan_seeds, design.pairs
    pairs = [(int(episode), 3) for episode in rng.choice(200, e, replace=False)]
    rates = {("tdjepa", "d_psi"): 0.95, ("tdjepa", "l2"): 0.8, ("tdjepa", "blend"): 1.0, ("lewm", "l2"): 0.4}
    rates |= {("random", "none"): 0.2, ("zero", "none"): 0.0, ("replay", "none"): 1.0}
    axes = {"plan_seeds": params.evaluate.plan_seeds[:p], "pairs": pairs}
    for i, ((method, cost), rate) in enumerate(rates.items()):
        seeds = params.train_seeds[: 1 if cost == "none" else t]
        success = rng.random((len(seeds), p, e)) < rate
        frame = outcomes(success, method, cost, params.train.epochs, seeds, **axes)
        write(folder / "rows/two_room" / f"{i}.parquet", frame)
    for epoch in set(params.evaluate.curve_epochs) - {params.train.epochs}:
        axes["plan_seeds"] = params.evaluate.plan_seeds[:1]
        success = rng.random((1, 1, e)) < 0.1 * epoch
        frame = outcomes(success, "tdjepa", "d_psi", epoch, params.train_seeds[:1], **axes)
        write(folder / "rows/two_room" / f"epoch_{epoch}.parquet", frame)
    diagnostics(folder, params, rng)
    return {
        "rows": sorted(folder.glob("rows/*/*.parquet")),
        "pairs": sorted(folder.glob("diagnostics/*.parquet")),
        "cards": [folder / "episodes.card.json"],
        "curves": sorted(folder.glob("train/*/*/*/curve.csv")),
        "aliasing": sorted(folder.glob("diagnostics/*.json")),
    }


def judged(folder, params, **files):
    """The report's inputs of such files, with statistics and verdicts."""
    settings = params.judge.model_copy(update={"bootstrap": 100})
    judge.run(files["rows"], folder / "evidence", settings, files["pairs"])
    claims.run(ROOT / "paper/claims.yaml", files["rows"], files["pairs"], folder / "evidence", settings)
    evidence = {name: folder / f"evidence/{name}.json" for name in ("stats", "claims")}
    return inputs.read(params, **evidence, **files)


def diagnostics(folder, params, rng):
    for method in ("tdjepa", "lewm"):
        for seed in params.train_seeds:
            key = {"env": "two_room", "method": method, "train_seed": seed}
            tau, to_end = rng.integers(1, 26, 80), rng.integers(0, 60, 80)
            d_psi = tau / 5 + rng.normal(0, 0.3, 80) if method == "tdjepa" else np.nan
            strata = {"tau": tau, "to_end": to_end, "near": to_end <= 10, "far": to_end >= 25}
            frame = pd.DataFrame({**key, "episode": 1, "i": 0, "j": tau, **strata, "d_psi": d_psi})
            write(folder / "diagnostics" / f"{method}_{seed}.parquet", frame.assign(l2=tau + rng.normal(0, 9, 80)))
            aliasing = {**key, "patch": 16, "shift_px": [0, 8, 16], "change": [0.0, 1.1, 0.9], "ratio_one_patch": 0.82}
            (folder / "diagnostics" / f"{method}_{seed}.json").write_text(json.dumps(aliasing))
            curve = folder / "train/two_room" / method / str(seed) / "curve.csv"
            curve.parent.mkdir(parents=True)
            curve.write_text("epoch,step,lr,loss,latent_std,effective_rank\n1,6,.1,3.5,.9,4.1\n2,12,.1,2.5,1.0,5.2\n")
    card = {"env": "two_room", "episodes": 40, "rows": 2000, "length_mean": 50.0, "length_min": 26, "length_max": 61}
    card |= {"success_share": 0.7, "trivial_share": 0.08, "action_mean": [0.0, 0.1], "action_std": [1.0, 0.9]}
    card |= {"action_autocorrelation": [0.3], "image_size": 32, "sha256": "ab" * 32}
    card |= {"renderer_difference": {"mean": 2.7, "max": 90}, "success_criterion": "the agent comes within 16 px"}
    (folder / "episodes.card.json").write_text(json.dumps(card))


def write(path, frame):
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path)
    return path


def write_episodes(path, image_size, lengths=(30, 28)):
    """Episodes of noise and their card; actions (rows, 2) with mean 3 and std 2. Pixel (0, 0) is the episode's number."""
    lengths, rng = np.array(lengths), np.random.default_rng(0)
    rows, frame = lengths.sum(), (image_size, image_size, 3)
    columns = {"pixels": (frame, "u1"), "action": ((2,), "f4"), "state": ((4,), "f4")}
    with store.create(path, lengths, columns) as file:
        pixels = rng.integers(0, 256, (rows, *frame), np.uint8)
        pixels[:, 0, 0] = np.repeat(np.arange(len(lengths)), lengths)[:, None]
        file["pixels"][:] = pixels
        file["state"][:] = 0
        action = rng.normal(3, 2, (rows, 2))
        action[np.cumsum(lengths) - 1] = np.nan
        file["action"][:] = action
    write_card(path, "collect", {})
