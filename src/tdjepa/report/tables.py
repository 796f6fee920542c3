"""The report's tables in the order of the paper, then our own. Published stands beside reproduced; "not run" where there are
no rows."""

from pathlib import Path

from tdjepa.base.artefacts import write_text
from tdjepa.evidence import published
from tdjepa.report import diagnostic_tables
from tdjepa.report import extra_tables as own_tables
from tdjepa.report.captions import caption, seeds_text, swept_text
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import COSTS, ENVS, FLOORS, cost_text, method_label, methods, planned_cost
from tdjepa.report.phrases import (
    clear_winner,
    count,
    difference_text,
    mean_std,
    number,
    p_text,
    published_text,
    reproduced_row,
    reproduced_text,
    short_text,
)
from tdjepa.report.table import RULE, Strong, Table

__all__ = ["ALL", "count", "number", "p_text", "reproduced_text", "write"]
NAVIGATION = ("two_room", "reacher")  # where the paper deploys d_psi


def method_comparison(inputs: Inputs) -> Table:
    """The paper's Table 1."""
    source, p = published.load()["method_comparison"], inputs.params
    body = []
    for row in source["rows"]:
        run = [method_label(p, m) for m in row["methods"] if m in p.methods_run]
        body.append([row["label"], row["supervision"], row["directed"], row["use"], ", ".join(run) or "not here"])
    head = ["Method", "Supervision", "Directed", "Plan use", "Run here as"]
    return Table(
        "method_comparison", caption(p, "method_comparison", place=source["place"]), head, body, wide=True, left=5
    )


def main(inputs: Inputs) -> Table:
    """The paper's Table 2: each method with the cost it deploys."""
    p = inputs.params
    names = methods(p)
    found = {m: [inputs.cell(env, m, planned_cost(p, env, m)) for env in ENVS] for m in names}
    winners = [clear_winner([found[m][i] for m in names]) for i in range(len(ENVS))]
    body = []
    for m in names:
        printed = published_row(m)
        if printed:
            body.append([f"{method_label(p, m)}, published", *printed])
        body.append([f"{method_label(p, m)}, reproduced", *reproduced_row(inputs, found[m], winners)])
        body.append(RULE)
    body += [floor_row(inputs, "random")]
    return Table("main", caption(p, "main"), ["Method", *ENVS.values()], body, wide=True)


def published_row(method: str) -> list[str] | None:
    """A method's published success in each environment, None when there is none."""
    own = published.load()["rc_aux_own"]
    if method == "rc_aux":  # not a row of the paper: as its own authors report it
        return [mean_std(own["rc_aux"].get(env)) for env in ENVS]
    printed = [published.deployed(env, method) for env in ENVS]
    return [published_text(cell) for cell in printed] if any(printed) else None


def floor_row(inputs: Inputs, floor: str) -> list[str]:
    return [FLOORS[floor], *(reproduced_text(inputs, inputs.cell(env, floor)) for env in ENVS)]


def literature(inputs: Inputs) -> Table:
    """The paper's Table 3."""
    source, p = published.load()["literature"], inputs.params
    body = [[row["label"], *(number(row.get(env), 0) for env in ENVS)] for row in source["rows"]]
    body += [RULE, [f"{method_label(p, 'tdjepa')}, published", *published_row("tdjepa")]]
    found = [inputs.cell(env, "tdjepa", planned_cost(p, env, "tdjepa")) for env in ENVS]
    body.append([f"{method_label(p, 'tdjepa')}, reproduced", *(short_text(inputs, cell) for cell in found)])
    text = caption(p, "literature", place=source["place"])
    return Table("literature", text, ["Method", *ENVS.values()], body, wide=True)


