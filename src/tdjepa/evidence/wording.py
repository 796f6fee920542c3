"""Tests and cells of the ledger in words."""

from collections.abc import Mapping

SIGNS = {"above": ">", "below": "<", "at_least": ">=", "as_good": ">=", "at_most": "<=", "equal": "="}


def describe(test: Mapping) -> str:
    """A test in one line: "push_t: tdjepa l2 - lewm l2 > 0"."""
    text = ""
    for coefficient, term in test["sum"]:
        sign = "+" if coefficient > 0 else "-"
        size = "" if abs(coefficient) == 1 else f"{abs(coefficient):g} × "
        named = cell_name(term)
        text += f" {sign} {size}{named}" if text else f"{'' if coefficient > 0 else '- '}{size}{named}"
    margin = f" ± {test['margin']:g}" if test["is"] == "equal" else ""
    return f"{test['env']}: {text} {SIGNS[test['is']]} {test['bound']:g}{margin}"


def cell_name(term: Mapping) -> str:
    return " ".join(_named(key, value) for key, value in term.items())


def _named(key: str, value) -> str:
    if key in ("env", "method", "cost", "solver"):
        return str(value)
    return {
        "setting": f"(sweep {value})",
        "value": f"({str(value).replace('_', ' ')})",
        "starts": f"({value} starts)",
        "block": f"(block {value} from its goal)",
        "beyond": f"(not solved with {value})",
        "split": f"({value} pairs)",
        "rank": f"ρ({value}, τ)",
        "rise": f"rise of {value}",
        "share": f"at {value} of the epochs",
    }.get(key, f"{key}={value:g}" if isinstance(value, int | float) else f"{key}={value}")
