"""Colors: the palette of all figures, one color per attention head, and color scales."""

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
# Dark enough for a light page; distinct in hue and in lightness.
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
    """Return the color of a head, the same in every figure; lighter on dark pages."""
    if head < len(HEADS):
        red, green, blue = (int(HEADS[head][i : i + 2], 16) / 255 for i in (1, 3, 5))
    else:
        red, green, blue = colorsys.hls_to_rgb(head * 0.61803 % 1, 0.32 + 0.12 * (head % 2), 0.6)
    if dark_page:
        red, green, blue = (0.42 + 0.58 * part for part in (red, green, blue))
    return "#" + "".join(f"{round(255 * part):02x}" for part in (red, green, blue))


def prob_to_opacity(prob: float) -> float:
    """Map a probability to an opacity; small probabilities are raised slightly to stay visible."""
    return prob**0.75  # type: ignore[no-any-return]


def map_diverging_colors(values: Array) -> Array:
    """Map values from -1 to 1 to RGB bytes: brown below zero, blue above."""
    import numpy as np

    fraction = np.clip(np.nan_to_num(values), -1, 1)[..., None]
    ends = np.where(fraction >= 0, np.array(POSITIVE), np.array(NEGATIVE))
    colors: Array = np.round(np.array(NEUTRAL) + np.abs(fraction) * (ends - np.array(NEUTRAL))).astype(np.uint8)
    return colors
