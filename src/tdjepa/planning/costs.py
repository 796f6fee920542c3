"""Planning costs as pure functions of latents: d_psi, l2, their blend; and how a rollout's costs become one number."""

import torch

from tdjepa.errors import UserError


def l2(z, z_goal):
    """SQUARED Euclidean distance in latent space, as LeWM plans with; (..., D) -> (...)"""
    return (z - z_goal).square().sum(-1)


def make_cost(model, name: str, alpha: float):
    """The cost `name` as a function z -> cost against one fixed goal latent: make_cost(...)(z_goal)(z).

    Features of the goal are computed once. A cost that the model cannot give is an error, never a silent fallback.
    """
    if name in ("d_psi", "blend") and not hasattr(model.head, "distance"):
        raise UserError(f"cost = {name!r}: this model was trained without a temporal head; only l2 can be planned with")

    def against(z_goal):
        if name == "l2":
            return lambda z: l2(z, z_goal)
        goal = model.head.features(z_goal)
        if name == "d_psi":
            return lambda z: model.head.distance(model.head.features(z), goal)
        return lambda z: (1 - alpha) * model.head.distance(model.head.features(z), goal) + alpha * l2(z, z_goal)

    return against


def aggregate(cost, z_context, z_hat, w: float) -> torch.Tensor:
    """w * terminal + (1 - w) * mean over the whole trajectory, the context frame's own latent included.

    z_context (D,), z_hat (N, H, D) -> (N,)
    """
    terminal = cost(z_hat[:, -1])
    if w == 1.0:
        return terminal
    before = cost(z_hat[:, :-1]).sum(1) + cost(z_context)
    return w * terminal + (1 - w) * (before + terminal) / (z_hat.shape[1] + 1)
