"""How a cell, a difference and a p are written, in tables and in numbers.tex."""

from collections.abc import Sequence

from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.evidence.columns import SIMULATOR
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import FLOORS, NOT_RUN
from tdjepa.report.table import Strong, Traced

# Numbers --------------------------------------------------------------------------------------------------------------


def count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def count_range(numbers: Sequence[int], noun: str) -> str:
    """3 plan seeds; 1 or 3 plan seeds"""
    return " or ".join([*map(str, numbers[:-1]), count(numbers[-1], noun)])


def plan_seeds_text(params: Params) -> str:
    """How many plan seeds the methods of the run take under the protocol."""
    return count_range(sorted({len(runs.plan_seeds_of(params, m)) for m in params.methods_run}), "plan seed")


def number(value: float | None, digits: int) -> str:
    """A number, or a dash; no "-0.0"."""
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def p_text(p: float | None) -> str:
    if p is None:
        return "–"
    return f"= {p:.3f}" if p >= 0.001 else "< 0.001"


def mean_std(values: tuple | list | None, digits: int = 1) -> str:
    """A published [mean] or [mean, std], or a dash."""
    if not values:
        return "–"
    return " ± ".join(number(value, digits) for value in values)


# Cells ----------------------------------------------------------------------------------------------------------------


def published_text(cell: dict | None) -> str:
    return "–" if cell is None else f"{cell['mean']:.1f} ± {cell['std']:.1f}"


def reproduced_text(inputs: Inputs, cell: dict | None) -> str:
    if cell is None:
        return NOT_RUN
    d = inputs.params.render.digits
    spread = "" if cell["std"] is None else f" ± {number(cell['std'], d)}"
    mark = "†" if partial(inputs.params, cell) else ""
    text = f"{number(cell['mean'], d)}{spread} [{number(cell['low'], d)}, {number(cell['high'], d)}]{mark}"
    return Traced(text, cell["id"])


def short_text(inputs: Inputs, cell: dict | None) -> str:
    """Mean and std only, where a column is narrow."""
    if cell is None:
        return NOT_RUN
    d = inputs.params.render.digits
    spread = "" if cell["std"] is None else f" ± {number(cell['std'], d)}"
    return Traced(f"{number(cell['mean'], d)}{spread}{'†' if partial(inputs.params, cell) else ''}", cell["id"])


def partial(params: Params, cell: dict) -> bool:
    """Whether the cell has fewer rows than the parameters plan, so that a half-finished run is seen as such."""
    if cell.get("n_missing"):
        return True
    if cell.get("setting", "main") != "main":
        return False  # a sweep says itself how many seeds it takes
    if cell["method"] == SIMULATOR:
        return False  # planned on fewer pairs; its label says how many
    trained = cell["method"] not in FLOORS
    return (
        (trained and cell["n_train_seeds"] < len(params.train_seeds))
        or cell["n_plan_seeds"] < len(runs.plan_seeds_of(params, cell["method"]))
        or cell["n_episodes"] < params.evaluate.episodes
    )


def difference_text(inputs: Inputs, comparison: dict | None) -> str:
    if comparison is None:
        return NOT_RUN
    d = inputs.params.render.digits
    low, high = number(comparison["low"], d), number(comparison["high"], d)
    text = f"{number(comparison['difference'], d)} [{low}, {high}], p {p_text(comparison['p_holm'])}"
    return Traced(text, comparison["a"], comparison["b"])


def clear_winner(cells: list[dict | None]) -> dict | None:
    """The best of several cells, if its interval lies above all the others'."""
    there = [cell for cell in cells if cell is not None]
    if len(there) < 2:
        return None
    best = max(there, key=lambda cell: cell["mean"])
    return best if all(best["low"] > cell["high"] for cell in there if cell is not best) else None


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
