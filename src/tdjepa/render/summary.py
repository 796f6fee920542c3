"""One screen: what came out, beside what was published, and where to look further."""

from pathlib import Path

from tdjepa.evidence import published
from tdjepa.render.inputs import Inputs
from tdjepa.render.labels import ALL_COSTS, ENVS, FLOORS, NOT_RUN, method_label
from tdjepa.render.table import Table
from tdjepa.render.texts import count, floor_label, published_text, reproduced_text


def table(found: Inputs) -> Table:
    """One line per environment of the run, method and plan cost, and the random floor."""
    p = found.params
    body = []
    for env in p.envs:
        for m in p.methods_in(env):
            for cost in p.methods[m].costs:
                printed = published_text(published.cell(env, m, cost))
                ours = reproduced_text(found, found.cell(env, m, cost))
                body.append([ENVS[env], method_label(p, m), ALL_COSTS.get(cost, cost), printed, ours])
        for floor in FLOORS:
            cell = found.cell(env, floor)
            body.append([ENVS[env], floor_label(floor, cell), "–", "–", reproduced_text(found, cell)])
    rest = [ENVS[env] for env in ENVS if env not in p.envs]
    caption = (
        f"Success in percent, mean ± sample std over plan seeds [{100 * p.judge.level:g} % interval]; scale {p.scale}, "
        f"{count(len(p.train_seeds), 'training seed')}, {count(len(p.evaluate.plan_seeds), 'plan seed')}, "
        f"{p.evaluate.episodes} {p.evaluate.manifest} pairs; † = fewer of them than planned."
    )
    if rest:
        caption += f" {', '.join(rest)}: {NOT_RUN}."
    return Table("summary", caption, ["Environment", "Method", "Plan cost", "Published", "Reproduced"], body)


def markdown(found: Inputs) -> str:
    """summary.md, for the README."""
    return table(found).to_markdown()


def terminal(found: Inputs, out: str | Path) -> str:
    """The same in columns, with the places of everything that was written."""
    t = table(found)
    rows = [t.head, *t.body]
    widths = [max(len(row[i]) for row in rows) for i in range(len(t.head))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    places = [
        f"tables   {Path(out, 'tables')}",
        f"figures  {Path(out, 'figures')}",
        f"numbers  {Path(out, 'numbers.tex')}",
    ]
    return "\n".join([*lines, "", t.caption, "", *places]) + "\n"
