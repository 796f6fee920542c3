"""Goal-conditioned values by expectile regression (IQL): what temporal difference learning makes of the same step order.

Reward is -1 per model step until the goal is reached, so a value is minus a (discounted) number of steps. Goals are later
frames of the window and, at the same place, those of another window. Targets are stop-gradient values of the same network;
the published methods keep a slowly moving copy for them, which windows of eight frames do not need.
"""

import torch
import torch.nn.functional as F

from tdjepa.base.transfer import moved

MOST = 100.0  # largest weight of an action in advantage-weighted regression, as in IQL's code


def expectile_loss(difference, expectile: float):
    """Squares, weighted by `expectile` where the target lies above the estimate and by 1 - expectile elsewhere. -> scalar"""
    return (torch.where(difference > 0, expectile, 1 - expectile) * difference.square()).mean()


def transitions(z, other):
    """All i < j of a window. -> start, next (B, P, D); goals (2, B, P, D), own and a stranger's; arrived (2, 1, P) bool; i"""
    i, j = torch.triu_indices(z.shape[1], z.shape[1], 1, device=z.device)
    goals = torch.stack([z[:, j], z[moved(other, z.device)][:, j]])
    arrived = torch.stack([j == i + 1, torch.zeros_like(j, dtype=torch.bool)])[:, None]
    return z[:, i], z[:, i + 1], goals, arrived, i


def distance(head, z, other, expectile: float, discount: float):
    """Value-guided JEPA: the temporal head as -V, regressed to 1 + discount * d(next, goal) instead of the step count.
    A head with d(g, g) = 0 needs no end of an episode. z (B, T, D) -> scalar"""
    start, after, goals, _, _ = transitions(head.features(z), other)
    with torch.no_grad():
        target = 1 + discount * head.distance(after, goals)
    return expectile_loss(head.distance(start, goals) - target, expectile)


def implicit_value(head, z, actions, other, expectile: float, discount: float, temperature: float):
    """Goal-conditioned IVL: a value, and a policy weighted by how much an action gains of it. -> scalar"""
    start, after, goals, arrived, i = transitions(z, other)
    v = head.value(start, goals)
    with torch.no_grad():
        ahead = _ahead(head, after, goals, arrived, discount)
        gain = ahead - v
    return expectile_loss(ahead - v, expectile) + _weighted_cloning(
        head, start, goals[0], actions[:, i], gain[0], temperature
    )


def implicit_q(head, z, actions, other, expectile: float, discount: float, temperature: float):
    """Goal-conditioned IQL: Q regresses reward and next value, the value is an expectile of Q over the data's actions, and
    the policy clones actions by their advantage. -> scalar"""
    start, after, goals, arrived, i = transitions(z, other)
    done = actions[:, i]  # (B, P, A)
    q, v = head.critic(start, goals, done), head.value(start, goals)
    with torch.no_grad():
        ahead = _ahead(head, after, goals, arrived, discount)
    gain = (q - v).detach()
    cloning = _weighted_cloning(head, start, goals[0], done, gain[0], temperature)
    return F.mse_loss(q, ahead) + expectile_loss(q.detach() - v, expectile) + cloning


def _ahead(head, after, goals, arrived, discount: float):
    """-1 + discounted value of the next frame; nothing more to pay where that is the goal. -> (2, B, P)"""
    return -1 + discount * head.value(after, goals).masked_fill(arrived, 0.0)


def _weighted_cloning(head, start, goal, actions, gain, temperature: float):
    """Square errors of the policy towards the window's own goals, weighted by exp(temperature * advantage). -> scalar"""
    error = (head.action(start, goal) - actions).square().mean(-1)
    return ((temperature * gain).exp().clamp_max(MOST) * error).mean()
