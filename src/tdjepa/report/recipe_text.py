"""The recipe of a scale in words: what every training and plan is made with, and where an environment or a method has other
values. All of it is read from the parameters, so the report's text is true at every scale."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter

from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.records.model import Train
from tdjepa.config.slices import TrainSlice, train_slice
from tdjepa.evidence import published
from tdjepa.report.labels import ENVS, NOT_RUN, method_label
from tdjepa.steps.schedule import batches_per_step

FRAMES = {"imagenet": "normalised as ImageNet's", "dataset": "normalised", "whitened": "whitened"}
PREDICTED = {False: "the next latent", True: "its change"}
READOUT = {"cls": "the CLS token", "tokens": "all patch tokens", "keypoints": "keypoints"}
Where = tuple[str, str]  # environment, method


def plain(value: float) -> str:
    """0.00005 instead of 5e-05."""
    return f"{value:.8f}".rstrip("0").rstrip(".")


# What it is called, how it is read from a training, how it is written; the keys are those of published.yaml's recipe.
TRAINED = {
    "normalisation": ("frames", lambda t: t.model.normalisation, FRAMES.get),
    "readout": ("latents read from", lambda t: t.model.encoder.readout, READOUT.get),
    "residual": ("predicted", lambda t: t.model.predictor.residual, PREDICTED.get),
    "dropout": ("dropout", lambda t: t.model.predictor.dropout, plain),
    "batch": ("batch", lambda t: t.train.batch * batches_per_step(t.train), str),
    "lr": ("learning rate", lambda t: t.train.lr, plain),
    "sigreg": ("weight of SIGReg", lambda t: t.method.terms.sigreg.weight if t.method.terms.sigreg else 0.0, plain),
}
SIZES = {"Latent": "model.latent", "Patch": "model.encoder.patch", "EncoderDepth": "model.encoder.depth"}
SIZES |= {"EncoderWidth": "model.encoder.width", "PositionStd": "model.encoder.position_std"}


def texts(p: Params) -> dict[str, str]:
    """Texts by the name of their macro."""
    places = [(env, m) for env in p.envs for m in (runs.methods_in(p, env) or list(p.methods))]
    trained = {where: train_slice(p, *where, p.train_seeds[0]) for where in places}
    numbers = {name: attrgetter(key) for name, key in SIZES.items()} | {"Batch": TRAINED["batch"][1]}
    return {
        **{name: spread(p, {where: plain(pick(t)) for where, t in trained.items()}) for name, pick in numbers.items()},
        "Image": by_env({env: str(getattr(p.collect, env).image_size) for env in p.envs}),
        "Recipe": differences(p, trained),
        "StepFactor": step_factor(p),
        "TemporalPairs": temporal_pairs(trained),
        "DataOrigin": data_origin(p),
    }


def steps(p: Params, method: str) -> str:
    """Optimiser steps of an epoch, by environment where they differ."""
    if method not in p.methods:
        return NOT_RUN
    envs = [env for env in p.envs if method in runs.methods_in(p, env)] or p.envs
    found = {env: runs.steps_per_epoch(runs.recipe_of(p, env, method)[0]) for env in envs}
    if not any(found.values()):
        return "every window once"
    return f"{by_env({env: str(n) if n else 'as many as windows' for env, n in found.items()})} optimiser steps"


def step_factor(p: Params) -> str:
    """Whether all methods take as many optimiser steps as TD-JEPA, and which take more."""
    if "tdjepa" not in p.methods:
        return NOT_RUN
    unequal = []
    for m in p.methods_run:
        envs = [env for env in p.envs if m in runs.methods_in(p, env)]
        found = {env: [runs.recipe_of(p, env, name)[0] for name in (m, "tdjepa")] for env in envs}
        factors = {env: plain(_steps(ours) / _steps(theirs)) for env, (ours, theirs) in found.items()}
        if set(factors.values()) - {"1"}:
            unequal.append(f"; {method_label(p, m)}: {by_env(factors)} times as many")
    return "Every method takes as many optimiser steps as TD-JEPA" + "".join(unequal)


def _steps(train: Train) -> float:
    """Optimiser steps of an epoch; those of one pass over the windows count as one."""
    return (train.steps_per_epoch or 1) * train.step_factor


def temporal_pairs(trained: Mapping[Where, TrainSlice]) -> str:
    """How the temporal loss is estimated by the methods that have it."""
    if {t.method.terms.temporal.pairs for t in trained.values() if t.method.terms.temporal} <= {"one"}:
        return "so does ours at this scale"
    expected = "at this scale ours is its expectation over that draw, all pairs weighted by their probability"
    return f"{expected}: the same objective with less noise a step"


def data_origin(p: Params) -> str:
    """Which demonstrations are made here, by whom, and which are the released files."""
    made = [env for env in p.envs if p.collect.source[env] == "generated"]
    taken, own = ([ENVS[e] for e in p.envs if p.collect.source[e] == word] for word in ("released", "file"))
    said = [f"those of {listed([ENVS[env] for env in made])} are made anew"] if made else []
    if "push_t" in made:
        said.append("Push-T's by scripts instead of people")
    if "cube" in made and p.collect.cube.carry_share:
        share = f"{100 * p.collect.cube.carry_share:g} %"
        said.append(f"OGB-Cube's with the cube carried about at random in {share} of the episodes")
    if taken:
        said.append(f"those of {listed(taken)} are the released ones")
    if own:
        said.append(f"those of {listed(own)} come from files of the user's own")
    return ", ".join(said)


def differences(p: Params, trained: Mapping[Where, TrainSlice]) -> str:
    """What differs from the published recipe, which follows in brackets."""
    source, said = published.load()["recipe"], []
    for key, (label, pick, spelled) in TRAINED.items():
        found = {where: pick(t) for where, t in trained.items()}
        if set(found.values()) != {source[key]}:
            ours = spread(p, {where: spelled(value) for where, value in found.items()})
            said.append(f"{label} {ours} ({spelled(source[key])})")
    for key in ("candidates", "elites"):
        usual = getattr(p.evaluate.planner, key)
        found = {env: p.evaluate.protocol[env].planner.get(key, usual) for env in p.envs}
        if set(found.values()) != {source[key]}:
            said.append(f"{key} {by_env({env: str(n) for env, n in found.items()})} ({source[key]})")
    return "; ".join(said) or "no difference"


def listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def by_env(values: Mapping[str, str]) -> str:
    """One value, or each with its environments: "85 (Two-Room), 180 (Reacher and Push-T)"."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    envs = {value: [ENVS[env] for env in values if values[env] == value] for value in values.values()}
    return ", ".join(f"{value} ({listed(names)})" for value, names in envs.items())


def spread(p: Params, values: Mapping[Where, str]) -> str:
    """The commonest value, then where another one holds: "32, for TD-JEPA in Reacher 10"."""
    usual = Counter(values.values()).most_common(1)[0][0]
    others = dict.fromkeys(value for value in values.values() if value != usual)
    return ", ".join([usual, *(f"{_places(p, values, value)} {value}" for value in others)])


def _places(p: Params, values: Mapping[Where, str], value: str) -> str:
    """Whole environments and whole methods by their own names, what is left one by one."""
    left = [where for where in values if values[where] == value]
    said = []
    for i, word in ((0, "in"), (1, "for")):
        elsewhere = {where[i] for where, found in values.items() if found != value}
        whole = [name for name in dict.fromkeys(where[i] for where in left) if name not in elsewhere]
        left = [where for where in left if where[i] not in whole]
        if whole:
            said.append(f"{word} {listed([ENVS[n] if i == 0 else method_label(p, n) for n in whole])}")
    said += [f"for {method_label(p, m)} in {ENVS[env]}" for env, m in left]
    return " and ".join(said)
