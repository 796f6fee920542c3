"""`tdjepa page`: everything of a scale in one HTML file that opens offline and asks the network for nothing."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

from tdjepa.base.artefacts import canonical, read_json, write_card, write_text
from tdjepa.config.params import Params
from tdjepa.report import gather as collected
from tdjepa.report import inputs, tables
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import ENVS, method_label
from tdjepa.report.page import claims, run_times, sections
from tdjepa.report.page.html import Html, element, join
from tdjepa.report.page.trace import trace
from tdjepa.report.phrases import count, plan_seeds_text
from tdjepa.steps.paths import path

TEMPLATES = {"html": "page.html", "css": "page.css", "js": "page.js"}


ELSEWHERE = ("data", "claims")  # tables that have a section of their own
EXPECTED = Path("workflow", "expected_seconds.yaml")


def run(params: Params, out: Path | None = None, times: Sequence[Path] | None = None) -> dict:
    """Write the page and its card from whatever lies in the folders of the scale."""
    out = Path(out or path("page", params.scale))
    files = collected.inputs(params)
    results = Path("results", params.scale)
    text = page(
        inputs.read(**files, params=params),
        files["rows"],
        judged=read_claims(Path(path("evidence/claims.json", params.scale))),
        rollouts=sorted(results.glob("pictures/**/*.gif")),
        times=times or sorted(results.glob("benchmarks/*.tsv")) or list(filter(Path.exists, [EXPECTED])),
    )
    write_text(out, text)
    write_card(out, "page", {"scale": params.scale})
    return {"page": out, "bytes": len(text.encode())}


def read_claims(path: Path) -> list[dict]:
    return claims.checked(read_json(path), path) if path.exists() else []


def page(
    found: Inputs, rows: Sequence[Path], judged: list[dict], rollouts: Sequence[Path], times: Sequence[Path]
) -> str:
    """The whole file as text."""
    made = [build(found) for build in tables.ALL]
    data = canonical(trace(found, rows, sections.cited(made))).replace("<", "\\u003c")  # no "</script>" in it
    style, script = _template("css"), _template("js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = {t.name: sections.titled(t.name, sections.table(t), t.caption) for t in made}
    parts = {
        "title": _title(found),
        "facts": _facts(found),
        "verdicts": _verdicts(judged),
        "claims": _claims(judged, found.params.render.digits),
        "tables": join(html for name, html in shown.items() if name not in ELSEWHERE),
        "figures": sections.all_figures(found),
        "rollouts": sections.rollouts(rollouts, found.params.scale),
        "data": join([shown.get("data"), sections.cards(found)]),
        "cells": sections.every_cell(found) if found.stats["cells"] else sections.not_run(),
        "times": run_times.section(times, found.params.scale),
        "rebuild": _rebuild(found.params.scale),
    }
    escaped = {name: join([part]) for name, part in parts.items()}
    return Template(_template("html")).substitute(escaped, policy=policy, style=style, script=script, json=data)


def _template(kind: str) -> str:
    return resources.files(__package__).joinpath(TEMPLATES[kind]).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """A source of the content security policy: this very text and no other may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _title(found: Inputs) -> str:
    return f"Temporal-Distance-JEPA, reproduced: scale {found.params.scale}"


def _facts(found: Inputs) -> Html:
    p, rows = found.params, sum(cell["n_rows"] for cell in found.stats["cells"])
    facts = {
        "Scale": p.scale,
        "Environments": ", ".join(ENVS[env] for env in p.envs),
        "Methods": ", ".join(method_label(p, method) for method in p.methods_run),
        "Seeds": f"{count(len(p.train_seeds), 'training seed')}, {plan_seeds_text(p)}",
        "Episodes": f"{p.evaluate.episodes} {p.evaluate.manifest} pairs, {rows:,} rows",
    }
    return element("dl", *(element("div", element("dt", k), element("dd", v)) for k, v in facts.items()))


def _verdicts(judged: list[dict]) -> Html | None:
    """How the claims came out, with all sources of variance."""
    if not judged:
        return None
    counts = claims.counts(judged, "ours")
    return element("p", *(claims.badge(v, f"{n} {v}") for v, n in counts.items() if n), class_="counts")


def _claims(judged: list[dict], digits: int) -> Html:
    return claims.section(judged, digits) if judged else sections.not_run("The claims have not been judged yet.")


def _rebuild(scale: str) -> Html:
    lines = [f"make reproduce SCALE={scale}", f"snakemake --cores all --config scale={scale} -- all"]
    return sections.commands([*lines, f"tdjepa page --scale {scale}"])
