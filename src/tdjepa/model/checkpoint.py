"""Checkpoints: safetensors (no code is ever unpickled) with the parameters of the training inside and a card beside."""

import json
from pathlib import Path

import torch

from tdjepa.artefacts import publish, sweep, verified, write_card
from tdjepa.errors import UserError
from tdjepa.model.world_model import WorldModel, build
from tdjepa.params import TrainSlice, parse

KEY = "tdjepa"  # ONE metadata key: safetensors writes several in random order, and files would not be byte-equal


def save(
    path: Path,
    model: WorldModel,
    cfg: TrainSlice,
    image_size: int,
    epoch: int,
    inputs: dict[str, Path],
    verb: str = "train",
    **facts,
) -> dict:
    """Write the checkpoint and its card (with the `facts` on it); returns the card."""
    from safetensors.torch import save_file

    sweep(path)
    about = {
        "train": cfg.model_dump(mode="json"),
        "image_size": image_size,
        "block": len(model.action_mean),
        "epoch": epoch,
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with publish(path) as temporary:
        save_file(tensors, temporary, metadata={KEY: json.dumps(about, sort_keys=True)})
    return write_card(path, verb, cfg.model_dump(mode="json"), inputs, epoch=epoch, parameters=count(model), **facts)


def load(path: Path, expect: dict[str, object] | None = None, device: str = "cpu") -> tuple[WorldModel, dict]:
    """The model in eval mode and what the file says about itself; `expect` = {"env": ..., "method_name": ..., ...}"""
    from safetensors import SafetensorError, safe_open

    verified(path)
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get(KEY, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(f"{path}: not a safetensors file ({error}); delete it and train again") from None
    if about is None:
        raise UserError(
            f"{path}: says nothing about its training, so it is not one of ours; use a checkpoint of `tdjepa train`"
        )
    cfg = parse(TrainSlice, about["train"], str(path))
    for key, wanted in (expect or {}).items():
        if getattr(cfg, key) != wanted:
            raise UserError(f"{path}: was trained with {key} = {getattr(cfg, key)!r}, expected {wanted!r}")
    model = build(cfg.model, cfg.method.head, about["image_size"], about["block"], cfg.seed)
    wanted, found = set(model.state_dict()), set(tensors)
    if wanted != found:
        odd = sorted(wanted ^ found)[0]
        raise UserError(
            f"{path}: {'lacks' if odd in wanted else 'has the unknown'} tensor {odd}; it is not a checkpoint of this version"
        )
    model.load_state_dict(tensors)
    return model.to(device).eval(), about


def count(model: torch.nn.Module) -> dict[str, int]:
    """Parameters of each part and in all."""
    parts = {name: sum(p.numel() for p in part.parameters()) for name, part in model.named_children()}
    return {**parts, "all": sum(parts.values())}
