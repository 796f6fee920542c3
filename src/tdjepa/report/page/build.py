"""`tdjepa page`: everything of a scale in one HTML file that opens offline and asks the network for nothing.

The markup is in page.html and parts.html, where Jinja2 escapes whatever is not itself markup: a label or a path can never
become any. page.css and page.js are written into the page.
"""

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tdjepa.base.artefacts import canonical, write_card, write_text
from tdjepa.config.params import Params
from tdjepa.config.part import place
from tdjepa.config.part import text as part_text
from tdjepa.evidence import headlines
from tdjepa.evidence.guard import require_rows, rows_of
from tdjepa.report import captions, gather, inputs, tables
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import ENVS, NOT_RUN, method_label
from tdjepa.report.page import cells, claims, pictures, run_times
from tdjepa.report.page.trace import trace
from tdjepa.report.phrases import design_text
from tdjepa.report.table import Strong
from tdjepa.steps.paths import path

ELSEWHERE = ("data", "themes", "claims")  # tables that have a section of their own
EXPECTED = Path("workflow", "expected_seconds.yaml")
LONG = 48  # characters; a longer text wraps
pretty = functools.partial(json.dumps, indent=1, sort_keys=True, ensure_ascii=False)


def run(params: Params, out: Path | None = None, times: Sequence[Path] | None = None) -> dict:
    """Write the page and its card from whatever lies in the folders of the scale."""
    out, scale = Path(out or path("page", place(params))), params.scale
    files, results = gather.files(params), Path("results", scale)
    require_rows(rows_of(scale), scale)
    found = inputs.read(params, **files)
    times = times or sorted(results.glob("benchmarks/*.tsv")) or list(filter(Path.exists, [EXPECTED]))
    text = page(found, sorted(results.glob("pictures/**/*.gif")), times)
    write_text(out, text)
    write_card(out, "page", {"scale": scale})
    return {"page": out, "bytes": len(text.encode())}


def page(found: Inputs, rollouts: Sequence[Path], times: Sequence[Path]) -> str:
    """The whole file as text."""
    made, p = [build(found) for build in tables.ALL], found.params
    shown, left_out = pictures.rollouts(rollouts)
    figures = pictures.figures(found, _title)
    templates = _environment()
    style, script = (templates.loader.get_source(templates, name)[0] for name in ("page.css", "page.js"))
    traced = canonical(trace(found, cells.cited(made))).replace("<", "\\u003c")  # no "</script>" in it
    return templates.get_template("page.html").render(
        scale=p.scale,
        facts=_facts(found),
        counts=claims.counts(found.claims),
        headlines=headlines.sentences(found.claims),
        ledger=headlines.ledger_text(found.claims) if found.claims["claims"] else "",
        claims=claims.themes(found.claims, p.render.digits),
        claims_figure=next(one for one in figures if one["name"] == "claims"),
        themes_table=next(table for table in made if table.name == "themes"),
        tables=[table for table in made if table.name not in ELSEWHERE],
        data_table=next((table for table in made if table.name == "data"), None),
        cards={ENVS[env]: pretty(found.cards[env]) for env in ENVS if env in found.cards},
        figures=[one for one in figures if one["name"] != "claims"],
        rollouts=shown,
        left_out=", ".join(path.as_posix() for path in left_out),
        cells=cells.every_cell(found),
        names=[cells.name(found, cell) for cell in found.stats["cells"]],
        times=run_times.tables(times, p.scale),
        markup={"style": Markup(style), "script": Markup(script), "data": Markup(traced)},
    )


def _environment() -> Environment:
    how = {"autoescape": True, "undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    made = Environment(loader=PackageLoader(__package__, ""), **how)
    made.filters |= {"maths": _maths, "kind": _kind, "title": _title, "rows_link": cells.rows_link, "digest": _digest}
    made.tests["strong"] = lambda text: isinstance(text, Strong)
    made.globals |= {"MARKS": headlines.MARKS, "NOT_RUN": NOT_RUN}
    return made


def _maths(text) -> Markup:
    """Escaped, with the subscript of d_ψ set as one."""
    return escape(str(text)).replace("d_ψ", Markup("d<sub>ψ</sub>"))


def _kind(text: str, is_text: bool, wraps: bool) -> str | None:
    """The classes of a table's cell."""
    long = wraps and len(text) > LONG
    kinds = {"text": is_text or long, "long": long, "empty": text in ("", "–", NOT_RUN)}
    return " ".join(kind for kind, holds in kinds.items() if holds) or None


def _title(name: str) -> str:
    return captions.texts()["titles"].get(name, name.replace("_", " ").capitalize())


def _digest(text: str) -> str:
    """A source of the content security policy: this very text and no other may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _facts(found: Inputs) -> dict[str, str]:
    p, rows = found.params, sum(cell["n_rows"] for cell in found.stats["cells"])
    return {
        "Scale": p.scale + (f", the part {part_text(p)}" if part_text(p) else ""),
        "Environments": ", ".join(ENVS[env] for env in p.envs),
        "Methods": ", ".join(method_label(p, method) for method in p.methods_run),
        "Design": f"{design_text(p)}; {rows:,} rows",
    }
