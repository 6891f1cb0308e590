"""Format the numbers of figures: coordinates, exponents, signs."""

from __future__ import annotations

import math


def format_number(value: float) -> str:
    """Format a coordinate or a fraction with up to four decimals."""
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"


def format_exponent(value: float, digits: int = 2) -> str:
    """Format a number as 5e-5, not 5e-05."""
    power = math.floor(math.log10(abs(value))) if value else 0
    front = f"{value / 10.0**power:.{digits}g}"
    if front.lstrip("-") == "10":
        front, power = front.replace("10", "1"), power + 1
    return front if power == 0 else f"{front}e{power}"


def typeset_minus(text: str, *, exponents: bool = False) -> str:
    """Replace a leading hyphen by a minus sign; with `exponents`, also in the exponent."""
    if exponents:
        return text.replace("-", "−")
    return text.replace("-", "−", 1) if text.startswith("-") else text
