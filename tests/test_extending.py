"""docs/extending.md is followed to the letter in a copy of the project: its files, its diffs, its commands."""

import re

import pytest

from clone import Clone
from conftest import ROOT

BLOCK = re.compile(r"(?:New file `(?P<file>[^`]+)`:\n)?```(?P<kind>python|diff|sh)\n(?P<text>.*?)```", re.DOTALL)


def blocks(page: str) -> list[tuple[str, str, str]]:
    """(kind, file, text) of every block, in order."""
    found = BLOCK.finditer((ROOT / page).read_text())
    return [(block["kind"], block["file"] or "", block["text"]) for block in found]


def apply(diff: str, clone: Clone) -> None:
    """Each part of a diff, divided by empty lines, changes one place of the file that the first line names."""
    name, _, changes = diff.partition("\n")
    file = clone.path / name
    for change in changes.strip("\n").split("\n\n"):
        lines = change.splitlines()
        old, new = ("\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
        text = file.read_text()
        assert text.count(old) == 1, f"{name} has {text.count(old)} places like:\n{old}"
        file.write_text(text.replace(old, new))


def shell(clone: Clone, text: str) -> str:
    return clone.run("bash", "-ec", text)


@pytest.mark.pipeline
def test_the_recipes_work_as_they_are_written(tmp_path):
    clone, said = Clone.of_project(tmp_path / "copy"), ""
    for kind, file, text in blocks("docs/extending.md"):
        if kind == "python":
            (clone.path / file).write_text(text)
        elif kind == "diff":
            apply(text, clone)
        else:
            said += shell(clone, text.replace("tdjepa ", "python -m tdjepa "))
    assert re.search(r"replay .*100", said)
    assert re.search(r"\| corridor/lewm_rollout/cosine\S* \| \d+ \|", said)
    # what its own tests ask of an addition: both lists of tables, the schema, the stages, the layout of the code
    shell(
        clone,
        "python -m pytest -q -p no:cacheprovider tests/test_dvc_stages.py tests/test_params.py -k 'committed or list'",
    )
    shell(clone, "ruff check src workflow && ruff format --check src workflow")
