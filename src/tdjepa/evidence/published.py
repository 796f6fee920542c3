"""What the paper and its authors' public result files say, read from published.yaml."""

from functools import cache
from pathlib import Path

from tdjepa.config.yaml_file import read_yaml


@cache
def load() -> dict:
    """The whole of published.yaml."""
    return read_yaml(Path(__file__).with_name("published.yaml"))


def cell(env: str, method: str, cost: str) -> dict | None:
    """The published cell {mean, std, place, ...}, None when the paper has none."""
    return _first("cells", env, method, cost)


def deployed(env: str, method: str) -> dict | None:
    """The cell of the paper's main table, with the cost that it deploys."""
    return cell(env, method, load()["deployed"].get(env) if method == "tdjepa" else "l2")


def epoch_curve(env: str, method: str, cost: str) -> dict | None:
    """The published success by epoch 1..10 as {rates, place, ...}, None when the paper has none."""
    return _first("epoch_curves", env, method, cost)


def _first(kind: str, *key: str) -> dict | None:
    return next((c for c in load()[kind] if (c["env"], c["method"], c["cost"]) == key), None)


def trainings() -> dict[str, dict[int, float]]:
    """Push-T, TD-JEPA: the mean of each training that the authors made, by cost."""
    source = load()
    out = {}
    for cost in source["other_train_seeds"][3073]:
        rates = {source["train_seed"]: cell("push_t", "tdjepa", cost)["rates"]}
        rates |= {seed: source["other_train_seeds"][seed][cost] for seed in (3073, 3074)}
        out[cost] = {seed: sum(values) / len(values) for seed, values in rates.items()}
    return out
