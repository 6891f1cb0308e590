"""Masked words, as BERT learns them: 15 % are asked about; 80 % of these are hidden, 10 % replaced, 10 % left."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.caller import verb
from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import sample_texts
from clearhead.pretraining.objective import PretrainObjective, TextPairs
from clearhead.pretraining.vocab_info import VocabInfo

Array = np.ndarray[Any, Any]
MASK_SHARE, RANDOM_SHARE = 0.8, 0.1  # the rest is left as it is, so that the network never knows what to trust
SPAN_END_RATE, MAX_SPAN_WORDS = (
    0.2,
    10,
)  # SpanBERT: words of a span are geometric with this chance of an end, and at most so many


def pack_texts(texts: TextPairs, vocab: VocabInfo) -> tuple[Array, Array, Array, Array | None]:
    """`[CLS] A [SEP] B [SEP]` end to end: ids, lengths, segments and whether B belongs to A."""
    paired = any(second is not None for _, second, _ in texts)
    ids, segments, lengths = [], [], []
    for first, second, _ in texts:
        parts = [
            vocab.prefix_ids,
            first,
            *((vocab.separator_ids, second) if second is not None else ()),
            vocab.suffix_ids,
        ]
        row = np.concatenate([np.asarray(part, np.int64) for part in parts])
        begin = len(row) - len(vocab.suffix_ids) - (0 if second is None else len(second))
        ids.append(row)
        lengths.append(len(row))
        segments.append(np.arange(len(row)) >= (begin if second is not None else len(row)))
    pairs = np.array([label for *_, label in texts], np.int64) if paired else None
    return np.concatenate(ids), np.array(lengths, np.int64), np.concatenate(segments).astype(np.int64), pairs


def choose_targets(ids: Array, lengths: Array, vocab: VocabInfo, rng: np.random.Generator) -> Array:
    """The places to ask about: so many of every text, never special tokens; whole words or spans where that is said."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    able = ~vocab.is_special[ids]
    counts = np.maximum(np.round(vocab.mask_rate * np.bincount(rows, able, len(lengths))), 1)
    if vocab.masking == "spans":
        return _choose_spans(ids, rows, able, counts, vocab, rng)
    begins = able.copy()
    if vocab.masking == "words":
        begins &= ~vocab.is_continuation[ids] | ~np.concatenate([[False], able[:-1]])
    group = np.cumsum(begins) - 1  # which word a token belongs to
    if not able.any():
        return np.zeros(0, np.int64)
    group[~able] = -1
    sizes = np.bincount(group[able], minlength=int(begins.sum()))
    owners = rows[begins]
    order = np.lexsort((rng.random(len(sizes)), owners))  # the words of each text in a random order
    filled = np.cumsum(sizes[order])
    before = np.concatenate([[0], filled])[np.searchsorted(owners[order], np.arange(len(lengths)))][owners[order]]
    own = filled - before  # tokens of the text up to and with this word
    taken = own - sizes[order] / 2 <= counts[owners[order]]
    taken |= own == sizes[order]  # at least one word
    chosen = np.zeros(len(sizes), bool)
    chosen[order] = taken
    return np.flatnonzero(able & chosen[group])


def _choose_spans(
    ids: Array, rows: Array, able: Array, counts: Array, vocab: VocabInfo, rng: np.random.Generator
) -> Array:
    """Words in a row, a few of them at a time."""
    begins = np.flatnonzero(able & (~vocab.is_continuation[ids] | ~np.concatenate([[False], able[:-1]])))
    asked = np.zeros(len(ids), bool)
    for row in range(len(counts)):
        words = begins[rows[begins] == row]
        if not len(words):
            continue
        ends = np.append(words[1:], int(np.flatnonzero(able & (rows == row))[-1]) + 1)
        missing, tries = int(counts[row]), 0
        while missing > 0 and tries < 100:
            tries += 1
            first = int(rng.integers(len(words)))
            last = min(first + min(int(rng.geometric(SPAN_END_RATE)), MAX_SPAN_WORDS), len(words)) - 1
            span = slice(int(words[first]), int(ends[last]))
            if asked[span].any() or span.stop - span.start > missing + 2:
                continue
            asked[span] = able[span]
            missing -= span.stop - span.start
    return np.flatnonzero(asked)


def mask_tokens(ids: Array, places: Array, vocab: VocabInfo, rng: np.random.Generator) -> Array:
    """What the network reads instead: [MASK], another word, or the word itself."""
    assert vocab.mask_id is not None
    read, fate = ids.copy(), rng.random(len(places))
    other = rng.choice(vocab.ordinary_ids, len(places))
    read[places] = np.where(
        fate < MASK_SHARE, vocab.mask_id, np.where(fate < MASK_SHARE + RANDOM_SHARE, other, ids[places])
    )
    return read


def make_masked_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:
    """A batch of masked words, drawn anew each time a text is seen."""
    ids, lengths, segments, pairs = pack_texts(texts, vocab)
    places = choose_targets(ids, lengths, vocab, rng)
    before = np.where(places > 0, ids[places - 1], -1)
    return PretrainBatch(
        ids=mask_tokens(ids, places, vocab, rng),
        lengths=lengths,
        segments=segments,
        positions=places,
        labels=ids[places],
        previous_ids=before,
        pair_labels=pairs,
    )


def find_missing_mask(vocab: VocabInfo) -> str:
    """What a vocabulary lacks for masked words."""
    if vocab.mask_id is None:
        return f"The tokenizer has no mask token; learn one for bert with {verb('learn-tokenizer')}."
    return "" if len(vocab.ordinary_ids) else "The tokenizer knows special tokens alone, and no words."


MASKED_TOKENS = PretrainObjective(
    name="mlm",
    title="masked words",
    sample_spans=sample_texts,
    make_batch=make_masked_batch,
    max_text_tokens=lambda length, vocab: length - len(vocab.prefix_ids) - len(vocab.suffix_ids),
    heads=("masked",),
    losses=("words",),
    find_problem=find_missing_mask,
)
