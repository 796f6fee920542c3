"""Tables, figures and numbers: complete from nothing, honest from little, equal twice."""

import dataclasses
import itertools
import re
import subprocess

import pytest

from conftest import ROOT
from synthetic import everything, judged, results
from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.load import load
from tdjepa.config.records.base import ENVS
from tdjepa.evidence import published
from tdjepa.report import captions, figures, gather, inputs, numbers, phrases, planning_figures, summary, tables
from tdjepa.report.labels import method_label

TABLES = {build.__name__: build for build in tables.ALL}
FIGURES = tuple(figures.ALL)


@pytest.fixture(scope="module")
def p():
    desk = load(ROOT / "params.yaml", "desk")
    return desk.model_copy(update={"envs": ("two_room",), "methods_run": ("tdjepa", "lewm")})


@pytest.fixture(scope="module")
def found(p, tmp_path_factory):
    """A made-up run with its statistics."""
    folder = tmp_path_factory.mktemp("made up")
    return judged(folder, p, **results(folder, p))


@pytest.fixture(scope="module")
def whole(p, tmp_path_factory):
    """All four environments, methods and sweeps."""
    folder = tmp_path_factory.mktemp("whole")
    rows, pairs = everything(folder, p)
    run = p.model_copy(update={"envs": ENVS, "methods_run": ("tdjepa", "lewm", "rc_aux_tdj")})
    return judged(folder, run, rows=rows, pairs=pairs)


@pytest.fixture(scope="module")
def nothing(p):
    return inputs.read(p)


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def macros(text):
    return dict(re.findall(r"^\\newcommand\{\\(\w+)\}\{(.*)\}% .+$", text, re.MULTILINE))


def test_everything_is_written_the_same_twice_and_without_paths(found, tmp_path):
    for name in ("a", "b"):
        gather.render(found, tmp_path / name)
    first, second = files_of(tmp_path / "a"), files_of(tmp_path / "b")
    expected = {f"tables/{t}.{s}" for t in TABLES for s in ("tex", "md")}
    expected |= {f"figures/{f}.{s}" for f in FIGURES for s in ("pdf", "png")} | {
        "numbers.tex",
        "summary.md",
        "verdicts.md",
    }
    assert set(first) == expected
    assert [name for name in first if first[name] != second[name]] == []
    assert [name for name, content in first.items() if str(tmp_path).encode() in content] == []


def test_from_nothing_every_reproduced_cell_is_not_run(nothing):
    for row in TABLES["main"](nothing).body:
        if row and ("reproduced" in row[0] or row[0] == "Random actions"):
            assert row[1:] == ["not run"] * 4
    values = macros(numbers.text(nothing))
    assert values["TwoRoomTdjepaDpsi"] == values["TwoRoomTdjepaDpsiMinusLewmLtwo"] == "not run"
    assert values["PublishedTwoRoomTdjepaDpsi"] == r"100.0\,\%"


def test_published_stands_beside_reproduced(found):
    body = {row[0]: row[1:] for row in TABLES["main"](found).body if row}
    assert body["TD-JEPA, published"] == ["100.0 ± 0.0", "97.0 ± 2.4", "86.0 ± 4.2", "82.2 ± 2.9"]
    assert re.fullmatch(r"9\d\.\d \[\d\d\.\d, \d+\.\d\]", body["TD-JEPA, reproduced"][0])  # one plan seed has no ±
    assert body["TD-JEPA, reproduced"][1:] == ["not run"] * 3
    assert body[f"{method_label(found.params, 'rc_aux_tdj')}, reproduced"] == ["not run"] * 4
    assert body["Random actions"][0] != "not run"


def test_captions_come_from_the_parameters(found, p):
    seeds = f"{len(p.train_seeds)} training seeds, 1 plan seed, {p.evaluate.designs['main'].pairs} test pairs"
    for said in (seeds, "Scale desk", "within 16 px", "95 % interval over training seeds"):
        assert said in TABLES["main"](found).caption
    one = p.model_copy(update={"train_seeds": (3072,), "scale": "other"})
    assert "Scale other: 1 training seed," in captions.seeds_text(one)


