"""What the paper's own numbers say to a test: the published effect, and its interval where a spread was published.

By the same rule as ours, so that both can be read side by side. Student's interval over the differences of the plan seeds where
both sides' rates are known seed by seed (for correlations, of the trainings); else over independent sides, from the printed
standard deviations; none where one run was published.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tdjepa.evidence import published
from tdjepa.evidence.effects import Effect, quantile, student_interval

FULL = {"tdjepa_continued": "tdjepa"}  # the full row of the paper's ablations


@dataclass(frozen=True)
class Printed:
    """One published value, with its single runs (n,) or their sample standard deviation where they are known."""

    mean: float
    std: float | None = None
    n: int = 1
    runs: tuple[float, ...] = ()


def effect(test: Mapping, level: float) -> Effect | None:
    """The published effect of a test; None when the paper has no number for one of its cells."""
    env, terms = test["env"], test["sum"]
    found = _gap(env, terms) or [_printed({"env": env, **term}) for _, term in terms]
    if None in found:
        return None
    weights, mean = [c for c, _ in terms], sum(c * p.mean for (c, _), p in zip(terms, found, strict=True))
    if len({len(p.runs) for p in found}) == 1 and found[0].runs:
        runs = sum(c * np.array(p.runs) for c, p in zip(weights, found, strict=True))
        low, high = student_interval(runs, level)
        return _shifted(mean, float(runs.mean()), low, high, len(runs))
    parts = [(c**2 * p.std**2 / p.n, p.n - 1) for c, p in zip(weights, found, strict=True) if p.std is not None]
    if len(parts) < len(found) or not any(v for v, _ in parts):
        return Effect(mean, None, None, None)
    variance = sum(v for v, _ in parts)
    freedom = variance**2 / sum(v**2 / df for v, df in parts)  # Satterthwaite's
    half = quantile((1 + level) / 2, freedom) * math.sqrt(variance)
    return Effect(mean, mean - half, mean + half, None, n_plan=min(p.n for p in found))


def _shifted(mean: float, of_runs: float, low: float | None, high: float | None, n: int) -> Effect:
    """An interval of single runs around the printed mean, which is theirs but for its last digit."""
    if low is None:
        return Effect(mean, None, None, None)
    return Effect(mean, low + mean - of_runs, high + mean - of_runs, None, n_plan=n)


def _gap(env: str, terms: Sequence) -> list[Printed] | None:
    """Figure 1's two correlations, when a test is about just these."""
    known = published.load()["gap"]
    found = [known.get(term["method"], {}).get(term.get("rank")) for _, term in terms]
    same = env == known["env"] and len(terms) == 2 and not any("split" in term for _, term in terms)
    return [Printed(rho) for rho in found] if same and None not in found else None


def _printed(term: Mapping) -> Printed | None:
    """The published value of one cell. The keys that are there say in which table it stands."""
    kinds = {"rank": _rank, "rise": lambda _: None, "value": _phase, "beyond": _beyond, "starts": _stratum}
    kinds |= {"block": _stratum, "share": _epoch, "alpha": _sweep, "setting": _protocol}
    find = next((find for key, find in kinds.items() if key in term), None)
    if find is None:
        ablation = term["method"] in FULL or term["method"] in published.load()["ablations"]["labels"]
        find = _ablation if ablation and (term["method"] != "tdjepa" or "solver" in term) else _cell
    return find(term)


def _cell(term: Mapping) -> Printed | None:
    cell = published.cell(term["env"], term["method"], term.get("cost", ""))
    if cell is None:
        return None
    return Printed(cell["mean"], cell["std"], len(published.load()["plan_seeds"]), tuple(cell.get("rates", ())))


def _of(section: str, term: Mapping) -> Mapping:
    """A section of published.yaml if it is about the term's environment, else an empty one."""
    source = published.load()[section]
    return source if source.get("env", term["env"]) == term["env"] else {}


def _rank(term: Mapping) -> Printed | None:
    if term["method"] != "tdjepa":
        rho = _of("gap", term).get(term["method"], {}).get(term["rank"])
        return None if rho is None else Printed(rho)
    found = _of("ranks", term).get(term.get("split", "all"), {}).get(term["rank"])
    return found and Printed(found["mean"], found["std"], len(found["seeds"]), tuple(found["seeds"]))


def _phase(term: Mapping) -> Printed | None:
    """Episodes of 50 in points; there +- is the standard deviation over n."""
    source = _of("phases", term)
    found = (
        source.get(term["cost"], {}).get(term["value"].removesuffix("_contact")) if term["method"] == "tdjepa" else None
    )
    if found is None:
        return None
    points, n = 100 / published.load()["episodes"], source["runs"]
    return Printed(points * found[0], points * found[1] * math.sqrt(n / (n - 1)), n)


def _beyond(term: Mapping) -> Printed | None:
    found = _of("unique", term).get(term["cost"])
    return None if found is None else Printed(100 / published.load()["episodes"] * found)


def _stratum(term: Mapping) -> Printed | None:
    source = _of("geometry", term)
    strata = source.get("block", {}) if "block" in term else source
    found = strata.get(term.get("block") or term.get("starts"), {}).get(term["cost"])
    return None if found is None else Printed(found)


def _epoch(term: Mapping) -> Printed | None:
    curve = published.epoch_curve(term["env"], term["method"], term["cost"])
    return curve and Printed(curve["rates"][round(term["share"] * len(curve["rates"])) - 1])


def _sweep(term: Mapping) -> Printed | None:
    source = published.load()["blend_sweep"]
    known = dict(zip(source["alphas"], source.get(term["env"], {}).get("blend", ()), strict=False))
    return Printed(known[term["alpha"]]) if term["alpha"] in known else None


def _protocol(term: Mapping) -> Printed | None:
    rows = _of("protocols", term).get("rows", ())
    fits = [row for row in rows if (row["solver"], row["w"]) == (term.get("solver"), term.get("w"))]
    found = max(fits, key=lambda row: row["refinements"], default={}).get(term["method"])
    return None if found is None else Printed(found)


def _ablation(term: Mapping) -> Printed | None:
    source = _of("ablations", term)
    row = source.get("rows", {}).get(FULL.get(term["method"], term["method"]), {})
    wanted = [term.get("solver", "cem"), term["cost"]]
    column = next((name for name, planned in source.get("columns", {}).items() if planned == wanted), None)
    found = row.get(column)
    return found and Printed(found[0], found[1], source["runs"])
