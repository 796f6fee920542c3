"""The released LeWM checkpoints: `weights.pt` (a state dict of 303 tensors) and `config.json`, to and from one of ours.

    tdjepa import --from DIR --env push_t --scale paper --episodes episodes.h5 --out released/push_t/epoch_10.safetensors
    tdjepa evaluate --env push_t --method lewm --seed 0 --scale paper --checkpoints released/push_t --out rows.parquet
    tdjepa export --checkpoint epoch_10.safetensors --out DIR

The encoder carries the names of Hugging Face's ViT, which transformers renamed in version 5; both spellings are read and
written. The format holds no normalisation: frames are ImageNet-normalised, and actions are z-scored with the statistics of
the whole data set that the model was trained on, so those come from `--episodes`. Nothing in the files is ever executed:
weights are read by torch's restricted unpickler or as safetensors, and released_config.py only compares class names.
"""

import pickle
import re
from pathlib import Path

import numpy as np
import torch

from tdjepa.base.artefacts import publish, read_json, sha256, verified, write_card, write_json
from tdjepa.base.errors import UserError, shown
from tdjepa.config.parse import parse
from tdjepa.config.records.model import Model
from tdjepa.config.slices import TrainSlice
from tdjepa.config.yaml_file import read_yaml
from tdjepa.data.store import Store
from tdjepa.model import checkpoint
from tdjepa.model.normalisation import set_normalisation
from tdjepa.model.released_config import read_config, write_config
from tdjepa.model.world_model import WorldModel, build

TABLES = read_yaml(Path(__file__).with_name("released.yaml"))
KNOWN = TABLES["known"]  # sha256 of weights.pt -> repository, environment
NAMES, ENCODER, BLOCKS = (
    TABLES["names"],
    TABLES["encoder"],
    TABLES["blocks"],
)  # ours -> theirs; # is the number of a block
STYLES = tuple(BLOCKS)  # transformers before version 5 (what was released), and since
NORMALISATION = ("pixel_mean", "pixel_std", "action_mean", "action_std")  # ours alone; see above


def released_names(model: WorldModel, style: str) -> dict[str, list[str]]:
    """For each tensor of ours the released tensors that it consists of."""
    known = {ours: [theirs] for ours, theirs in NAMES.items()}
    for ours, both in ENCODER.items():
        known[f"encoder.vit.blocks.#.{ours}"] = [BLOCKS[style] + part for part in both[style]]
    names = {}
    for name in (name for name in model.state_dict() if name not in NORMALISATION):
        number = "".join(re.findall(r"blocks\.(\d+)", name))
        general = re.sub(r"blocks\.\d+", "blocks.#", name)
        module, _, tensor = (general, "", "") if general in known else general.rpartition(".")
        names[name] = [".".join(filter(None, (part.replace("#", number), tensor))) for part in known[module]]
    return names


