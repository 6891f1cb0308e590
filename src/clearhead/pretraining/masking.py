"""Masked tokens, as in BERT: of 15 % targets, 80 % become [MASK], 10 % a random token, 10 % stay unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.caller import verb
from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import sample_texts
from clearhead.pretraining.objective import PretrainObjective, TextPairs
from clearhead.pretraining.vocab_info import VocabInfo

Array = np.ndarray[Any, Any]
MASK_SHARE, RANDOM_SHARE = (
    0.8,
    0.1,
)  # the rest stays unchanged, so that the network cannot tell targets from other tokens
SPAN_END_RATE, MAX_SPAN_WORDS = (
    0.2,
    10,
)  # SpanBERT: the words per span are geometric with this rate, and limited


def pack_texts(texts: TextPairs, vocab: VocabInfo) -> tuple[Array, Array, Array, Array | None]:
    """Pack `[CLS] A [SEP] B [SEP]`: return ids, lengths, segments and pair labels."""
    has_pairs = any(second is not None for _, second, _ in texts)
    ids, segments, lengths = [], [], []
    for first, second, _ in texts:
        parts = [
            vocab.prefix_ids,
            first,
            *((vocab.separator_ids, second) if second is not None else ()),
            vocab.suffix_ids,
        ]
        row = np.concatenate([np.asarray(part, np.int64) for part in parts])
        second_start = len(row) - len(vocab.suffix_ids) - (0 if second is None else len(second))
        ids.append(row)
        lengths.append(len(row))
        segments.append(np.arange(len(row)) >= (second_start if second is not None else len(row)))
    pairs = np.array([label for *_, label in texts], np.int64) if has_pairs else None
    return np.concatenate(ids), np.array(lengths, np.int64), np.concatenate(segments).astype(np.int64), pairs


def choose_targets(ids: Array, lengths: Array, vocab: VocabInfo, rng: np.random.Generator) -> Array:
    """Choose the target positions, a fixed share of every text: tokens, whole words or spans, but no special tokens."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    is_maskable = ~vocab.is_special[ids]
    counts = np.maximum(np.round(vocab.mask_rate * np.bincount(rows, is_maskable, len(lengths))), 1)
    if vocab.masking == "spans":
        return _choose_spans(ids, rows, is_maskable, counts, vocab, rng)
    starts_word = is_maskable.copy()
    if vocab.masking == "words":
        starts_word &= ~vocab.is_continuation[ids] | ~np.concatenate([[False], is_maskable[:-1]])
    word_index = np.cumsum(starts_word) - 1  # the word of each token
    if not is_maskable.any():
        return np.zeros(0, np.int64)
    word_index[~is_maskable] = -1
    word_sizes = np.bincount(word_index[is_maskable], minlength=int(starts_word.sum()))
    word_rows = rows[starts_word]
    order = np.lexsort((rng.random(len(word_sizes)), word_rows))  # the words of each text in random order
    cumulative = np.cumsum(word_sizes[order])
    earlier_texts = np.concatenate([[0], cumulative])[np.searchsorted(word_rows[order], np.arange(len(lengths)))][
        word_rows[order]
    ]
    tokens_so_far = cumulative - earlier_texts  # tokens of the text up to and including this word
    is_chosen_in_order = tokens_so_far - word_sizes[order] / 2 <= counts[word_rows[order]]
    is_chosen_in_order |= tokens_so_far == word_sizes[order]  # at least one word
    is_chosen = np.zeros(len(word_sizes), bool)
    is_chosen[order] = is_chosen_in_order
    return np.flatnonzero(is_maskable & is_chosen[word_index])


def _choose_spans(
    ids: Array, rows: Array, is_maskable: Array, counts: Array, vocab: VocabInfo, rng: np.random.Generator
) -> Array:
    """Choose spans of consecutive words."""
    word_starts = np.flatnonzero(
        is_maskable & (~vocab.is_continuation[ids] | ~np.concatenate([[False], is_maskable[:-1]]))
    )
    is_target = np.zeros(len(ids), bool)
    for row in range(len(counts)):
        row_starts = word_starts[rows[word_starts] == row]
        if not len(row_starts):
            continue
        word_ends = np.append(row_starts[1:], int(np.flatnonzero(is_maskable & (rows == row))[-1]) + 1)
        missing, tries = int(counts[row]), 0
        while missing > 0 and tries < 100:
            tries += 1
            first = int(rng.integers(len(row_starts)))
            last = min(first + min(int(rng.geometric(SPAN_END_RATE)), MAX_SPAN_WORDS), len(row_starts)) - 1
            span = slice(int(row_starts[first]), int(word_ends[last]))
            if is_target[span].any() or span.stop - span.start > missing + 2:
                continue
            is_target[span] = is_maskable[span]
            missing -= span.stop - span.start
    return np.flatnonzero(is_target)


def mask_tokens(ids: Array, positions: Array, vocab: VocabInfo, rng: np.random.Generator) -> Array:
    """Replace the targets by [MASK], a random token, or the token itself."""
    assert vocab.mask_id is not None
    masked, draws = ids.copy(), rng.random(len(positions))
    random_ids = rng.choice(vocab.ordinary_ids, len(positions))
    masked[positions] = np.where(
        draws < MASK_SHARE, vocab.mask_id, np.where(draws < MASK_SHARE + RANDOM_SHARE, random_ids, ids[positions])
    )
    return masked


def make_masked_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:
    """Build a batch of masked tokens; masks are drawn anew each time a text is seen."""
    ids, lengths, segments, pair_labels = pack_texts(texts, vocab)
    positions = choose_targets(ids, lengths, vocab, rng)
    previous_ids = np.where(positions > 0, ids[positions - 1], -1)
    return PretrainBatch(
        ids=mask_tokens(ids, positions, vocab, rng),
        lengths=lengths,
        segments=segments,
        positions=positions,
        labels=ids[positions],
        previous_ids=previous_ids,
        pair_labels=pair_labels,
    )


def find_missing_mask(vocab: VocabInfo) -> str:
    """Return what a vocabulary lacks for masking, or an empty string."""
    if vocab.mask_id is None:
        return f"The tokenizer has no mask token; train one for bert with {verb('learn-tokenizer')}."
    return "" if len(vocab.ordinary_ids) else "The tokenizer has only special tokens."


MASKED_TOKENS = PretrainObjective(
    name="mlm",
    title="masked tokens",
    sample_spans=sample_texts,
    make_batch=make_masked_batch,
    max_text_tokens=lambda length, vocab: length - len(vocab.prefix_ids) - len(vocab.suffix_ids),
    heads=("masked",),
    losses=("words",),
    find_problem=find_missing_mask,
)
