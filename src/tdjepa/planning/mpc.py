"""Model-predictive control on the real environment: plan from the current frame, execute, plan again.

Each episode is planned from its own random stream and encoded alone, so its outcome does not depend on which others are
evaluated, in which order, or how many advance together.
"""

import time
from collections.abc import Callable

import numpy as np
import torch

from tdjepa.base.streams import stream, torch_stream
from tdjepa.config.costs import BY_CONTACT
from tdjepa.config.records.planning import Cell
from tdjepa.envs.base import Env
from tdjepa.model.world_model import WorldModel
from tdjepa.planning import reference
from tdjepa.planning.cem import cem, icem
from tdjepa.planning.costs import contact_of, trajectory_cost
from tdjepa.planning.rollout import Rollout

SOLVERS = {"cem": cem, "icem": icem, "mppi": reference.mppi, "gradient": reference.gradient}

# policy(episode, plan number, frames (h, H, W, 3), executed blocks between them (h - 1, frameskip * A)) -> raw action blocks
# (k, frameskip, A), k >= 1; frames is None for a policy that looks at nothing
Policy = Callable[[int, int, np.ndarray | None, np.ndarray], np.ndarray]


def run_episodes(
    env: Env,
    starts,
    goals,
    policy: Policy,
    budget: int,
    frameskip: int,
    history=0,
    image_size=0,
    first=None,
    to_the_end=True,
) -> dict:
    """Follow `policy` from `starts` (N, S) towards `goals` (N, S) for `budget` environment steps. It sees the frames `first`
    (N, H, W, 3) at the start, if they are given, and what the environment draws from then on.

    An episode counts until its first success: success (N,), trivial (N,), steps (N,) until success or the budget, plans (N,),
    final (N, S); where the environment has contact geometry also start_distance, least_distance and touched (N,). The policy
    keeps planning and acting `to_the_end`, so that stricter questions can be asked: closest (N,) and end (N,), the least
    and the last distance to the goal in tolerances. plan_seconds: a list per episode.
    """
    n = len(starts)
    env.restore(starts)
    success, trivial, final = np.zeros(n, bool), env.success(goals), env.state
    steps, plans, made, seconds = np.zeros(n, int), np.zeros(n, int), np.zeros(n, int), [[] for _ in range(n)]
    closest = np.full(n, np.inf)
    geometry = getattr(env, "contact_geometry", None)
    contact = {}
    if geometry:
        distance, touched = geometry(final)
        contact = {"start_distance": distance, "least_distance": distance.copy(), "touched": touched}
    frames, executed, queue = ([[] for _ in range(n)] for _ in range(3))  # per episode; blocks done, blocks to do
    for begin in range(0, budget, frameskip):
        if success.all() and not to_the_end:
            break
        acting = np.nonzero(~success | to_the_end)[0]
        due = [i for i in acting if not queue[i]]
        if history > 1 or (history and due):  # a planner of one frame needs none between its plans
            now = env.render(image_size) if begin or first is None else first
            frames = [[*seen, frame][-history:] for seen, frame in zip(frames, now, strict=True)]
        for i in due:
            clock = time.perf_counter()
            between = executed[i][len(executed[i]) + 1 - len(frames[i]) :] if history else []
            between = np.array(between, np.float32).reshape(-1, frameskip * env.action_dim)
            queue[i] = list(policy(i, made[i], np.stack(frames[i]) if history else None, between))
            seconds[i].append(time.perf_counter() - clock)
            made[i] += 1
            plans[i] += not success[i]
        block = np.zeros((n, frameskip, env.action_dim))
        for i in acting:
            block[i] = queue[i].pop(0)
            executed[i].append(block[i].reshape(-1))
        for k in range(min(frameskip, budget - begin)):
            alive = ~success
            env.step(block[:, k])
            steps[alive] += 1
            final[alive] = env.state[alive]
            success[alive] = env.success(goals)[alive]
            end = env.distance(goals)
            closest = np.minimum(closest, end)
            if contact:
                distance, touching = geometry(env.state)
                contact["least_distance"][alive] = np.minimum(contact["least_distance"], distance)[alive]
                contact["touched"] |= touching & alive
    outcome = {"success": success, "trivial": trivial, "steps": steps, "plans": plans, "plan_seconds": seconds}
    stricter = {"closest": closest, "end": end} if to_the_end else {}
    return {**outcome, **stricter, "final": final, **contact}


