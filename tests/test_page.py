"""The web page: whole, equal twice, escaped; and in a real browser sortable, traceable, silent, for keyboard and phone.

Everything that a person or a file can name is hostile here, so that each of these tests is one of escaping too.
"""

import dataclasses
import html
import json
import re
import shlex

import markupsafe
import numpy as np
import pandas as pd
import pytest
from PIL import Image

import browser
from conftest import ROOT
from synthetic import outcomes, results
from tdjepa import cli
from tdjepa.base.artefacts import canonical, write_card
from tdjepa.base.errors import UserError
from tdjepa.config.load import load
from tdjepa.config.slices import slice_json
from tdjepa.evidence import headlines, judge
from tdjepa.report import figures, inputs
from tdjepa.report.page import build, claims, pictures, run_times
from tdjepa.report.page.trace import trace

HOSTILE = """</script><img src=x onerror="document.title='owned'">'&"""
BENCHMARK = "s\th:m:s\tmax_rss\tmean_load\tcpu_time\n12.5\t0:00:12\t800.0\t90\t11.0\n"
pytestmark = pytest.mark.filterwarnings("ignore:constrained_layout")  # a label like that leaves no room for axes
NO_BROWSER = "no Chromium: workflow/system_packages.sh browser"
needs_browser = pytest.mark.skipif(browser.executable() is None, reason=NO_BROWSER)


def verdict(name, effect=None, low=None, high=None):
    return {"verdict": name, "effect": effect, "low": low, "high": high}


def entry(name, found, paper, **more):
    words = {"id": name, "theme": "t", "short": HOSTILE, "claim": f"First. {HOSTILE}", "place": HOSTILE, "why": HOSTILE}
    words |= {"comparison": HOSTILE, "unit": "points", "published": 2.0, "size_verdict": None, "size_note": ""}
    words |= {"detectable": 4.0, "primary": False, "restates": [], "margin": 5.0, "is": "above", "origin": 0}
    return {**words, **found, "paper": paper, "protocol": verdict("not run"), **more}


CLAIMS = {
    "ledger": {"file": "claims.yaml", "sha256": "ab", "commit": "uncommitted changes"},
    "themes": [{"name": "t", "title": HOSTILE}],
    "claims": [
        entry("a", verdict("inconclusive", 7.0, -1.0, 15.0), verdict("reproduced", 7.0, 5.0, 9.0)),
        entry(HOSTILE, verdict("contradicted", -0.2, -0.3, -0.1), verdict("not run"), primary=True),
    ],
}