def test_a_half_finished_run_is_marked(found, p):
    marked = dataclasses.replace(found, params=p.model_copy(update={"train_seeds": (*p.train_seeds, 1)}))
    assert phrases.reproduced_text(marked, marked.cell("two_room", "lewm", "l2")).endswith("†")
    assert not phrases.reproduced_text(marked, marked.cell("two_room", "random")).endswith("†")
    assert not phrases.reproduced_text(found, found.cell("two_room", "lewm", "l2")).endswith("†")


def test_a_comparison_reads_the_same_both_ways(found):
    a, b = found.cell("two_room", "tdjepa", "d_psi"), found.cell("two_room", "lewm", "l2")
    one, other = found.comparison(a, b), found.comparison(b, a)
    assert one["difference"] == -other["difference"] > 0
    assert (one["low"], one["high"]) == (-other["high"], -other["low"])
    assert one["difference"] == pytest.approx(a["mean"] - b["mean"], abs=1e-3)
    assert numbers.reading(one) == "the interval lies above zero"
    assert numbers.reading({"low": -1, "high": 2}) == "the interval contains zero"


def test_macros_agree_with_the_cells_and_name_them(found, nothing):
    text, cell = numbers.text(found), found.cell("two_room", "tdjepa", "d_psi")
    assert macros(text)["TwoRoomTdjepaDpsi"] == rf"{cell['mean']:.1f}\,\%"
    line = next(line for line in text.splitlines() if line.startswith(r"\newcommand{\TwoRoomTdjepaDpsi}"))
    assert line.endswith(f"% cell {cell['id']}")
    names = re.findall(r"\\newcommand\{\\(\w+)\}", text)
    assert len(names) == len(set(names)) == len(macros(text))
    assert all(name.isalpha() for name in names)
    assert set(macros(numbers.text(nothing))) <= set(names)  # they do not depend on what was run


def test_rank_correlations_per_split(found):
    first, *body = TABLES["rank_split"](found).body
    assert first[:2] == ["Two-Room", "all pairs, reproduced"]
    assert float(first[2][:5]) > 0.9 > float(first[4][:5])
    assert ["Push-T", "all pairs, published", "0.914 ± 0.018", "0.785 ± 0.016", "–"] in body


def test_the_data_table_reads_the_card_and_survives_a_thin_one(found, p):
    body = {row[0]: row[1:] for row in TABLES["data"](found).body}
    assert body["Episodes"] == ["40", "not run", "not run", "not run"]
    assert body["Episode length (least, mean, most)"][0] == "26, 50.0, 61"
    thin = dataclasses.replace(found, cards={"two_room": {"env": "two_room"}})
    assert {row[1] for row in TABLES["data"](thin).body} == {"–"}


def test_from_nothing_every_table_says_so_and_from_everything_none_does(nothing, whole):
    reproduced = set(TABLES) - {"method_comparison"}  # which is words of the paper
    assert [name for name in reproduced if "not run" not in TABLES[name](nothing).to_markdown()] == []
    # synthetic results have no cards and probes, one floor, pairs of Push-T only and leaky trainings of Two-Room only
    for name in reproduced - {"data", "floors", "rank_split", "rank_epochs", "probe", "split_leak"}:
        ours = [row for row in TABLES[name](whole).body if row and "published" not in row[0]]
        missing = [row for row in ours if "not run" in row and "CEM-10" not in row[0] and "full" not in row[0]]
        assert missing == [], name


