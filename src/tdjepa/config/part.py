"""A part of a scale: `snakemake all --config envs=push_t methods=lewm,tdjepa seeds=3072`, `tdjepa cost --envs push_t`.

It chooses among the jobs of the scale and changes none of them: the first training seed keeps its epoch curves, chosen or not.
So a later run of all, or of another part, takes over what this one has made. Its report has a place of its own, because that
of the scale, which Git holds, is about the whole.
"""

import hashlib
from collections.abc import Mapping

from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.records.keys import meant, short
from tdjepa.config.records.part import Part

WORDS = ("envs", "methods", "seeds")
OF_REPORT = ("evidence", "report", "page", "paper")  # kinds of files that a part has for itself
LONGEST = 100  # characters in the name of a folder


def choose(p: Params, words: Mapping, sign: str = "") -> Params:
    """`p` with the part that the words name, each a list, one name, or several with commas between; all of it is no part."""
    known = {"envs": p.envs, "methods": runs.widened(p).methods_run, "seeds": p.train_seeds}
    whole = known | {"methods": p.methods_run}
    part = {}
    for word, said in words.items():
        names = [str(name).strip() for name in (said if isinstance(said, list | tuple) else str(said).split(","))]
        allowed = {str(name): name for name in known[word]}
        for name in names:
            if name not in allowed:
                choice = f"must be of scale {p.scale}: {', '.join(allowed)}{meant(name, allowed)}"
                raise UserError(f"{sign}{word} = {short(said)}: {name!r} {choice}")
        if {*names} != {*map(str, whole[word])}:
            part[word] = tuple(found for name, found in allowed.items() if name in names)
    chosen = p.model_copy(update={"part": Part(**part)})
    if not runs.trainings(chosen):
        where = "; ".join(f"{m} runs in {', '.join(_envs(p, m))}" for m in chosen.part.methods)
        raise UserError(f"{sign}{text(chosen)}: there is no such training at scale {p.scale}; {where}")
    return chosen


def _envs(p: Params, method: str) -> list[str]:
    return [env for env in p.envs if env in (p.methods[method].envs or p.envs)]


def text(p: Params, sign: str = "") -> str:
    """The words again: envs=push_t seeds=3072; empty for the whole."""
    said = {word: getattr(p.part, word) for word in WORDS}
    return " ".join(f"{sign}{word}={','.join(map(str, names))}" for word, names in said.items() if names)


def place(p: Params, kind: str = "report") -> str:
    """What stands for the scale in the path of a file: the scale, or for the report of a part a folder below it."""
    names = [str(name) for word in WORDS for name in getattr(p.part, word)]
    if not names or kind.split("/")[0] not in OF_REPORT:
        return p.scale
    name = "-".join(names)  # names have no "-" in them
    if len(name) > LONGEST:
        name = f"{name[:LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"{p.scale}/parts/{name}"
