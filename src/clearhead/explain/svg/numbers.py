"""Numbers in pictures: coordinates, exponents, signs."""

from __future__ import annotations

import math


def format_number(value: float) -> str:
    """A coordinate or a share with as few digits as it needs."""
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"


def format_exponent(value: float, digits: int = 2) -> str:
    """5e-5, without the zero that Python puts before the 5."""
    power = math.floor(math.log10(abs(value))) if value else 0
    front = f"{value / 10.0**power:.{digits}g}"
    if front.lstrip("-") == "10":
        front, power = front.replace("10", "1"), power + 1
    return front if power == 0 else f"{front}e{power}"


def typeset_minus(text: str, *, exponents: bool = False) -> str:
    """A number with a minus sign instead of a hyphen in front; with `exponents`, in its exponent too."""
    if exponents:
        return text.replace("-", "−")
    return text.replace("-", "−", 1) if text.startswith("-") else text
