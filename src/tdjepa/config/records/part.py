"""A part of a scale, for who has not the time for all of it. Named on the command line only (config/part.py)."""

from tdjepa.config.records.base import Env, Name, Record, Seed


class Part(Record):
    """What is run; what is empty is not restricted."""

    envs: tuple[Env, ...] = ()
    methods: tuple[Name, ...] = ()
    seeds: tuple[Seed, ...] = ()
