"""The small interface of an environment. It is batched: N independent copies, so that a fast environment can be fast.

States are the full physical state as float arrays: `restore(states)` followed by the logged actions gives the logged
states again. Frames come from `render`, the same for collection, goals and evaluation.
"""

from typing import Protocol

import numpy as np


class Env(Protocol):
    name: str
    action_dim: int
    action_low: float
    action_high: float
    success_text: str  # the success criterion in words, printed with every result

    def restore(self, states: np.ndarray) -> None:
        """Put the N copies into these states; (N, S)."""

    def step(self, actions: np.ndarray) -> None:
        """One environment step of every copy; (N, A)."""

    @property
    def state(self) -> np.ndarray:
        """The current states; (N, S)."""

    def render(self, size: int) -> np.ndarray:
        """Frames of the current states; (N, size, size, 3) uint8."""

    def success(self, goals: np.ndarray) -> np.ndarray:
        """Whether each copy is at its goal state; (N,) bool."""


def make(name: str) -> Env:
    """The environment of that name. Imports are lazy: most verbs need one environment or none."""
    if name == "two_room":
        from tdjepa.envs.two_room import TwoRoom

        return TwoRoom()
    from tdjepa.errors import UserError

    raise UserError(f"env = {name!r}: only two_room can be run so far")
