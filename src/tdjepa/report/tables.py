"""The report's tables, the paper's first: published beside reproduced, and "not run" where there are no rows."""

from pathlib import Path

from tdjepa.base.artefacts import write_text
from tdjepa.evidence import published
from tdjepa.report import claims_table, diagnostic_tables, extra_tables, phrases, verdicts_block
from tdjepa.report.captions import captioned, seeds_text, swept_text
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import COSTS, ENVS, UNTRAINED, cost_text, method_label, methods
from tdjepa.report.phrases import mean_std, number, published_text, reproduced_text
from tdjepa.report.table import RULE, Table

NAVIGATION = ("two_room", "reacher")  # where the paper deploys d_psi
Line = tuple[str, list[str] | None, list[dict | None]]  # a label, the published texts, the reproduced cells


def method_comparison(inputs: Inputs) -> Table:
    """The paper's Table 1."""
    source, p, body = published.load()["method_comparison"], inputs.params, []
    for row in source["rows"]:
        run = [method_label(p, m) for m in row["methods"] if m in p.methods_run]
        body.append([row["label"], row["supervision"], row["directed"], row["use"], ", ".join(run) or "not here"])
    head = ["Method", "Supervision", "Directed", "Plan use", "Run here as"]
    return captioned(inputs, "method_comparison", head, body, left=5, place=source["place"])


def main(inputs: Inputs) -> Table:
    """The paper's Table 2: each method with the cost it deploys."""
    p = inputs.params
    lines = [(method_label(p, m), published_row(m), [inputs.deployed(env, m) for env in ENVS]) for m in methods(p)]
    body = [*beside(inputs, lines), RULE, floor_row(inputs, "random")]
    return captioned(inputs, "main", ["Method", *ENVS.values()], body)


def beside(inputs: Inputs, lines: list[Line]) -> list[list[str] | None]:
    """Published above reproduced, rules between; bold where an interval lies above those of all other lines."""
    winners = [phrases.clear_winner(column) for column in zip(*(cells for _, _, cells in lines), strict=True)]
    body = []
    for label, printed, cells in lines:
        body += [RULE, [f"{label}, published", *printed]] if printed else [RULE]
        body.append([f"{label}, reproduced", *phrases.reproduced_row(inputs, cells, winners)])
    return body[1:]


def published_row(method: str) -> list[str] | None:
    """A method's published success in each environment, None when there is none."""
    if method == "rc_aux":  # not a row of the paper: as its own authors report it
        return [mean_std(published.load()["rc_aux_own"]["rc_aux"].get(env)) for env in ENVS]
    printed = [published.deployed(env, method) for env in ENVS]
    return [published_text(cell) for cell in printed] if any(printed) else None


def floor_row(inputs: Inputs, floor: str) -> list[str]:
    return [UNTRAINED[floor], *(reproduced_text(inputs, inputs.cell(env, floor)) for env in ENVS)]


def literature(inputs: Inputs) -> Table:
    """The paper's Table 3."""
    source, label = published.load()["literature"], method_label(inputs.params, "tdjepa")
    body = [[row["label"], *(number(row.get(env), 0) for env in ENVS)] for row in source["rows"]]
    body += [RULE, [f"{label}, published", *published_row("tdjepa")]]
    found = [inputs.deployed(env, "tdjepa") for env in ENVS]
    body.append([f"{label}, reproduced", *(reproduced_text(inputs, cell, interval=False) for cell in found)])
    return captioned(inputs, "literature", ["Method", *ENVS.values()], body, place=source["place"])


def ablations(inputs: Inputs) -> Table:
    """The paper's Table 4, and the full model continued as its ablations are: the fair one to hold them against."""
    source, p = published.load()["ablations"], inputs.params
    env, columns, labels, rows = (source[key] for key in ("env", "columns", "labels", "rows"))
    first, *rest = rows
    names = {first: labels[first], "tdjepa_continued": "full, continued", **{m: labels[m] for m in rest}}
    found = {m: [_with_solver(inputs, env, m, *column) for column in columns.values()] for m in names}
    printed = {m: [mean_std(rows[m][column]) for column in columns] if m in rows else None for m in names}
    body = beside(inputs, [(label, printed[m], found[m]) for m, label in names.items()])
    body.pop(2)  # the full model's two ways stand together
    main = [cell for cells in found.values() for cell in cells if cell and cell["setting"] == "main"]
    values = {"seeds": seeds_text(p, main), "swept": swept_text(p, "solvers", "The iCEM column")}
    head = ["Variant", *(f"{'iCEM, ' if solver == 'icem' else ''}{cost_text(p, c)}" for solver, c in columns.values())]
    return captioned(inputs, "ablations", head, body, env=ENVS[env], place=source["place"], **values)


def _with_solver(inputs: Inputs, env: str, method: str, solver: str, cost: str) -> dict | None:
    """The protocol's cell if that is its solver, else a sweep's."""
    protocol = inputs.params.evaluate.protocol.get(env)
    if protocol and protocol.solver == solver:
        return inputs.cell(env, method, cost)
    return inputs.swept(env, method, solver=solver, cost=cost)


