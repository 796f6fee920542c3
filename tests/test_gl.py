"""Headless OpenGL: which backend is chosen, what is said when none works, and that it leaves no trace elsewhere."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tdjepa.base.errors import UserError
from tdjepa.envs import gl

FRAME = """
import sys, zlib
import numpy as np
from tdjepa.envs.base import make
env = make("reacher")
env.restore(np.zeros((2, 8)))
frames = env.render(32)
from tdjepa.envs import gl
print(gl.BACKEND, frames.shape, int(frames.mean()), zlib.crc32(frames.tobytes()))
"""


def python(code: str, **env: str) -> subprocess.CompletedProcess:
    """A process of its own, with only these of the variables that this file is about."""
    ours = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "LP_NUM_THREADS")
    env = {key: value for key, value in os.environ.items() if key not in ours} | env
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("backend", gl.BACKENDS)
def test_a_backend_that_is_asked_for_is_used_and_ends_quietly(backend):
    if not gl.works(backend):
        pytest.skip(f"{backend} does not work here; {gl.INSTALL}")
    done = python(FRAME, MUJOCO_GL=backend)
    assert done.stdout.startswith(f"{backend} (2, 32, 32, 3)")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_first_backend_that_works_is_chosen_and_a_set_one_without_probing(monkeypatch):
    for working in (("egl", "osmesa"), ("osmesa",)):
        monkeypatch.delenv("MUJOCO_GL", raising=False)
        monkeypatch.setattr(gl, "works", lambda name, working=working: name in working)
        assert gl.choose() == os.environ["MUJOCO_GL"] == working[0]
    monkeypatch.setattr(gl, "works", lambda name: pytest.fail("probed"))
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    assert gl.choose() == os.environ["MUJOCO_GL"] == "glfw"


def test_without_opengl_physics_works_and_a_frame_says_what_to_install(monkeypatch):
    monkeypatch.setattr(gl, "works", lambda name: False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert gl.choose() == "disable"
    code = FRAME.replace("frames =", "env.step(np.ones((2, 2))); print(env.state[0, 0] > 0)\nframes =")
    done = python(code, MUJOCO_GL="disable")
    assert done.stdout.strip() == "True"
    assert "UserError: drawing this environment needs OpenGL" in done.stderr
    assert all(package in done.stderr for package in ("libegl1", "libgl1-mesa-dri", "libosmesa6"))


def test_a_backend_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(gl, "BACKEND", "osmesa")
    monkeypatch.setitem(sys.modules, "mujoco.osmesa", None)
    model = gl.mujoco.MjModel.from_xml_string("<mujoco><worldbody><camera name='c'/></worldbody></mujoco>")
    with pytest.raises(UserError, match="MUJOCO_GL = osmesa: .*apt-get install"):
        gl.Renderer(model, "c", 8)


def test_an_environment_without_opengl_never_touches_it():
    code = "import os, sys; from tdjepa.envs.base import make; make('two_room'); "
    code += "print({'mujoco', 'OpenGL', 'tdjepa.envs.gl'} & set(sys.modules), 'MUJOCO_GL' in os.environ)"
    assert python(code).stdout.strip() == "set() False"


def test_merging_vertices_keeps_the_shape():
    """A finely meshed ball: far fewer faces, every vertex within a cell of the original surface."""
    ball = "<mesh name='ball' builtin='sphere' params='4'/>"
    xml = f"<mujoco><asset>{ball}</asset><worldbody><geom type='mesh' mesh='ball'/></worldbody></mujoco>"
    model = gl.mujoco.MjModel.from_xml_string(xml)
    coarse = gl.coarsened(model, 0.4)
    assert 20 < coarse.mesh_facenum[0] < 0.3 * model.mesh_facenum[0]
    used = np.unique(coarse.mesh_face[: coarse.mesh_facenum[0]])
    radius = np.linalg.norm(coarse.mesh_vert[used], axis=1)
    assert np.abs(radius - np.linalg.norm(model.mesh_vert, axis=1).mean()).max() < 0.4 / 2
    assert model.mesh_facenum[0] == len(model.mesh_face)  # the original is not changed
