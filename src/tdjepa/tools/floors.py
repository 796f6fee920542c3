"""`tdjepa floors`: what no learning gives on EVERY pair of the locked test manifests, beside what the cards say of the data.

    tdjepa floors --scale desk --docs docs/environments.md

The report's floors share the pairs of the methods beside them. These are about the environment: is the replay exact, how many
goals need no action, how far does luck get. Rows are kept in results/<scale>/floors.
"""

from pathlib import Path

import pandas as pd

from tdjepa.base.artefacts import card_path, read_json
from tdjepa.config.names import FLOORS
from tdjepa.config.params import Params
from tdjepa.config.slices import evaluate_slice
from tdjepa.mining.demands import said
from tdjepa.report.captions import texts
from tdjepa.report.labels import ENVS, UNTRAINED
from tdjepa.report.phrases import number
from tdjepa.report.table import Table
from tdjepa.steps import evaluate as evaluation
from tdjepa.steps.paths import path


def run(p: Params, envs: tuple[str, ...]) -> Table:
    """Evaluate the floors of these environments on all test pairs; needs their collected and mined data."""
    rows, cards, manifests = {}, {}, {}
    for env in envs:
        episodes, locked = Path(path("episodes", p.scale, env=env)), Path(path("mined/test.json", p.scale, env=env))
        manifests[env] = read_json(locked)
        pairs = len(manifests[env]["entries"])
        cfg = evaluate_slice(p, env, "floors", 0)
        designs = {"main": cfg.evaluate.designs["main"].model_copy(update={"pairs": pairs})}
        cfg = cfg.model_copy(update={"evaluate": cfg.evaluate.model_copy(update={"designs": designs})})
        rows[env] = evaluation.run_floors(cfg, episodes, locked, Path(path("all_floors", p.scale, env=env)))
        cards[env] = read_json(card_path(episodes))
    return table(p, rows, cards, [manifest.get("demands", {}) for manifest in manifests.values()])


def table(p: Params, rows: dict[str, pd.DataFrame], cards: dict[str, dict], asked: list[dict]) -> Table:
    """One column per environment."""
    d = p.render.digits

    def percent(value: float | None) -> str:
        return number(None if value is None else 100 * value, d)

    def by_demonstrator(card: dict) -> str:
        kinds = card.get("environment", {}).get("kinds", {})
        shares = "".join(f", {name} {percent(kind['success_share'])}" for name, kind in kinds.items())
        return percent(card["success_share"]) + (shares if len(kinds) > 1 else "")

    def rate(table: pd.DataFrame, floor: str) -> str:
        by_seed = table[table.method == floor].groupby("plan_seed").success.mean()
        spread = f" ± {percent(by_seed.std())}" if by_seed.nunique() > 1 else ""
        return percent(by_seed.mean()) + spread

    body = [
        ["Episodes, frames", *(f"{c['episodes']:,}, {c['rows']:,}" for c in cards.values())],
        ["The demonstrator reaches its goals", *map(by_demonstrator, cards.values())],
        ["All pairs: solved at the start", *(percent(c["trivial_share"]) for c in cards.values())],
        ["Test pairs: solved at the start", *(percent(t.trivial.mean()) for t in rows.values())],
        *(
            [f"Test pairs{of}: median [quartiles] of what must move", *(said(a.get(kind, {})) or "–" for a in asked)]
            for kind, of in {"all": "", **{k: f" of {k} episodes" for a in asked for k in a if k != "all"}}.items()
        ),
        *([UNTRAINED[floor], *(rate(t, floor) for t in rows.values())] for floor in FLOORS),
    ]
    pairs = ", ".join(dict.fromkeys(str(len(t[["episode", "start"]].drop_duplicates())) for t in rows.values()))
    caption = texts()["phrases"]["environments"].format(p=p, pairs=pairs, seeds=p.evaluate.designs["main"].plan_seeds)
    return Table("environments", caption, ["", *(ENVS[env] for env in rows)], body)
