"""Model-predictive control on the real environment: plan from the current frame, execute, plan again.

All episodes of a manifest advance together, but each is planned by itself from its own random stream and encoded by
itself, so an episode's outcome does not depend on which others are evaluated with it.
"""

import time
from collections.abc import Callable

import numpy as np
import torch

from tdjepa.envs.base import Env
from tdjepa.model.world_model import WorldModel
from tdjepa.params import Planner, Protocol
from tdjepa.planning.cem import cem, icem
from tdjepa.planning.costs import aggregate, make_cost
from tdjepa.planning.rollout import rollout
from tdjepa.streams import torch_stream

# policy(episode, plan number, frames (h, H, W, 3), executed blocks between them (h - 1, frameskip * A)) -> raw action blocks
# (k, frameskip, A), k >= 1; a policy that looks at nothing gets frames = None
Policy = Callable[[int, int, np.ndarray | None, np.ndarray], np.ndarray]


def run_episodes(
    env: Env,
    starts: np.ndarray,
    goals: np.ndarray,
    policy: Policy,
    budget: int,
    frameskip: int,
    history: int = 0,
    image_size: int = 0,
) -> dict[str, np.ndarray]:
    """Follow `policy` from `starts` (N, S) towards `goals` (N, S) for at most `budget` environment steps.

    -> success (N,), trivial (N,), steps (N,) until success or the budget, plans (N,), plan_seconds (N,), final (N, S)
    """
    n = len(starts)
    env.restore(starts)
    success, trivial, final = np.zeros(n, bool), env.success(goals), env.state
    steps, plans, seconds = np.zeros(n, int), np.zeros(n, int), np.zeros(n)
    frames = [[frame] for frame in env.render(image_size)] if history else None
    past: list[list[np.ndarray]] = [[] for _ in range(n)]
    queue: list[list[np.ndarray]] = [[] for _ in range(n)]
    for begin in range(0, budget, frameskip):
        if success.all():
            break
        block = np.zeros((n, frameskip, env.action_dim))
        for i in np.nonzero(~success)[0]:
            if not queue[i]:
                clock = time.perf_counter()
                seen = np.stack(frames[i]) if history else None
                between = np.array(past[i], np.float32).reshape(-1, frameskip * env.action_dim)
                queue[i] = list(policy(i, plans[i], seen, between))
                seconds[i] += time.perf_counter() - clock
                plans[i] += 1
            block[i] = queue[i].pop(0)
        for k in range(min(frameskip, budget - begin)):
            alive = ~success
            env.step(block[:, k])
            steps[alive] += 1
            final[alive] = env.state[alive]
            success[alive] = env.success(goals)[alive]
        if history:
            for i, frame in enumerate(env.render(image_size)):
                frames[i] = [*frames[i], frame][-history:]
                past[i] = [*past[i], block[i].reshape(-1)][len(past[i]) + 2 - len(frames[i]) :]
    return {
        "success": success,
        "trivial": trivial,
        "steps": steps,
        "plans": plans,
        "plan_seconds": seconds,
        "final": final,
    }


class LatentPlanner:
    """The policy of the paper: encode the frames, search action sequences whose rollout ends near the goal latent."""

    def __init__(
        self,
        model: WorldModel,
        env: Env,
        goal_frames: np.ndarray,
        cost: str,
        alpha: float,
        protocol: Protocol,
        planner: Planner,
        plan_seed: int,
        keys: list[tuple[int, int]],
    ):
        self.model, self.planner, self.protocol = model, planner, protocol
        self.against = make_cost(model, cost, alpha)
        self.plan_seed, self.keys = plan_seed, keys  # keys: (episode, start) of each row of the manifest
        self.block, self.action_dim = len(model.action_mean), env.action_dim
        self.goals = [encode_one(model, frame) for frame in goal_frames]
        low = torch.full((self.block,), env.action_low)
        high = torch.full((self.block,), env.action_high)
        if planner.clip == "raw":  # the actions' own bounds; "reference" takes them as if they were z-scored
            low, high = model.standardise(low), model.standardise(high)
        self.bounds = (low, high)

    @torch.inference_mode()
    def __call__(self, i: int, plan: int, frames: np.ndarray, past: np.ndarray) -> np.ndarray:
        model = self.model
        z = torch.stack([encode_one(model, frame) for frame in frames])  # (h, D)
        past = model.standardise(torch.from_numpy(past))
        goal_cost = self.against(self.goals[i])

        def cost(candidates):
            return aggregate(goal_cost, z[-1], rollout(model, z, past, candidates), self.protocol.w)

        generator = torch_stream(self.plan_seed, "plan", *self.keys[i], plan)
        search = (cost, self.planner, self.protocol.refinements, self.block, generator)
        best = icem(*search, self.bounds) if self.protocol.solver == "icem" else cem(*search)
        raw = best[: self.planner.receding] * model.action_std + model.action_mean
        return raw.numpy().reshape(self.planner.receding, -1, self.action_dim)


@torch.inference_mode()
def encode_one(model: WorldModel, frame: np.ndarray) -> torch.Tensor:
    """One frame by itself: the sums in a matrix product depend on the batch it is part of. -> (D,)"""
    return model.encode(torch.from_numpy(np.ascontiguousarray(frame))[None])[0]
