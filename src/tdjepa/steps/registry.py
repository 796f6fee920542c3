"""Every step of the pipeline, as steps.toml declares it. Nothing heavy is imported: `tdjepa --help` reads this."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

DECLARED = tomllib.loads(Path(__file__).with_name("steps.toml").read_text())
PATHS, BIG = DECLARED["paths"], set(DECLARED["big"])
TABLES, FIGURES = tuple(DECLARED["tables"]), tuple(DECLARED["figures"])


@dataclass(frozen=True)
class Option:
    """One option of a verb: its name, its help, and what else argparse takes; types by name ("path" stands for Path)."""

    name: str
    help: str
    more: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Verb:
    """A command of `tdjepa`. The function of its name in cli/verbs.py does it, else the one that `module` names after a
    colon, else its `run`. It takes by name what it needs (cli/call.py)."""

    name: str
    help: str = ""
    module: str = ""
    options: tuple[Option, ...] = ()
    takes: tuple[str, ...] = ()  # kinds of files
    slice: str = ""  # config.slices.<slice>_slice cuts it; by default the name of the step
    shown: tuple[str, ...] = ()  # of the facts that the function returns; by default all


@dataclass(frozen=True)
class Step(Verb):
    """A verb whose jobs the workflow runs. They run again when their slice, a file that they take or a source file behind
    `module` has changed."""

    phase: str = ""  # the DVC stage and the target <phase>_all; without one only on request
    per: str = "scale"  # what one job is about
    jobs: str = "once"  # which there are: a function of config/runs.py
    gives: tuple[str, ...] = ()  # kinds of files, or the names in a folder: "evidence/stats.json"
    out: str = ""  # the kind that --out names, if it is not the first that the step gives
    verb: str = ""  # the verb that its rule calls, if it has none of its own


def _option(name: str, help: str, **more) -> Option:
    return Option(name, help, more)


COMMON = {name: _option(name, **entry) for name, entry in DECLARED["options"].items()}
FILES = {kind: _option(**entry) for kind, entry in DECLARED["files"].items()}
PER = {"env": ("env",), "training": ("env", "method", "seed"), "scale": ()}  # the options that name what a job is about


def verbs_of(entries: dict[str, dict], kind: type[Verb] = Verb) -> dict[str, Verb]:
    """Entries of a TOML file as verbs. One that is `like` another says only what differs."""
    verbs = {}
    for name, entry in entries.items():
        whole = {key: value for key, value in (entries.get(entry.get("like"), {}) | entry).items() if key != "like"}
        whole = {key: tuple(value) if isinstance(value, list) else value for key, value in whole.items()}
        options = [COMMON[o] if isinstance(o, str) else _option(**o) for o in whole.pop("options", ())]
        verbs[name] = kind(name, options=tuple(options), **whole)
    return verbs


def options(verb: Verb) -> tuple[Option, ...]:
    """All options of a verb. Those of a step follow from what it takes and gives; its own ones win."""
    files = tuple(FILES[kind] for kind in verb.takes if kind in FILES)
    if not isinstance(verb, Step):
        return (*verb.options, *files)
    named = (COMMON[name] for name in (*PER[verb.per], "params", "scale", "slice"))
    usual = (*named, *files, COMMON["out"])
    own = {option.name for option in verb.options}
    return (*(option for option in usual if option.name not in own), *verb.options)


for part, names in (("tables", TABLES), ("figures", FIGURES)):
    given = [file.format(name) for name in names for file in DECLARED["steps"][part]["gives"]]
    DECLARED["steps"][part]["gives"] = list(dict.fromkeys(given))  # some files are no table's or figure's own
STEPS = verbs_of(DECLARED["steps"], Step)
PHASES = tuple(dict.fromkeys(step.phase for step in STEPS.values() if step.phase))
SECTIONS = {phase: tuple(sections) for phase, sections in DECLARED["sections"].items()}
