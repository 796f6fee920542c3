"""The demonstrations, and what is mined from them."""

from typing import Literal

from pydantic import Field, model_validator

from tdjepa.config.records.base import Count, Env, ImageSize, Name, Record, Seed, Share, Some, Storage, Weight, Whole
from tdjepa.config.records.released import Mirror, Sha256


class TwoRoomData(Record):
    episodes: Count
    max_steps: Count = Field(description="an episode ends here even if the goal was not reached")
    action_noise: Weight = Field(description="std of the Gaussian noise on the expert's unit direction")
    image_size: ImageSize


class ReacherData(Record):
    episodes: Count
    max_steps: Count = Field(description="steps of every episode: the demonstrator acts at random and never ends one")
    image_size: ImageSize


class PushTKind(Record):
    """One kind of demonstrations: who acts, and how noisily."""

    policy: Literal["expert", "wander", "weak"] = Field(
        description="expert: brings the T to its goal; wander: walks to points around the T; weak: the library's WeakPolicy"
    )
    share: Share = Field(description="of the episodes; those of all kinds sum to 1")
    noise: tuple[Weight, Weight] = Field(
        description="std of the noise on the actions, drawn per episode from this range"
    )

    @model_validator(mode="after")
    def in_order(self):
        low, high = self.noise
        if low > high:
            raise ValueError(f"noise: [{low:g}, {high:g}] is no range; write the lower bound first")
        return self


class PushTData(Record):
    episodes: Count
    max_steps: Count
    kinds: dict[Name, PushTKind] = Field(description="the mixture of demonstrations")
    target_share: Share = Field(description="episodes whose goal is the one drawn in the frames; others go anywhere")
    image_size: ImageSize

    @model_validator(mode="after")
    def shares_sum_to_one(self):
        total = sum(kind.share for kind in self.kinds.values())
        if abs(total - 1) > 1e-9:
            shares = ", ".join(f"{name} {kind.share:g}" for name, kind in self.kinds.items())
            raise ValueError(f"kinds: the shares ({shares}) sum to {total:g}, but must sum to 1")
        return self


class CubeData(Record):
    episodes: Count
    max_steps: Count = Field(description="steps of every episode: the expert gets a new target whenever it is done")
    # drawn from 0 to this: the std on x, y, z; three times that on yaw, ten times on the gripper
    action_noise: Weight = Field(description="upper bound of an episode's noise")
    carry_share: Share = Field(description="episodes in which the expert carries the cube about at random")
    carry_steps: Whole = Field(
        description="steps, on average, until it puts the cube down and grasps it anew; 0 = never"
    )
    image_size: ImageSize


DATA = {"two_room": TwoRoomData, "reacher": ReacherData, "push_t": PushTData, "cube": CubeData}


class OwnFile(Record):
    """Demonstrations of a user's own. The path may differ from machine to machine: the checksum says what is in the file."""

    path: str = Field(min_length=1, description="of an HDF5 file (docs/own_data.md)")
    sha256: Sha256


class Collect(Record):
    seed: Seed
    min_length: Count = Field(description="shorter episodes cannot hold a start and a goal and are dropped")
    storage: Storage = Field(description="plain: frames memory-mapped; packed: LZ4, 3 to 17 % of the bytes")
    source: dict[Env, Literal["generated", "released", "file"]] = Field(
        description="generated: collected here, as the sections below say; released: fetched, the first `episodes` of the"
        " file; file: the same of a file of one's own"
    )
    file: dict[Env, OwnFile] = Field({}, description="where `source` says file")
    two_room: TwoRoomData
    reacher: ReacherData
    push_t: PushTData
    cube: CubeData


class Fetch(Record):
    """Where released demonstrations come from; what they are is in released.toml."""

    mirrors: Some[Mirror] = Field(description="tried in order: the base URL of a hub, or a URL with {file} in it")
    sha256: dict[Env, Sha256] = Field(description="by environment, where a mirror has another file than the known one")


class Split(Record):
    train: Share
    validation: Share
    test: Share

    @model_validator(mode="after")
    def sums_to_one(self):
        total = self.train + self.validation + self.test
        if abs(total - 1) > 1e-9:
            raise ValueError(f"train + validation + test = {total:g}, but the three shares must sum to 1")
        return self


class Mine(Record):
    seed: Seed
    split: Split
    frameskip: Count = Field(description="environment steps in one model step (the action block)")
    goal_offset: Count = Field(description="environment steps between start and goal")
    far_offsets: tuple[Count, ...] = Field((), description="goals further away, each with test pairs of its own")
    validation_goals: Count
    test_goals: Count
    manifest_draw: Literal["by_part", "all_episodes"] = Field(
        description="validation and test pairs from their own episodes, or, as published, one draw from all episodes"
    )
    curve_seed: Seed = Field(
        description="of the manifest `curves`, as many pairs as validation; published curves have 3072"
    )
    exclude_trivial: bool = Field(description="drop pairs that are already solved at the start from the manifests")
    pairs: Count = Field(description="pairs of the alignment diagnostic, from test episodes")
    pair_draw: Literal["start_first", "gap_first"] = Field(
        description="the start uniform, then the goal up to goal_offset later (published); or the gap uniform, then the start"
    )
    near_end: Count = Field(description="near stratum: the goal lies at most this many steps before the episode's end")
    far_end: Count = Field(description="far stratum: the goal lies at least this many steps before the episode's end")
