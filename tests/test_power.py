"""What a design can see: components from rows, the smallest difference, and the cheapest design for a wanted one."""

import numpy as np
import pytest

from conftest import ROOT
from tdjepa.cli import main
from tdjepa.config.load import load
from tdjepa.evidence import components, paired, simulate
from tdjepa.evidence.effects import Effect, detectable
from tdjepa.evidence.simulate import Size, World
from tdjepa.tools import power

WORLD = World(0.5, 1.2, 0.8, 0.6, 0.5)


def test_components_are_found_again_in_rows_made_with_them():
    rng, found = np.random.default_rng(0), []
    for _ in range(8):
        cells = simulate.cells(rng, WORLD, Size(6, 2, 400), [[WORLD.logit(0.7)] * 2] * 4)
        found.append(components.fitted(cells, "two_room"))
    worlds, rates = zip(*found, strict=True)
    assert np.mean(rates) == pytest.approx(0.7, abs=0.04)
    for name in ("training", "episode", "method", "interaction"):
        assert np.mean([getattr(w, name) for w in worlds]) == pytest.approx(getattr(WORLD, name), abs=0.2), name
    assert components.fitted(cells[:2], "two_room") is None  # one method says nothing of what methods share
    assert components.fitted(cells, "cube") is None


def test_a_difference_of_that_size_is_seen_about_four_times_in_five():
    """What is reckoned from the intervals' errors, against runs in which the methods really differ by that much."""
    rng, size, rate, seen = np.random.default_rng(1), Size(4, 1, 100), 0.6, []
    levels = [[WORLD.logit(rate)]] * 3
    errors = [spread_of(simulate.cells(rng, WORLD, size, levels)) for _ in range(40)]
    smallest = np.median([detectable(Effect(0, None, None, None, error=e, freedom=f), 0.95) for e, f in errors])
    better = [[WORLD.logit(rate + smallest / 100)], *levels[1:]]
    for _ in range(150):
        cells = simulate.cells(rng, WORLD, size, better)
        c = paired.contrast([(1, cells[0]), (-1, cells[1])])
        seen.append(paired.contrast_interval([c], paired.pooled(cells), 0.95)[0] > 0)
    assert np.mean(seen) == pytest.approx(0.8, abs=0.12)


def spread_of(cells):
    found = paired.spread([paired.contrast([(1, cells[0]), (-1, cells[1])])], paired.pooled(cells))
    return 100 * found.error, found.freedom


def test_more_pairs_and_more_trainings_see_smaller_differences():
    p = load(ROOT / "params.yaml", "desk")
    place = power.place_of(p, "reacher", [])
    few, pairs, trainings = (
        power.smallest(p, place, Size(t, 1, e), (t, t), 8) for t, e in ((3, 50), (3, 200), (6, 200))
    )
    assert few > pairs > trainings
    assert power.smallest(p, place, Size(1, 1, 50), (1, 1), 2) is None  # one training cannot see anything


def test_the_command_names_every_comparison_and_a_design_within_reach(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(power, "TRAININGS", (2, 8))
    monkeypatch.setattr(power, "PAIRS", (50, 300))
    monkeypatch.setattr(power, "PLAN_SEEDS", (1,))
    assert main(["power", "--scale", "desk", "--simulations", "2", "--difference", "30"]) == 0
    shown = capsys.readouterr().out
    assert "| two methods: 5 x 1 x 200 |" in shown
    assert "| two cells of a sweep: 5 x 1 x 100 |" in shown
    assert "| Reacher | 2 x 1 x 50 |" in shown
    assert main(["power", "--scale", "desk", "--difference", "0"]) == 2
