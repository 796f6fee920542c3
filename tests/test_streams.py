"""Streams: keyed by name, independent of what else was drawn."""

import numpy as np
import torch

from tdjepa.base.streams import seed_of, stream, torch_stream


def test_same_name_same_numbers_other_name_other_numbers():
    a, b, c = stream(1, "plan", 7), stream(1, "plan", 7), stream(1, "plan", 8)
    first = a.random(5)
    assert np.array_equal(first, b.random(5))
    assert not np.array_equal(first, c.random(5))


def test_names_do_not_run_into_each_other():
    keys = [(1, 23), (12, 3), (1, "23"), (1, 2, 3), (1, "2", 3), (1, "2, 3")]
    assert len({seed_of(0, *k) for k in keys}) == len(keys)


def test_numpy_integers_are_integers():
    assert seed_of(np.int64(1), np.int32(2)) == seed_of(1, 2)


def test_known_value_so_that_results_stay_reproducible_between_versions():
    assert seed_of(3072, "order", 1) == 7205601306043141515
    assert torch.equal(torch.randn(3, generator=torch_stream(1, "x")), torch.randn(3, generator=torch_stream(1, "x")))
