"""Heads on top of the latents: two temporal distances (directed and symmetric), the reachability heads of RC-aux, and
heads that act.

A temporal head splits into `features(z)` and `distance(s, g)`, so that a planner computes the goal's features once. A
reachability head gives `logit(z_s, z_g)`, or `logit(z_s, z_g, budget)` if it knows how many steps are left. A head that acts
gives `action(z_s, z_g, steps)`: the z-scored block to execute next.
"""

import torch
import torch.nn.functional as F
from torch import nn

from tdjepa.config.records.model import Head

BUDGET_WIDTH = 32


class Temporal(nn.Module):
    """A distance between learned features of two latents; `parts` groups of features."""

    parts = 1

    def __init__(self, cfg: Head, latent: int, block: int = 0):
        super().__init__()
        enter, leave = nn.Linear(latent, cfg.hidden), nn.Linear(cfg.hidden, self.parts * cfg.features)
        self.trunk = nn.Sequential(enter, nn.LayerNorm(cfg.hidden), nn.GELU(), leave)

    def features(self, z):
        return self.trunk(z)

    def forward(self, z_s, z_g):
        return self.distance(self.features(z_s), self.features(z_g))


class MRN(Temporal):
    """d(s, g) = ||sym(s) - sym(g)||_2 + max_k relu(asym_k(s) - asym_k(g)): a metric residual network (eq. 5 of the paper).
    Non-negative, d(z, z) = 0, obeys the triangle inequality, not symmetric."""

    parts = 2

    @staticmethod
    def distance(s, g):
        """Distance between features, s to g; (..., 2 * features), broadcast -> (...)"""
        sym, asym = (s - g).chunk(2, -1)
        return torch.linalg.vector_norm(sym, dim=-1) + F.relu(asym.amax(-1))


class Symmetric(Temporal):
    """The ablation: the same trunk, one group of features, plain Euclidean distance."""

    @staticmethod
    def distance(s, g):
        """(..., features), broadcast -> (...)"""
        return torch.linalg.vector_norm(s - g, dim=-1)


class Reachability(nn.Module):
    """Can g be reached from s within the planner's horizon? This is how the paper's authors re-implemented RC-aux."""

    def __init__(self, cfg: Head, latent: int, block: int = 0):
        super().__init__()
        wide, half = cfg.hidden, cfg.hidden // 2
        enter = (nn.Linear(2 * latent, wide), nn.LayerNorm(wide), nn.GELU())
        self.net = nn.Sequential(*enter, nn.Linear(wide, half), nn.GELU(), nn.Linear(half, 1))

    def logit(self, z_s, z_g):
        """z (..., D), broadcast -> (...)"""
        return self.net(torch.cat(torch.broadcast_tensors(z_s, z_g), -1)).squeeze(-1)


class BudgetReachability(nn.Module):
    """Can g be reached from s in at most b model steps? This is the head of RC-aux's own authors."""

    def __init__(self, cfg: Head, latent: int, block: int = 0):
        super().__init__()
        self.budget = nn.Embedding(cfg.budgets + 1, BUDGET_WIDTH)  # 0 steps has a row too
        width, wide = 4 * latent + BUDGET_WIDTH, cfg.hidden
        enter = (nn.LayerNorm(width), nn.Linear(width, wide), nn.SiLU())
        self.net = nn.Sequential(*enter, nn.Linear(wide, wide), nn.SiLU(), nn.Linear(wide, 1))

    def logit(self, z_s, z_g, budget):
        """z (..., D), budget (...) whole numbers 0..budgets, all broadcast -> (...)"""
        z_s, z_g, b = torch.broadcast_tensors(z_s, z_g, torch.as_tensor(budget, device=z_s.device)[..., None])
        return self.net(torch.cat([z_s, z_g, (z_s - z_g).abs(), z_s * z_g, self.budget(b[..., 0])], -1)).squeeze(-1)


class Action(nn.Module):
    """The actions that lead from s towards g: the inverse model of SMWM and PLDM between neighbours, the policy of GCBC."""

    more = 0  # inputs beside the two latents

    def __init__(self, cfg: Head, latent: int, block: int = 0):
        super().__init__()
        self.net = _mlp(2 * latent + self.more, cfg.hidden, block)

    def action(self, z_s, z_g, steps=None):
        """z (..., D), broadcast; the number of steps is not looked at -> (..., block)"""
        return self.net(_joined(z_s, z_g))


class TimedAction(Action):
    """GC-IDM: an action head that also knows how many model steps are left."""

    more = BUDGET_WIDTH

    def __init__(self, cfg: Head, latent: int, block: int = 0):
        super().__init__(cfg, latent, block)
        self.steps = nn.Embedding(cfg.budgets + 1, BUDGET_WIDTH)

    def action(self, z_s, z_g, steps=None):
        """z (..., D), steps (...) whole numbers; more than `budgets` count as that many -> (..., block)"""
        steps = torch.as_tensor(steps, device=z_s.device).clamp(max=self.steps.num_embeddings - 1)
        left = self.steps(steps).expand(*torch.broadcast_shapes(z_s.shape, z_g.shape)[:-1], -1)
        return self.net(torch.cat([_joined(z_s, z_g), left], -1))


class ValueAction(Action):
    """Goal-conditioned IVL: a policy and the value that weighs its examples."""

    def __init__(self, cfg: Head, latent: int, block: int = 0):
        super().__init__(cfg, latent, block)
        self.value_net = _mlp(2 * latent, cfg.hidden, 1)

    def value(self, z_s, z_g):
        """z (..., D), broadcast -> (...)"""
        return self.value_net(_joined(z_s, z_g)).squeeze(-1)


class CriticAction(ValueAction):
    """Goal-conditioned IQL: policy, value, and a critic of single actions."""

    def __init__(self, cfg: Head, latent: int, block: int = 0):
        super().__init__(cfg, latent, block)
        self.critic_net = _mlp(2 * latent + block, cfg.hidden, 1)

    def critic(self, z_s, z_g, actions):
        """z (..., D) and actions (..., block), broadcast -> (...)"""
        pair = _joined(z_s, z_g)
        return self.critic_net(torch.cat([pair, actions.expand(*pair.shape[:-1], -1)], -1)).squeeze(-1)


def _joined(*z):
    return torch.cat(torch.broadcast_tensors(*z), -1)


def _mlp(enter: int, hidden: int, leave: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Linear(enter, hidden), nn.LayerNorm(hidden), nn.GELU()),
        *(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, leave)),
    )


HEADS = {"mrn": MRN, "symmetric": Symmetric, "reachability": Reachability, "budget_reachability": BudgetReachability}
HEADS |= {"action": Action, "timed_action": TimedAction, "value_action": ValueAction, "critic_action": CriticAction}
