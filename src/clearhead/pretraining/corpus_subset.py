"""Training and held-out parts of a corpus: some of its documents, or some sentences of each document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.pretraining.shards import Corpus

Array = np.ndarray[Any, Any]

MIN_DOCUMENTS = 20  # enough to hold out whole documents
HELD_OUT_SHARE = 0.01  # of the tokens, ...
MIN_HELD_OUT_TOKENS = 5000  # ... but at least this number, ...
MAX_HELD_OUT_SHARE = 0.1  # ... but no more than this share, ...
MAX_HELD_OUT_TOKENS = 200_000  # ... and at most this number
TAIL_SHARE = 0.02  # of the sentences of each document, if there are only a few documents
MIN_SENTENCES_FOR_TAIL = 50  # a shorter document stays in the training part


@dataclass(frozen=True, kw_only=True)
class CorpusSubset:
    """Some documents of a corpus, or some sentences of each."""

    corpus: Corpus
    documents: Array  # indices in the corpus
    section: str = "whole"  # whole, or without ("head") or only ("tail") their last sentences

    def sentence_bounds(self, index: int, first: int = 0, last: int | None = None) -> Array:
        """Return the bounds of sentences of a document, as `Corpus.sentence_bounds` does."""
        begin, end = self._sentence_range(index)
        return self.corpus.sentence_bounds(
            int(self.documents[index]), begin + first, end if last is None else min(begin + last, end)
        )

    def count_sentences(self, index: int) -> int:
        """Return the number of sentences of a document in the subset."""
        begin, end = self._sentence_range(index)
        return end - begin

    def includes_end(self, index: int) -> bool:
        """Whether the subset includes the last sentence of a document."""
        return self.section != "head" or self.count_sentences(index) == self.corpus.count_sentences(
            int(self.documents[index])
        )

    def count_tokens(self) -> int:
        """Return the number of tokens in the subset."""
        return sum(end - begin for begin, end in map(self.token_range, range(len(self))))

    def token_range(self, index: int) -> tuple[int, int]:
        """Return the first token of a document in the corpus, and the one after its last."""
        return self.corpus.token_range(int(self.documents[index]), *self._sentence_range(index))

    def _sentence_range(self, index: int) -> tuple[int, int]:
        count = self.corpus.count_sentences(int(self.documents[index]))
        tail = max(2, round(TAIL_SHARE * count)) if count >= MIN_SENTENCES_FOR_TAIL else 0  # two: enough for a pair
        if self.section == "head":
            return 0, count - tail
        return (count - tail, count) if self.section == "tail" else (0, count)

    def __len__(self) -> int:
        return len(self.documents)


def split_held_out(corpus: Corpus, seed: int, min_sentences: int = 1) -> tuple[CorpusSubset, CorpusSubset, str]:
    """Return the training subset, the held-out subset (possibly empty), and a note about the split.

    `min_sentences` is the number of sentences that a held-out document must have: a pair needs two.
    """
    count = corpus.documents
    documents = np.arange(count)
    eligible = [
        int(number) for number in documents if min_sentences < 2 or corpus.count_sentences(int(number)) >= min_sentences
    ]
    held_out, held_out_tokens = _draw_documents(corpus, seed, eligible) if len(eligible) >= MIN_DOCUMENTS else ([], 0)
    if held_out:
        train_documents = np.setdiff1d(documents, held_out)
        note = f"{len(held_out):,} of {count:,} documents are held out ({held_out_tokens:,} tokens)"
        return (
            CorpusSubset(corpus=corpus, documents=train_documents),
            CorpusSubset(corpus=corpus, documents=np.array(held_out)),
            note,
        )
    tail = CorpusSubset(corpus=corpus, documents=documents, section="tail")
    with_tail = [index for index in range(count) if tail.count_sentences(index)]
    tails = CorpusSubset(corpus=corpus, documents=documents[with_tail], section="tail")
    note = (
        f"the last sentences of {len(with_tail)} documents are held out ({tails.count_tokens():,} tokens)"
        if with_tail
        else ""
    )
    return (
        CorpusSubset(corpus=corpus, documents=documents, section="head"),
        tails,
        note or "the text is too short to hold out a part",
    )


def _draw_documents(corpus: Corpus, seed: int, eligible: list[int]) -> tuple[list[int], int]:
    """Draw documents to hold out, and count their tokens; very long documents are skipped, as they would dominate."""
    wanted_tokens = min(
        max(HELD_OUT_SHARE * corpus.tokens, min(MIN_HELD_OUT_TOKENS, MAX_HELD_OUT_SHARE * corpus.tokens)),
        MAX_HELD_OUT_TOKENS,
    )
    held_out: list[int] = []
    token_count = 0
    for number in np.random.default_rng(seed).permutation(eligible):
        begin, end = corpus.token_range(int(number), 0, corpus.count_sentences(int(number)))
        if token_count + end - begin > 2 * wanted_tokens:
            continue
        held_out.append(int(number))
        token_count += end - begin
        if token_count >= wanted_tokens or len(held_out) >= len(eligible) // 4:
            break
    return held_out, token_count
