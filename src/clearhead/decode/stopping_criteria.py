"""Texts at which an answer ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MIN_WINDOW_TOKENS = 64  # tokens that are decoded again at each step; more for long stop texts


class StopTexts:
    """Detects stop texts at the end of an answer."""

    def __init__(self, texts: Sequence[str], decode: Callable[[Sequence[int]], str] | None) -> None:
        self.texts, self.decode = tuple(texts), decode
        self.window = MIN_WINDOW_TOKENS + 4 * max(
            (len(text) for text in self.texts), default=0
        )  # a character may take four tokens

    def is_reached(self, ids: Sequence[int]) -> bool:
        """Whether the last tokens contain a stop text."""
        if not self.texts or self.decode is None:
            return False
        text = self.decode(ids[-self.window :])
        return any(stop in text for stop in self.texts)

    def truncate(self, text: str, start: int = 0) -> str:
        """The text before the first stop text at or after `start`."""
        positions = [position for stop in self.texts if (position := text.find(stop, start)) >= 0]
        return text[: min(positions)] if positions else text

    def partial_length(self, text: str) -> int:
        """Number of characters at the end that could be the beginning of a stop text."""
        longest = 0
        for stop in self.texts:
            for size in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:size]):
                    longest = size
                    break
        return longest
