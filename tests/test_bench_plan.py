"""The planning benchmarks measure the same thing on both sides."""

import pytest

from tdjepa.bench import plan


@pytest.fixture
def small(monkeypatch):
    for name, value in {"CANDIDATES": 40, "ELITES": 5, "REFINEMENTS": 2, "SIZES": {"desk": (64, 1)}}.items():
        monkeypatch.setattr(plan, name, value)


def test_both_sides_find_the_same_plan(small, monkeypatch):
    from conftest import ROOT

    monkeypatch.chdir(ROOT)
    found = plan.run("desk")
    assert found["bench"] == "plan"
    assert found["difference"] < 1e-5
    assert found["ratio"] > 0
    assert 0 < found["share_of_matmul_peak"] < 2
