"""How far our renderers are from the library's at the size of the paper, 224 px; smaller sizes are in the test of each
environment. A model that was trained on released frames is planned on the library's (`evaluate.renderer`)."""

import numpy as np
import pytest

from tdjepa.config.slices import collect_slice
from tdjepa.envs import gl, library
from tdjepa.envs.base import make

# env -> mean and largest difference, grey levels of 255, and every how manieth state of the demonstrations is drawn
AT_224 = {"two_room": (0.06, 2, 97), "reacher": (0.35, 110, 149), "push_t": (0.0001, 1, 97), "cube": (3.4, 170, 149)}


@pytest.mark.skipif(gl.BACKEND == "disable", reason=f"no OpenGL here; {gl.INSTALL}")
@pytest.mark.parametrize("name", AT_224)
def test_how_far_the_renderers_are_apart_at_224_px(smoke, name):
    mean, most, every = AT_224[name]
    env = make(name)
    env.restore(env.demonstrations(collect_slice(smoke, name)).state[::every])
    ours = env.render(224).astype(int)
    library.draws(env)
    theirs = env.render(224)
    assert theirs.shape == ours.shape
    assert len(theirs) >= 4
    assert np.abs(theirs - ours).mean() <= mean
    assert np.abs(theirs - ours).max() <= most
    small = env.render(64)  # resized as the data is
    assert small.shape == (len(ours), 64, 64, 3)
    assert abs(small.mean() - theirs.mean()) < 1
