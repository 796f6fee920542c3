"""What an environment is: N independent copies at once, so that a fast environment can be fast.

A state is the full physical state as an array of floats: `restore(states)` followed by the logged actions gives the logged
states again. A frame is a function of the state. What is generated here and the frames that its planner sees are drawn by
the same `render`; where data is released, the library draws them (library.py).
Each environment is one file, `tdjepa/envs/<name>.py`, with a class `ENV`.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field

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
    kind: Sequence[str] | None = None  # (E,) which demonstrator, where there are several
    facts: dict = field(default_factory=dict)  # what the card says about this environment only

    @classmethod
    def of(
        cls, states, actions, goal: np.ndarray, reached: np.ndarray | None, kind: Sequence[str] | None = None, **facts
    ) -> "Demonstrations":
        """From the states (T + 1, S) and the actions (T, A) of each episode."""
        action = np.concatenate([np.pad(a, ((0, 1), (0, 0)), constant_values=np.nan) for a in actions])
        return cls(np.concatenate(states), action, np.array([len(s) for s in states]), goal, reached, kind, facts)


class Env:
    """An environment may also have `moved(shifts, n, size, rng)`: for each shift, n frames whose agent stands that many
    image pixels to the right of n random places; and `contact_geometry(states)` with `contact_after_reset(rng)`, as Push-T
    has. All below `state` is its own."""

    name: str
    action_dim = 2
    action_low, action_high = -1.0, 1.0
    width: int  # S, numbers of a state
    dtype: type = np.float64  # of a state
    success_text: str  # the success criterion in words, printed with every result
    renderer_difference: dict  # to the library's frames (224 px, resized by PIL), grey levels of 255; tests measure it

    def __init__(self):
        self.restore(np.zeros((0, self.width)))

    def restore(self, states: np.ndarray) -> None:
        """Put the N copies into these states; (N, S)."""
        self._state = np.array(states, self.dtype).reshape(-1, self.width)

    @property
    def state(self) -> np.ndarray:
        """The current states; (N, S)."""
        return self._state.copy()

    def settled(self, states: np.ndarray) -> np.ndarray:
        """The states that the library has after it restored these, where its restoring moves something; (N, S) -> (N, S)"""
        return states

    def demonstrations(self, cfg: CollectSlice) -> Demonstrations:
        """The demonstrator's episodes, each from its own random stream."""

    def step(self, actions: np.ndarray) -> None:
        """One environment step of every copy; (N, A)."""

    def render(self, size: int) -> np.ndarray:
        """Frames of the current states; (N, size, size, 3) uint8."""

    def success(self, goals: np.ndarray) -> np.ndarray:
        """Whether each copy is at its goal state; (N,) bool."""

    def distance(self, goals: np.ndarray) -> np.ndarray:
        """How far each copy is from its goal, in tolerances of the success criterion: below 1 is success; (N,)"""

    def demands(self, starts: np.ndarray, goals: np.ndarray) -> dict[str, np.ndarray]:
        """What the way from each start to its goal asks for: distances (N,) and flags (N,) bool, by name."""
        return {}


def make(name: str) -> Env:
    """The environment of that name. It is imported by name: most verbs need one, and its file is an input of their jobs."""
    if name not in ENVS:
        raise UserError(f"env = {name!r}: must be one of {', '.join(ENVS)}")
    return importlib.import_module(f"tdjepa.envs.{name}").ENV()


def solved(env: Env, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Whether each state is at its goal; (N, S), (N, S) -> (N,) bool"""
    env.restore(states)
    return env.success(goals)