def ablations(inputs: Inputs) -> Table:
    """The paper's Table 4, and the full model continued as its ablations are: the fair one to hold them against."""
    source, p = published.load()["ablations"], inputs.params
    env, columns, labels = source["env"], source["columns"], source["labels"]
    first, *rest = source["rows"]
    names = {first: labels[first], "tdjepa_continued": "full, continued", **{m: labels[m] for m in rest}}
    found = {m: [_with_solver(inputs, env, m, *column) for column in columns.values()] for m in names}
    winners = [clear_winner([cells[i] for cells in found.values()]) for i in range(len(columns))]
    body = []
    for method, label in names.items():
        printed = source["rows"].get(method)
        if printed:
            body += [RULE, [f"{label}, published", *(mean_std(printed[column]) for column in columns)]]
        body.append([f"{label}, reproduced", *reproduced_row(inputs, found[method], winners)])
    swept = swept_text(p, "solvers", "The iCEM column")
    main = [cell for cells in found.values() for cell in cells if cell and cell["setting"] == "main"]
    seeds = seeds_text(p, main)
    text = caption(p, "ablations", env=ENVS[env], place=source["place"], seeds=seeds, swept=swept)
    head = ["Variant", *(f"{'iCEM, ' if solver == 'icem' else ''}{cost_text(p, c)}" for solver, c in columns.values())]
    return Table("ablations", text, head, body[1:], wide=True)


def _with_solver(inputs: Inputs, env: str, method: str, solver: str, cost: str) -> dict | None:
    """The protocol's cell if that is its solver, else a sweep's."""
    protocol = inputs.params.evaluate.protocol.get(env)
    if protocol and protocol.solver == solver:
        return inputs.cell(env, method, cost)
    return inputs.swept(env, method, solver=solver, cost=cost)


def navigation(inputs: Inputs) -> Table:
    """The paper's Table 5: is it the checkpoint or the cost? With the paired difference from LeWM."""
    p = inputs.params
    body = []
    for env in NAVIGATION:
        baseline = inputs.cell(env, "lewm", "l2")
        for method, cost in (("lewm", "l2"), ("tdjepa", "d_psi"), ("tdjepa", "l2")):
            cell = inputs.cell(env, method, cost)
            against = "" if method == "lewm" else difference_text(inputs, inputs.comparison(cell, baseline))
            setting = f"{method_label(p, method)}, {COSTS[cost]}"
            printed = published_text(published.cell(env, method, cost))
            body.append([ENVS[env], setting, printed, reproduced_text(inputs, cell), against])
        body += [[ENVS[env], FLOORS["random"], "–", reproduced_text(inputs, inputs.cell(env, "random")), ""], RULE]
    head = ["Environment", "Planner setting", "Published", "Reproduced", "Difference from LeWM"]
    return Table("navigation", caption(p, "navigation"), head, body[:-1], wide=True, left=2)


def cost_matrix(inputs: Inputs) -> Table:
    """The paper's Table 11: one checkpoint, several plan costs."""
    p = inputs.params
    found = {cost: [inputs.cell(env, "tdjepa", cost) for env in ENVS] for cost in COSTS}
    winners = [clear_winner([found[cost][i] for cost in COSTS]) for i in range(len(ENVS))]
    body = []
    for cost in COSTS:
        printed = [published_text(published.cell(env, "tdjepa", cost)) for env in ENVS]
        body.append([f"{cost_text(p, cost)}, published", *printed])
        body.append([f"{cost_text(p, cost)}, reproduced", *reproduced_row(inputs, found[cost], winners)])
        body.append(RULE)
    body += [floor_row(inputs, "random")]
    return Table("cost_matrix", caption(p, "cost_matrix"), ["Plan cost", *ENVS.values()], body, wide=True)