@pytest.fixture(scope="module", autouse=True)
def _one_figure():
    """All of them are drawn in test_render.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "ALL", {name: figures.ALL[name] for name in ("training", "claims")})
        yield


@pytest.fixture(scope="module")
def p():
    p = load(ROOT / "params.yaml", "smoke")
    methods = {name: method.model_copy(update={"label": f"{name} {HOSTILE}"}) for name, method in p.methods.items()}
    return p.model_copy(update={"methods": methods})


@pytest.fixture(scope="module")
def files(p, tmp_path_factory):
    """A made-up run, as the arguments of `inputs.read`."""
    folder = tmp_path_factory.mktemp("made up") / "a <b> 'path' & \"more\""
    found = results(folder, p)
    for i, path in enumerate(found["rows"]):
        facts = {"env": "two_room", "method_name": "tdjepa", "seed": 3072, "scale": "smoke; rm -rf", "label": HOSTILE}
        checkpoints = {"epoch_1": found["curves"][0], "epoch_2": found["curves"][1]} if i else {}
        write_card(path, "evaluate", facts, checkpoints, success_criterion=HOSTILE)
    judge.run(found["rows"], folder / "evidence", p.judge)
    return {"stats": folder / "evidence/stats.json", **found}


@pytest.fixture(scope="module")
def found(p, files):
    return dataclasses.replace(inputs.read(p, **files), claims=CLAIMS)


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures") / "an <i> episode.gif"
    frames = [Image.new("RGB", (32, 32), (shade, 0, 0)) for shade in (10, 200)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    return [path]


@pytest.fixture(scope="module")
def times(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmarks")
    for name in ("train_two_room_tdjepa_3072", "train_two_room_lewm_3072", "judge"):
        (folder / f"{name}.tsv").write_text(BENCHMARK)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def text(found, rollouts, times):
    return build.page(found, rollouts, times)


@pytest.fixture(scope="module")
def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_equal_inputs_give_equal_bytes(text, found, rollouts, times):
    assert build.page(found, rollouts, times) == text
    assert len(text.encode()) < 5_000_000


def test_from_nothing_it_says_not_run(p):
    text = build.page(inputs.read(p), [], [])
    for section in ("claims", "rollouts", "cells", "times"):
        part = text[text.index(f'<section id="{section}"') :].split("</section>")[0]
        assert "not run</span>" in part, section
    assert "<code>snakemake --cores all --config scale=smoke -- pictures</code>" in text
    assert "#rows/" not in text.split("<script>")[0]


def test_nothing_is_loaded_and_nothing_named_becomes_markup(text):
    static = text.split('<script type="application/json"')[0]
    assert "<img src=x" not in text
    assert "<b> 'path'" not in static
    assert str(markupsafe.escape(HOSTILE)) in static
    assert set(re.findall(r'\b(?:src|href)="([^"#:]*[:#])', static)) == {"data:", "#"}
    assert not re.search(r"url\(|@import|\bstyle=", static)
    assert text.count("<script") == text.count("</script>") == 2
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert not re.search("unsafe|http", policy)


def test_a_number_is_the_mean_of_the_outcomes_behind_it(text, data):
    linked = {html.unescape(target) for target in re.findall(r'href="#rows/([^"|]+)"', text)}
    some = {"two_room/tdjepa/d_psi/icem/w1/epoch2", "two_room/random/none/none/w1/epoch0"}
    assert some <= linked <= set(data["cells"])
    for cell in data["cells"].values():
        marks = "".join(run[3] for run in cell["runs"])
        assert len(marks.replace(".", "")) == cell["n_rows"]
        assert 100 * marks.count("1") / cell["n_rows"] == pytest.approx(cell["mean"], abs=1e-3)
        assert all(len(run[3]) == len(run[4]) == len(data["pairs"][cell["env"]]) for run in cell["runs"])


def test_a_cell_names_its_file_checkpoint_and_commands(data, files):
    file = data["files"][data["cells"]["two_room/tdjepa/blend/icem/w1/epoch2"]["runs"][0][2]]
    assert file["path"] == files["rows"][data["files"].index(file)].as_posix()
    assert set(file["checkpoints"]) == {"1", "2"}
    assert "problem" not in file
    for command in file["commands"]:
        words = shlex.split(command)
        assert words[0] == "tdjepa"
        assert cli.argument_parser().parse_args(words[1:]).scale == "smoke; rm -rf"


def with_rows(found, path, **more):
    return dataclasses.replace(found, files={"rows": [path]}, **more)


def test_a_file_that_its_card_does_not_know_is_shown_as_such(found, files, tmp_path):
    changed, bare = tmp_path / "changed.parquet", tmp_path / "bare.parquet"
    frame = pd.read_parquet(files["rows"][0])
    frame.to_parquet(changed)
    write_card(changed, "evaluate", {})
    frame.assign(steps=1).to_parquet(changed)
    frame.to_parquet(bare)
    one, two = (trace(with_rows(found, path), set())["files"][0] for path in (changed, bare))
    assert "changed after it was made" in one["problem"]
    assert "no card" in two["problem"]


def test_missing_rows_are_neither_success_nor_failure(found, tmp_path):
    outcomes([[[1, np.nan], [0, 1]]]).to_parquet(tmp_path / "rows.parquet")
    stats = judge.run([tmp_path / "rows.parquet"], tmp_path, found.params.judge)
    given = with_rows(found, tmp_path / "rows.parquet", stats=stats)
    (cell,) = trace(given, set())["cells"].values()
    assert {run[1]: run[3] for run in cell["runs"]} == {20260714: "1.", 7: "01"}


def test_the_published_scale_fits(found, tmp_path):
    """200,000 outcomes; the budget of the whole page is 5 MB."""
    frame = outcomes(np.ones((1, 10, 50)), train_seeds=[0])
    whole = pd.concat([frame.assign(train_seed=t, epoch=e) for t in range(40) for e in range(10)])
    whole.to_parquet(tmp_path / "rows.parquet")
    fields = {"method": "tdjepa", "solver": "icem", "cost": "d_psi", "w": 1.0, "env": "two_room", "std": None}
    numbers = dict.fromkeys(("mean", "low", "high", "mean_nontrivial", "excess_over_random"), 50.0)
    counts = dict.fromkeys(("n_train_seeds", "n_plan_seeds", "n_episodes", "n_trivial", "n_rows"), 1)
    cells = [{"id": f"{e}", "epoch": e, **fields, **numbers, **counts} for e in range(10)]
    given = with_rows(found, tmp_path / "rows.parquet", stats={"cells": cells, "comparisons": []})
    traced = trace(given, set())
    assert sum(len(run[3]) for cell in traced["cells"].values() for run in cell["runs"]) == 200_000
    assert len(canonical(traced)) < 1_500_000


def test_claims_are_counted_and_a_strange_verdict_refused(p, tmp_path):
    assert claims.counts(CLAIMS) == {"contradicted": 1, "inconclusive": 1}
    assert len(set(headlines.MARKS.values())) == len(headlines.MARKS)
    strange = {**CLAIMS["claims"][0], "verdict": "maybe"}
    for bad in ({}, [{"id": "x"}], {"claims": [strange]}, {"claims": [{**strange, "verdict": None}]}, {"claims": [3]}):
        (tmp_path / "claims.json").write_text(json.dumps(bad))
        with pytest.raises(UserError, match="claims.json: claim "):
            inputs.read(p, claims=tmp_path / "claims.json")
    assert inputs.read(p, claims=tmp_path / "absent.json").claims["claims"] == []


def test_run_times_are_added_up_by_step(text, found, times, tmp_path):
    assert ["train", "2", "25", "22"] in [row[:4] for row in run_times.tables(times, "smoke")["steps"].body]
    assert "All jobs one after the other: 0.6 minutes, 0.6 of CPU." in text
    (tmp_path / "seconds.yaml").write_text("smoke: {train: 5}\nmachines: {smoke: a <b> core}\n")
    shown = build.page(found, [], [tmp_path / "seconds.yaml"])
    assert re.search(r"train</th>\s*<td>5</td>", shown)
    assert "Expected seconds, on one core of a &lt;b&gt; core; this run’s own are not shown" in shown
    assert run_times.tables([tmp_path / "seconds.yaml"], "paper") == {}
    (tmp_path / "bad.tsv").write_text("no\n")
    with pytest.raises(UserError, match="bad.tsv: "):
        run_times.tables([tmp_path / "bad.tsv"], "smoke")


def test_rollouts_beyond_the_budget_are_named_not_shown(rollouts, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "ROLLOUT_BYTES", 1.5 * len(rollouts[0].read_bytes() + pictures._still(rollouts[0])))
    shown, left_out = pictures.rollouts([rollouts[0], rollouts[0]])
    assert (len(shown), len(left_out)) == (1, 1)
    (tmp_path / "bad.gif").write_text("no picture")
    with pytest.raises(UserError, match="bad.gif: "):
        pictures.rollouts([tmp_path / "bad.gif"])


def test_the_verb_writes_the_page_and_its_card(p, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["page", "--slice", slice_json(p)]) == 2
    assert "no rows of scale smoke are here: run `make reproduce SCALE=smoke` first" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
    rows = tmp_path / "results/smoke/rows/two_room/floors.parquet"
    rows.parent.mkdir(parents=True)
    rows.write_bytes(files["rows"][0].read_bytes())
    assert cli.main(["page", "--slice", slice_json(p)]) == 0
    assert {path.name for path in (tmp_path / "results/smoke/page").iterdir()} >= {"index.html", "index.card.json"}
    assert "results/smoke/page/index.html" in capsys.readouterr().out


# In the browser -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser.Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def column(chromium, table, i):
    return chromium.js(f"[...document.querySelectorAll('{table} tbody tr')].map(row => row.cells[{i}].textContent)")


@needs_browser
def test_it_opens_without_a_word_and_the_network_is_out_of_reach(chromium, file):
    chromium.open(file)
    assert chromium.complaints == []
    assert {url.split(":")[0] for url in chromium.requests} == {"file", "data"}
    assert [url for url in chromium.requests if url.startswith("file:")] == [file.as_uri()]
    assert chromium.js("document.title").startswith("Temporal-Distance-JEPA")
    assert chromium.js("[...document.images].every(image => image.naturalWidth > 0)")
    assert HOSTILE in chromium.js("document.querySelector('.claims').textContent")
    assert chromium.js("fetch('http://127.0.0.1:9/').then(() => 'reached', () => 'refused')") == "refused"
    assert any("Content Security Policy" in json.dumps(said) for said in chromium.complaints)


@needs_browser
def test_a_table_sorts_up_down_and_back(chromium, file):
    chromium.open(file)
    first = column(chromium, "#cells", 5)
    head = "#cells thead th:nth-child(6) button"
    orders = []
    for state in ("ascending", "descending", "none"):
        chromium.click(head)
        assert chromium.js("document.querySelector('#cells thead th:nth-child(6)').ariaSort") == state
        orders.append(column(chromium, "#cells", 5))
    assert orders == [sorted(first, key=float), sorted(first, key=float, reverse=True), first]
    for _ in range(2):
        chromium.click("#table-main thead th:nth-child(3) button")  # numbers and "not run"
        assert column(chromium, "#table-main", 2)[-2:] == ["not run"] * 2


@needs_browser
def test_from_a_number_to_its_rows(chromium, file, data):
    chromium.open(file)
    chromium.click("#table-main a.rows")
    assert chromium.becomes("document.getElementById('trace').open")
    link = chromium.js("document.querySelector('#table-main a.rows').getAttribute('href')").removeprefix("#rows/")
    cell, shown = data["cells"][link], chromium.js("document.getElementById('trace').textContent")
    assert cell["text"] in shown
    for number in {of_seeds[2] for of_seeds in cell["runs"]}:
        source = data["files"][number]
        for fact in (source["path"], source["sha256"], source["checkpoints"][str(cell["epoch"])], *source["commands"]):
            assert fact in shown
        assert '"label": ' in shown
    assert chromium.js("document.querySelectorAll('.strip rect').length") == cell["n_rows"]
    solved = round(cell["mean"] / 100 * cell["n_rows"])
    assert chromium.js("document.querySelectorAll('.strip rect.yes').length") == solved
    chromium.click(".all-rows summary")
    assert chromium.becomes(f"document.querySelectorAll('.all-rows tbody tr').length === {cell['n_rows']}")
    chromium.click("#close")
    assert not chromium.js("document.getElementById('trace').open")
    assert chromium.complaints == []
    chromium.open(file)  # and from a difference to both cells
    chromium.click("#table-navigation a.rows[href*='|']")
    text = chromium.js("document.querySelector('#table-navigation a.rows[href*=\"|\"]').textContent")
    assert chromium.becomes("document.querySelectorAll('#trace .one').length === 2")
    assert chromium.js("document.querySelector('#trace .big').textContent").startswith(text.split(" ")[0])


@needs_browser
def test_with_the_keyboard_alone(chromium, file):
    chromium.open(file)
    for _ in range(300):
        chromium.press("Tab")
        if chromium.js("document.activeElement.matches('a.rows')"):
            break
    link = chromium.js("document.activeElement.getAttribute('href')")
    assert link.startswith("#rows/")
    chromium.press("Enter")
    assert chromium.becomes("document.activeElement.id === 'trace-title'")
    chromium.press("Tab", "Tab")
    assert chromium.js("document.activeElement.className") == "strip"
    chromium.press("ArrowRight", "ArrowDown", "ArrowRight")
    said = chromium.js("document.querySelector('.said-of').textContent")
    assert re.search(r"episode \d+ from step \d+, (not )?solved", said)
    assert chromium.js("document.querySelectorAll('.here').length") == 1
    chromium.press("Escape")
    assert not chromium.js("document.getElementById('trace').open")
    assert chromium.js("document.activeElement.getAttribute('href')") == link
    assert chromium.complaints == []


@needs_browser
def test_on_a_phone_only_tables_scroll_sideways(chromium, file):
    chromium.open(file, width=360, height=740)
    assert chromium.js("document.documentElement.scrollWidth <= innerWidth")
    assert chromium.js("document.querySelector('#table-main .scroll').scrollWidth > 360")
    chromium.click("#table-main a.rows")
    assert chromium.becomes("document.getElementById('trace').open")
    assert chromium.js("document.getElementById('trace').scrollWidth <= innerWidth")


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_are_readable_and_can_be_switched(chromium, file, dark):
    chromium.open(file, dark=dark)
    assert chromium.js("document.getElementById('theme').ariaPressed") == str(dark).lower()
    for expected in (dark, not dark):
        colour = chromium.js("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", colour)[:3])) < 150) == expected
        assert min(chromium.js(browser.CONTRASTS)) >= 4.5
        chromium.click("#theme")


@needs_browser
def test_claims_of_one_verdict_cells_by_words_and_rollouts_when_asked(chromium, file, data):
    chromium.open(file)
    shown = "[...document.querySelectorAll('.claims li')].filter(li => !li.hidden).map(li => li.dataset.verdict)"
    assert chromium.js(shown) == ["inconclusive", "contradicted"]
    chromium.click(".only button[data-verdict=contradicted]")
    assert chromium.js(shown) == ["contradicted"]
    chromium.click(".only button[data-verdict=contradicted]")
    assert chromium.js(shown) == ["inconclusive", "contradicted"]
    shown = "[...document.querySelectorAll('#cells tbody tr')].filter(row => !row.hidden).length"
    assert chromium.js(shown) == len(data["cells"])
    search = "f => { f.value = 'blend two'; f.dispatchEvent(new Event('input')); }"
    chromium.js(f"({search})(document.getElementById('find'))")
    assert chromium.js(shown) == 1
    still = "document.querySelector('.rollout img').src.startsWith('data:image/png')"
    for expected in (True, False, True):
        assert chromium.js(still) == expected
        chromium.click(".rollout")


@needs_browser
def test_a_broken_address_is_no_error(chromium, file):
    chromium.open(file)
    for address in ("#rows/%E0%A4%A", "#rows/__proto__", "#rows/constructor|toString", "#nowhere"):
        chromium.js(f"new Promise(done => {{ onhashchange = () => done(1); location.hash = '{address}' }})")
        assert not chromium.js("document.getElementById('trace').open")
    assert chromium.complaints == []
