"""`tdjepa picture` and `tdjepa landscape`: what a planner does and what its cost looks like.

tdjepa picture --env two_room --scale desk --pair 3      (an episode as a GIF beside its goal, with the imagined costs)
tdjepa landscape --scale desk                            (Two-Room: d_psi and l2 from everywhere to one goal)
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from tdjepa.base.artefacts import publish
from tdjepa.base.errors import UserError
from tdjepa.base.figure_files import BLUE, ORANGE, save
from tdjepa.config.slices import EvaluateSlice
from tdjepa.envs import two_room as t
from tdjepa.envs.base import make
from tdjepa.model import checkpoint as checkpoints
from tdjepa.model.world_model import encode_in_parts
from tdjepa.planning.costs import STEP_COSTS, blended, contact_of, step_cost
from tdjepa.planning.mpc import LatentPlanner
from tdjepa.steps import evaluate as evaluation

GOAL = (172.0, 172.0)  # of the landscape: the far corner of the right room, so that the way from the left is a detour
NAMES = {"d_psi": r"$d_\psi$", "l2": r"$\ell_2$ (squared)"}


def rollout(cfg: EvaluateSlice, episodes: Path, manifest: Path, saved: dict, pair: int, cost: str, out: Path) -> dict:
    """One pair of the manifest, planned with the cell of that cost at the last epoch, as a GIF; saved: checkpoints by epoch"""
    cell = next((cell for cell in cfg.cells if cell.cost == cost), None)
    if cell is None:
        raise UserError(f"--cost {cost}: must be one of {', '.join(dict.fromkeys(c.cost for c in cfg.cells))}")
    cfg = cfg.model_copy(update={"cells": (cell,)})
    locked = evaluation.Episodes(cfg, episodes, manifest)
    env = locked.env
    if not 0 <= pair < len(locked.entries):
        raise UserError(f"--pair {pair}: must be 0 to {len(locked.entries) - 1}")
    planner = evaluation.load_planners(cfg, saved, locked)[0]
    which, size, goal = slice(pair, pair + 1), locked.data.image_size, locked.goal_frames[pair]
    # a contact gate's share of l2 changes on the way; the picture keeps the start's, so that its curve is one cost
    of_goal = STEP_COSTS.get(cell.cost, blended)(
        planner.model, cell, planner.encode(goal), contact_of(env, locked.starts[pair])
    )
    act, imagined = planner.policy(goal[None], cell.plan_seeds[0], locked.entries[which]), []

    def remembered(i, plan, frames, past):
        blocks = act(i, plan, frames, past)
        imagined.append(_imagine(planner, of_goal, frames, past, blocks))
        return blocks

    def filmed(actions, step=env.step):
        step(actions)
        frames.append(env.render(size)[0])

    frames, env.step = [locked.first_frames[pair]], filmed
    outcome = locked.play(remembered, which, cell.planner.history, to_the_end=False)
    success, steps = bool(outcome["success"][0]), int(outcome["steps"][0])
    del frames[steps + 1 :]
    real = [float(of_goal(planner.encode(frame))) for frame in frames]
    cost += " (drawn: its l2, without the factor)" if cost == "rc_aux" else ""
    title = f"{cfg.env}, {cfg.label}, {cost}: {'solved' if success else 'not solved'} after {steps} steps"
    pages = _pages(frames, goal, real, imagined, cfg.frameskip * cell.planner.receding, cfg.frameskip, title)
    with publish(out) as temporary:
        pages[0].save(temporary, format="gif", save_all=True, append_images=pages[1:], duration=120, loop=0)
    return {"success": success, "steps": steps, "plans": len(imagined)}


@torch.inference_mode()
def _imagine(planner: LatentPlanner, of_goal, frames, past, blocks) -> list[float]:
    """Cost of the frame planned from and of each imagined step of the plan."""
    z, before = planner.context(frames, past)
    flat = torch.from_numpy(np.asarray(blocks, np.float32)).reshape(1, len(blocks), -1).to(planner.device)
    z_hat = planner.rollout(z, before, planner.model.standardise(flat))[:, 0]  # (k, D)
    return [float(of_goal(z[-1])), *of_goal(z_hat).tolist()]


def _pages(frames, goal, real, imagined, every: int, frameskip: int, title: str) -> list[Image.Image]:
    """Frames and goal side by side over the costs: real so far, and what each plan imagined."""
    figure = Figure(figsize=(4.2, 4.0), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplot_mosaic([["now", "goal"], ["curve", "curve"]], height_ratios=[1.25, 1])
    figure.suptitle(title, fontsize=8)
    for name, frame in (("now", frames[0]), ("goal", goal)):
        axes[name].imshow(frame, interpolation="nearest")
        axes[name].set_title(name, fontsize=8)
        axes[name].set_axis_off()
    curve, (current,) = axes["curve"], axes["now"].images
    for k, costs in enumerate(imagined):
        steps, label = k * every + frameskip * np.arange(len(costs)), "imagined" if k == 0 else None
        curve.plot(steps, costs, "--o", color=ORANGE, markersize=3, linewidth=1, label=label)
    (line,) = curve.plot([], [], color=BLUE, linewidth=1.5, label="real")
    (dot,) = curve.plot([], [], "o", color=BLUE, markersize=5)
    top = max(max(costs) for costs in (real, *imagined))
    curve.set(xlim=(-1, max(every, len(real))), ylim=(0, 1.05 * top))
    curve.set_xlabel("environment step", fontsize=8)
    curve.set_ylabel("cost to the goal", fontsize=8)
    curve.tick_params(labelsize=7)
    curve.legend(fontsize=7, loc="upper right", frameon=False)
    pages, moving = [], (current, line, dot, curve.get_legend())  # the legend lies over the lines
    for artist in moving:
        artist.set_animated(True)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)  # drawn once, because all of it takes a tenth of a second per page
    for step, frame in enumerate(frames):
        current.set_data(frame)
        line.set_data(range(step + 1), real[: step + 1])
        dot.set_data([step], [real[step]])
        canvas.restore_region(still)
        for artist in moving:
            artist.axes.draw_artist(artist)
        pages.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
    return pages + pages[-1:] * 8  # rest on the end


def landscape(cfg: EvaluateSlice, checkpoint: Path, out: Path, side: int = 64) -> dict[str, float]:
    """Two-Room: the costs from every place to GOAL as `out`.pdf and .png. -> how far each cost jumps at the wall"""
    if cfg.env != "two_room":
        raise UserError(f"--env {cfg.env}: the landscape is that of two_room, whose state is a place")
    model, about = checkpoints.load(checkpoint, {"env": cfg.env, "method_name": cfg.method_name, "seed": cfg.seed})
    line, places = _places(side)
    costs = _costs_from(model, about["image_size"], places, (side, side))
    figure = _landscape(costs, line, f"{cfg.label}, epoch {about['epoch']}")
    for kind in (".pdf", ".png"):
        with publish(out.with_suffix(kind)) as temporary:
            save(figure, temporary)
    return {name: _jump(values, line) for name, values in costs.items()}


def _places(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the agent can be drawn: the coordinates of both axes (side,), and the places row by row; (side * side, 2)"""
    line = np.linspace(t.BORDER + t.RADIUS, t.SIZE - t.BORDER - t.RADIUS, side)
    return line, np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)