def test_published_figures_of_all_eleven_tables_are_shown(nothing):
    shown = {
        "method_comparison": "mined step count",
        "main": "98.6 ± 1.0",
        "literature": "| DINO-WM | 100 | 79 | 74 | 86 |",
        "ablations": "57.3 ± 4.2",
        "navigation": "95.0 ± 2.5",
        "rank_split": "0.873 ± 0.037",
        "phases": "14.3 ± 0.5",
        "geometry": "| agent far, published | 57.2 | 78.0 | 76.4 | 20.8 |",
        "contact_gates": "77.6 ± 5.2",
        "reacher_protocol": "| CEM-30, w = 1 | 74 | 86 |",
        "cost_matrix": "81.2 ± 3.0",
        "training_seeds": "86.0 76.4 71.6 (7.3/4.2)",
    }
    for name, text in shown.items():
        assert text in TABLES[name](nothing).to_markdown(), name


def test_sweeps_stand_where_the_paper_has_them(whole):
    body = {row[0]: row[1:] for row in TABLES["reacher_protocol"](whole).body}
    for solver, w in itertools.product(("CEM", "iCEM"), ("0.3", "1")):
        sweep = f"reacher/tdjepa/d_psi/{solver.lower()}/w{w}/epoch10/reacher_protocol/refinements30/"
        assert body[f"{solver}-30, w = {w}"][2].cells[0].startswith(sweep)
    assert "Refinements at this scale" not in TABLES["reacher_protocol"](whole).caption
    gates = {row[0]: row[2] for row in TABLES["contact_gates"](whole).body}
    assert gates["hard gate"].cells[0].startswith("push_t/tdjepa/hard_gate/cem/w1/epoch10/gates/")
    ablations = {row[0]: row[1:] for row in TABLES["ablations"](whole).body if row}
    assert "/d_psi/icem/w1/epoch10/solvers/" in ablations["symmetric head, reproduced"][3].cells[0]
    assert ablations["symmetric head, reproduced"][1].cells[0].endswith("d_psi/cem/w1/epoch10")


def test_every_point_of_the_blends_sweep_is_the_sweeps(whole, p):
    """The protocol's blend has one of its alphas too, but is a mean over all pairs."""
    drawn = figures.draw(figures.ALL["offline"], whole)
    lines = {line.get_label(): line.get_xydata() for ax in drawn.axes for line in ax.lines}
    cells = [c for c in whole.stats["cells"] if (c["env"], c["setting"]) == ("cube", "blend")]
    assert {(c["n_train_seeds"], c["n_plan_seeds"], c["n_episodes"]) for c in cells} == {(5, 1, 100)}
    expected = sorted((c["alpha"], c["rates"][0][0]) for c in cells)  # of the first training, as the paper's
    assert lines["OGB-Cube, reproduced"].ravel() == pytest.approx([x for point in expected for x in point])


def test_a_table_of_sweeps_counts_its_own_seeds(whole):
    assert "5 training seeds, 1 plan seed, 100 test pairs" in TABLES["reacher_protocol"](whole).caption
    assert "5 training seeds, 1 plan seed, 100 or 200 test pairs" in TABLES["contact_gates"](whole).caption
    cells = [{"n_train_seeds": n, "n_plan_seeds": 1, "n_episodes": 9} for n in (3, 1)]
    assert "1 or 3 training seeds, 1 plan seed, 9 test pairs" in captions.seeds_text(whole.params, cells)


def test_half_finished_diagnostics_are_marked(whole):
    more = whole.params.model_copy(update={"train_seeds": (*whole.params.train_seeds, 1)})
    lost = {**whole.stats, "phases": [{**entry, "n_missing": 3} for entry in whole.stats["phases"]]}
    for name in ("rank_split", "phases", "geometry"):
        assert "†" in TABLES[name](dataclasses.replace(whole, params=more)).to_markdown(), name
        assert not any("†" in text for row in TABLES[name](whole).body if row for text in row), name
    assert "†" in TABLES["phases"](dataclasses.replace(whole, stats=lost)).to_markdown()