def contact_gates(inputs: Inputs) -> Table:
    """The paper's Table 9."""
    p, env = inputs.params, "push_t"
    costs = ("d_psi", "hard_gate", "soft_gate", "blend", "l2")
    protocol = p.evaluate.protocol.get(env)
    solver = {"solver": protocol.solver} if protocol else {}
    found = [inputs.cell(env, "tdjepa", c) or inputs.swept(env, "tdjepa", cost=c, **solver) for c in costs]
    winner = clear_winner(found)
    body = []
    for cost, cell in zip(costs, found, strict=True):
        text = reproduced_text(inputs, cell)
        printed = published_text(published.cell(env, "tdjepa", cost))
        body.append([cost_text(p, cost), printed, Strong(text) if cell and cell is winner else text])
    head = ["Plan cost", "Published", "Reproduced"]
    text = caption(p, "contact_gates", env=ENVS[env], seeds=seeds_text(p, [cell for cell in found if cell]))
    return Table("contact_gates", text, head, body, wide=True)


def reacher_protocol(inputs: Inputs) -> Table:
    """The paper's Table 10 and the one corner that it leaves out; a solver's refinements are the published ones times what
    the scale allows."""
    source, p = published.load()["protocols"], inputs.params
    env = source["env"]
    body, cells, unprinted, ours = [], [], [], {}
    for row in [*source["rows"], {"solver": "icem", "refinements": 30, "w": 1.0}]:
        setting = _planned(inputs, env, row)
        ours[row["refinements"]] = setting.get("refinements", -1)
        planned = [
            inputs.swept(env, method, cost=cost, **setting) for method, cost in (("tdjepa", "d_psi"), ("lewm", "l2"))
        ]
        label = f"{row['solver'].replace('cem', 'CEM')}-{row['refinements']}, w = {row['w']:g}"
        printed = [number(row.get("tdjepa"), 0), number(row.get("lewm"), 0)]
        body.append([label, *printed, *(reproduced_text(inputs, cell) for cell in planned)])
        cells += [cell for cell in planned if cell]
        unprinted += [label] if "place" in row else []
    values = {"place": source["place"], "unprinted": " and ".join(unprinted), "seeds": seeds_text(p, cells)}
    fewer = [f"{n} as {m}" for n, m in sorted(ours.items()) if m not in (n, -1)]
    values["fewer"] = f"Refinements at this scale: {', '.join(fewer)}. " if fewer else ""
    text = caption(p, "reacher_protocol", env=ENVS[env], **values)
    names = [method_label(p, m) for m in ("tdjepa", "lewm")]
    head = ["Protocol", *(f"{name}, published" for name in names), *(f"{name}, reproduced" for name in names)]
    return Table("reacher_protocol", text, head, body, wide=True)


def _planned(inputs: Inputs, env: str, row: dict) -> dict:
    """The planner setting of a published row at this scale: as many refinements as were run in proportion to it."""
    wanted = {"solver": row["solver"], "w": row["w"]}
    run = {c["refinements"] for c in inputs.stats["cells"] if c["env"] == env and c["refinements"]}
    most = max((r["refinements"] for r in published.load()["protocols"]["rows"]), default=0)
    fits = [n for n in run if n == row["refinements"]] or [n for n in run if n * most == max(run) * row["refinements"]]
    if run and not fits:
        return {**wanted, "refinements": -1}  # not run
    return wanted | ({"refinements": fits[0]} if fits else {})


ALL = (
    method_comparison,
    main,
    literature,
    ablations,
    navigation,
    diagnostic_tables.rank_split,
    diagnostic_tables.phases,
    diagnostic_tables.geometry,
    contact_gates,
    reacher_protocol,
    cost_matrix,
    own_tables.floors,
    own_tables.training_seeds,
    own_tables.three_frames,
    own_tables.split_leak,
    diagnostic_tables.rank_epochs,
    diagnostic_tables.disagreement,
    diagnostic_tables.probe,
    own_tables.data,
    own_tables.claims,
)


def write(inputs: Inputs, out: Path) -> None:
    """Every table as LaTeX and Markdown; a file whose text is the same stays untouched."""
    for build in ALL:
        table = build(inputs)
        for kind, text in (("tex", table.to_latex()), ("md", table.to_markdown())):
            path = out / "tables" / f"{table.name}.{kind}"
            if not path.exists() or path.read_text() != text:
                write_text(path, text)
