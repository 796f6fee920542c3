"""Planning costs as pure functions of latents, and how the costs of a rollout become one number (eq. 7 of the paper).

Every cost but `rc_aux` is a blend (1 - a) d_psi + a l2: d_psi is a = 0, l2 is a = 1, and the contact gates of Push-T choose
a by the distance between agent and block. A cost that needs what the model or the environment lacks is an error (`refuse`).
"""

import math
from collections.abc import Callable

import numpy as np
import torch

from tdjepa.base.errors import UserError
from tdjepa.config.costs import BY_CONTACT
from tdjepa.config.records.planning import Cell, Costs
from tdjepa.envs.base import Env

LEAST_FACTOR = 0.05  # of rc_aux: reachability lowers l2 at most to this share

Contact = tuple[float, bool]  # the distance between agent and block, and whether they touch
# (z of the frame planned from (D,), imagined latents (H, N, D)) -> costs (N,)
TrajectoryCost = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def l2(z, z_goal, form: str = "squared"):
    """Euclidean distance in latent space, squared as in LeWM; (..., D) -> (...)"""
    squared = (z - z_goal).square().sum(-1)
    return squared if form == "squared" else squared.sqrt()


def in_contact(distance, touching, c: Costs):
    """THE definition of contact, of gates and of phases: agent and block are near each other, or touch. The distance is to the
    origin of the T, up to 136 px from an agent that touches its far end, so neither part can stand alone."""
    return touching | (distance < c.contact_distance)


def hard_gate(distance: float, touching: bool, c: Costs) -> float:
    """Share of l2: geometry in contact with the block, d_psi far from it."""
    return c.gate_near if in_contact(distance, touching, c) else c.hard_gate_far


def soft_gate(distance: float, touching: bool, c: Costs) -> float:
    """Share of l2: a sigmoid of the distance around that of contact; a touch is near whatever the distance."""
    near = 1.0 if touching else 1 / (1 + math.exp(min((distance - c.contact_distance) / c.gate_softness, 700.0)))
    return c.soft_gate_far + (c.gate_near - c.soft_gate_far) * near


def contact_of(env: Env, state: np.ndarray) -> Contact | None:
    """What the simulator knows about one state (S,), which is privileged; None where an environment has no contact geometry."""
    if not hasattr(env, "contact_geometry"):
        return None
    distance, touching = env.contact_geometry(state[None])
    return float(distance[0]), bool(touching[0])


def share_of_l2(cell: Cell, contact: Contact | None) -> float:
    """a in (1 - a) d_psi + a l2; `contact` of the state that is planned from."""
    if cell.cost in BY_CONTACT:
        return {"hard_gate": hard_gate, "soft_gate": soft_gate}[cell.cost](*contact, cell.costs)
    return {"d_psi": 0.0, "blend": cell.alpha, "l2": 1.0, "rc_aux": 1.0}[cell.cost]


def step_cost(model, z_goal, share: float, form: str = "squared"):
    """z -> (1 - share) d_psi + share l2 against one goal. The goal's features are computed once; a part of share 0 never."""
    if share == 1:
        return lambda z: l2(z, z_goal, form)
    goal = model.head.features(z_goal)

    def d_psi(z):
        return model.head.distance(model.head.features(z), goal)

    return d_psi if share == 0 else lambda z: (1 - share) * d_psi(z) + share * l2(z, z_goal, form)


def blended(model, cell: Cell, z_goal, contact: Contact | None = None):
    """z -> the cell's blend of d_psi and l2 against one goal."""
    return step_cost(model, z_goal, share_of_l2(cell, contact), cell.costs.l2)


STEP_COSTS = {}  # cost -> a function like `blended`, for a cost that is no blend of d_psi and l2


def aggregate(cost, z_context, z_hat, w: float, with_context: bool = True) -> torch.Tensor:
    """w * terminal + (1 - w) * mean over the trajectory, the context frame's own latent included.
    z_context (D,), z_hat (H, N, D) -> (N,)"""
    terminal = cost(z_hat[-1])
    if w == 1.0:
        return terminal
    total, n = cost(z_hat[:-1]).sum(0) + terminal, len(z_hat)
    if with_context:
        total, n = total + cost(z_context), n + 1
    return w * terminal + (1 - w) * total / n


def reachability_factor(logits: torch.Tensor, lam: float) -> torch.Tensor:
    """RC-aux: a trajectory that promises to reach the goal in the steps left costs less. logits (H, N) -> (N,)"""
    return (1 - lam * logits.sigmoid().amax(0)).clamp_min(LEAST_FACTOR)


def trajectory_cost(model, cell: Cell, z_goal, contact: Contact | None = None) -> TrajectoryCost:
    """The cell's cost of imagined trajectories towards one goal latent (D,)."""
    step = STEP_COSTS.get(cell.cost, blended)(model, cell, z_goal, contact)
    with_context = cell.costs.trajectory_mean == "with_context"

    def cost(z_context, z_hat):
        total = aggregate(step, z_context, z_hat, cell.w, with_context)
        if cell.cost != "rc_aux":
            return total
        steps_left = torch.arange(len(z_hat), 0, -1, device=z_hat.device)[:, None]  # H - k + 1
        return total * reachability_factor(model.head.logit(z_hat, z_goal, steps_left), cell.costs.rc_aux_lambda)

    return cost


def refuse(cell: Cell, model, env: Env, source: str) -> None:
    """A clear error for a cost that this model or environment cannot give."""
    head, cost, problem = model.head, cell.cost, None
    if cost in ("d_psi", "blend", *BY_CONTACT) and not hasattr(head, "distance"):
        problem = "this model was trained without a temporal head; plan with l2"
    elif cost == "policy" and not hasattr(head, "action"):
        problem = "this model has no head that acts; plan with l2"
    elif cost == "rc_aux" and not hasattr(head, "budget"):
        problem = "this model has no head for reachability in so many steps; plan with l2"
    elif cost == "rc_aux" and cell.planner.horizon >= head.budget.num_embeddings:
        problem = f"horizon {cell.planner.horizon} exceeds the {head.budget.num_embeddings - 1} steps its head knows"
    elif cost in BY_CONTACT and not hasattr(env, "contact_geometry"):
        problem = f"{env.name} has no contact geometry; only push_t can be planned with it"
    if problem:
        raise UserError(f"{source}: cost = {cost!r}: {problem}")