def test_the_ablations_have_an_icem_column_and_never_another_solvers_cell(whole):
    def cells(given):
        return {row[0]: row[1:] for row in TABLES["ablations"](given).body if row and "reproduced" in row[0]}

    for label, row in cells(whole).items():
        assert [cell.cells[0].split("/")[3] for cell in row] == ["cem", "cem", "cem", "icem"], label
    without_main = [c for c in whole.stats["cells"] if (c["method"], c["setting"]) != ("tdjepa", "main")]
    some = dataclasses.replace(whole, stats={**whole.stats, "cells": without_main})
    assert cells(some)["full, reproduced"][:3] == ["not run"] * 3  # and not the blend sweep's first weight


def test_methods_with_fewer_trainings_are_said_where_they_stand(whole, p):
    planned, few = (len(runs.train_seeds_of(p, m)) for m in ("tdjepa", "tdjepa_continued"))
    assert few < planned  # at desk
    both = f"{few} or {planned} training seeds"
    assert both in TABLES["ablations"](whole).caption
    assert "†" not in TABLES["ablations"](whole).to_markdown().split("\n\n")[0]
    everybody = whole.params.model_copy(update={"methods_run": ("tdjepa", "tdjepa_continued")})
    other = dataclasses.replace(whole, params=everybody)
    assert both in captions.caption(other, "disagreement")


# Tables whose reproduced numbers are all successes or failures of plans
PLANS = ("main", "literature", "ablations", "navigation", "phases", "geometry", "contact_gates", "reacher_protocol")
PLANS += ("cost_matrix", "floors", "training_seeds", "three_frames", "split_leak")


@pytest.mark.parametrize("name", PLANS)
def test_every_reproduced_success_leads_to_its_rows(whole, name):
    """The page promises it."""
    table, known = TABLES[name](whole), {cell["id"] for cell in whole.stats["cells"]}
    others = {row["label"] for row in published.load()["literature"]["rows"]}
    ours = [row for row in table.body if row and "published" not in row[0] and row[0] not in others]
    shown = [pair for row in ours for pair in zip(table.head[table.left :], row[table.left :], strict=True)]
    found = [text for head, text in shown if "ublished" not in head and text not in ("", "–", "not run")]
    assert found
    assert [text for text in found if not getattr(text, "cells", ())] == []
    assert {cell for text in found for cell in text.cells} <= known


def test_phases_and_geometry_by_hand(whole):
    rows = whole.rows.query("env == 'push_t' and method == 'tdjepa' and cost == 'l2' and setting == design == 'main'")
    failed = rows[~rows["success"]]
    runs = len(whole.params.train_seeds)  # one plan seed each
    found = next(f for f in whole.stats["phases"] if (f["method"], f["cost"]) == ("tdjepa", "l2"))
    assert found["after"] == pytest.approx((failed["episode"] % 2 == 0).sum() / runs, abs=1e-4)
    assert found["before"] == pytest.approx((failed["episode"] % 2 == 1).sum() / runs, abs=1e-4)
    means = {(g["method"], g["cost"], g["kind"], g["stratum"]): g["mean"] for g in whole.stats["geometry"]}
    near = rows["start_distance"] < 50 + 100
    assert means["tdjepa", "l2", "starts", "close"] == pytest.approx(100 * rows[near]["success"].mean(), abs=1e-3)


