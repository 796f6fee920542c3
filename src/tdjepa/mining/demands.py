"""How hard the pairs of a manifest are: how far things must move from start to goal, and for how many pairs something must
happen. An environment names both (`Env.demands`). Other demonstrations bring other goals, so success rates need this beside."""

import numpy as np

DIGITS = 4  # significant; further ones help nobody


def summary(demands: dict[str, np.ndarray], kinds: np.ndarray | None = None) -> dict:
    """Median and quartiles of distances, shares of flags; of all pairs, and by the kind (N,) of the demonstration."""
    parts = {"all": slice(None)} | (
        {str(kind): kinds == kind for kind in np.unique(kinds)} if kinds is not None else {}
    )
    return {part: {name: _about(found[of]) for name, found in demands.items()} for part, of in parts.items()}


def _about(values: np.ndarray) -> float | dict[str, float]:
    if values.dtype == bool:
        return _rounded(values.mean())
    low, middle, high = np.percentile(values, (25, 50, 75))
    return {"median": _rounded(middle), "from": _rounded(low), "to": _rounded(high)}


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def said(of_pairs: dict) -> str:
    """One part of `summary` in a line: "agent (px) 41 [12, 70], needs contact 47 %"."""
    words = []
    for name, about in of_pairs.items():
        if isinstance(about, dict):
            words.append(f"{name} {about['median']:.2g} [{about['from']:.2g}, {about['to']:.2g}]")
        else:
            words.append(f"{name} {about:.0%}".replace("%", " %"))
    return ", ".join(words)
