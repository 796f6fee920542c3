"""Tables, figures and numbers: complete from nothing, honest from little, equal twice."""

import re

import pytest

from conftest import ROOT
from synthetic import results
from tdjepa import params
from tdjepa.errors import UserError
from tdjepa.evidence import judge
from tdjepa.render import collected, figures, inputs, numbers, summary, tables
from tdjepa.render.run import render
from tdjepa.render.table import Strong, Table, latex

NOTHING = {"stats": None, "rows": [], "pairs": [], "cards": [], "curves": [], "aliasing": []}
TABLES = ("main", "cost_matrix", "navigation", "floors", "rank_split", "data")
FIGURES = ("epoch_curve", "alignment", "calibration", "cost_matrix", "aliasing", "training")


@pytest.fixture(scope="module")
def p():
    return params.load(ROOT / "params.yaml", "desk")


@pytest.fixture(scope="module")
def run(p, tmp_path_factory):
    """A made-up run with its statistics, as the arguments of render."""
    folder = tmp_path_factory.mktemp("made up")
    files = results(folder, p)
    judge.run(files["rows"], folder / "evidence", p.judge.model_copy(update={"bootstrap": 200}))
    return {"stats": folder / "evidence/stats.json", **files}


@pytest.fixture(scope="module")
def found(run, p):
    return inputs.read(**run, params=p)


@pytest.fixture(scope="module")
def nothing(p):
    return inputs.read(**NOTHING, params=p)


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def macros(text):
    return dict(re.findall(r"^\\newcommand\{\\(\w+)\}\{(.*)\}% .+$", text, re.MULTILINE))


def test_everything_is_written_the_same_twice_and_without_paths(p, run, tmp_path):
    for name in ("a", "b"):
        render(**run, params=p, out=tmp_path / name)
    first, second = files_of(tmp_path / "a"), files_of(tmp_path / "b")
    expected = {f"tables/{t}.{s}" for t in TABLES for s in ("tex", "md")}
    expected |= {f"figures/{f}.{s}" for f in FIGURES for s in ("pdf", "png")} | {"numbers.tex", "summary.md"}
    assert set(first) == expected
    assert [name for name in first if first[name] != second[name]] == []
    assert [name for name, content in first.items() if str(tmp_path).encode() in content] == []


def test_the_stats_file_may_be_absent(p, tmp_path):
    assert inputs.read(**{**NOTHING, "stats": tmp_path / "stats.json"}, params=p).stats["cells"] == []


def test_from_nothing_every_reproduced_cell_is_not_run(nothing):
    for row in tables.main(nothing).body:
        if row and ("reproduced" in row[0] or row[0] == "Random actions"):
            assert row[1:] == ["not run"] * 4
    values = macros(numbers.write(nothing))
    assert values["TwoRoomTdjepaDpsi"] == values["TwoRoomTdjepaDpsiMinusLewmLtwo"] == "not run"
    assert values["PublishedTwoRoomTdjepaDpsi"] == r"100.0\,\%"


def test_published_stands_beside_reproduced(found):
    body = {row[0]: row[1:] for row in tables.main(found).body if row}
    assert body["TD-JEPA, published"] == ["100.0 ± 0.0", "97.0 ± 2.4", "86.0 ± 4.2", "82.2 ± 2.9"]
    assert re.fullmatch(r"9\d\.\d ± \d\.\d \[\d\d\.\d, \d+\.\d\]", body["TD-JEPA, reproduced"][0])
    assert body["TD-JEPA, reproduced"][1:] == ["not run"] * 3
    assert body["RC-aux, reproduced"] == ["not run"] * 4
    assert body["Random actions"][0] != "not run"


def test_captions_come_from_the_parameters(found, p):
    caption = tables.main(found).caption
    assert f"{len(p.train_seeds)} training seeds, {len(p.evaluate.plan_seeds)} plan seeds, 50 test pairs" in caption
    assert "Scale desk" in caption
    assert "within 16 px" in caption
    one = p.model_copy(update={"train_seeds": (3072,), "scale": "other"})
    assert "Scale other: 1 training seed," in tables.seeds_text(one)


def test_bold_only_when_intervals_are_apart():
    def cell(mean, low, high):
        return {"mean": mean, "low": low, "high": high}

    best, near, far = cell(99, 95, 100), cell(94, 90, 96), cell(50, 40, 60)
    assert tables.clear_winner([best, far, None]) is best
    assert tables.clear_winner([best, near, far]) is None
    assert tables.clear_winner([best, None]) is None


