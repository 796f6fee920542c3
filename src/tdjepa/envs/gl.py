"""Headless OpenGL for the environments that MuJoCo draws, and their renderer.

The OpenGL backend must be chosen before MuJoCo is imported, so these environments take it from here: `from tdjepa.envs.gl
import mujoco`. MUJOCO_GL is respected when it is set. Without any OpenGL, physics still works; the first frame raises a
UserError that says what to install.
"""

import atexit
import contextlib
import copy
import importlib
import os
import subprocess
import sys

import numpy as np

from tdjepa.base.errors import UserError

BACKENDS = ("egl", "osmesa")
INSTALL = "on Debian or Ubuntu: apt-get install libegl1 libgl1-mesa-dri libgles2 (or libosmesa6 libgl1-mesa-dri)"

# run in its own process: a backend that failed cannot be exchanged for another, and some crash instead of failing
PROBE = """
import importlib, os, sys
import mujoco
context = importlib.import_module("mujoco." + sys.argv[1]).GLContext(8, 8)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), mujoco.mjtFontScale.mjFONTSCALE_100)
os._exit(0)  # OSMesa raises while the interpreter ends
"""


def choose() -> str:
    """Set MUJOCO_GL, unless it is set, to the first backend that can make a context here, or to "disable"."""
    # Mesa's software renderer works in the thread that asks: a job is one core, as with OMP_NUM_THREADS
    os.environ.setdefault("LP_NUM_THREADS", "0")
    if sys.platform == "linux" and not os.environ.get("MUJOCO_GL"):
        os.environ["MUJOCO_GL"] = next((name for name in BACKENDS if works(name)), "disable")
    return os.environ.get("MUJOCO_GL", "").strip().lower()  # "" on a Mac: MuJoCo knows its own


def works(backend: str) -> bool:
    """Whether another process can make an OpenGL context with this backend."""
    env = {key: value for key, value in os.environ.items() if key != "PYOPENGL_PLATFORM"} | {"MUJOCO_GL": backend}
    command = [sys.executable, "-c", PROBE, backend]
    try:
        return subprocess.run(command, env=env, capture_output=True, timeout=300).returncode == 0
    except subprocess.TimeoutExpired:
        return False


BACKEND = choose()

import mujoco  # noqa: E402  MuJoCo and dm_control read MUJOCO_GL while they are imported

# what a state holds of MuJoCo: positions, velocities, the first guess of the contact solver
PHYSICS = mujoco.mjtState.mjSTATE_QPOS | mujoco.mjtState.mjSTATE_QVEL | mujoco.mjtState.mjSTATE_WARMSTART
UNLIT = (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION, mujoco.mjtRndFlag.mjRND_SKYBOX)


class Renderer:
    """Frames of one fixed camera.

    The planes, which never move, are drawn once, with the model's own shadows and reflections. A frame draws only the other
    geoms, without either, and lays them over that. Both are drawn at twice the size and averaged over 2 x 2 pixels, which
    smooths edges at a lower cost than multisampling.
    """

    def __init__(self, model: mujoco.MjModel, camera: str, size: int):
        n, moving = 2 * size, model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE  # (geoms,) bool
        self.model = copy.copy(model)
        self.model.vis.global_.offwidth = self.model.vis.global_.offheight = n
        self.model.vis.quality.offsamples = 0
        self.data, self.option = mujoco.MjData(self.model), mujoco.MjvOption()
        self.scene, self.camera = mujoco.MjvScene(self.model, maxgeom=1000), mujoco.MjvCamera()
        self.camera.type, self.camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, self.model.camera(camera).id
        self.gl, self.context = _contexts(self.model, n)
        self.window = mujoco.MjrRect(0, 0, n, n)
        self.rgb, self.depth = np.zeros((n, n, 3), np.uint8), np.zeros((n, n), np.float32)
        alpha, material = self.model.geom_rgba[:, 3].copy(), self.model.geom_matid.copy()
        self._show(alpha, material, ~moving)
        self._draw(self.model.qpos0)
        self.still = self.rgb.copy()
        self._show(alpha, material, moving)
        for flag in UNLIT:
            self.scene.flags[flag] = 0

    def __call__(self, qpos: np.ndarray) -> np.ndarray:
        """(N, nq) -> (N, size, size, 3) uint8"""
        frames = np.empty((len(qpos), len(self.rgb) // 2, len(self.rgb) // 2, 3), np.uint8)
        for frame, q in zip(frames, qpos, strict=True):
            self._draw(q)
            image = np.where((self.depth > 0)[..., None], self.rgb, self.still).astype(np.uint16)
            total = image[0::2, 0::2] + image[0::2, 1::2] + image[1::2, 0::2] + image[1::2, 1::2]
            frame[::-1] = (total + 2) >> 2  # OpenGL's first row is the lowest
        return frames

    def _show(self, alpha: np.ndarray, material: np.ndarray, which: np.ndarray) -> None:
        self.model.geom_rgba[:, 3] = np.where(which, alpha, 0)
        self.model.geom_matid[:] = np.where(which, material, -1)  # a material would bring its own alpha

    def _draw(self, qpos: np.ndarray) -> None:
        """Fill `rgb` and `depth` (0 where nothing is)."""
        self.data.qpos[:] = qpos
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)  # places camera and lights, which kinematics leaves where they were
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self.model, self.data, self.option, None, self.camera, everything, self.scene)
        self.gl.make_current()  # another renderer may have drawn since
        mujoco.mjr_render(self.window, self.scene, self.context)
        mujoco.mjr_readPixels(self.rgb, self.depth, self.window, self.context)


