"""A lesson: the texts of one step as a network reads them, and what it is asked about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clearhead.errors import InputError
from clearhead.text.subwords import find_continuations

if TYPE_CHECKING:
    from clearhead.pretraining.example_spans import Cutter
    from clearhead.text import Tokenizer

Array = np.ndarray[Any, Any]
Masking = Literal["tokens", "words", "spans"]


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Texts end to end, without padding; a question is a place and the right word there."""

    ids: Array  # (tokens,)
    lengths: Array  # (texts,)
    segments: Array | None = None  # (tokens,)
    places: Array  # (questions,): tokens that are asked about; of a pair of stacks, of the target
    words: Array  # (questions,): what is right there
    before: Array  # (questions,): the token before it in the text, -1 if none, for the bigram baseline
    pairs: Array | None = None  # (texts,): 0 if the second text belongs to the first, else 1
    target_ids: Array | None = None  # (target tokens,)
    target_lengths: Array | None = None
    ways: int = 1  # questions that a token can be asked: ELMo's has two, and places count both

    @property
    def tokens(self) -> int:
        """How many tokens are read."""
        return len(self.ids) + (0 if self.target_ids is None else len(self.target_ids))

    def part(self, first: int, last: int) -> Lesson:
        """Some of its texts."""
        begin, end = (int(self.lengths[:place].sum()) for place in (first, last))
        asked_begin, asked_end = self.ways * begin, self.ways * end
        target_ids = target_lengths = None
        if self.target_ids is not None and self.target_lengths is not None:
            asked_begin, asked_end = (int(self.target_lengths[:place].sum()) for place in (first, last))
            target_ids, target_lengths = self.target_ids[asked_begin:asked_end], self.target_lengths[first:last]
        asked = slice(*np.searchsorted(self.places, (asked_begin, asked_end)))
        return Lesson(
            ids=self.ids[begin:end],
            lengths=self.lengths[first:last],
            segments=None if self.segments is None else self.segments[begin:end],
            places=self.places[asked] - asked_begin,
            words=self.words[asked],
            before=self.before[asked],
            pairs=None if self.pairs is None else self.pairs[first:last],
            target_ids=target_ids,
            target_lengths=target_lengths,
            ways=self.ways,
        )

    def share(self, rank: int, ranks: int) -> Lesson:
        """The texts of one of several processes that learn together: a step has the same, whatever their number."""
        bounds = [len(self.lengths) * one // ranks for one in (rank, rank + 1)]
        return self.part(*bounds)


@dataclass(frozen=True, kw_only=True)
class Kit:
    """What objectives need to know of a vocabulary."""

    size: int
    special: Array  # (size,): tokens that are never asked about
    continues: Array  # (size,): tokens that go on with the word before them
    ordinary: Array  # ids of tokens that may stand for any other
    opens: tuple[int, ...] = ()  # what stands before a text, ...
    between: tuple[int, ...] = ()  # ... between two, ...
    closes: tuple[int, ...] = ()  # ... and after the last
    mask: int | None = None
    eos: int | None = None
    sentinels: tuple[int, ...] = ()  # of span corruption, in the order in which they are used
    start: int | None = None  # what a decoder begins with
    rate: float = 0.15  # of the tokens that are asked about
    masking: Masking = "tokens"


def make_kit(tokenizer: Tokenizer, *, rate: float = 0.15, masking: Masking = "tokens", start: int | None = None) -> Kit:
    """Read a tokenizer's special tokens, what it puts around texts, and which tokens begin words."""
    size = max(tokenizer.vocab.values()) + 1
    tokens: list[str] = [""] * size
    for token, number in tokenizer.vocab.items():
        tokens[number] = token
    special = np.array([not token for token in tokens])
    sentinels = [tokenizer.vocab[name] for n in range(100) if (name := f"<extra_id_{n}>") in tokenizer.vocab]
    for number in (*sentinels, *(tokenizer.vocab.get(token, -1) for token in tokenizer.specials.values())):
        if number >= 0:
            special[number] = True
    opens, between, closes = _around(tokenizer)
    return Kit(
        size=size,
        special=special,
        continues=np.array(find_continuations(tokens)) & ~special,
        ordinary=np.flatnonzero(~special),
        opens=opens,
        between=between,
        closes=closes,
        mask=tokenizer.mask_id,
        eos=tokenizer.eos_id,
        sentinels=tuple(sentinels),
        start=start,
        rate=rate,
        masking=masking,
    )


def _around(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """What a tokenizer puts before, between and after two texts, found by giving it two."""
    made = tokenizer.encode("a", "a")
    sides = [0 if side is None else side + 1 for side in made.sides]
    if 1 not in sides or 2 not in sides:
        raise InputError("The tokenizer gives no token for the letter a, so that texts cannot be put together with it.")
    first, last = sides.index(1), len(sides) - 1 - sides[::-1].index(2)
    end_of_first, begin_of_second = len(sides) - 1 - sides[::-1].index(1), sides.index(2)
    ids = tuple(made.ids)
    return ids[:first], ids[end_of_first + 1 : begin_of_second], ids[last + 1 :]


Texts = list[tuple[Array, Array | None, int]]  # the ids of a text, perhaps of a second one, and if they go together


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A way to learn without labels: how texts are cut, what is asked about them, and of which heads."""

    name: str
    about: str
    cut: Cutter
    make: Callable[[Texts, Kit, np.random.Generator], Lesson]
    room: Callable[[int, Kit], int]  # tokens of text in an example of a length
    heads: tuple[str, ...]  # of the network, the first that its family has
    losses: tuple[str, ...]  # what is learned: "words", "pairs", "replaced"
    least: Callable[[Kit], int] = lambda _: 1  # tokens of a text that can be learned from
    lacks: Callable[[Kit], str] = lambda _: ""  # what a vocabulary lacks for it, in a sentence
