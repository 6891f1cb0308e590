"""Colors: the palette of all pictures, one color for each attention head, and scales from values to colors."""

from __future__ import annotations

import colorsys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

PAPER, INK, SOFT, FRAME = "#fbfaf6", "#1f2328", "#57606a", "#c9ccd1"
WHITE = "#ffffff"
BLUE, PALE_BLUE, DULL_BLUE = "#1b4f8f", "#dfe9f5", "#b9c6d6"
GREEN, PALE_GREEN = "#2a8f4f", "#e0f1e5"
GRAY, PALE_GRAY = "#9aa1a9", "#b7bcc3"
PINK = "#e3d3d3"
TEAL, PALE_TEAL, RED, ORANGE, SAND = "#1f6f8b", "#8fb9c9", "#d1495b", "#c26a00", "#b9b4a7"
POSITIVE, NEUTRAL, NEGATIVE = (27, 79, 143), (251, 250, 246), (181, 83, 15)  # blue, paper, brown
# Dark enough on a light page, told apart by hue and by lightness.
HEADS = (
    "#1f6fb4",
    "#d1495b",
    "#2a8f4f",
    "#8a4fbf",
    "#c26a00",
    "#0f8b8d",
    "#b0307f",
    "#5a7d00",
    "#4455c7",
    "#9c4a2f",
    "#3d3d3d",
    "#a08500",
)


def head_color(head: int, *, dark_page: bool = False) -> str:
    """One color per head, the same in every picture; lighter for a dark page."""
    if head < len(HEADS):
        red, green, blue = (int(HEADS[head][i : i + 2], 16) / 255 for i in (1, 3, 5))
    else:
        red, green, blue = colorsys.hls_to_rgb(head * 0.61803 % 1, 0.32 + 0.12 * (head % 2), 0.6)
    if dark_page:
        red, green, blue = (0.42 + 0.58 * part for part in (red, green, blue))
    return "#" + "".join(f"{round(255 * part):02x}" for part in (red, green, blue))


def prob_to_opacity(prob: float) -> float:
    """From a probability to an opacity: 0 to 0 and 1 to 1, the small ones lifted a little so that they can be seen."""
    return prob**0.75  # type: ignore[no-any-return]


def map_diverging_colors(values: Array) -> Array:
    """Values from -1 to 1, of any shape, as bytes of red, green and blue: brown below zero, blue above."""
    import numpy as np

    share = np.clip(np.nan_to_num(values), -1, 1)[..., None]
    ends = np.where(share >= 0, np.array(POSITIVE), np.array(NEGATIVE))
    colors: Array = np.round(np.array(NEUTRAL) + np.abs(share) * (ends - np.array(NEUTRAL))).astype(np.uint8)
    return colors
