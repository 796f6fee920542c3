"""`tdjepa picture` and `tdjepa landscape`: what a planner does and what its cost looks like.

tdjepa picture --env two_room --scale desk --pair 3      (an episode as a GIF beside its goal, with the imagined costs)
tdjepa landscape --scale desk                            (Two-Room: d_psi and l2 from everywhere to one goal)
"""

from pathlib import Path

import numpy as np

from tdjepa.base.artefacts import publish
from tdjepa.base.errors import UserError
from tdjepa.config.slices import EvaluateSlice
from tdjepa.envs.base import make
from tdjepa.planning.costs import blended, contact_of, step_cost
from tdjepa.planning.mpc import LatentPlanner, run_episodes
from tdjepa.steps import evaluate as evaluation

GOAL = (172.0, 172.0)  # of the landscape: the far corner of the right room, so that the way from the left is a detour
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"
NAMES = {"d_psi": r"$d_\psi$", "l2": r"$\ell_2$ (squared)"}


class Recorder:
    """An environment that remembers the frame after every step."""

    def __init__(self, env, size: int):
        self._env, self._size, self.frames = env, size, []

    def __getattr__(self, name):
        return getattr(self._env, name)

    def restore(self, states):
        self._env.restore(states)
        self.frames = [self._env.render(self._size)[0]]

    def step(self, actions):
        self._env.step(actions)
        self.frames.append(self._env.render(self._size)[0])


def rollout(
    cfg: EvaluateSlice, episodes: Path, manifest: Path, checkpoints: dict[int, Path], pair: int, cost: str, out: Path
) -> dict:
    """One pair of the manifest, planned with the cell of that cost at the last epoch, as a GIF."""
    cell = next((cell for cell in cfg.cells if cell.cost == cost), None)
    if cell is None:
        raise UserError(f"--cost {cost}: must be one of {', '.join(dict.fromkeys(c.cost for c in cfg.cells))}")
    cfg = cfg.model_copy(update={"cells": (cell,)})
    locked, env = evaluation.Episodes(cfg, episodes, manifest), make(cfg.env)
    if not 0 <= pair < len(locked.entries):
        raise UserError(f"--pair {pair}: must be 0 to {len(locked.entries) - 1}")
    planner = evaluation.load_planners(cfg, checkpoints, env, locked)[0]
    which, size, goal = slice(pair, pair + 1), locked.data.image_size, locked.goal_frames(env)[pair]
    # a contact gate's share of l2 changes on the way; the picture keeps the start's, so that its curve is one cost
    of_goal = blended(planner.model, cell, planner.encode(goal), contact_of(env, locked.starts[pair]))
    act, imagined = planner.policy(goal[None], cell.plan_seeds[0], locked.entries[which]), []

    def remembered(i, plan, frames, past):
        blocks = act(i, plan, frames, past)
        imagined.append(_imagine(planner, of_goal, frames, past, blocks))
        return blocks

    recorder, goals = Recorder(env, size), (locked.starts[which], locked.goals[which])
    budget = (cfg.evaluate.budget, cfg.frameskip, cell.planner.history, size)
    outcome = run_episodes(recorder, *goals, remembered, *budget)
    success, steps = bool(outcome["success"][0]), int(outcome["steps"][0])
    frames = recorder.frames[: steps + 1]
    real = [float(of_goal(planner.encode(frame))) for frame in frames]
    cost += " (drawn: its l2, without the factor)" if cost == "rc_aux" else ""
    title = f"{cfg.env}, {cfg.label}, {cost}: {'solved' if success else 'not solved'} after {steps} steps"
    with publish(out) as temporary:
        pages = _pages(frames, goal, real, imagined, cfg.frameskip * cell.planner.receding, cfg.frameskip, title)
        pages[0].save(temporary, format="gif", save_all=True, append_images=pages[1:], duration=120, loop=0)
    return {"success": success, "steps": steps, "plans": len(imagined)}


def _imagine(planner: LatentPlanner, of_goal, frames, past, blocks) -> list[float]:
    """Cost of the frame planned from and of each imagined step of the plan."""
    import torch

    z, before = planner.context(frames, past)
    with torch.inference_mode():
        flat = torch.from_numpy(np.asarray(blocks, np.float32)).reshape(1, len(blocks), -1).to(planner.device)
        z_hat = planner.rollout(z, before, planner.model.standardise(flat))[:, 0]  # (k, D)
        return [float(of_goal(z[-1])), *of_goal(z_hat).tolist()]


