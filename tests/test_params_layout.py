"""params.yaml keeps its comments and its layout when `dvc exp run -S` rewrites it, and no list stops following another."""

import difflib
import functools
import re

import pytest
import yaml
from dvc.utils.hydra import apply_overrides

from conftest import ROOT
from tdjepa.config.load import resolve
from tdjepa.config.origin import of_scale
from tdjepa.config.yaml_file import read_yaml

TEXT = (ROOT / "params.yaml").read_text()
SCALES = list(read_yaml(ROOT / "params.yaml")["scales"])


@pytest.fixture
def overridden(tmp_path):
    """The shipped file after `-S` with these overrides, written by DVC's own function."""

    def write(*overrides: str):
        path = tmp_path / "params.yaml"
        path.write_text(TEXT)
        apply_overrides(path, list(overrides))
        return path

    return write


def changes(path) -> list[str]:
    """The lines that were taken out and put in."""
    lines = difflib.ndiff(TEXT.splitlines(), path.read_text().splitlines())
    return [line[0] + line[1:].strip() for line in lines if line[0] in "+-"]


def comments(text: str) -> list[str]:
    return re.findall(r"(?:^|\s)(#.*)", text, re.MULTILINE)


def values(path, scale: str) -> dict:
    return {leaf.key: leaf.value for leaf in of_scale(read_yaml(path), scale)}


BEFORE = {scale: values(ROOT / "params.yaml", scale) for scale in SCALES}


def test_the_writer_gives_the_file_back_byte_for_byte(overridden):
    assert overridden().read_text() == TEXT


SEEDS = ["-- 3072", "-- 3074", "-- 3075", "-- 3076"]
CASES = [  # override, lines that differ, the values that differ by scale
    (
        "train.lr=1.0e-4",
        ["-lr: 5.0e-5", "+lr: 0.0001"],
        {scale: {"train.lr": 1e-4} for scale in ("paper", "rehearsal")},
    ),
    ("scales.desk.train_seeds=[3073]", SEEDS, {"desk": {"train_seeds": [3073]}}),
    (
        "scales.desk.recipes.cube_rc_aux.train.lr=0.00001",  # written as 1e-05, which YAML 1.1 reads as text
        [
            f"{sign}cube_rc_aux: {{when: {{env: cube, method: rc_aux}}, train: {{lr: {lr}}}}}"
            for sign, lr in zip("-+", ("4.0e-3", "1e-05"), strict=True)
        ],
        {"desk": {"recipes.cube_rc_aux.train.lr": "1e-05"}},
    ),
    ("scales.smoke.mine.pairs=50", ["-pairs: 40", "+pairs: 50"], {"smoke": {"mine.pairs": 50}}),
    (
        "methods.rc_aux.terms.sigreg.weight=0.5",
        ["-sigreg: {weight: 0.09, directions: 1024, knots: 17}", "+sigreg: {weight: 0.5, directions: 1024, knots: 17}"],
        {scale: {"methods.rc_aux.terms.sigreg.weight": 0.5} for scale in ("paper", "desk", "smoke", "rehearsal")},
    ),
    (
        "~scales.desk.methods.tdjepa_continued",
        ["-tdjepa_continued: {train_seeds: 3}     # the ablations are like it"],
        None,
    ),
    ("+scales.paper.train_seeds=[1]", ["+train_seeds:", "+- 1"], {"paper": {"train_seeds": [1]}}),
]


@pytest.mark.parametrize(("override", "lines", "differ"), CASES, ids=[case[0] for case in CASES])
def test_an_override_changes_its_value_and_nothing_else(overridden, override, lines, differ):
    path = overridden(override)
    assert sorted(changes(path)) == sorted(lines)
    if differ is None:  # what is removed takes its comment with it
        return
    assert comments(path.read_text()) == comments(TEXT)
    for scale in SCALES:
        before, after = BEFORE[scale], values(path, scale)
        assert {key: after[key] for key in after if after[key] != before.get(key)} == differ.get(scale, {})
        assert before.keys() == after.keys()


def others(tree, place=""):
    """(place, another value) of every number and every list."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from others(value, f"{place}{key}.")
        elif isinstance(value, list) and value:
            yield f"{place}{key}", value[:1]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{place}{key}", value + 1


def test_every_number_and_list_can_be_set_and_all_comments_survive(overridden):
    """Behind a YAML anchor a change would be lost without a word."""
    before = read_yaml(ROOT / "params.yaml")
    wanted = dict(others(before))
    assert len(wanted) > 200
    path = overridden(*(f"{place}={value}".replace("'", "") for place, value in wanted.items()))
    after = read_yaml(path)
    assert {place: functools.reduce(dict.__getitem__, place.split("."), after) for place in wanted} == wanted
    assert comments(path.read_text()) == comments(TEXT)


def test_every_scale_follows_a_list_of_the_base_that_it_does_not_set(overridden):
    raw = read_yaml(overridden("methods_run=[tdjepa,lewm]", "train_seeds=[1,2]"))
    for scale in SCALES:
        p = resolve(raw, scale)
        assert p.methods_run == ("tdjepa", "lewm")
        assert p.train_seeds == (tuple(raw["scales"][scale].get("train_seeds", (1, 2))))


def test_the_file_has_no_anchors_which_would_be_written_out():
    tokens = {type(token) for token in yaml.scan(TEXT)}
    assert yaml.ScalarToken in tokens
    assert not tokens & {yaml.AnchorToken, yaml.AliasToken}
