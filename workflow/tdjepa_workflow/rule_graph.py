"""Writes the rule graph in docs/architecture.md. Run it again when a test says so:  python -m tdjepa_workflow.rule_graph

Snakemake's own mermaid graph, with the rules boxed by their DVC stage and without arrows that follow from others.
"""

import re
import subprocess
import sys
from pathlib import Path

from tdjepa.steps.registry import PHASES

FILE = Path("docs/architecture.md")
BLOCK = re.compile(r"(?<=<!-- rule graph -->\n).*?(?=<!-- /rule graph -->\n)", re.DOTALL)

Graph = dict[str, set[str]]  # rule -> the rules it needs


def rule_graph() -> Graph:
    """The rules behind all phase targets, as planned at the scale smoke, which has all but `fetch` and `take`."""
    targets = [f"{phase}_all" for phase in PHASES]
    command = [sys.executable, "-m", "snakemake", "--rulegraph", "mermaid-js", "--forceall", "--config", "scale=smoke"]
    said = subprocess.run([*command, "--", *targets], check=True, capture_output=True, text=True).stdout
    names = dict(re.findall(r"^\s*(id\d+)\[(\w+)\]", said, re.MULTILINE))
    needs: Graph = {name: set() for name in names.values()}
    for a, b in re.findall(r"^\s*(id\d+) --> (id\d+)", said, re.MULTILINE):
        if a != b:  # a training may continue another
            needs[names[b]].add(names[a])
    return needs


def reduced(needs: Graph) -> Graph:
    """Without arrows that follow from others."""

    def behind(rule: str) -> set[str]:
        return set().union(*({r} | behind(r) for r in needs[rule]))

    return {rule: {r for r in of if not any(r in behind(other) for other in of)} for rule, of in needs.items()}


def mermaid(needs: Graph) -> str:
    stage = {rule: phase for phase in PHASES for rule in needs[f"{phase}_all"]}  # the phase that asks for its files
    graph = reduced({rule: of for rule, of in needs.items() if rule in stage})
    lines = ["```mermaid", "flowchart LR"]
    for phase in PHASES:
        rules = sorted(rule for rule in graph if stage[rule] == phase)
        lines += [f"    subgraph stage_{phase}[{phase}]", *(f"        {rule}" for rule in rules), "    end"]
    lines += [f"    {a} --> {b}" for b in sorted(graph) for a in sorted(graph[b])]
    return "\n".join([*lines, "```\n"])


def text() -> str:
    """The page with the graph as it is now."""
    return BLOCK.sub(lambda _: mermaid(rule_graph()), FILE.read_text(), count=1)


if __name__ == "__main__":
    FILE.write_text(text())
