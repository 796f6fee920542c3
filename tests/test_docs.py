"""README and docs against the project: links, files, verbs and their options, the paper's symbols, the diagram."""

import ast
import re

import pytest

from conftest import ROOT
from tdjepa.cli import argument_parser
from tdjepa_workflow import rule_graph

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(page) -> str:
    """The text without its blocks of code."""
    return FENCE.sub("", page.read_text())


def spans(page) -> list[str]:
    return re.findall(r"`([^`]+)`", prose(page))


@each_page
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)]+)\)", prose(page))
    local = [link.split("#")[0] for link in links if not re.match(r"\w+://|mailto:|#", link)]
    assert not [link for link in local if not (page.parent / link).exists()]


def test_the_readme_leads_to_every_page():
    text = (ROOT / "README.md").read_text()
    assert not [page.name for page in PAGES[1:] if f"](docs/{page.name})" not in text]


@each_page
def test_named_files_exist(page):
    """Files and folders of the repository; what the pipeline or the reader makes is not in it."""
    named = re.compile(r"(docs|src|tests|workflow|paper|envs|mining|model|objective|planning|evidence|render)/[\w./]+")
    new = re.findall(r"New file `([^`]+)`", page.read_text())
    found = [span for span in spans(page) if named.fullmatch(span) and span not in new]
    places = (ROOT, ROOT / "src/tdjepa")
    assert not [span for span in found if not any((place / span).exists() for place in places)]


def commands(page) -> list[str]:
    """The `tdjepa` commands of a page, in its blocks of code and in its text; a # begins a comment."""
    blocks = [text for kind, text in FENCE.findall(page.read_text()) if kind in ("", "sh")]
    lines = [line.strip() for text in blocks for line in text.split("\n")]
    return [command for command in lines + spans(page) if command.startswith("tdjepa ")]


def verbs() -> dict:
    return argument_parser()._subparsers._group_actions[0].choices


@each_page
def test_commands_have_known_verbs_and_options(page):
    for command in commands(page):
        verb = command.split()[1]
        if verb.startswith("-"):
            continue
        assert set(verb.split("|")) <= set(verbs()), command
        known = {flag for name in verb.split("|") for flag in verbs()[name]._option_string_actions}
        own = command.partition(" --run ")[0]  # what follows is another command
        assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", own)) <= known, command


def test_every_verb_is_in_the_readme():
    text = (ROOT / "README.md").read_text()
    assert not [verb for verb in verbs() if not re.search(rf"\b{verb}\b", text)]


def symbols() -> list[list[str]]:
    lines = re.findall(r"^\| (?!symbol).*", (ROOT / "docs/symbols.md").read_text(), re.MULTILINE)
    return [line.strip("| ").split(" | ") for line in lines]


def names(source: str) -> set[str]:
    """What a file defines: functions and classes, and methods as Class.method."""
    tree = ast.parse(source).body
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = {node.name for node in tree if isinstance(node, kinds)}
    classes = [node for node in tree if isinstance(node, ast.ClassDef)]
    return found | {f"{c.name}.{node.name}" for c in classes for node in c.body if isinstance(node, kinds)}


def test_symbols_are_where_the_table_says():
    places = re.findall(r"`([\w/]+\.py): ([\w.]+)`", (ROOT / "docs/symbols.md").read_text())
    assert len(places) >= len(symbols())
    assert not [(file, name) for file, name in places if name not in names((ROOT / "src/tdjepa" / file).read_text())]


def test_symbols_name_parameters_that_there_are(smoke):
    text = "\n".join(map(" ".join, symbols()))
    for key in re.findall(r"`((?:collect|mine|model|evaluate|methods|terms)\.[\w.<>]+)`", text):
        place = key.replace("<env>", "two_room").replace("<method>", "tdjepa")
        value = smoke.model_dump()
        for part in re.sub(r"^terms", "methods.tdjepa.terms", place).split("."):
            assert part in value, key
            value = value[part]


def test_the_rule_graph_is_that_of_the_workflow(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert rule_graph.FILE.read_text() == rule_graph.text(), "run: python -m tdjepa_workflow.rule_graph"