def released_shape(ours: str, shape: torch.Size, parts: int) -> tuple[int, ...]:
    """The shape of each of the `parts` released tensors; the linear map of the actions is a convolution of length 1."""
    kernel = (1,) if ours == "action_encoder.smooth.weight" else ()
    return (shape[0] // parts, *shape[1:], *kernel) if shape else ()


def run_import(
    cfg: TrainSlice, source: Path, config_file: Path | None, episodes: Path, out: Path, expected: str | None = None
) -> dict:
    """A released checkpoint as one of ours, filed under the environment, method and seed of `cfg`; returns its card."""
    weights, config_file = locate(source, config_file)
    found = sha256(weights)
    if expected is not None and found != expected.lower():
        raise UserError(f"{weights}: sha256 is {found}, expected {expected}; download it again")
    release, env = KNOWN.get(found, ("unknown", cfg.env))
    if env != cfg.env:
        raise UserError(f"--env {cfg.env}: {weights} is {release}, a model of {env}; give --env {env} and its episodes")
    if cfg.method.head != "none":
        why = f"has the head {cfg.method.head!r}, but released checkpoints have none"
        raise UserError(f"--method {cfg.method_name}: {why}; use lewm")
    shape, image_size, block = read_config(read_json(config_file), cfg.model, config_file)
    cfg = cfg.model_copy(update={"model": shape})
    model = build(shape, "none", image_size, block, cfg.seed)
    tensors = read_tensors(weights)
    dtypes = sorted({str(t.dtype).removeprefix("torch.") for t in tensors.values() if t.is_floating_point()})
    load_released(model, tensors, weights)
    verified(episodes)
    data = Store(episodes)
    given = (data.image_size, cfg.frameskip * data.action.shape[1])
    if given != (image_size, block):
        found = (
            f"has {given[0]}-px frames and action blocks of {given[1]}; {config_file} says {image_size} px and {block}"
        )
        advice = "give the episodes of the environment and size that the model was trained on"
        raise UserError(f"{episodes}: {found}; {advice}")
    # the reference takes the moments of all episodes, not those of a training part
    set_normalisation(model, cfg, data, np.arange(data.episodes))
    checked = "sha256 given" if expected else "a known release" if found in KNOWN else "nothing to compare with"
    facts = {"source": release, "checked": checked, "dtypes": dtypes}
    facts["action_statistics"] = "all episodes of the episodes file"
    inputs = {"weights": weights, "config": config_file, "episodes": episodes}
    return checkpoint.save(out, model, cfg, image_size, cfg.train.epochs, inputs, verb="import", **facts)


def locate(source: Path, config: Path | None) -> tuple[Path, Path]:
    """The weights (a file, or the only one in a folder) and the config (beside them unless named)."""
    if source.is_dir():
        found = sorted(path for pattern in ("*.pt", "*.safetensors") for path in source.glob(pattern))
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise UserError(
                f"--from {source}: one .pt or .safetensors file is expected there, found {names}; name the file"
            )
        source = found[0]
    config = config or source.with_name("config.json")
    for path in (source, config):
        if not path.is_file():
            raise UserError(f"{path}: no such file; a released checkpoint is a weights.pt with its config.json")
    return source, config


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The state dict of a .pt or .safetensors file, without ever running code that is in it."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except SafetensorError as error:
            raise UserError(f"{path}: not a safetensors file ({error}); download it again") from None
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        what = str(error).split("\n")[0].split("Re-running")[0].strip()
        raise UserError(f"{path}: holds more than tensors and is not loaded, it could run code ({what})") from None
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        raise UserError(f"{path}: not a file of torch.save ({str(error).splitlines()[0]}); download it again") from None
    expected = f"{path}: a plain state dict, name to tensor, is expected"
    if not isinstance(tensors, dict):
        raise UserError(f"{expected}; found a {type(tensors).__name__}")
    for name, value in tensors.items():
        if not isinstance(name, str):
            raise UserError(f"{expected}; the name {shown(repr(name))} is a {type(name).__name__}")
        if not isinstance(value, torch.Tensor):
            raise UserError(f"{expected}; {shown(repr(name))} is a {type(value).__name__}")
    return tensors


def load_released(model: WorldModel, tensors: dict[str, torch.Tensor], source: Path) -> None:
    """Put released tensors into our model: every tensor of both sides is used exactly once, all have the right shape."""
    style = "new" if any(name.startswith("encoder.layers.") for name in tensors) else "old"
    names, state = released_names(model, style), model.state_dict()
    wanted = {part for parts in names.values() for part in parts}
    missing, extra = sorted(wanted - set(tensors)), sorted(set(tensors) - wanted)
    if missing or extra:
        problems = [f"{what} {short(keys)}" for what, keys in (("lacks", missing), ("has unknown", extra)) if keys]
        raise UserError(f"{source}: {' and '.join(problems)}; it does not fit its config.json")
    loaded = {}
    for ours, parts in names.items():
        shape = released_shape(ours, state[ours].shape, len(parts))
        for part in parts:
            tensor, integer = tensors[part], not state[ours].is_floating_point()
            if tuple(tensor.shape) != shape:
                raise UserError(f"{source}: {part} is {tuple(tensor.shape)}, its config.json asks for {shape}")
            if tensor.is_floating_point() == integer:
                raise UserError(f"{source}: {part} is {tensor.dtype}, expected {'integers' if integer else 'floats'}")
            if not torch.isfinite(tensor).all():
                raise UserError(f"{source}: {part} has values that are not finite; download it again")
        whole = torch.cat([tensors[part] for part in parts]) if len(parts) > 1 else tensors[parts[0]]
        loaded[ours] = whole.to(state[ours].dtype).reshape(state[ours].shape)
    model.load_state_dict(loaded | {name: state[name] for name in NORMALISATION})


def short(keys: list[str], count: int = 3) -> str:
    return ", ".join(keys[:count]) + (f" and {len(keys) - count} more" if len(keys) > count else "")


def run_export(source: Path, out: Path, style: str = "old") -> dict:
    """One of our checkpoints as weights.pt and config.json in the folder `out`; returns the card of the weights."""
    model, about = checkpoint.load(source)
    cfg = parse(TrainSlice, about["train"], str(source))
    m = cfg.model
    obstacles = {
        f"the temporal head {cfg.method.head!r}": cfg.method.head != "none",
        f"the convolutional stem {list(m.encoder.stem)}": bool(m.encoder.stem),
        "an embedding of all patch tokens": m.encoder.readout == "tokens",
        "an embedding of keypoints": m.encoder.readout == "keypoints",
        "a residual predictor": m.predictor.residual,
        "frames normalised with the data's own moments": m.normalisation != "imagenet",
        f"a predictor of width {m.predictor.width} on latents of {m.latent}": m.predictor.width != m.latent,
    }
    if found := ", ".join(what for what, there in obstacles.items() if there):
        raise UserError(f"{source}: the released format has no place for {found}; this model cannot be exported")
    tensors = write_released(model, m, about["image_size"], about["block"], out, style)
    # the format has no place for the moments of the actions, so the card keeps them
    facts = {name: getattr(model, name).tolist() for name in ("action_mean", "action_std")}
    return write_card(out / "weights.pt", "export", {"style": style}, {"checkpoint": source}, tensors=tensors, **facts)


def write_released(model: WorldModel, shape: Model, image_size: int, block: int, out: Path, style: str = "old") -> int:
    """weights.pt and config.json of a model without a head in the folder `out`; returns the number of tensors."""
    state, tensors = model.state_dict(), {}
    for ours, parts in released_names(model, style).items():
        form = released_shape(ours, state[ours].shape, len(parts))
        pieces = state[ours].chunk(len(parts)) if len(parts) > 1 else [state[ours]]
        tensors |= {part: piece.reshape(form).clone() for part, piece in zip(parts, pieces, strict=True)}
    write_json(out / "config.json", write_config(shape, image_size, block))
    with publish(out / "weights.pt", alone=True) as temporary:
        torch.save(tensors, temporary)
    return len(tensors)
