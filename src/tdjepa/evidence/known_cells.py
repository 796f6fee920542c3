"""Does the ledger name cells that can exist? A misspelt method would be "not run" for ever."""

from collections.abc import Iterator, Mapping

from tdjepa.base.errors import UserError
from tdjepa.config.params import Params
from tdjepa.config.records.keys import meant
from tdjepa.evidence.columns import MEASURES, UNTRAINED
from tdjepa.evidence.ledger import Ledger, of_pairs
from tdjepa.evidence.wording import cell_name


def require(declared: Ledger, p: Params, path: str) -> None:
    """One line for the first cell that the parameters do not know, whether or not it is run at their scale."""
    tests = [(claim["id"], test) for claim in declared.claims for test in claim["tests"]]
    tests += [(name, premise["test"]) for name, premise in declared.premises.items()]
    for name, test in tests:
        for _, term in test["sum"]:
            for problem in _problems(term, p):
                raise UserError(f"{path}: {name}: there is no cell {cell_name(term)}: {problem}")


def _problems(term: Mapping, p: Params) -> Iterator[str]:
    method, setting = term["method"], term.get("setting")
    if method in UNTRAINED:
        return
    if method not in p.methods:
        yield f"method {method!r} is not defined under methods of params.yaml{meant(method, p.methods)}"
        return
    if of_pairs(term):
        asked = term.get("rank") or term.get("rise")
        yield from [f"{asked!r} is not one of {', '.join(MEASURES)}"] * (asked not in MEASURES)
        return
    sweeps = {name: sweep for name, sweep in p.evaluate.sweeps.items() if method in sweep.methods}
    if setting is not None and setting not in sweeps:
        yield f"{setting!r} is no sweep of {method} ({', '.join(sweeps) or 'it has none'}){meant(setting, sweeps)}"
    swept = {cost for sweep in sweeps.values() for cell in sweep.cells.values() for cost in _several(cell.get("cost"))}
    for cost in {term.get("cost"), term.get("beyond")} - {None, *p.methods[method].costs, *swept}:
        yield f"{method} is not planned with {cost!r}{meant(cost, p.methods[method].costs)}"


def _several(value) -> list:
    return list(value) if isinstance(value, list | tuple) else [value]
