"""Which cell a person means by a method, a cost and perhaps a planner setting."""

import math
from collections.abc import Iterable, Mapping

from tdjepa.config.names import MAIN
from tdjepa.evidence.columns import UNTRAINED

ABOUT = 0.15  # of all epochs: an epoch further away is another one


def select(cells: Iterable[Mapping], env: str, method: str, share: float | None = None, **wanted) -> Mapping | None:
    """The cell with these values, None when there is none.

    Without `epoch` it is the method's last one, or with `share` the earlier one at about that share of it. Without
    `design` it is of the main one. Without `setting` it is the published protocol's cell if one fits, else the first sweep's
    that does (by name). Only a sweep of alpha must be asked for by its setting: the protocol's cells have an `alpha` too.
    """
    design = wanted.pop("design", MAIN)
    found = [cell for cell in cells if (cell["env"], cell["method"], cell.get("design", MAIN)) == (env, method, design)]
    if not found or method in UNTRAINED:
        return found[0] if found else None
    last = max(cell["epoch"] for cell in found)
    if share is None:
        wanted = {"epoch": last, **wanted}
    found = [cell for cell in found if all(_equal(cell[key], value) for key, value in wanted.items())]
    if share is not None:
        near = (cell for cell in found if abs(cell["epoch"] - share * last) <= ABOUT * last)
        found = [cell for cell in near if cell["epoch"] < last]  # the last would be held against itself
        found.sort(key=lambda cell: abs(cell["epoch"] - share * last))
        found = [cell for cell in found if cell["epoch"] == found[0]["epoch"]]
    found.sort(key=lambda cell: (cell["setting"] != MAIN, cell["setting"], -cell["refinements"], cell["id"]))
    of_setting = [cell for cell in found if cell["setting"] == found[0]["setting"]]
    several = len({cell["alpha"] for cell in of_setting}) > 1  # any of them would be as good an answer
    return found[0] if found and not several else None


def _equal(found, wanted) -> bool:
    if isinstance(wanted, float) or isinstance(found, float):
        return found is not None and wanted is not None and math.isclose(found, wanted, abs_tol=1e-9)
    return found == wanted
