"""Literal texts found letter by letter, in steps that are counted: a lookup takes no longer for more texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from clearhead.errors import InputError, TokenizerError
from clearhead.text.sentencepiece.model_file import MAX_PIECE_LENGTH

MAX_NODES = 1_000_000  # of the pieces of a model, 200 bytes each; Marian models have a quarter of it
MAX_LITERAL_NODES = 250_000  # of user-defined pieces and added tokens, of which there are at most some thousand
MAX_STEPS = 30_000_000  # that one text may take, about 0.1 microseconds each; ordinary text takes 30 per character
STEPS_PER_CHARACTER = 20  # steps, for whatever is done once for a normalized character

END = ""  # the key of the value of a text that ends at a node
Node = dict[str, Any]


class StepBudget:
    """The steps that one text may still take, so that no model file can make it take minutes."""

    def __init__(self, size: int) -> None:
        self.text_length = size  # characters of the text, for the message
        self.remaining = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Take steps off; refuse the text when none are left."""
        self.remaining -= steps
        if self.remaining < 0:
            raise InputError(
                f"a text of {self.text_length:,} characters takes more than {MAX_STEPS:,} steps with this tokenizer; "
                "split it, or use another tokenizer"
            )


def build_trie(values: Iterable[tuple[str, float]], name: str, most: int | None = None) -> Node:
    """Nested dicts, one for each prefix of a text; the value of a text stands under END."""
    root: Node = {}
    count, most = 0, MAX_NODES if most is None else most
    for text, value in values:
        node = root
        for letter in text:
            child = node.get(letter)
            if child is None:
                child = node[letter] = {}
                count += 1
            node = child
        node[END] = value
        if count > most:
            raise TokenizerError(f"{name}: the tokens have more than {most:,} different prefixes")
    return root


def build_literal_trie(texts: Iterable[str], name: str) -> Node:
    """A trie of user-defined pieces or added tokens, which have no values."""
    known = [text for text in texts if text]
    if (longest := max(map(len, known), default=0)) > MAX_PIECE_LENGTH:
        raise TokenizerError(f"{name}: a token has {longest:,} characters, more than {MAX_PIECE_LENGTH}")
    return build_trie(((text, 0.0) for text in known), name, MAX_LITERAL_NODES)


def find_longest_match(root: Node, text: str, start: int, budget: StepBudget) -> int:
    """Where the longest text of a trie that starts here ends; `start` if there is none."""
    node, end, found = root, start, start
    while end < len(text) and (child := node.get(text[end])) is not None:
        node = child
        end += 1
        if END in node:
            found = end
    budget.spend(end - start)
    return found


def make_splitter(root: Node) -> Callable[[str, StepBudget], list[str]]:
    """The function that cuts a text into ordinary text and texts of a trie by turns, the longest first."""

    def split(text: str, budget: StepBudget) -> list[str]:
        parts, begin, skip = [], 0, 0
        for start, letter in enumerate(text):
            if letter in root and start >= skip:
                end = find_longest_match(root, text, start, budget)
                if end > start:
                    parts += [text[begin:start], text[start:end]]
                    begin = skip = end
        return [*parts, text[begin:]]

    return split if root else lambda text, _: [text]
