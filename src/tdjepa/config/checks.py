"""What must fit together across the sections of params.yaml. Each check gives one line per problem, naming the key."""

from collections.abc import Iterator

from tdjepa.config.names import LEAKY
from tdjepa.config.records.base import ENVS
from tdjepa.config.records.keys import meant


def problems(p) -> list[str]:
    return [line for check in (_names, _sizes, _methods, _restarts, _backbones) for line in check(p)]


def _names(p) -> Iterator[str]:
    """Names that lead nowhere."""
    listed = {"methods_run": p.methods_run, "diagnose.methods": p.diagnose.methods or ()}
    listed |= {f"groups.{name}": methods for name, methods in p.groups.items()}
    listed |= {f"evaluate.designs.{name}.methods": design.methods or () for name, design in p.evaluate.designs.items()}
    listed |= {f"evaluate.sweeps.{name}.methods": sweep.methods for name, sweep in p.evaluate.sweeps.items()}
    listed |= {f"recipes.{name}.when.method": (r.when.method,) for name, r in p.recipes.items() if r.when.method}
    for key, names in listed.items():
        yield from (_undefined(p, key, method) for method in names if method not in p.methods)
    for key, section in {"evaluate.protocol": p.evaluate.protocol, "collect.source": p.collect.source}.items():
        yield from (f"{key}: has no entry for {env!r}" for env in p.envs if env not in section)
    for env in p.envs:
        if p.collect.source.get(env) == "file" and env not in p.collect.file:
            wanted = "its path and sha256 (docs/own_data.md)"
            yield f"collect.source.{env}: file, but collect.file has no entry for {env}; write {wanted} there"


def _undefined(p, key: str, method: str) -> str:
    return f"{key}: {method!r} is not defined under methods ({', '.join(p.methods)}){meant(method, p.methods)}"


def _sizes(p) -> Iterator[str]:
    """More asked for than there is."""
    if p.diagnose.probe_candidates > p.diagnose.probe_frames:
        asked = f"diagnose.probe_candidates: {p.diagnose.probe_candidates}"
        yield f"{asked} exceeds diagnose.probe_frames: {p.diagnose.probe_frames}, of which they are"
    for env, jobs in p.diagnose.ceiling_jobs.items():
        if jobs > (pairs := p.diagnose.ceiling_pairs.get(env, jobs)):
            yield f"diagnose.ceiling_jobs.{env}: {jobs} jobs for {pairs} pairs (diagnose.ceiling_pairs)"
    if max(p.evaluate.curve_epochs, default=0) > p.train.epochs:
        yield f"evaluate.curve_epochs: {max(p.evaluate.curve_epochs)} is beyond train.epochs: {p.train.epochs}"
    ev, goals = p.evaluate, {"test": p.mine.test_goals}
    goals |= dict.fromkeys(("validation", "curves"), p.mine.validation_goals) | {"far": p.mine.test_goals}
    asked = {f"designs.{name}.pairs": (design.pairs, ev.manifest) for name, design in ev.designs.items()}
    asked |= {f"sweeps.{name}.pairs": (sweep.pairs, sweep.manifest) for name, sweep in ev.sweeps.items()}
    for key, (pairs, part) in (asked | {"curve_pairs": (ev.curve_pairs, ev.manifest)}).items():
        if pairs > goals[part]:
            yield f"evaluate.{key}: {pairs} exceeds the {part} manifest's {goals[part]} goals"
    for name, design in ev.designs.items():
        if design.plan_seeds > len(ev.plan_seeds):
            found = f"{design.plan_seeds} exceeds the {len(ev.plan_seeds)} of evaluate.plan_seeds"
            yield f"evaluate.designs.{name}.plan_seeds: {found}"
    shortest = p.collect.min_length
    if shortest <= p.mine.goal_offset:
        yield f"collect.min_length: {shortest} must exceed mine.goal_offset: {p.mine.goal_offset}"
    for name, sweep in p.evaluate.sweeps.items():
        if sweep.goal_offset and sweep.goal_offset not in p.mine.far_offsets:
            known = ", ".join(map(str, p.mine.far_offsets)) or "none"
            yield f"evaluate.sweeps.{name}.goal_offset: {sweep.goal_offset} is not among mine.far_offsets ({known})"
        for env in sweep.envs:
            if (sweep.goal_offset or 0) >= (longest := getattr(p.collect, env).max_steps):
                far = f"evaluate.sweeps.{name}.goal_offset: {sweep.goal_offset}"
                yield f"{far} is longer than every episode (collect.{env}.max_steps: {longest})"
    for env in ENVS:
        if (longest := getattr(p.collect, env).max_steps) < shortest:
            yield f"collect.{env}.max_steps: {longest} leaves no episode of collect.min_length: {shortest}"


def _methods(p) -> Iterator[str]:
    for name, method in p.methods.items():
        needed = p.model.predictor.history + method.terms.ahead()
        if method.window < needed:
            yield f"methods.{name}.window: {method.window} is too short: history and horizon need {needed}"
        if (method.trains_on == "all") != name.endswith(LEAKY):
            why = (
                f"rows tell a method by its name only, so it ends with {LEAKY} exactly when all episodes are trained on"
            )
            yield f"methods.{name}.trains_on: {method.trains_on}: {why}; rename the method"
        budget, known = method.terms.budget_reachability, p.model.head.budgets
        if budget and budget.horizon > known:
            yield f"methods.{name}.terms.budget_reachability.horizon: {budget.horizon} exceeds model.head.budgets: {known}"


def _restarts(p) -> Iterator[str]:
    """A schedule that starts anew after the last epoch."""
    for name in dict.fromkeys((*p.methods_run, *(m for methods in p.groups.values() for m in methods))):
        if name in p.methods and (p.methods[name].restart or 0) >= p.train.epochs:
            after, last = p.methods[name].restart, p.train.epochs
            yield f"methods.{name}.restart: {after} is not before the last epoch, train.epochs: {last}"


def _backbones(p) -> Iterator[str]:
    """Frozen latents that nobody trains."""
    for name, method in p.methods.items():
        if method.backbone is None:
            continue
        key, source = f"methods.{name}.backbone", p.methods.get(method.backbone)
        if source is None:
            yield _undefined(p, key, method.backbone)
        elif source.backbone:
            yield f"{key}: {method.backbone} has a backbone itself ({source.backbone}); name that one"
        elif missing := sorted(set(method.envs or p.envs) - set(source.envs or p.envs)):
            yield f"{key}: {method.backbone} is not run in {', '.join(missing)}; add them to its envs"
