"""Colors have enough contrast with their background, in light and dark mode."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = (files("clearhead.report") / "template" / "page.css").read_text("utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{\n(.*?)\}", STYLE, re.S)[:2]
)
TEXTS = [
    *[(ink, ground) for ink in ("ink", "soft", "accent") for ground in ("page", "card")],
    *[("badge", ground) for ground in ("soft", "error", "warning", "tell")],
    *[("low", f"{hue}{level}") for hue in "rw" for level in range(4)],
    *[("high", f"{hue}{level}") for hue in "rw" for level in (4, 5)],
]
MARKS = [("accent", "card"), ("other", "card"), ("bar", "card"), ("soft", "card")]


def luminance(color: str) -> float:
    """Return the relative luminance as defined by WCAG 2."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio, from 1 (equal) to 21 (black on white)."""
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_and_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert LIGHT.keys() == DARK.keys()


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_letters_and_marks_can_be_seen(colors: dict[str, str]) -> None:
    contrasts = {pair: contrast(colors[pair[0]], colors[pair[1]]) for pair in TEXTS}
    assert min(contrasts.values()) >= 4.5, contrasts
    assert min(contrast(colors[mark], colors[ground]) for mark, ground in MARKS) >= 3
    for hue in "rw":
        steps = [luminance(colors[f"{hue}{level}"]) for level in range(6)]
        assert steps in (sorted(steps), sorted(steps, reverse=True))


def test_paper_is_light() -> None:
    assert all("screen" in rule for rule in re.findall(r"@media[^{]*prefers-color-scheme[^{]*", STYLE))