def test_an_unchanged_table_is_not_written_again_and_a_bad_caption_is_named(found, tmp_path, monkeypatch):
    tables.write(found, tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    monkeypatch.setitem(captions.texts(), "floors", "Another caption.")
    tables.write(found, tmp_path)
    changed = {path.name for path, time in times.items() if path.stat().st_mtime_ns != time}
    assert changed == {"floors.tex", "floors.md"}
    monkeypatch.setitem(captions.texts(), "floors", "At {speed}.")
    with pytest.raises(UserError, match=r"captions.yaml: floors: there is nothing called 'speed'"):
        TABLES["floors"](found)


def test_the_epoch_curve_is_the_first_seeds(found, p):
    points = planning_figures.curve(found, "two_room", "tdjepa", "d_psi")
    assert [epoch for epoch, _, _ in points] == sorted(p.evaluate.curve_epochs)
    rows = found.rows[(found.rows["train_seed"] == 3072) & (found.rows["plan_seed"] == p.evaluate.plan_seeds[0])]
    rows = rows[(rows["cost"] == "d_psi") & (rows["epoch"] == min(p.evaluate.curve_epochs))]
    assert points[0][1] == pytest.approx(100 * rows["success"].mean(), abs=1e-3)


def test_the_curve_of_a_cost_that_only_a_sweep_follows(whole, p):
    """From <environment>_epochs where it has them, else from the protocol; of all, the first training and plan seed."""
    last = whole.cell("cube", "tdjepa", "blend")
    followed = [c for c in whole.stats["cells"] if c["setting"] != "cube_epochs"]
    early = {**last, "setting": "cube_epochs", "train_seeds": [3072], "plan_seeds": [p.evaluate.plan_seeds[0]]}
    cells = [{**early, "epoch": e, "rates": [[10.0 * e]], "n_episodes": 50} for e in (1, 4)]
    other = {**cells[0], "setting": "blend", "epoch": 2}
    some = dataclasses.replace(whole, stats={**whole.stats, "cells": [*followed, *cells, other]})
    first = last["rates"][0][last["plan_seeds"].index(p.evaluate.plan_seeds[0])]
    expected = [(1, 10.0, 50), (4, 40.0, 50), (last["epoch"], first, last["n_episodes"])]
    assert planning_figures.curve(some, "cube", "tdjepa", "blend") == expected


def test_the_weight_of_the_blend_is_drawn_for_the_first_run_with_the_published_rerun(whole, p):
    lines = figures.draw(figures.ALL["offline"], whole).axes[1].get_lines()
    drawn = {line.get_label(): dict(zip(*map(list, line.get_data()), strict=True)) for line in lines}
    cell = whole.swept("push_t", "tdjepa", cost="blend", alpha=0.0)
    assert whole.cell("push_t", "tdjepa", "blend")["n_train_seeds"] > 1
    assert drawn["Push-T, reproduced"][0.0] == planning_figures.first_run(whole, cell) == cell["rates"][0][-1]
    assert list(drawn["_rerun"].values()) == [70, 74, 72, 72, 74, 76, 72, 76]


def test_the_summary_fits_a_screen(found, tmp_path):
    text = summary.terminal(found, tmp_path)
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines()[:9])) <= 100
    assert str(tmp_path / "tables") in text
    lines = [line for line in summary.markdown(found).splitlines() if line.startswith("| TD-JEPA | d_ψ |")]
    assert [line.endswith("(100.0) |") for line in lines] == [True]  # the published figure


def test_figures_show_what_was_run(found, nothing):
    def words(name, given):
        drawn = figures.draw(figures.ALL[name], given)
        return " ".join(t.get_text() for t in drawn.findobj(lambda artist: hasattr(artist, "get_text")))

    for name in FIGURES:
        assert ("not run" in words(name, nothing)) == (name != "pipeline")
        # three environments are missing in the bars, nobody swept the blend, ablations are Push-T's; a diagram needs no results
        assert ("not run" in words(name, found)) == (name in ("cost_matrix", "offline", "variants", "claims"))
    assert "TD-JEPA, published" in words("epoch_curve", nothing)
    assert "published" not in words("alignment", found)  # of Push-T only


def test_the_published_correlations_stand_in_their_panels(whole):
    panels = figures.draw(figures.ALL["alignment"], whole).axes
    said = {ax.get_ylabel().split(" of ")[1]: [t.get_text() for t in ax.texts] for ax in panels}
    assert said == {"LeWM": [r"published: $\rho$ = 0.65"], "TD-JEPA": [r"published: $\rho$ = 0.95"]}


