"""The reference library, imported the way the project does it (its import takes seconds: only where it is compared with)."""

from tdjepa.base.torchvision_shim import library

HDF5Dataset = library("data.formats.hdf5").HDF5Dataset
TwoRoomEnv = library("envs.two_room.env").TwoRoomEnv
ExpertPolicy = library("envs.two_room.expert_policy").ExpertPolicy
LeWM, losses = library("wm.lewm.lewm").LeWM, library("wm.loss")
SIGReg, PLDMLoss, TemporalStraighteningLoss = losses.SIGReg, losses.PLDMLoss, losses.TemporalStraighteningLoss
_module = library("wm.lewm.module")
MLP, Embedder, Predictor = _module.MLP, _module.Embedder, _module.Predictor
