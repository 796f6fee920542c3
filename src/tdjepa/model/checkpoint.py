"""Checkpoints: safetensors (no code is ever unpickled) with the parameters of the training inside and a card beside."""

import json
from pathlib import Path

import torch

from tdjepa.base.artefacts import publish, verified, write_card
from tdjepa.base.errors import UserError
from tdjepa.config.parse import parse
from tdjepa.config.slices import TrainSlice
from tdjepa.model.world_model import WorldModel, build

KEY = "tdjepa"  # ONE metadata key: safetensors writes several in random order, and files would not be byte-equal


def save(
    path: Path, model: WorldModel, cfg: TrainSlice, size: int, epoch: int, inputs: dict, verb: str = "train", **facts
) -> dict:
    """Write the checkpoint and its card (with the `facts` on it); returns the card."""
    from safetensors.torch import save_file

    params = cfg.model_dump(mode="json")
    about = {"train": params, "image_size": size, "block": len(model.action_mean), "epoch": epoch}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with publish(path, alone=True) as temporary:
        save_file(tensors, temporary, metadata={KEY: json.dumps(about, sort_keys=True)})
    return write_card(path, verb, params, inputs, epoch=epoch, parameters=count(model), **facts)


def of(cfg, epoch: int) -> dict[str, object]:
    """What the checkpoint of this epoch must say of itself, to be that of a slice."""
    return {"scale": cfg.scale, "env": cfg.env, "method_name": cfg.method_name, "seed": cfg.seed, "epoch": epoch}


def read(path: Path, expect: dict[str, object]) -> tuple[TrainSlice, dict, dict[str, torch.Tensor]]:
    """The parameters it was trained with, what the file says about itself, its tensors; `expect` as in `load`."""
    from safetensors import SafetensorError, safe_open

    verified(path)
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get(KEY, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise UserError(f"{path}: not a safetensors file ({error}); delete it and train again") from None
    if not isinstance(about, dict) or not {"train", "image_size", "block", "epoch"} <= set(about):
        why = "says nothing about its training, so it is not one of ours"
        raise UserError(f"{path}: {why}; use a checkpoint of `tdjepa train`")
    cfg = parse(TrainSlice, about["train"], str(path))
    for key, wanted in expect.items():
        found = about["epoch"] if key == "epoch" else getattr(cfg, key)
        if found != wanted:
            raise UserError(f"{path}: was trained with {key} = {found!r}, expected {wanted!r}")
    return cfg, about, tensors


def load(path: Path, expect: dict[str, object] | None = None, device: str = "cpu") -> tuple[WorldModel, dict]:
    """The model in eval mode and what the file says about itself; `expect`: see `of`"""
    cfg, about, tensors = read(path, expect or {})
    model = build(cfg.model, cfg.method.head, about["image_size"], about["block"], cfg.seed)
    wanted, found = set(model.state_dict()), set(tensors)
    if wanted != found:
        odd = sorted(wanted ^ found)[0]
        what = "lacks" if odd in wanted else "has the unknown"
        raise UserError(f"{path}: {what} tensor {odd}; it is not a checkpoint of this version")
    for name, tensor in model.state_dict().items():
        if tensor.shape != tensors[name].shape:
            found, expected = tuple(tensors[name].shape), tuple(tensor.shape)
            raise UserError(f"{path}: tensor {name} has the shape {found}, expected {expected}; train again")
    model.load_state_dict(tensors)
    return model.to(device).eval(), about


def freeze(model: WorldModel, cfg: TrainSlice, backbone: Path | None) -> dict[str, Path]:
    """Give a method with a backbone the weights of that training and leave only its head to learn; -> what to add to its
    card's inputs."""
    who, wanted = f"train {cfg.env}/{cfg.method_name}/{cfg.seed}", cfg.method.backbone
    if (wanted is None) != (backbone is None):
        told = "trains its own latents; drop --backbone" if backbone else f"needs --backbone, a checkpoint of {wanted}"
        raise UserError(f"{who}: {told}")
    if backbone is None:
        return {}
    _, _, tensors = read(backbone, of(cfg, cfg.train.epochs) | {"method_name": wanted})
    theirs = {name: tensor for name, tensor in tensors.items() if not name.startswith("head.")}
    ours = {name: tensor.shape for name, tensor in model.state_dict().items() if not name.startswith("head.")}
    if odd := sorted(ours.items() ^ {name: tensor.shape for name, tensor in theirs.items()}.items()):
        raise UserError(f"{backbone}: tensor {odd[0][0]} has no counterpart in {who}; train {wanted} again")
    model.load_state_dict(theirs, strict=False)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("head."))
    return {"backbone": backbone}


def count(model: torch.nn.Module) -> dict[str, int]:
    """Parameters of each part and in all."""
    parts = {name: sum(p.numel() for p in part.parameters()) for name, part in model.named_children()}
    return {**parts, "all": sum(parts.values())}