class LatentPlanner:
    """The policy of the paper: encode the frames, then search for action sequences whose rollout ends near the goal latent."""

    def __init__(self, model: WorldModel, env: Env, cell: Cell):
        self.model, self.env, self.cell = model.requires_grad_(False), env, cell
        self.rollout = Rollout(model)
        self.device = model.action_mean.device
        low, high = (torch.full_like(model.action_mean, bound) for bound in (env.action_low, env.action_high))
        if cell.planner.clip == "raw":  # the actions' own bounds; "reference" takes them as if they were z-scored
            low, high = model.standardise(low), model.standardise(high)
        self.bounds = (low, high)

    def policy(self, goal_frames: np.ndarray, plan_seed: int, keys) -> Policy:
        """Towards these goals (N, H, W, 3); keys (N, 2) = (episode, start) name the random streams."""
        goals = [self.encode(frame) for frame in goal_frames]
        keys = [tuple(map(int, key)) for key in keys]

        def act(i, plan, frames, past):
            generator = torch_stream(plan_seed, "plan", *keys[i], int(plan))
            contact = None
            if self.cell.cost in BY_CONTACT:
                stale = plan == 0 and self.cell.costs.first_gate == "reset"
                reset = stream(plan_seed, "reset", *keys[i])  # the reference does not seed it
                contact = self.env.contact_after_reset(reset) if stale else contact_of(self.env, self.env.state[i])
            context = self.context(frames, past)
            if self.cell.solver == "policy":
                return self.raw(self.react(context[0][-1], goals[i], int(plan)))
            return self.raw(self.plan(context, goals[i], generator, contact)[: self.cell.planner.receding])

        return act

    @torch.no_grad()
    def context(self, frames: np.ndarray, past: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Latents (h, D) of the frames seen and z-scored actions (h - 1, block) between them."""
        z = torch.stack([self.encode(frame) for frame in frames])
        return z, self.model.standardise(torch.from_numpy(past).to(self.device, z.dtype))

    @torch.no_grad()
    def encode(self, frame: np.ndarray) -> torch.Tensor:
        """One frame alone, because the rounding of a matrix product depends on the batch. -> (D,)"""
        return self.model.encode(torch.from_numpy(np.ascontiguousarray(frame)).to(self.device)[None])[0]

    def plan(self, context, z_goal: torch.Tensor, generator: torch.Generator, contact=None) -> torch.Tensor:
        """The z-scored action sequence (H, block) that the cell's solver finds."""
        cell, (z, past) = self.cell, context
        of_goal = trajectory_cost(self.model, cell, z_goal, contact)
        imagine = self._differentiable if cell.solver == "gradient" else self.rollout

        def cost(candidates):
            return of_goal(z[-1], imagine(z, past, candidates))

        return SOLVERS[cell.solver](cost, cell.planner, cell.refinements, generator, self.bounds)

    @torch.no_grad()
    def react(self, z: torch.Tensor, z_goal: torch.Tensor, plan: int) -> torch.Tensor:
        """The one z-scored block (1, block) that the model's own head takes; it looks again after each."""
        left = max(1, self.cell.planner.horizon - plan)  # model steps that the goal was meant to be away
        return self.model.head.action(z, z_goal, left)[None]

    def raw(self, blocks: torch.Tensor) -> np.ndarray:
        """z-scored (k, block) -> actions (k, frameskip, A)"""
        raw = blocks * self.model.action_std + self.model.action_mean
        return raw.cpu().numpy().reshape(len(blocks), -1, self.env.action_dim)

    def _differentiable(self, z, past, candidates):
        actions = torch.cat([past.expand(len(candidates), -1, -1), candidates], 1)
        z_hat = self.model.rollout(z.expand(len(candidates), -1, -1), self.model.action_encoder(actions))
        return z_hat.transpose(0, 1)  # (H, N, D)
