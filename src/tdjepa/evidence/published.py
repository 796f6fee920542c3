"""What the paper and its authors' public result files say, read from published.yaml."""

from functools import cache
from importlib.resources import files

import yaml


@cache
def load() -> dict:
    """The whole of published.yaml."""
    return yaml.safe_load(files("tdjepa.evidence").joinpath("published.yaml").read_text())


def cell(env: str, method: str, cost: str) -> dict | None:
    """The published cell {mean, std, place, ...}, None when the paper has none."""
    same = (c for c in load()["cells"] if (c["env"], c["method"], c["cost"]) == (env, method, cost))
    return next(same, None)


def deployed(env: str, method: str) -> dict | None:
    """The cell of the paper's main table, with the cost that it deploys."""
    return cell(env, method, load()["deployed"].get(env) if method == "tdjepa" else "l2")


def epoch_curve(env: str, method: str, cost: str) -> dict | None:
    """The published success by epoch 1..10 as {rates, place, ...}, None when the paper has none."""
    same = (c for c in load()["epoch_curves"] if (c["env"], c["method"], c["cost"]) == (env, method, cost))
    return next(same, None)


def trainings() -> dict[str, dict[int, float]]:
    """Push-T, TD-JEPA: the mean of each training that the authors made, by cost."""
    source = load()
    out = {}
    for cost in source["other_train_seeds"][3073]:
        rates = {source["train_seed"]: cell("push_t", "tdjepa", cost)["rates"]}
        rates |= {seed: source["other_train_seeds"][seed][cost] for seed in (3073, 3074)}
        out[cost] = {seed: sum(values) / len(values) for seed, values in rates.items()}
    return out


def as_rows(cell: dict):
    """Evaluation rows with the published success rate for each plan seed.

    Which episodes succeeded was not published, so the first ones do: means and standard deviations over plan seeds are
    the published ones, but nothing that pairs or resamples episodes may be read off such rows.
    """
    import pandas as pd

    source = load()
    episodes = range(source["episodes"])
    rows = [
        (plan_seed, episode, episode < round(rate * source["episodes"] / 100))
        for plan_seed, rate in zip(source["plan_seeds"], cell["rates"], strict=False)
        for episode in episodes
    ]
    return pd.DataFrame(rows, columns=["plan_seed", "episode", "success"]).assign(
        scale="published",
        env=cell["env"],
        method=cell["method"],
        train_seed=source["train_seed"],
        epoch=source["epoch"],
        solver="published",
        cost=cell["cost"],
        w=1.0,
        start=0,
        trivial=False,
        steps=0,
    )
