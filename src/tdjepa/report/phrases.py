"""How a cell, a difference and a p are written, in tables and in numbers.tex."""

from collections.abc import Sequence

from tdjepa.config import runs
from tdjepa.config.names import MAIN, SIMULATOR, TRUE_STATE
from tdjepa.config.params import Params
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import NOT_RUN
from tdjepa.report.table import Strong, Traced


def count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def count_range(numbers: Sequence[int], noun: str) -> str:
    """3 plan seeds; 1 or 3 plan seeds"""
    return " or ".join([*map(str, numbers[:-1]), count(numbers[-1], noun)])


def trainings_text(params: Params) -> str:
    """How many trainings the methods of the run have: 3 or 5 training seeds."""
    counts = {len(runs.train_seeds_of(params, m)) for m in params.methods_run}
    return count_range(sorted(counts), "training seed")


def design_text(params: Params) -> str:
    """3 or 5 training seeds, 1 plan seed, 200 test pairs"""
    main = params.evaluate.designs["main"]
    seeds = f"{trainings_text(params)}, {count(main.plan_seeds, 'plan seed')}"
    return f"{seeds}, {main.pairs} {params.evaluate.manifest} pairs"


def number(value: float | None, digits: int) -> str:
    """A number, or a dash; no "-0.0"."""
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def p_text(p: float | None) -> str:
    return "–" if p is None else f"= {p:.3f}" if p >= 0.001 else "< 0.001"


def mean_std(values: tuple | list | None, digits: int = 1) -> str:
    """A published [mean] or [mean, std], or a dash."""
    return " ± ".join(number(value, digits) for value in values) if values else "–"


def published_text(cell: dict | None) -> str:
    return "–" if cell is None else f"{cell['mean']:.1f} ± {cell['std']:.1f}"


def interval_text(found: dict, digits: int) -> str:
    return f"[{number(found['low'], digits)}, {number(found['high'], digits)}]"


def reproduced_text(inputs: Inputs, cell: dict | None, interval: bool = True) -> str:
    if cell is None:
        return NOT_RUN
    text = mean_std([value for value in (cell["mean"], cell["std"]) if value is not None], inputs.digits)
    text += f" {interval_text(cell, inputs.digits)}" if interval else ""
    return Traced(text + ("†" if partial(inputs.params, cell) else ""), cell["id"])


def partial(params: Params, cell: dict) -> bool:
    """Whether the cell has fewer rows than the parameters plan, so that a half-finished run is seen as such."""
    if cell.get("n_missing") or cell.get("missing_trainings"):
        return True
    if cell.get("setting", MAIN) != MAIN or cell["method"] in (SIMULATOR, TRUE_STATE):
        return False  # a sweep says itself how many seeds it takes, the simulator's label how many pairs
    design = params.evaluate.designs[cell.get("design", MAIN)]
    planned = {"n_plan_seeds": design.plan_seeds, "n_episodes": design.pairs}
    if cell["method"] in params.methods:
        planned["n_train_seeds"] = len(runs.train_seeds_of(params, cell["method"])[: design.trainings])
    return any(cell[key] < n for key, n in planned.items())


def difference_text(inputs: Inputs, comparison: dict | None) -> str:
    if comparison is None:
        return NOT_RUN
    difference, interval = number(comparison["difference"], inputs.digits), interval_text(comparison, inputs.digits)
    return Traced(f"{difference} {interval}", comparison["a"], comparison["b"])


def effect_text(found: dict, digits: int, unit: str = "points") -> str:
    """Effect and interval of a claim's test; empty when it was not run."""
    if found["effect"] is None:
        return ""
    digits = digits if unit == "points" else 3  # correlations are small
    return number(found["effect"], digits) + ("" if found["low"] is None else f" {interval_text(found, digits)}")


def clear_winner(cells: list[dict | None]) -> dict | None:
    """The best of several cells, if its interval lies above all the others'."""
    best, *others = sorted(filter(None, cells), key=lambda cell: -cell["mean"]) or [None]
    return best if others and all(best["low"] > cell["high"] for cell in others) else None


def reproduced_row(inputs: Inputs, cells: list[dict | None], winners: list[dict | None]) -> list[str]:
    texts = [reproduced_text(inputs, cell) for cell in cells]
    marked = zip(texts, cells, winners, strict=True)
    return [Strong(text) if cell is not None and cell is winner else text for text, cell, winner in marked]


def rank_text(found: tuple[float, float | None, int] | None, planned: int = 0) -> str:
    """A correlation, marked when it is of fewer trainings than planned."""
    if found is None:
        return NOT_RUN
    mean, std, n = found
    return f"{number(mean, 3)}{'' if std is None else f' ± {number(std, 3)}'}{'†' if n < planned else ''}"
