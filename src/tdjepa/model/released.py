"""The released LeWM checkpoints: `weights.pt` (a state dict of 303 tensors) and `config.json`, to and from one of ours.

    tdjepa import --from DIR --env push_t --scale paper --episodes episodes.h5 --out released/push_t/epoch_10.safetensors
    tdjepa evaluate --env push_t --method lewm --seed 0 --scale paper --checkpoints released/push_t --out rows.parquet
    tdjepa export --checkpoint epoch_10.safetensors --out DIR

The encoder carries the names of Hugging Face's ViT, which transformers renamed in version 5; both spellings are read and
written. The format holds no normalisation: frames are ImageNet-normalised, and actions z-scored with the statistics of the
whole data set that the model was trained on, so those come from `--episodes`. Nothing of the files is ever executed: the
weights are read by torch's restricted unpickler or as safetensors, and the class names in config.json are only compared.
"""

import pickle
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field, model_validator

from tdjepa.base.artefacts import publish, read_json, remove_leftovers, sha256, verified, write_card, write_json
from tdjepa.base.errors import UserError, shown
from tdjepa.config.overlay import merge
from tdjepa.config.parse import parse
from tdjepa.config.records.base import Count, Record
from tdjepa.config.records.model import Model
from tdjepa.config.slices import TrainSlice
from tdjepa.data.chunked import open_store
from tdjepa.model import checkpoint
from tdjepa.model.normalisation import set_normalisation
from tdjepa.model.world_model import WorldModel, build

# What others recorded of the four files on the Hugging Face hub (independent records that agree; not downloaded by us).
# Reacher was released twice.
KNOWN = {  # sha256 of weights.pt -> repository, environment
    "566f223624ea4bfb39dbfe6ae731198dd6ea73b7b8919fed6b1ecafca810f7dd": ("quentinll/lewm-tworooms", "two_room"),
    "1c8670e75d1a30550ff1d0a1127c56099bd24d8c6967f6cf43fc5237502af8ab": ("quentinll/lewm-reacher", "reacher"),
    "eb70b1fd5409f8f81875d62f5ee5a20dd220a3128a477de66b5760f475f0f469": ("quentinll/lewm-reacher", "reacher"),
    "48938400ae3464c9680731287f583a9cb516f55a8ec64ea13a91be47fb15b607": ("quentinll/lewm-pusht", "push_t"),
    "2839a907362f403f9136383016e91774373a295d958ae75121791f22a9fddf89": ("quentinll/lewm-cube", "cube"),
}

# Names ----------------------------------------------------------------------------------------------------------------

STYLES = ("old", "new")  # transformers before version 5 (what was released), and since
ENCODER_BLOCKS = {"old": "encoder.encoder.layer", "new": "encoder.layers"}
ENCODER_BLOCK = {  # ours: the parts of a block under their old and their new names; three parts are ours one after the other
    "norm1": {"old": ["layernorm_before"], "new": ["layernorm_before"]},
    "attn.qkv": {
        "old": ["attention.attention.query", "attention.attention.key", "attention.attention.value"],
        "new": ["attention.q_proj", "attention.k_proj", "attention.v_proj"],
    },
    "attn.proj": {"old": ["attention.output.dense"], "new": ["attention.o_proj"]},
    "norm2": {"old": ["layernorm_after"], "new": ["layernorm_after"]},
    "mlp.fc1": {"old": ["intermediate.dense"], "new": ["mlp.fc1"]},
    "mlp.fc2": {"old": ["output.dense"], "new": ["mlp.fc2"]},
}
PREDICTOR_BLOCK = {
    "attention_norm": "attn.norm",
    "qkv": "attn.to_qkv",
    "out": "attn.to_out.0",
    "mlp_norm": "mlp.net.0",
    "mlp.0": "mlp.net.1",
    "mlp.3": "mlp.net.4",
    "modulation.1": "adaLN_modulation.1",
}
MODULES = {
    "encoder.vit.patch_embed.proj": "encoder.embeddings.patch_embeddings.projection",
    "encoder.vit.norm": "encoder.layernorm",
    "projector.0": "projector.net.0",
    "projector.1": "projector.net.1",
    "projector.3": "projector.net.3",
    "action_encoder.smooth": "action_encoder.patch_embed",
    "action_encoder.embed.0": "action_encoder.embed.0",
    "action_encoder.embed.2": "action_encoder.embed.2",
    "predictor.norm": "predictor.transformer.norm",
    "pred_projector.0": "pred_proj.net.0",
    "pred_projector.1": "pred_proj.net.1",
    "pred_projector.3": "pred_proj.net.3",
}
SINGLE = {
    "encoder.vit.cls_token": "encoder.embeddings.cls_token",
    "encoder.vit.pos_embed": "encoder.embeddings.position_embeddings",
    "predictor.position": "predictor.pos_embedding",
}
NORMALISATION = ("pixel_mean", "pixel_std", "action_mean", "action_std")  # ours alone; see above


