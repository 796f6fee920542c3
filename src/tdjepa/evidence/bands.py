"""`tdjepa verify`: did this machine reproduce our results? Committed bands for each cell, and pass or fail.

Another machine has other last bits, so its trainings are like trainings with other seeds. The band is where the mean of a
new run of as many is expected: mean ± t · s · sqrt(2 / T), with s the standard deviation between trainings pooled over the
environment's cells at the last epoch, t Student's quantile, T the cell's number of training seeds. With n trained cells
each band has the level 1 - (1 - BAND) / n, so that all together hold at least BAND of all faithful runs. A leaky training
repeats its honest twin, so it is not pooled. A band is never narrower than one episode; floors have just that.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import yaml

from tdjepa.base.artefacts import write_text
from tdjepa.base.errors import UserError
from tdjepa.config.names import LEAKY, MAIN
from tdjepa.config.params import Params
from tdjepa.config.yaml_file import read_yaml
from tdjepa.evidence.columns import UNTRAINED
from tdjepa.evidence.guard import rows_of

BAND = 0.99  # of faithful runs are expected in all bands at once


def last_cells(stats: dict) -> list[dict]:
    """The published protocol's cells at each method's last epoch, and the floors."""
    main = [cell for cell in stats["cells"] if cell["setting"] == cell.get("design", MAIN) == MAIN]
    last = {(c["env"], c["method"]): c["epoch"] for c in sorted(main, key=lambda c: c["epoch"])}
    return [cell for cell in main if cell["epoch"] == last[cell["env"], cell["method"]]]


def simultaneous(n: int) -> float:
    """The level of each of n bands that all hold together in BAND of all cases or more, however they depend (Bonferroni)."""
    return 1 - (1 - BAND) / max(n, 1)


def bands(stats: dict) -> dict[str, dict[str, float]]:
    """{cell id: {low, mean, high}} in percent, by the rule above."""
    from scipy import special

    cells = last_cells(stats)
    trained = [cell for cell in cells if cell["method"] not in UNTRAINED]
    level, out = simultaneous(len(trained)), {}
    pooled = [cell for cell in trained if cell["n_train_seeds"] > 1 and not cell["method"].endswith(LEAKY)]
    for cell in cells:
        half = 100 / cell["n_episodes"]
        alike = [(c["n_train_seeds"] - 1, c["std_train_seeds"]) for c in pooled if c["env"] == cell["env"]]
        if alike and cell in trained:
            freedom, squares = sum(n for n, _ in alike), sum(n * std**2 for n, std in alike)
            t = float(special.stdtrit(freedom, (1 + level) / 2))
            half = max(half, t * math.sqrt(squares / freedom) * math.sqrt(2 / cell["n_train_seeds"]))
        low, high = max(0.0, cell["mean"] - half), min(100.0, cell["mean"] + half)
        out[cell["id"]] = {"low": round(low, 1), "mean": round(cell["mean"], 1), "high": round(high, 1)}
    return out


def write(stats: dict, path: Path) -> dict[str, dict[str, float]]:
    """Write the bands of these results, to be committed."""
    found = bands(stats)
    if not found:
        raise UserError(f"{path}: there are no results to make bands from; run the scale first")
    head = (
        f"# Expected success (%) of scale {stats['scale']}, for `tdjepa verify`. Written by `tdjepa verify --write`.\n"
        "# mean: ours. low, high: mean +- t s sqrt(2/T): s = spread between trainings pooled over the environment (without\n"
        f"# leaky ones), T = training seeds, t so wide that all cells of a new run are inside in {100 * BAND:g} % of all\n"
        "# cases; at least one episode.\n"
    )
    lines = [f"{name}: {{low: {b['low']}, mean: {b['mean']}, high: {b['high']}}}" for name, b in found.items()]
    write_text(path, head + "\n".join(lines) + "\n")
    return found


def read(path: Path) -> dict[str, dict[str, float]]:
    if not path.exists():
        how = "`tdjepa verify --write` makes them from results"
        if Path("workflow", "checksums", f"{path.stem}.json").exists():
            how = f"`tdjepa verify --bytes --scale {path.stem}` compares its files byte for byte"
        raise UserError(f"{path}: no bands are committed for this scale; {how}")
    found = read_yaml(path)
    if not found:
        raise UserError(f"{path}: no bands in it")
    for name, band in found.items():
        numbers = isinstance(band, dict) and all(isinstance(band.get(k), int | float) for k in ("low", "mean", "high"))
        if not numbers or not band["low"] <= band["high"]:
            seen = yaml.safe_dump(band).strip()
            raise UserError(f"{path}: {name}: low, mean and high are expected as numbers, found {seen}")
    return found


def require_run(scale: str) -> None:
    """Without rows there is nothing to verify: the committed results say nothing of this machine."""
    if not rows_of(scale):
        raise UserError(f"nothing of scale {scale} was run here; `make reproduce SCALE={scale}` runs it")


def of_run(expected: dict[str, dict], p: Params, stats: dict) -> dict[str, dict]:
    """Without the methods of the groups that were not run: they are run on request only."""
    on_request = {m for methods in p.groups.values() for m in methods} - {*p.methods_run}
    on_request -= {cell["method"] for cell in stats["cells"]}
    return {name: band for name, band in expected.items() if name.split("/")[1] not in on_request}


def verify(stats: dict, expected: dict[str, dict[str, float]]) -> list[tuple[str, str, float | None, dict | None]]:
    """(result, cell id, mean, band): "pass", "FAIL" or "not run" of every band, "no band" of every cell without one."""
    means = {cell["id"]: cell["mean"] for cell in stats["cells"]}
    out = []
    for name, band in expected.items():
        mean = means.get(name)
        inside = mean is not None and band["low"] - 0.05 <= mean <= band["high"] + 0.05  # bands have one digit
        out.append(("not run" if mean is None else "pass" if inside else "FAIL", name, mean, band))
    unknown = [cell["id"] for cell in last_cells(stats) if cell["id"] not in expected]
    return out + [("no band", name, means[name], None) for name in unknown]


def report(results: Sequence[tuple]) -> str:
    """One line per cell, and the counts."""
    width = max(len(name) for _, name, _, _ in results)
    lines = []
    for result, name, mean, band in results:
        found = "" if mean is None else f"{mean:6.1f}"
        said = f"  expected {band['low']:.1f} to {band['high']:.1f}" if band else ""
        lines.append(f"{result:<8} {name:<{width}} {found:>6}{said}")
    passed, unknown = (sum(result == wanted for result, *_ in results) for wanted in ("pass", "no band"))
    count = f"{passed} of {len(results)} cells as expected"
    return "\n".join([*lines, f"{count}, {unknown} without a band" if unknown else count])
