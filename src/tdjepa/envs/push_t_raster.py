"""Frames of Push-T: the library's picture, to the last bit, at a fraction of its cost.

The library draws everything at 512 px with pygame, shrinks the image to 224 px with OpenCV and then to the wanted size with
Pillow. Only the surroundings of the block and of the agent change from frame to frame. So only these are drawn and shrunk,
by the same three tools with the same calls, and set into a picture of the empty table. The pieces are cut on a grid that
both reductions map to whole pixels, so they come out as they would in the whole picture.
"""

import math
import os
from functools import cache

import cv2
import numpy as np
from PIL import Image

from tdjepa.envs import push_t_physics as physics

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it would greet on standard output
import pygame  # noqa: E402

Piece = tuple[int, int, int, int]  # of the canvas: left, top, right, bottom
WORLD, NATIVE = physics.SIZE, 224  # sizes of the library's drawing, and of the frame that it then resizes
TARGET = (256.0, 256.0, math.pi / 4)  # the green T stands here in every frame, whatever an episode's goal is
WHITE, GREEN, GREY = (255, 255, 255), (144, 238, 144), (211, 211, 211)
BLOCK_EDGE, BLOCK = (119, 136, 153), (143, 163, 184)
AGENT_EDGE, AGENT = (65, 105, 225), (78, 126, 255)
HALF = 2  # half width of outlines and walls
RIM = 4  # width of the agent's darker rim


class Raster:
    """Draws states at one size, at most 224 px."""

    def __init__(self, size: int):
        self.size, self.scale = size, size / WORLD
        self.grid = WORLD // math.gcd(size, 32)  # so many world pixels are whole pixels both at 224 px and at `size`
        self.margin = math.ceil(2 / self.scale) + 3  # two pixels of the frame, and what the first reduction reads
        self.canvas = np.empty((WORLD, WORLD, 3), np.uint8)
        self.surface = pygame.image.frombuffer(self.canvas, (WORLD, WORLD), "RGB")  # pygame draws into our array
        self.surface.fill(WHITE)
        for box in placed(*TARGET):
            pygame.draw.polygon(self.surface, GREEN, box)
        draw_edges(self.surface, GREY, physics.WALLS)
        self.table = self.canvas.copy()
        self.empty = self.shrink((0, 0, WORLD, WORLD))

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """(N, 10) states -> (N, size, size, 3) uint8"""
        frames = np.empty((len(states), self.size, self.size, 3), np.uint8)
        frames[:] = self.empty
        for frame, state in zip(frames, states.tolist(), strict=True):
            self.draw(frame, state)
        return frames

    def draw(self, frame: np.ndarray, state: list[float]) -> None:
        """Paint block and agent onto the canvas, bring their surroundings into the frame, wipe the canvas."""
        boxes, agent, r = placed(*state[2:5]), (round(state[0]), round(state[1])), round(physics.RADIUS)
        dirty = apart(self.cut([p for box in boxes for p in box], HALF + 1), self.cut([agent], r + 1))
        for box in boxes:
            pygame.draw.polygon(self.surface, BLOCK, box)
            draw_edges(self.surface, BLOCK_EDGE, zip(box, [*box[1:], box[0]], strict=True))
        pygame.draw.circle(self.surface, AGENT_EDGE, agent, r)
        pygame.draw.circle(self.surface, AGENT, agent, r - RIM)
        if any(min(piece) <= 0 or max(piece) >= WORLD for piece in dirty):
            draw_edges(self.surface, GREY, physics.WALLS)  # they lie over everything
        for piece in dirty:
            self.bring(frame, piece)
        for left, top, right, bottom in dirty:
            self.canvas[top:bottom, left:right] = self.table[top:bottom, left:right]

    def cut(self, points: list[tuple[int, int]], reach: int) -> Piece:
        """The piece around the points, on the grid; empty where they are outside."""
        reach, grid = reach + self.margin, self.grid
        x, y = [p[0] for p in points], [p[1] for p in points]
        left, top = ((min(v) - reach) // grid * grid for v in (x, y))
        right, bottom = (-(-(max(v) + reach) // grid) * grid for v in (x, y))
        return max(left, 0), max(top, 0), min(right, WORLD), min(bottom, WORLD)

    def bring(self, frame: np.ndarray, piece: Piece) -> None:
        """Shrink a piece into its place, except its outermost pixels: they lack neighbours, and nothing moved there."""
        if piece[0] >= piece[2] or piece[1] >= piece[3]:
            return
        left, top, right, bottom = (round(v * self.scale) for v in piece)
        x0, y0 = left + (left > 0), top + (top > 0)
        x1, y1 = right - (right < self.size), bottom - (bottom < self.size)
        frame[y0:y1, x0:x1] = self.shrink(piece)[y0 - top : y1 - top, x0 - left : x1 - left]

    def shrink(self, piece: Piece) -> np.ndarray:
        """A piece of the canvas at the frame's scale."""
        left, top, right, bottom = piece
        width, height = right - left, bottom - top
        native = (width * NATIVE // WORLD, height * NATIVE // WORLD)
        small = cv2.resize(self.canvas[top:bottom, left:right], native)
        size = (round(width * self.scale), round(height * self.scale))
        return small if size == native else np.asarray(Image.fromarray(small).resize(size, Image.BILINEAR))


def apart(a: Piece, b: Piece) -> list[Piece]:
    """Two pieces, or one that holds both where they overlap: one reduction costs less than two."""
    if max(a[0], b[0]) < min(a[2], b[2]) and max(a[1], b[1]) < min(a[3], b[3]):
        return [(min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))]
    return [a, b]


raster = cache(Raster)


def placed(x: float, y: float, angle: float) -> list[list[tuple[int, int]]]:
    """The corners of the bar and the stem of a T that stands there, in whole pixels."""
    c, s = math.cos(angle), math.sin(angle)
    corners = [(round(x + c * u - s * v), round(y + s * u + c * v)) for u, v in physics.OUTLINE.tolist()]
    return [corners[:4], corners[4:]]


def draw_edges(surface: pygame.Surface, colour, edges) -> None:
    """The library's thick lines: a line, a strip and round ends each. Its strip takes absolute values where a perpendicular
    needs signs, so outlines are thinner at some angles; that is kept."""
    for a, b in edges:
        pygame.draw.line(surface, colour, a, b, 2 * HALF)
        x, y = abs(b[1] - a[1]), abs(b[0] - a[0])
        if x or y:
            k = HALF / math.sqrt(x * x + y * y)
            x, y = round(x * k), round(y * k)
            strip = [(a[0] - x, a[1] - y), (a[0] + x, a[1] + y), (b[0] + x, b[1] + y), (b[0] - x, b[1] - y)]
            pygame.draw.polygon(surface, colour, strip)
            pygame.draw.circle(surface, colour, a, HALF)
            pygame.draw.circle(surface, colour, b, HALF)
