"""Draws docs/dag.svg from Snakemake's own rule graph. Run it again when a test says so:  python -m tdjepa_workflow.rule_graph

A box is a rule with its DVC stage, an arrow means "needs"; arrows that follow from others are left out.
"""

import re
import subprocess
from pathlib import Path

from tdjepa_workflow.files import PHASES

FILE = Path("docs/dag.svg")
WIDTH, HEIGHT, GAP_X, GAP_Y = 92, 34, 44, 16  # of a box, and between boxes
FILLS = ("#eeeeee", "#dceaf5", "#fbe5d6", "#dff2ea", "#f6e3ee", "#fdf3cf", "#e4e4f7", "#e8f3d6")  # one a stage

Graph = dict[str, set[str]]  # rule -> the rules it needs


def rule_graph() -> Graph:
    """The rules behind all phase targets, as Snakemake plans them at the scale smoke, which has every rule but `fetch`."""
    targets = [f"{phase}_all" for phase in PHASES]
    command = ["snakemake", "--rulegraph", "dot", "--forceall", "--config", "scale=smoke", "--", *targets]
    return parse(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def parse(dot: str) -> Graph:
    names = dict(re.findall(r'^\s*(\d+)\[label = "(\w+)', dot, re.MULTILINE))
    needs: Graph = {name: set() for name in names.values()}
    for a, b in re.findall(r"^\s*(\d+) -> (\d+)", dot, re.MULTILINE):
        if a != b:  # a training may continue another
            needs[names[b]].add(names[a])
    return needs


def stages(needs: Graph) -> dict[str, str]:
    """The DVC stage of each rule: the phase whose target asks for its files."""
    return {rule: phase for phase in PHASES for rule in sorted(needs[f"{phase}_all"])}


def reduced(needs: Graph) -> Graph:
    """Without arrows that follow from others."""

    def behind(rule: str) -> set[str]:
        return set().union(*({r} | behind(r) for r in needs[rule]))

    return {rule: {r for r in of if not any(r in behind(other) for other in of)} for rule, of in needs.items()}


def places(needs: Graph, stage: dict[str, str]) -> dict[str, tuple[int, float]]:
    """Column and row of each rule; near its users if it has more users than needs, so that arrows are short."""
    users = {rule: {user for user, of in needs.items() if rule in of} for rule in needs}

    def longest(rule: str, graph: Graph) -> int:
        return max((1 + longest(r, graph) for r in graph[rule]), default=0)

    last = max(longest(rule, needs) for rule in needs)
    columns: dict[int, list[str]] = {}
    for rule in sorted(needs, key=lambda rule: (PHASES.index(stage[rule]), -longest(rule, needs), rule)):
        late = len(users[rule]) > len(needs[rule])
        columns.setdefault(last - longest(rule, users) if late else longest(rule, needs), []).append(rule)
    tallest = max(map(len, columns.values()))
    return {
        rule: (column, i + (tallest - len(rules)) / 2)
        for column, rules in columns.items()
        for i, rule in enumerate(rules)
    }


def svg(needs: Graph) -> str:
    stage = stages(needs)
    graph = reduced({rule: of for rule, of in needs.items() if rule in stage})
    corner = {
        rule: (10 + x * (WIDTH + GAP_X), 10 + round(y * (HEIGHT + GAP_Y)))
        for rule, (x, y) in places(graph, stage).items()
    }
    width = max(x for x, _ in corner.values()) + WIDTH + 10
    height = max(y for _, y in corner.values()) + HEIGHT + 10
    arrows = [
        _arrow(corner[a][0] + WIDTH, corner[a][1] + HEIGHT // 2, corner[b][0], corner[b][1] + HEIGHT // 2)
        for b in corner
        for a in sorted(graph[b])
    ]
    boxes = [_box(rule, stage[rule], *corner[rule]) for rule in corner]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' font-family="sans-serif" text-anchor="middle">',
            "<!-- made by workflow/tdjepa_workflow/rule_graph.py -->",
            '<defs><marker id="tip" markerWidth="7" markerHeight="6" refX="7" refY="3" orient="auto">'
            '<path d="M0,0 L7,3 L0,6 z" fill="#555"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *arrows,
            *boxes,
            "</svg>\n",
        ]
    )


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    bend = GAP_X // 2
    path = f"M{x},{y} C{x + bend},{y} {to_x - bend},{to_y} {to_x},{to_y}"
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#tip)"/>'


def _box(rule: str, stage: str, x: int, y: int) -> str:
    look = f'width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{FILLS[PHASES.index(stage) % len(FILLS)]}" stroke="#555"'
    middle = x + WIDTH // 2
    return (
        f'<rect x="{x}" y="{y}" {look}/><text x="{middle}" y="{y + 15}" font-size="12">{rule}</text>'
        f'<text x="{middle}" y="{y + 28}" font-size="9" fill="#555">{stage}</text>'
    )


if __name__ == "__main__":
    FILE.write_text(svg(rule_graph()))
