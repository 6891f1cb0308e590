"""Random texts in many scripts, reproducible from a seed in every version of Python and Unicode."""

from __future__ import annotations

import random
import unicodedata

SCRIPT_RANGES = (
    (0x20, 0x7E),
    (0xA0, 0x17F),
    (0x300, 0x36F),
    (0x370, 0x3FF),
    (0x400, 0x4FF),
    (0x5B0, 0x5EA),
    (0x600, 0x6FF),
    (0x900, 0x97F),
    (0x980, 0x9FF),
    (0xB80, 0xBFF),
    (0xE00, 0xE7F),
    (0xE80, 0xEFF),
    (0x1000, 0x105F),
    (0x10A0, 0x10FF),
    (0x1100, 0x11FF),
    (0x1200, 0x137F),
    (0x1780, 0x17FF),
    (0x2000, 0x206F),
    (0x20A0, 0x2144),
    (0x2E80, 0x2FDF),
    (0x3000, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x3500),
    (0x4E00, 0x9FA5),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFA2D),
    (0xFE00, 0xFE0F),
    (0xFF01, 0xFF9F),
    (0x10330, 0x1034A),
    (0x1D400, 0x1D454),
    (0x20000, 0x20100),
)
# characters that every supported Python version knows
CHARACTERS_BY_SCRIPT = tuple(
    [chr(code) for code in range(first, last + 1) if unicodedata.ucd_3_2_0.category(chr(code)) != "Cn"]
    for first, last in SCRIPT_RANGES
)
FRAGMENTS = (
    *(" ", " ", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2028", "\u3000", "\x85", "\x1f", "\u200b"),
    *("'", "’", "-", "_", ".", ",", ":", "&", "@", "/", "…", "$", "€", "%", "#", "''", "--", "\u00ad"),
    *("don't", "it’s", "we’ve", "U.S.", "a.m.", "Rolls-Royce", "AT&T", "O'Neil", "rock'n'roll", "x_1", "10:30"),
    *("3.5", "1,000", "e-mail", "naïve", "nai\u0308ve", "Straße", "İstanbul", "I", "a", "the", "X", "42", "²", "½"),
    *(
        "👍",
        "👍🏽",
        "👩‍👩‍👧‍👦",
        "🇫🇷",
        "🇩🇪🇫",
        "❤️",
        "☎︎",
        "🏴\U000e0067\U000e0062\U000e007f",
        "\u200d",
        "\u200c",
        "\ufe0f",
    ),
    *(
        "क्षि",
        "हिन्दी",
        "ภาษาไทย",
        "ພາສາລາວ",
        "မြန်မာ",
        "ខ្មែរ",
        "東京",
        "カタカナ",
        "ｶﾀｶﾅ",
        "〆",
        "々",
        "漢字",
        "한국어",
        "עברית",
        "العربية",
    ),
    *("##", "Ġ", "▁", "</w>", "Ċ", "@@", "##ing", "Ġthe", "▁the", "er</w>", "Ã©", "Ġâ", "ĠĠ", "▁▁", "[CLS]", "<s>"),
)


def make_random_text(rng: random.Random) -> str:
    """Make a text of characters and fragments, most of them of one script."""
    script_characters = rng.choice(CHARACTERS_BY_SCRIPT)
    parts = []
    for _ in range(rng.randrange(1, 25)):
        draw = rng.random()
        if draw < 0.45:
            parts.append(rng.choice(script_characters))
        elif draw < 0.55:
            parts.append(rng.choice(rng.choice(CHARACTERS_BY_SCRIPT)))
        elif draw < 0.7:
            parts.append(" ")
        else:
            parts.append(rng.choice(FRAGMENTS))
    return "".join(parts)


def make_random_texts(count: int, seed: int = 0) -> list[str]:
    """Make random texts."""
    rng = random.Random(seed)
    return [make_random_text(rng) for _ in range(count)]