def navigation(inputs: Inputs) -> Table:
    """The paper's Table 5: is it the checkpoint or the cost? With the paired difference from LeWM."""
    body = []
    for env in NAVIGATION:
        baseline = inputs.cell(env, "lewm", "l2")
        for method, cost in (("lewm", "l2"), ("tdjepa", "d_psi"), ("tdjepa", "l2")):
            cell = inputs.cell(env, method, cost)
            against = "" if method == "lewm" else phrases.difference_text(inputs, inputs.comparison(cell, baseline))
            setting = f"{method_label(inputs.params, method)}, {COSTS[cost]}"
            printed = published_text(published.cell(env, method, cost))
            body.append([ENVS[env], setting, printed, reproduced_text(inputs, cell), against])
        body += [[ENVS[env], UNTRAINED["random"], "–", reproduced_text(inputs, inputs.cell(env, "random")), ""], RULE]
    head = ["Environment", "Planner setting", "Published", "Reproduced", "Difference from LeWM"]
    return captioned(inputs, "navigation", head, body, left=2)


def cost_matrix(inputs: Inputs) -> Table:
    """The paper's Table 11: one checkpoint, several plan costs."""
    lines = []
    for cost in COSTS:
        printed = [published_text(published.cell(env, "tdjepa", cost)) for env in ENVS]
        lines.append((cost_text(inputs.params, cost), printed, [inputs.cell(env, "tdjepa", cost) for env in ENVS]))
    body = [*beside(inputs, lines), RULE, floor_row(inputs, "random")]
    return captioned(inputs, "cost_matrix", ["Plan cost", *ENVS.values()], body)


def contact_gates(inputs: Inputs) -> Table:
    """The paper's Table 9."""
    p, env = inputs.params, "push_t"
    costs, protocol = ("d_psi", "hard_gate", "soft_gate", "blend", "l2"), p.evaluate.protocol.get(env)
    solver = {"solver": protocol.solver} if protocol else {}
    found = [inputs.cell(env, "tdjepa", c) or inputs.swept(env, "tdjepa", cost=c, **solver) for c in costs]
    texts = phrases.reproduced_row(inputs, found, [phrases.clear_winner(found)] * len(found))
    printed = [published_text(published.cell(env, "tdjepa", cost)) for cost in costs]
    body = [[cost_text(p, cost), *two] for cost, *two in zip(costs, printed, texts, strict=True)]
    head, seeds = ["Plan cost", "Published", "Reproduced"], seeds_text(p, [cell for cell in found if cell])
    return captioned(inputs, "contact_gates", head, body, env=ENVS[env], seeds=seeds)


def reacher_protocol(inputs: Inputs) -> Table:
    """The paper's Table 10 and the one corner that it leaves out, in refinements that the scale allows."""
    source, p = published.load()["protocols"], inputs.params
    env, planned = source["env"], (("tdjepa", "d_psi"), ("lewm", "l2"))
    body, found, unprinted, ours = [], [], [], {}
    for row in [*source["rows"], {"solver": "icem", "refinements": 30, "w": 1.0}]:
        setting = _planned(inputs, env, row)
        ours[row["refinements"]] = setting.get("refinements", -1)
        cells = [inputs.swept(env, method, cost=cost, **setting) for method, cost in planned]
        label = f"{row['solver'].replace('cem', 'CEM')}-{row['refinements']}, w = {row['w']:g}"
        printed = [number(row.get(method), 0) for method, _ in planned]
        body.append([label, *printed, *(reproduced_text(inputs, cell) for cell in cells)])
        found += [cell for cell in cells if cell]
        unprinted += [label] if "place" in row else []
    values = {"place": source["place"], "unprinted": " and ".join(unprinted), "seeds": seeds_text(p, found)}
    fewer = [f"{n} as {m}" for n, m in sorted(ours.items()) if m not in (n, -1)]
    values["fewer"] = f"Refinements at this scale: {', '.join(fewer)}. " if fewer else ""
    names = [method_label(p, method) for method, _ in planned]
    head = ["Protocol", *(f"{name}, published" for name in names), *(f"{name}, reproduced" for name in names)]
    return captioned(inputs, "reacher_protocol", head, body, env=ENVS[env], **values)


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
    *(method_comparison, main, literature, ablations, navigation),
    *(diagnostic_tables.rank_split, diagnostic_tables.phases, diagnostic_tables.geometry),
    *(contact_gates, reacher_protocol, cost_matrix),
    *(extra_tables.floors, extra_tables.training_seeds, extra_tables.three_frames, extra_tables.split_leak),
    *(diagnostic_tables.rank_epochs, diagnostic_tables.disagreement, diagnostic_tables.failures),
    diagnostic_tables.probe,
    *(extra_tables.data, claims_table.themes, claims_table.claims),
)


def write(inputs: Inputs, out: Path) -> None:
    """Every table as LaTeX and Markdown, and the verdicts for the README; a file whose text is the same stays untouched."""
    made = {"verdicts.md": verdicts_block.markdown(inputs)}
    for table in (build(inputs) for build in ALL):
        made |= {f"tables/{table.name}.tex": table.to_latex(), f"tables/{table.name}.md": table.to_markdown()}
    for name, text in made.items():
        if not (out / name).exists() or (out / name).read_text() != text:
            write_text(out / name, text)
