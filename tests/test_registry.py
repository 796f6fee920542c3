"""Steps are declared once, and whatever decides a number is in a slice or in a source file that makes its job run again."""

import ast
import importlib
import inspect
import typing

import pytest

from clone import REPORT, TRAIN, TRAININGS, Clone
from conftest import ROOT
from tdjepa.base.source_files import closure
from tdjepa.cli import verbs
from tdjepa.cli.tools import VERBS
from tdjepa.config import slices
from tdjepa.config.records.base import ENVS, Record
from tdjepa.report import figures, tables
from tdjepa.steps.registry import FIGURES, PATHS, STEPS, TABLES, options

BUILDS = {
    "parse",
    "read_yaml",
    "load",
    "merge",
    "released",
    "train_slice",
    "evaluate_slice",
    "collect_slice",
    "place",
    "text",
}
CHECKS = {
    "ENVS",
    "ahead",
    "RELEASED",
}  # refuse names, count the frames that a window needs, say where an archive is kept


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_a_function_that_takes_what_is_declared(name):
    verb = VERBS[name]
    function = getattr(verbs, name, None) or getattr(verbs, f"{name}_", None)
    if function is None:
        module, _, called = verb.module.partition(":")
        function = getattr(importlib.import_module(module), called or "run")
    given = {option.more.get("dest", option.name).replace("-", "_") for option in options(verb)}
    known = given | {"p", "cfg", "call", "runtime", "scale"}
    wanted = inspect.signature(function).parameters.values()
    assert {w.name.removesuffix("_file") for w in wanted if w.default is w.empty} <= known


def test_steps_name_kinds_of_files_modules_and_slices_that_exist():
    for step in STEPS.values():
        assert importlib.import_module(step.module)
        assert {kind.split("/")[0] for kind in (*step.takes, *step.gives, *filter(None, [step.out]))} <= set(PATHS)
        if step.name != "paper":  # typesets what is there
            assert hasattr(slices, f"{step.slice or step.name}_slice"), step.name


def test_the_registry_lists_what_the_report_writes():
    assert tuple(figures.ALL) == FIGURES
    assert tuple(build.__name__ for build in tables.ALL) == TABLES


def imported_from_config() -> set[tuple[str, str]]:
    """(module, name) that the code of jobs takes from modules of config which are not inputs of their rules."""
    counted = {path for step in STEPS.values() for path in closure(step.module, ENVS, ROOT / "src")}
    found = set()
    for path in (path for path in counted if path.suffix == ".py"):
        for module, name in imports(path):
            file = ROOT / "src" / (module.replace(".", "/") + ".py")
            if module.startswith("tdjepa.config") and file.exists() and file not in counted:
                found.add((module, name))
    return found


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def test_what_jobs_take_from_uncounted_modules_decides_no_number():
    """A constant or a rule there would change numbers and run nothing again; records come with their slice."""
    for module, name in imported_from_config():
        thing = getattr(importlib.import_module(module), name)
        is_record = isinstance(thing, type) and issubclass(thing, Record)
        is_type = typing.get_origin(thing) is not None
        assert is_record or is_type or name in BUILDS | CHECKS, f"{module}.{name}: put it into a file that is counted"
        if is_record:
            own = {key for cls in thing.__mro__[:-1] if cls.__module__.startswith("tdjepa") for key in vars(cls)}
            rules = {key for key in own if isinstance(inspect.getattr_static(thing, key), property)}
            rules |= {key for key in own if inspect.isfunction(vars(thing).get(key))}
            checks = thing.__pydantic_decorators__
            rules -= {*checks.model_validators, *checks.field_validators, *checks.field_serializers}
            assert {rule for rule in rules if not rule.startswith("__")} <= CHECKS, f"{module}.{name}: {rules}"


MEASURE = {f"{step}_{t}" for step in ("diagnose", "probe") for t in TRAININGS}
PLAN = {f"evaluate_{t}" for t in TRAININGS} | {"sweep_blend_two_room_tdjepa_3072"}
UNTRAINED = {"floors_two_room", "ceiling_two_room_1", "ceiling_two_room_2", "ladder_two_room"}
DECIDING = {  # what used to decide numbers from nowhere -> (file, old, new, the jobs that must run again)
    "steps per epoch": (
        *("src/tdjepa/config/runs.py", "train.steps_per_epoch * train.step_factor", "train.steps_per_epoch + 1"),
        TRAIN | MEASURE | PLAN | REPORT,
    ),
    "budgets of a head": (
        "params.yaml",
        "budgets: 5",
        "budgets: 6",
        {"ladder_two_room"} | TRAIN | MEASURE | PLAN | REPORT,
    ),
    "costs by contact": (
        *("src/tdjepa/config/costs.py", '("hard_gate", "soft_gate")  #', '("soft_gate", "hard_gate")  #'),
        PLAN | UNTRAINED | {job for job in MEASURE if job.startswith("diagnose")} | REPORT,
    ),
    "names of leaky methods": ("src/tdjepa/config/names.py", '"_leaky"', '"_leaking"', PLAN | UNTRAINED | REPORT),
}


@pytest.mark.pipeline
@pytest.mark.parametrize("name", DECIDING)
def test_an_edited_constant_runs_its_jobs_again_and_no_others(first_run, folder, name):
    file, old, new, jobs = DECIDING[name]
    clone: Clone = first_run[0].copy(folder / name)
    path = clone.path / file
    text = path.read_text()
    assert text.count(old) == 1
    if name == "names of leaky methods":
        params = clone.path / "params.yaml"
        params.write_text(params.read_text().replace("_leaky", "_leaking"))
    path.write_text(text.replace(old, new))
    assert clone.planned() == jobs
