"""The reference library, imported the way the project does it (its import takes seconds: only where it is compared with)."""

import warnings

from tdjepa.base import torchvision_shim

torchvision_shim.ensure()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # optional environments that are not installed
    from stable_worldmodel.data.formats.hdf5 import HDF5Dataset
    from stable_worldmodel.envs.two_room.env import TwoRoomEnv
    from stable_worldmodel.envs.two_room.expert_policy import ExpertPolicy
    from stable_worldmodel.solver.cem import CEMSolver
    from stable_worldmodel.solver.icem import ICEMSolver
    from stable_worldmodel.wm.lewm.lewm import LeWM
    from stable_worldmodel.wm.lewm.module import MLP, Embedder, Predictor
    from stable_worldmodel.wm.loss import SIGReg

__all__ = [
    "MLP",
    "CEMSolver",
    "Embedder",
    "ExpertPolicy",
    "HDF5Dataset",
    "ICEMSolver",
    "LeWM",
    "Predictor",
    "SIGReg",
    "TwoRoomEnv",
]