def test_a_half_finished_run_is_marked(found, p):
    more_seeds = p.model_copy(update={"train_seeds": (*p.train_seeds, 1)})
    marked = inputs.Inputs(more_seeds, *(getattr(found, n) for n in list(found.__dataclass_fields__)[1:]))
    assert tables.reproduced_text(marked, marked.cell("two_room", "lewm", "l2")).endswith("†")
    assert not tables.reproduced_text(marked, marked.cell("two_room", "random")).endswith("†")
    assert not tables.reproduced_text(found, found.cell("two_room", "lewm", "l2")).endswith("†")


def test_a_comparison_reads_the_same_both_ways(found):
    a, b = found.cell("two_room", "tdjepa", "d_psi"), found.cell("two_room", "lewm", "l2")
    one, other = found.comparison(a, b), found.comparison(b, a)
    assert one["difference"] == -other["difference"] > 0
    assert (one["low"], one["high"]) == (-other["high"], -other["low"])
    assert one["difference"] == pytest.approx(a["mean"] - b["mean"], abs=1e-3)
    assert numbers.reading(one) == "the interval lies above zero"
    assert numbers.reading({"low": -1, "high": 2}) == "the interval contains zero"


def test_macros_agree_with_the_cells_and_name_them(found):
    text = numbers.write(found)
    cell = found.cell("two_room", "tdjepa", "d_psi")
    assert macros(text)["TwoRoomTdjepaDpsi"] == rf"{cell['mean']:.1f}\,\%"
    line = next(line for line in text.splitlines() if line.startswith(r"\newcommand{\TwoRoomTdjepaDpsi}"))
    assert line.endswith(f"% cell {cell['id']}")
    names = re.findall(r"\\newcommand\{\\(\w+)\}", text)
    assert len(names) == len(set(names)) == len(macros(text))
    assert all(name.isalpha() for name in names)


def test_macro_names_do_not_depend_on_what_was_run(found, nothing):
    assert set(macros(numbers.write(nothing))) <= set(macros(numbers.write(found)))


def test_rank_correlations_per_split(found):
    body = tables.rank_split(found).body
    first = body[0]
    assert first[:2] == ["Two-Room", "all pairs, reproduced"]
    assert float(first[2][:5]) > 0.9 > float(first[4][:5])
    assert ["Push-T", "all pairs, published", "0.914 ± 0.018", "0.785 ± 0.016", "–"] in body


def test_the_data_table_reads_the_card_and_survives_a_thin_one(found, p):
    body = {row[0]: row[1:] for row in tables.data(found).body}
    assert body["Episodes"] == ["40", "not run", "not run", "not run"]
    assert body["Episode length (least, mean, most)"][0] == "26, 50.0, 61"
    assert tables._card_text({"env": "two_room"}, lambda c: c["rows"]) == "–"


def test_the_summary_fits_a_screen(found, tmp_path):
    text = summary.terminal(found, tmp_path)
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines()[:9])) <= 100
    assert str(tmp_path / "tables") in text
    assert "| Two-Room | TD-JEPA | d_ψ | 100.0 ± 0.0 |" in summary.markdown(found)


def test_the_summary_of_a_scale_that_was_never_run(p, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    collected.show(p)
    assert capsys.readouterr().out.count("not run") == 7 + 1  # rows of Two-Room, and the other environments in a line


def test_figures_show_what_was_run(found, nothing):
    def words(name, given):
        drawn = figures.draw(figures.ALL[name], given)
        return " ".join(t.get_text() for t in drawn.findobj(lambda artist: hasattr(artist, "get_text")))

    for name in FIGURES:
        assert "not run" in words(name, nothing)
        assert ("not run" in words(name, found)) == (name == "cost_matrix")  # three environments are missing there
    assert "TD-JEPA, published" in words("epoch_curve", nothing)


def test_plain_text_becomes_latex():
    assert latex("d_ψ ± 5 % of a_b & ℓ₂ < {x}") == r"$d_\psi$ $\pm$ 5\,\% of a\_b \& $\ell_2$ $<$ \{x\}"
    table = Table("t", "c", ["a", "b"], [["x", Strong("1")], None, ["y|z", "2"]])
    assert r"x & \textbf{1} \\" in table.to_latex()
    assert "| x | **1** |\n| y\\|z | 2 |" in table.to_markdown()


@pytest.mark.parametrize("kind", ["pairs", "cards", "curves", "aliasing", "stats"])
def test_a_bad_input_is_named(p, tmp_path, kind):
    bad = tmp_path / "bad.file"
    bad.write_text("{}" if kind in ("cards", "aliasing", "stats") else "a,b\n1,2\n")
    given = {**NOTHING, kind: bad if kind == "stats" else [bad]}
    with pytest.raises(UserError, match="bad.file: ") as error:
        inputs.read(**given, params=p)
    assert "\n" not in str(error.value)