def _pages(frames, goal, real, imagined, every: int, frameskip: int, title: str) -> list:
    """Frames and goal side by side over the costs: real so far, and what each plan imagined."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(4.2, 4.0), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplot_mosaic([["now", "goal"], ["curve", "curve"]], height_ratios=[1.25, 1])
    curve, current = axes["curve"], axes["now"].imshow(frames[0], interpolation="nearest")
    axes["goal"].imshow(goal, interpolation="nearest")
    figure.suptitle(title, fontsize=8)
    for name in ("now", "goal"):
        axes[name].set_title(name, fontsize=8)
        axes[name].set_axis_off()
    for k, costs in enumerate(imagined):
        steps = k * every + frameskip * np.arange(len(costs))
        curve.plot(steps, costs, "--o", color=ORANGE, markersize=3, linewidth=1, label="imagined" if k == 0 else None)
    (line,) = curve.plot([], [], color=BLUE, linewidth=1.5, label="real")
    (dot,) = curve.plot([], [], "o", color=BLUE, markersize=5)
    top = max(max(costs) for costs in (real, *imagined))
    curve.set(xlim=(-1, max(every, len(real))), ylim=(0, 1.05 * top))
    curve.set_xlabel("environment step", fontsize=8)
    curve.set_ylabel("cost to the goal", fontsize=8)
    curve.tick_params(labelsize=7)
    curve.legend(fontsize=7, loc="upper right", frameon=False)
    pages = []
    for t, frame in enumerate(frames):
        current.set_data(frame)
        line.set_data(range(t + 1), real[: t + 1])
        dot.set_data([t], [real[t]])
        canvas.draw()
        pages.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
    return pages + pages[-1:] * 8  # rest on the end


def landscape(cfg: EvaluateSlice, checkpoint: Path, out: Path, side: int = 64) -> dict[str, float]:
    """Two-Room: the costs from every place to GOAL as `out`.pdf and .png. -> how far each cost jumps at the wall"""
    from tdjepa.base.figure_files import save
    from tdjepa.model import checkpoint as checkpoints

    if cfg.env != "two_room":
        raise UserError(f"--env {cfg.env}: the landscape is that of two_room, whose state is a place")
    model, about = checkpoints.load(checkpoint, {"env": cfg.env, "method_name": cfg.method_name, "seed": cfg.seed})
    places, inside = _places(side)
    costs = _costs_from(model, about["image_size"], places)
    jumps = {name: _jump(values.reshape(side, side), places) for name, values in costs.items()}
    figure = _landscape(costs, places, inside, side, f"{cfg.label}, epoch {about['epoch']}")
    for kind in (".pdf", ".png"):
        with publish(out.with_suffix(kind)) as temporary:
            save(figure, temporary)
    return jumps


def _places(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the agent can be drawn, row by row; (side * side, 2), and whether it can stand there (not in the wall)."""
    from tdjepa.envs import two_room as t

    line = np.linspace(t.BORDER + t.RADIUS, t.SIZE - t.BORDER - t.RADIUS, side)
    x, y = np.meshgrid(line, line)
    in_wall = (np.abs(x - t.WALL) < t.WALL_HALF + t.RADIUS) & (np.abs(y - t.DOOR) > t.DOOR_HALF + t.DOOR_MARGIN)
    return np.stack([x.ravel(), y.ravel()], 1), ~in_wall


def _costs_from(model, size: int, places: np.ndarray) -> dict[str, np.ndarray]:
    import torch

    env = make("two_room")
    env.restore(np.array([GOAL]))
    with torch.inference_mode():
        goal = model.encode(torch.from_numpy(env.render(size)))[0]
        env.restore(places)
        frames = torch.from_numpy(env.render(size))
        z = torch.cat([model.encode(part) for part in frames.split(256)])
        shares = {"d_psi": 0.0, "l2": 1.0} if hasattr(model.head, "distance") else {"l2": 1.0}
        return {name: step_cost(model, goal, share)(z).numpy() for name, share in shares.items()}


def _jump(values: np.ndarray, places: np.ndarray) -> float:
    """Below the door: mean cost just left of the wall minus just right of it, over the std of the cost everywhere."""
    from tdjepa.envs import two_room as t

    line = np.unique(places[:, 0])
    reach = t.WALL_HALF + t.RADIUS
    left, right = np.searchsorted(line, t.WALL - reach) - 1, np.searchsorted(line, t.WALL + reach)
    below = line > t.DOOR + 2 * t.DOOR_HALF
    return float((values[below, left] - values[below, right]).mean() / values.std())


def _landscape(costs, places, inside, side: int, title: str):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.33 * len(costs), 3.1), layout="constrained")
    line = np.unique(places[:, 0])
    for axes, (name, values) in zip(np.atleast_1d(figure.subplots(1, len(costs))), costs.items(), strict=True):
        shown = np.ma.masked_array(values.reshape(side, side), ~inside)
        filled = axes.contourf(line, line, shown, 24, cmap="cividis")
        axes.contour(line, line, shown, 12, colors="white", linewidths=0.4)
        axes.plot(*GOAL, "*", color="white", markeredgecolor="black", markersize=11)
        axes.set_title(f"{NAMES[name]} to the star, {title}", fontsize=8)
        axes.invert_yaxis()
        axes.set(aspect="equal", xticks=[], yticks=[], facecolor="black")  # black: the wall
        figure.colorbar(filled, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)
    return figure
