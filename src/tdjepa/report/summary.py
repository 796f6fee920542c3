"""One screen: what came out, beside what was published, and where to look further."""

from pathlib import Path

from tdjepa.config import runs
from tdjepa.config.names import SIMULATOR
from tdjepa.config.part import text
from tdjepa.evidence import published
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import ALL_COSTS, ENVS, NOT_RUN, UNTRAINED, method_label
from tdjepa.report.phrases import count, design_text, interval_text, number, partial
from tdjepa.report.table import Table

PLACES = {"tables": "tables", "figures": "figures", "numbers": "numbers.tex"}


def table(found: Inputs, intervals: bool) -> Table:
    """One line per method and plan cost, one column per environment of the run; floors and the ceiling below."""
    p, body = found.params, []
    for m in p.methods_run:
        for cost in p.methods[m].costs:
            cells = [_text(found, env, m, cost, intervals) if m in runs.methods_in(p, env) else "–" for env in p.envs]
            body.append([method_label(p, m), ALL_COSTS.get(cost, cost), *cells])
    for floor, label in UNTRAINED.items():
        body.append([label, "–", *(_text(found, env, floor, "", intervals) for env in p.envs)])
    rest = ", ".join(ENVS[env] for env in ENVS if env not in p.envs)
    caption = (
        f"Success in percent{f' [{100 * p.judge.level:g} % interval]' if intervals else ''} (published); scale {p.scale}, "
        f"{design_text(p)}; † = fewer of them than planned."
    )
    caption += f" {rest}: {NOT_RUN}." if rest else ""
    caption += f" Only the part {text(p)} was asked for." if text(p) else ""
    return Table("summary", caption, ["Method", "Plan cost", *(ENVS[env] for env in p.envs)], body)


def _text(found: Inputs, env: str, method: str, cost: str, intervals: bool) -> str:
    cell, printed = found.cell(env, method, cost), published.cell(env, method, cost)
    known = f" ({printed['mean']:.1f})" if printed else ""
    if cell is None:
        return NOT_RUN + known
    pairs = f", {count(cell['n_episodes'], 'pair')}" if method == SIMULATOR else ""  # fewer than of the others
    mark = "†" if partial(found.params, cell) else ""
    interval = f" {interval_text(cell, found.digits)}" if intervals else ""
    return f"{number(cell['mean'], found.digits)}{interval}{mark}{pairs}{known}"


def markdown(found: Inputs) -> str:
    """summary.md, for the README."""
    return table(found, intervals=True).to_markdown()


def terminal(found: Inputs, out: str | Path) -> str:
    """The same in columns, with the places of everything that was written."""
    t = table(found, intervals=False)
    rows = [t.head, *t.body]
    widths = [max(len(row[i]) for row in rows) for i in range(len(t.head))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    places = [f"{name:<8} {Path(out, file)}" for name, file in PLACES.items()]
    return "\n".join([*lines, "", t.caption, "", *places]) + "\n"
