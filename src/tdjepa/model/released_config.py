"""config.json of a released checkpoint, read and written with the same tables.

Nothing that stands there is executed: class names are compared by their last part, and every number must be one that our
model has. Keys are written with dots: `encoder.patch_size` is `patch_size` in `encoder`.
"""

from pathlib import Path

from tdjepa.base.errors import UserError
from tdjepa.config.overlay import merge
from tdjepa.config.parse import parse, short
from tdjepa.config.records.model import Model
from tdjepa.config.yaml_file import read_yaml

TABLES = read_yaml(Path(__file__).with_name("released.yaml"))["config"]
CLASSES, CONSTANTS, EARLIER_NAMES = TABLES["classes"], TABLES["constants"], TABLES["earlier_names"]
NUMBERS = TABLES["numbers"]  # key -> what it is in our model; where two keys are the same, the first says how much
SIZES = {name: tuple(shape) for name, shape in TABLES["sizes"].items()}  # width, depth, heads
OWN_SIZE = ("encoder.hidden_size", "encoder.num_hidden_layers", "encoder.num_attention_heads")  # instead of a size's
ENCODER_MLP = "hidden width of the encoder's MLP"  # no parameter of ours: always 4 times the width
DEFAULTS = {"predictor.head_width": 64, "predictor.dropout": 0.0, "action_smooth": 10, "action_mlp": 4}
REPEATED = ("embed_dim", "history_size")  # said elsewhere too; we do not write them
MAY_LACK = {"encoder.intermediate_size", *OWN_SIZE, *REPEATED} | {k for k, ours in NUMBERS.items() if ours in DEFAULTS}
NEEDED = {"encoder.size", "projector.norm_fn._target_", "pred_proj.norm_fn._target_", *NUMBERS} - MAY_LACK


def read_config(raw, ours: Model, source: Path) -> tuple[Model, int, int]:
    """Our model of that shape, its image size and its action block. What the format lacks (the temporal head) is `ours`."""
    found = {key: value for key, value in flat(raw).items() if value is not None}
    refuse([f"{key}: missing; a value is needed" for key in sorted(NEEDED - found.keys())], source)
    refuse([problem for key, value in found.items() if (problem := wrong(key, value))], source)
    usual = zip(OWN_SIZE, SIZES[found["encoder.size"]], strict=True)
    shape = {NUMBERS[key]: found.get(key, number) for key, number in usual}
    shape[ENCODER_MLP] = 4 * shape["encoder.width"]
    given = {key: found[key] for key in NUMBERS if key in found}
    differ = [key for key, number in given.items() if shape.setdefault(NUMBERS[key], number) != number]
    refuse([f"{key} = {given[key]}: expected {shape[NUMBERS[key]]}" for key in differ], source)
    image_size, block, _ = (shape.pop(name) for name in ("image_size", "block", ENCODER_MLP))
    fixed = {"normalisation": "imagenet", "encoder.stem": [], "encoder.readout": "cls", "predictor.residual": False}
    own = nested(DEFAULTS | shape | fixed | {"predictor.width": shape["latent"]})
    return parse(Model, merge(ours.model_dump(mode="json"), own), str(source)), image_size, block


def wrong(key: str, value) -> str | None:
    """What is wrong with the value of a key, for itself."""
    if key in CLASSES:
        name = CLASSES[key].rpartition(".")[2]
        known = [name, *EARLIER_NAMES.get(name, ())]
        right = isinstance(value, str) and value.rpartition(".")[2] in known
        return None if right else f"{key}: {short(value)} is another model; only {' or '.join(known)} can be imported"
    if key == "encoder.size":
        right, expected = isinstance(value, str) and value in SIZES, f"one of {', '.join(SIZES)}"
    elif key in CONSTANTS:
        right, expected = value == CONSTANTS[key], repr(CONSTANTS[key])
    elif key == "predictor.dropout":
        right, expected = type(value) in (int, float), "a number"
    elif key in NUMBERS:
        right, expected = type(value) is int and value >= 1, "a whole number of at least 1"
    else:
        return f"{key} = {short(value)}: no such key"
    return None if right else f"{key} = {short(value)}: expected {expected}"


def refuse(problems: list[str], source: Path) -> None:
    if problems:
        raise UserError("\n".join(f"{source}: {problem}" for problem in problems))


def write_config(model: Model, image_size: int, block: int) -> dict:
    """The config.json of one of our models."""
    e = model.encoder
    numbers = flat(model.model_dump(mode="json"))
    numbers |= {"image_size": image_size, "block": block, ENCODER_MLP: 4 * e.width}
    size = next((name for name, shape in SIZES.items() if shape == (e.width, e.depth, e.heads)), None)
    implied = {*REPEATED, *((*OWN_SIZE, "encoder.intermediate_size") if size else ())}
    written = {key: numbers[ours] for key, ours in NUMBERS.items() if key not in implied}
    return nested({**CLASSES, **CONSTANTS, **written, "encoder.size": size or "tiny"})


def flat(value, prefix: str = "") -> dict:
    """{"a": {"b": 1}} -> {"a.b": 1}"""
    if not isinstance(value, dict) or prefix.count(".") > 2:  # deeper than anything that is known
        return {prefix: value}
    inner = (flat(part, f"{prefix}.{key}" if prefix else str(key)) for key, part in value.items())
    return {name: number for part in inner for name, number in part.items()}


def nested(values: dict) -> dict:
    """{"a.b": 1} -> {"a": {"b": 1}}"""
    out: dict = {}
    for name, value in values.items():
        *folders, last = name.split(".")
        place = out
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    return out
