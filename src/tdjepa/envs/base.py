"""The small interface of an environment. It is batched: N independent copies, so that a fast environment can be fast.

States are the full physical state as float arrays: `restore(states)` followed by the logged actions gives the logged
states again. A frame is a function of the state, drawn by the same `render` for demonstrations, goals and evaluation.
One file an environment: `tdjepa/envs/<name>.py` with a class `ENV`.
"""

import importlib
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tdjepa.base.errors import UserError
from tdjepa.config.records.base import ENVS
from tdjepa.config.slices import CollectSlice


@dataclass(frozen=True)
class Demonstrations:
    """Episodes end to end; row t of an episode holds the state at t and the action taken then."""

    state: np.ndarray  # (rows, S)
    action: np.ndarray  # (rows, A); NaN on the last row of an episode, where none is taken
    length: np.ndarray  # (E,) rows of each episode
    goal: np.ndarray  # (E, S) what the demonstrator was after; NaN if it was after nothing
    reached: np.ndarray | None  # (goals,) bool: of all that it was after, in the end; None if it was after nothing
    facts: dict = field(default_factory=dict)  # what the card says of this environment and of no other


class Env(Protocol):
    name: str
    action_dim: int
    action_low: float
    action_high: float
    success_text: str  # the success criterion in words, printed with every result
    renderer_difference: dict  # how far our frames are from the library's own, in grey levels of 255

    def demonstrations(self, cfg: CollectSlice) -> Demonstrations:
        """The demonstrator's episodes, one named random stream each."""

    def restore(self, states: np.ndarray) -> None:
        """Put the N copies into these states; (N, S)."""

    def step(self, actions: np.ndarray) -> None:
        """One environment step of every copy; (N, A)."""

    @property
    def state(self) -> np.ndarray:
        """The current states; (N, S)."""

    def render(self, size: int) -> np.ndarray:
        """Frames of the current states; (N, size, size, 3) uint8."""

    def moved(self, shifts: np.ndarray, n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
        """For each shift: n frames whose agent stands that many image pixels to the right of n random places."""

    def success(self, goals: np.ndarray) -> np.ndarray:
        """Whether each copy is at its goal state; (N,) bool."""

    def distance(self, goals: np.ndarray) -> np.ndarray:
        """How far each copy is from its goal, in what success is measured by, over its tolerance: below 1 is there; (N,)"""


def make(name: str) -> Env:
    """The environment of that name. Imported by name: most verbs need one environment, and its file is its own input."""
    if name not in ENVS:
        raise UserError(f"env = {name!r}: must be one of {', '.join(ENVS)}")
    try:
        module = importlib.import_module(f"tdjepa.envs.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"tdjepa.envs.{name}":
            raise
        raise UserError(f"env = {name!r}: is not part of this version yet") from None
    return module.ENV()


def solved(env: Env, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Whether each state is at its goal; (N, S), (N, S) -> (N,) bool"""
    env.restore(states)
    return env.success(goals)