@torch.inference_mode()
def _costs_from(model, size: int, places: np.ndarray, shape) -> dict[str, np.ndarray]:
    env = make("two_room")
    env.restore(np.array([GOAL]))
    goal = model.encode(torch.from_numpy(env.render(size)))[0]
    env.restore(places)
    z = encode_in_parts(model, env.render(size), 256)
    shares = {"d_psi": 0.0, "l2": 1.0} if hasattr(model.head, "distance") else {"l2": 1.0}
    return {name: step_cost(model, goal, share)(z).reshape(shape).numpy() for name, share in shares.items()}


def _jump(values: np.ndarray, line: np.ndarray) -> float:
    """Below the door: mean cost just left of the wall minus just right of it, over the std of the cost everywhere."""
    reach, below = t.WALL_HALF + t.RADIUS, line > t.DOOR + 2 * t.DOOR_HALF
    left, right = np.searchsorted(line, t.WALL - reach) - 1, np.searchsorted(line, t.WALL + reach)
    return float((values[below, left] - values[below, right]).mean() / values.std())


def _landscape(costs: dict[str, np.ndarray], line: np.ndarray, title: str) -> Figure:
    figure = Figure(figsize=(3.33 * len(costs), 3.1), layout="constrained")
    across, along = np.abs(line - t.WALL) < t.WALL_HALF + t.RADIUS, np.abs(line - t.DOOR) > t.DOOR_HALF + t.DOOR_MARGIN
    in_wall = across & along[:, None]  # where the agent cannot stand
    for axes, (name, values) in zip(np.atleast_1d(figure.subplots(1, len(costs))), costs.items(), strict=True):
        shown = np.ma.masked_array(values, in_wall)
        filled = axes.contourf(line, line, shown, 24, cmap="cividis")
        axes.contour(line, line, shown, 12, colors="white", linewidths=0.4)
        axes.plot(*GOAL, "*", color="white", markeredgecolor="black", markersize=11)
        axes.set_title(f"{NAMES[name]} to the star, {title}", fontsize=8)
        axes.invert_yaxis()
        axes.set(aspect="equal", xticks=[], yticks=[], facecolor="black")  # black: the wall
        figure.colorbar(filled, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)
    return figure
