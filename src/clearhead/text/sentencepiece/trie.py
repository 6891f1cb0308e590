"""Tries for matching literal strings, with a budget of steps per text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from clearhead.errors import InputError, TokenizerError
from clearhead.text.sentencepiece.model_file import MAX_PIECE_LENGTH

MAX_NODES = 1_000_000  # for the pieces of a model, 200 bytes each; Marian models have about 250,000
MAX_LITERAL_NODES = 250_000  # for user-defined pieces and added tokens; published models have a few thousand
MAX_STEPS = 30_000_000  # per text, about 0.1 microseconds each; ordinary text takes 30 per character
STEPS_PER_CHARACTER = 20  # cost of the work that is done once per normalized character

END = ""  # key of the value of a string that ends at a node
Node = dict[str, Any]


class StepBudget:
    """The number of steps left for one text, which bounds its run time for any model file."""

    def __init__(self, text_length: int) -> None:
        self.text_length = text_length  # in characters, for the error message
        self.remaining = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Subtract steps; raise an InputError if the budget is exhausted."""
        self.remaining -= steps
        if self.remaining < 0:
            raise InputError(
                f"A text of {self.text_length:,} characters takes more than {MAX_STEPS:,} steps with this tokenizer; "
                "split it, or use another tokenizer."
            )


def build_trie(entries: Iterable[tuple[str, float]], name: str, max_nodes: int | None = None) -> Node:
    """Build a trie of nested dicts, one per prefix; the value of a string is stored under END."""
    root: Node = {}
    node_count, max_nodes = 0, MAX_NODES if max_nodes is None else max_nodes
    for text, value in entries:
        node = root
        for character in text:
            child = node.get(character)
            if child is None:
                child = node[character] = {}
                node_count += 1
            node = child
        node[END] = value
        if node_count > max_nodes:
            raise TokenizerError(f"{name}: the tokens have more than {max_nodes:,} distinct prefixes.")
    return root


def build_literal_trie(texts: Iterable[str], name: str) -> Node:
    """Build a trie of user-defined pieces or added tokens, which have no values."""
    literals = [text for text in texts if text]
    if (longest := max(map(len, literals), default=0)) > MAX_PIECE_LENGTH:
        raise TokenizerError(
            f"{name}: a token has {longest:,} characters, more than the maximum of {MAX_PIECE_LENGTH}."
        )
    return build_trie(((text, 0.0) for text in literals), name, MAX_LITERAL_NODES)


def find_longest_match(root: Node, text: str, start: int, budget: StepBudget) -> int:
    """Return the end of the longest match at `start`, or `start` if nothing matches."""
    node, end, match_end = root, start, start
    while end < len(text) and (child := node.get(text[end])) is not None:
        node = child
        end += 1
        if END in node:
            match_end = end
    budget.spend(end - start)
    return match_end


def make_splitter(root: Node) -> Callable[[str, StepBudget], list[str]]:
    """Return a function that splits a text into alternating ordinary text and longest matches of a trie."""

    def split(text: str, budget: StepBudget) -> list[str]:
        parts, plain_start, match_end = [], 0, 0
        for start, character in enumerate(text):
            if character in root and start >= match_end:
                end = find_longest_match(root, text, start, budget)
                if end > start:
                    parts += [text[plain_start:start], text[start:end]]
                    plain_start = match_end = end
        return [*parts, text[plain_start:]]

    return split if root else lambda text, _: [text]