def require() -> None:
    """UserError where nothing can be drawn."""
    if BACKEND == "disable":
        raise unable("neither EGL nor OSMesa works here")


def unable(found: str) -> UserError:
    return UserError(f"drawing this environment needs OpenGL, but {found}; {INSTALL}, and unset MUJOCO_GL")


def _contexts(model: mujoco.MjModel, size: int):
    """An OpenGL context and MuJoCo's rendering context in it, both freed before the interpreter ends."""
    require()
    try:
        module = importlib.import_module(f"mujoco.{BACKEND}" if BACKEND in BACKENDS else "mujoco.gl_context")
        # without the destructor, which OSMesa's context does not survive while the interpreter ends
        kind = type("Context", (module.GLContext,), {"__del__": lambda self: None})
        gl = kind(size, size)
        gl.make_current()
        context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    except Exception as error:  # every backend has its own
        raise unable(f"MUJOCO_GL = {BACKEND}: {error}") from None
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
    context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR

    @atexit.register
    def free():
        with contextlib.suppress(Exception):  # dm_control may have ended the display that all contexts share
            gl.make_current()
            context.free()
            gl.free()

    return gl, context


def coarsened(model: mujoco.MjModel, cell: float) -> mujoco.MjModel:
    """A copy for drawing only. Mesh vertices that share a cube of side `cell` (metres) are merged into their mean."""
    model = copy.copy(model)
    for k in range(model.nmesh):
        vertices = slice(model.mesh_vertadr[k], model.mesh_vertadr[k] + model.mesh_vertnum[k])
        faces = slice(model.mesh_faceadr[k], model.mesh_faceadr[k] + model.mesh_facenum[k])
        place = model.mesh_vert[vertices]  # (V, 3)
        _, first, group = np.unique(np.floor(place / cell), axis=0, return_index=True, return_inverse=True)
        group = group.ravel()  # (V,) -> cluster
        mean = np.stack([np.bincount(group, place[:, i]) for i in range(3)], 1) / np.bincount(group)[:, None]
        corners = first[group][model.mesh_face[faces]]  # (F, 3)
        a, b, c = np.sort(corners, 1).T
        solid = np.nonzero((a != b) & (b != c))[0]  # the others have shrunk to a line or a point
        _, one = np.unique(np.sort(corners[solid], 1), axis=0, return_index=True)
        kept = solid[np.sort(one)]
        model.mesh_vert[vertices][first] = mean
        model.mesh_facenum[k] = len(kept)
        begin = slice(faces.start, faces.start + len(kept))
        model.mesh_face[begin] = corners[kept]
        for column in (model.mesh_facenormal, model.mesh_facetexcoord):
            column[begin] = column[faces][kept]
    return model