def test_the_table_of_ranks_follows_the_epochs(found, p):
    first, second, *_, last = runs.diagnosed_epochs(p)
    key = {"env": "two_room", "method": "lewm", "train_seed": 3072, "measure": "l2", "split": "all", "n": 80}
    ranks = [{**key, "epoch": epoch, "rho": rho} for epoch, rho in ((first, 0.25), (last, 0.75))]
    some = dataclasses.replace(found, stats={**found.stats, "ranks": ranks})
    table = TABLES["rank_epochs"](some)
    row = next(row for row in table.body if row and row[1] == "LeWM, ℓ₂")
    shown = dict(zip(table.head, row, strict=True))
    of_one_training = ["0.250†", "not run", "0.750†"]
    assert [shown[f"epoch {epoch}"] for epoch in (first, second, last)] == of_one_training
    assert some.rank("two_room", "lewm", "l2") == (0.75, None, 1)  # elsewhere the last checkpoint counts


def test_the_table_of_disagreement_counts_paired_outcomes(found):
    for row in TABLES["disagreement"](found).body:
        assert sum(float(share) for share in row[3:7]) == pytest.approx(100, abs=0.3)
    a, b = (found.cell("two_room", "tdjepa", cost) for cost in ("d_psi", "l2"))
    both, only_a, only_b, neither = found.comparison(a, b)["outcomes"]
    assert found.comparison(b, a)["outcomes"] == [both, only_b, only_a, neither]
    n = both + only_a + only_b + neither
    assert 100 * (only_a - only_b) / n == pytest.approx(found.comparison(a, b)["difference"], abs=1e-3)


def test_the_table_of_the_probe_averages_trainings(found):
    def probed(seed, mean):
        agent = {"quantity": "agent", "unit": "px", "mean": 60.0, "linear": mean, "kernel": mean / 2}
        logged = {"ahead": [mean, 0, 0, 0, 3 * mean], "still": [7.0, 0, 0, 0, 30.0]}
        drawn = {"ahead": [0, 0, 0, 0, 4 * mean], "still": [0, 0, 0, 0, 40.0]}
        agent |= logged | {"white": drawn, "coloured": logged}
        return {"env": "two_room", "method": "lewm", "train_seed": seed, "quantities": [agent]}

    table = TABLES["probe"](dataclasses.replace(found, probes=[probed(3072, 10.0), probed(3073, 20.0)]))
    body = {row[1]: row[2:] for row in table.body if row and row[0] == "Two-Room: agent px"}
    assert body["Always the mean"] == ["60"] * 4 + ["–"] * 2
    assert body["Nothing moves"] == ["–", "–", "7", "30", "40", "30"]
    assert body["LeWM"] == ["15", "7.5", "15", "45", "60", "45"]
    assert sum("not run" in row for row in table.body if row) == 3


def test_a_ceiling_says_on_how_many_pairs_it_rests(found, p):
    cell = {**found.cell("two_room", "replay"), "method": "simulator", "n_plan_seeds": 1, "n_episodes": 16}
    some = dataclasses.replace(found, stats={**found.stats, "cells": [*found.stats["cells"], cell]})
    table = TABLES["floors"](some)
    assert "True simulator as model: pairs 16 in Two-Room. " in table.caption
    assert "†" not in {row[0]: row[1] for row in table.body if row}["True simulator as model"]
    assert any(row[0] == "True simulator as model" and ", 16 pairs" in row[2] for row in summary.table(some, True).body)


def test_each_table_compiles_by_itself_with_the_packages_that_its_first_line_lists(whole, tmp_path):
    """In other people's papers there is no preamble of ours."""
    pages = []
    for name, make in TABLES.items():
        text = make(whole).to_latex()
        packages = re.findall(r"\\usepackage\{\w+\}", text.splitlines()[0])
        lines = [r"\documentclass[a4paper]{article}", *packages, r"\begin{document}", text, r"\end{document}"]
        (tmp_path / f"{name}.tex").write_text("\n".join(lines))
        command = ["pdflatex", "-draftmode", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
        pages.append(
            (name, subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, errors="replace"))
        )
    failed = {name: told for name, process in pages if (told := process.communicate()[0]) and process.returncode}
    assert failed == {}
