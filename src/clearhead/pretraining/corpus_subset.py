"""What is learned from and what is held out: some documents of a corpus, or some sentences of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.pretraining.shards import Corpus

Array = np.ndarray[Any, Any]

MIN_DOCUMENTS = 20  # documents: enough to hold whole ones out
HELD_OUT_SHARE = 0.01  # of the tokens are held out, ...
MIN_HELD_OUT_TOKENS = 5000  # ... at least so many, ...
MAX_HELD_OUT_SHARE = 0.1  # ... but no more than this share, ...
MAX_HELD_OUT_TOKENS = 200_000  # ... and never more than so many
TAIL_SHARE = 0.02  # of the sentences of each document, where there are few documents
MIN_SENTENCES_FOR_TAIL = 50  # sentences: a shorter document has no tail to spare


@dataclass(frozen=True, kw_only=True)
class CorpusSubset:
    """Some documents of a corpus, or some sentences of each."""

    corpus: Corpus
    documents: Array  # their numbers
    section: str = "whole"  # whole, or without ("head") or only ("tail") their last sentences

    def sentence_bounds(self, place: int, first: int = 0, last: int | None = None) -> Array:
        """The bounds of its sentences, or of some of them, as `Corpus.document` has them."""
        begin, end = self._sentence_range(place)
        return self.corpus.sentence_bounds(
            int(self.documents[place]), begin + first, end if last is None else min(begin + last, end)
        )

    def count_sentences(self, place: int) -> int:
        """How many sentences of a document belong to it."""
        begin, end = self._sentence_range(place)
        return end - begin

    def includes_end(self, place: int) -> bool:
        """Whether the last sentence of a document is the last that belongs to it."""
        return self.section != "head" or self.count_sentences(place) == self.corpus.count_sentences(
            int(self.documents[place])
        )

    def tokens(self) -> int:
        """How many tokens belong to it."""
        return sum(end - begin for begin, end in map(self.token_range, range(len(self))))

    def token_range(self, place: int) -> tuple[int, int]:
        """Where a document begins and ends."""
        return self.corpus.token_range(int(self.documents[place]), *self._sentence_range(place))

    def _sentence_range(self, place: int) -> tuple[int, int]:
        count = self.corpus.count_sentences(int(self.documents[place]))
        spare = (
            max(2, round(TAIL_SHARE * count)) if count >= MIN_SENTENCES_FOR_TAIL else 0
        )  # two: a pair can be made of them
        if self.section == "head":
            return 0, count - spare
        return (count - spare, count) if self.section == "tail" else (0, count)

    def __len__(self) -> int:
        return len(self.documents)


def split_held_out(corpus: Corpus, seed: int, least: int = 1) -> tuple[CorpusSubset, CorpusSubset, str]:
    """What is learned from, what is held out (perhaps nothing), and a sentence about it.

    `least` is how many sentences a document must have to be held out whole: a pair needs two.
    """
    count = corpus.documents
    every = np.arange(count)
    able = [int(number) for number in every if least < 2 or corpus.count_sentences(int(number)) >= least]
    held, found = _draw_documents(corpus, seed, able) if len(able) >= MIN_DOCUMENTS else ([], 0)
    if held:
        rest = np.setdiff1d(every, held)
        said = f"{len(held):,} of {count:,} documents are held out ({found:,} tokens)"
        return CorpusSubset(corpus=corpus, documents=rest), CorpusSubset(corpus=corpus, documents=np.array(held)), said
    tail = CorpusSubset(corpus=corpus, documents=every, section="tail")
    long = [place for place in range(count) if tail.count_sentences(place)]
    part = CorpusSubset(corpus=corpus, documents=every[long], section="tail")
    said = f"the last sentences of {len(long)} documents are held out ({part.tokens():,} tokens)" if long else ""
    return CorpusSubset(corpus=corpus, documents=every, section="head"), part, said or "there is too little to hold out"


def _draw_documents(corpus: Corpus, seed: int, able: list[int]) -> tuple[list[int], int]:
    """Documents to hold out, and their tokens; a long one, which would be most of what is measured, is passed over."""
    wanted = min(
        max(HELD_OUT_SHARE * corpus.tokens, min(MIN_HELD_OUT_TOKENS, MAX_HELD_OUT_SHARE * corpus.tokens)),
        MAX_HELD_OUT_TOKENS,
    )
    held: list[int] = []
    found = 0
    for number in np.random.default_rng(seed).permutation(able):
        begin, end = corpus.token_range(int(number), 0, corpus.count_sentences(int(number)))
        if found + end - begin > 2 * wanted:
            continue
        held.append(int(number))
        found += end - begin
        if found >= wanted or len(held) >= len(able) // 4:
            break
    return held, found
