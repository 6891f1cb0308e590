"""Texts at which an answer ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

WINDOW = 64  # tokens that are turned into text again after each word, and more for long texts


class StopTexts:
    """Looks for stop texts at the end of what was said."""

    def __init__(self, texts: Sequence[str], decode: Callable[[Sequence[int]], str] | None) -> None:
        self.texts, self.decode = tuple(texts), decode
        self.window = WINDOW + 4 * max((len(text) for text in self.texts), default=0)  # a letter may be four tokens

    def is_reached(self, ids: Sequence[int]) -> bool:
        """Whether one of them stands in the last words."""
        if not self.texts or self.decode is None:
            return False
        text = self.decode(ids[-self.window :])
        return any(stop in text for stop in self.texts)

    def truncate(self, text: str, begin: int = 0) -> str:
        """The text before the first of them, looked for from a place on."""
        places = [place for stop in self.texts if (place := text.find(stop, begin)) >= 0]
        return text[: min(places)] if places else text

    def partial_length(self, text: str) -> int:
        """How many letters at the end could be the beginning of one of them."""
        longest = 0
        for stop in self.texts:
            for size in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:size]):
                    longest = size
                    break
        return longest