def released_names(model: WorldModel, style: str) -> dict[str, list[str]]:
    """For each tensor of ours the released tensors that it consists of."""
    modules = {ours: [theirs] for ours, theirs in MODULES.items()}
    for i in range(len(model.encoder.vit.blocks)):
        for ours, theirs in ENCODER_BLOCK.items():
            modules[f"encoder.vit.blocks.{i}.{ours}"] = [
                f"{ENCODER_BLOCKS[style]}.{i}.{part}" for part in theirs[style]
            ]
    for i in range(len(model.predictor.blocks)):
        for ours, theirs in PREDICTOR_BLOCK.items():
            modules[f"predictor.blocks.{i}.{ours}"] = [f"predictor.transformer.layers.{i}.{theirs}"]
    names = {}
    for name in model.state_dict():
        if name in SINGLE:
            names[name] = [SINGLE[name]]
        elif name not in NORMALISATION:
            module, _, tensor = name.rpartition(".")
            names[name] = [f"{part}.{tensor}" for part in modules[module]]
    return names


def released_shape(ours: str, shape: torch.Size, parts: int) -> tuple[int, ...]:
    """The shape of each of the `parts` released tensors; the linear map of the actions is a convolution of length 1."""
    kernel = (1,) if ours == "action_encoder.smooth.weight" else ()
    return (shape[0] // parts, *shape[1:], *kernel) if shape else ()


# config.json ----------------------------------------------------------------------------------------------------------

SIZES = {
    "tiny": (192, 12, 3),
    "small": (384, 12, 6),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
}  # width, depth, heads


class Part(Record):
    target: str | None = Field(None, alias="_target_")

    @model_validator(mode="after")
    def known(self):
        wanted = type(self).model_fields["target"].description
        if self.target is not None and self.target.rpartition(".")[2] not in wanted.split(" or "):
            raise ValueError(f"_target_: {self.target!r} is another model; only {wanted} can be imported")
        return self


class Vit(Part):
    target: str | None = Field(None, alias="_target_", description="vit_hf")
    size: Literal["tiny", "small", "base", "large"]
    patch_size: Count
    image_size: Count
    pretrained: Literal[False] = False
    use_mask_token: Literal[False] = False
    hidden_size: Count | None = None
    num_hidden_layers: Count | None = None
    num_attention_heads: Count | None = None
    intermediate_size: Count | None = None


class Transformer(Part):
    target: str | None = Field(None, alias="_target_", description="Predictor or ARPredictor")
    num_frames: Count
    input_dim: Count
    hidden_dim: Count
    output_dim: Count
    depth: Count
    heads: Count
    mlp_dim: Count
    dim_head: Count = 64
    dropout: float = 0.0
    emb_dropout: Literal[0, 0.0] = 0.0


class Embedder(Part):
    target: str | None = Field(None, alias="_target_", description="Embedder")
    input_dim: Count
    emb_dim: Count
    smoothed_dim: Count = 10
    mlp_scale: Count = 4


class Norm(Part):
    target: str = Field(alias="_target_", description="BatchNorm1d")
    partial: Literal[True] = Field(True, alias="_partial_")


class Mlp(Part):
    target: str | None = Field(None, alias="_target_", description="MLP")
    input_dim: Count
    hidden_dim: Count
    output_dim: Count
    norm_fn: Norm


class Config(Part):
    """config.json of a released checkpoint."""

    target: str | None = Field(None, alias="_target_", description="LeWM or JEPA")
    encoder: Vit
    predictor: Transformer
    action_encoder: Embedder
    projector: Mlp
    pred_proj: Mlp
    embed_dim: Count | None = None
    history_size: Count | None = None

    def width_depth_heads(self) -> tuple[int, int, int]:
        e = self.encoder
        given = (e.hidden_size, e.num_hidden_layers, e.num_attention_heads)
        return tuple(own or usual for own, usual in zip(given, SIZES[e.size], strict=True))

    @model_validator(mode="after")
    def fits_together(self):
        width, latent = self.width_depth_heads()[0], self.projector.output_dim
        p = self.predictor
        equal = {
            "projector.input_dim": (self.projector.input_dim, width),
            "encoder.intermediate_size": (self.encoder.intermediate_size or 4 * width, 4 * width),
            "predictor.input_dim": (p.input_dim, latent),
            "predictor.hidden_dim": (p.hidden_dim, latent),
            "predictor.output_dim": (p.output_dim, latent),
            "action_encoder.emb_dim": (self.action_encoder.emb_dim, latent),
            "pred_proj.input_dim": (self.pred_proj.input_dim, latent),
            "pred_proj.hidden_dim": (self.pred_proj.hidden_dim, self.projector.hidden_dim),
            "pred_proj.output_dim": (self.pred_proj.output_dim, latent),
            "embed_dim": (self.embed_dim or latent, latent),
            "history_size": (self.history_size or p.num_frames, p.num_frames),
        }
        wrong = [f"{key} = {found}: expected {wanted}" for key, (found, wanted) in equal.items() if found != wanted]
        if wrong:
            raise ValueError("\n".join(wrong))
        return self


def model_of(config: Config, ours: Model, source: Path) -> Model:
    """Our model of that shape; what the format does not have (the temporal head) stays as it is in `ours`."""
    (width, depth, heads), p = config.width_depth_heads(), config.predictor
    shape = {
        "normalisation": "imagenet",
        "latent": config.projector.output_dim,
        "projector": config.projector.hidden_dim,
        "action_smooth": config.action_encoder.smoothed_dim,
        "action_mlp": config.action_encoder.mlp_scale,
        "encoder": {"patch": config.encoder.patch_size, "width": width, "depth": depth, "heads": heads, "stem": []}
        | {"readout": "cls"},
        "predictor": {
            "width": p.hidden_dim,
            "depth": p.depth,
            "heads": p.heads,
            "head_width": p.dim_head,
            "mlp": p.mlp_dim,
            "dropout": p.dropout,
            "history": p.num_frames,
        },
    }
    return parse(Model, merge(ours.model_dump(mode="json"), shape), str(source))


def config_of(cfg: Model, image_size: int, block: int) -> dict:
    """The config.json of one of our models."""
    e, p, width = cfg.encoder, cfg.predictor, cfg.latent
    size = next((name for name, shape in SIZES.items() if shape == (e.width, e.depth, e.heads)), None)
    own = {
        "hidden_size": e.width,
        "num_hidden_layers": e.depth,
        "num_attention_heads": e.heads,
        "intermediate_size": 4 * e.width,
    }
    module, vit = "stable_worldmodel.wm.lewm", "stable_pretraining.backbone.utils.vit_hf"
    projector = {
        "_target_": f"{module}.module.MLP",
        "input_dim": width,
        "output_dim": width,
        "hidden_dim": cfg.projector,
        "norm_fn": {"_target_": "torch.nn.BatchNorm1d", "_partial_": True},
    }
    return {
        "_target_": f"{module}.LeWM",
        "encoder": {
            "_target_": vit,
            "size": size or "tiny",
            "patch_size": e.patch,
            "image_size": image_size,
            "pretrained": False,
            "use_mask_token": False,
            **({} if size else own),
        },
        "predictor": {
            "_target_": f"{module}.module.Predictor",
            "num_frames": p.history,
            "input_dim": width,
            "hidden_dim": width,
            "output_dim": width,
            "depth": p.depth,
            "heads": p.heads,
            "mlp_dim": p.mlp,
            "dim_head": p.head_width,
            "dropout": p.dropout,
            "emb_dropout": 0.0,
        },
        "action_encoder": {
            "_target_": f"{module}.module.Embedder",
            "input_dim": block,
            "smoothed_dim": cfg.action_smooth,
            "emb_dim": width,
            "mlp_scale": cfg.action_mlp,
        },
        "projector": {**projector, "input_dim": e.width},
        "pred_proj": projector,
    }


# Import ---------------------------------------------------------------------------------------------------------------


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
        raise UserError(
            f"--method {cfg.method_name}: has the head {cfg.method.head!r}, but released checkpoints have none; use lewm"
        )
    config = parse(Config, read_json(config_file), str(config_file))
    block, image_size = config.action_encoder.input_dim, config.encoder.image_size
    cfg = cfg.model_copy(update={"model": model_of(config, cfg.model, config_file)})
    model = build(cfg.model, "none", image_size, block, cfg.seed)
    tensors = read_tensors(weights)
    dtypes = sorted({str(t.dtype).removeprefix("torch.") for t in tensors.values() if t.is_floating_point()})
    load_released(model, tensors, weights)
    verified(episodes)
    data = open_store(episodes)
    given = (data.image_size, cfg.frameskip * data.action.shape[1])
    if given != (image_size, block):
        raise UserError(
            f"{episodes}: has {given[0]}-px frames and action blocks of {given[1]}; {config_file} says "
            f"{image_size} px and {block}; give the episodes of the environment and size that the model was trained on"
        )
    set_normalisation(
        model, cfg, data, np.arange(data.episodes)
    )  # the reference takes all episodes, not a training part
    facts = {
        "source": release,
        "checked": "sha256 given" if expected else "a known release" if found in KNOWN else "nothing to compare with",
        "dtypes": dtypes,
        "action_statistics": "all episodes of the episodes file",
    }
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
    style = "new" if any(name.startswith(ENCODER_BLOCKS["new"]) for name in tensors) else "old"
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


# Export ---------------------------------------------------------------------------------------------------------------


def run_export(source: Path, out: Path, style: str = "old") -> dict:
    """One of our checkpoints as weights.pt and config.json in the folder `out`; returns the card of the weights."""
    model, about = checkpoint.load(source)
    cfg = parse(TrainSlice, about["train"], str(source))
    m = cfg.model
    obstacles = {
        f"the temporal head {cfg.method.head!r}": cfg.method.head != "none",
        f"the convolutional stem {list(m.encoder.stem)}": bool(m.encoder.stem),
        "an embedding of all patch tokens": m.encoder.readout != "cls",
        "frames normalised with the data's own moments": m.normalisation != "imagenet",
        f"a predictor of width {m.predictor.width} on latents of {m.latent}": m.predictor.width != m.latent,
    }
    found = [what for what, there in obstacles.items() if there]
    if found:
        raise UserError(
            f"{source}: the released format has no place for {', '.join(found)}; this model cannot be exported"
        )
    state, tensors = model.state_dict(), {}
    for ours, parts in released_names(model, style).items():
        shape = released_shape(ours, state[ours].shape, len(parts))
        pieces = state[ours].chunk(len(parts)) if len(parts) > 1 else [state[ours]]
        tensors |= {part: piece.reshape(shape).clone() for part, piece in zip(parts, pieces, strict=True)}
    weights = out / "weights.pt"
    remove_leftovers(weights)
    write_json(out / "config.json", config_of(m, about["image_size"], about["block"]))
    with publish(weights) as temporary:
        torch.save(tensors, temporary)
    facts = {
        name: state[name].tolist() for name in ("action_mean", "action_std")
    }  # lost otherwise: the format has none
    return write_card(weights, "export", {"style": style}, {"checkpoint": source}, tensors=len(tensors), **facts)
