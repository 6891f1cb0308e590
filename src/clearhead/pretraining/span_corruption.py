"""Span corruption, as in T5: spans are replaced by sentinels, and the decoder generates the spans.

Thank you <X> me to your party <Y> week.      <X> for inviting <Y> last <Z>
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.caller import verb
from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import sample_texts
from clearhead.pretraining.objective import PretrainObjective, TextPairs
from clearhead.pretraining.vocab_info import VocabInfo

Array = np.ndarray[Any, Any]
MEAN_SPAN = 3  # tokens


def make_corrupted_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:
    """Build a batch of corrupted texts; the decoder input is the labels shifted by one position."""
    assert vocab.eos_id is not None
    assert vocab.decoder_start_id is not None
    sources, targets, previous_ids = [], [], []
    for text_ids, *_ in texts:
        source, target, previous = _corrupt(text_ids, vocab, rng)
        sources.append(np.append(source, vocab.eos_id))
        targets.append(np.append(target, vocab.eos_id))
        previous_ids.append(np.append(previous, -1))
    labels = np.concatenate(targets)
    decoder_ids = np.concatenate([np.append(vocab.decoder_start_id, target[:-1]) for target in targets])
    return PretrainBatch(
        ids=np.concatenate(sources),
        lengths=np.array([len(source) for source in sources], np.int64),
        positions=np.arange(len(labels)),
        labels=labels,
        previous_ids=np.concatenate(previous_ids),
        target_ids=decoder_ids,
        target_lengths=np.array([len(target) for target in targets], np.int64),
    )


def _corrupt(ids: Array, vocab: VocabInfo, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return a text with masked spans, the spans, and the token before each of theirs in the text (or -1)."""
    noise_tokens = min(max(round(vocab.mask_rate * len(ids)), 1), max(len(ids) - 1, 1))
    span_count = min(
        max(round(noise_tokens / MEAN_SPAN), 1), len(vocab.sentinel_ids) - 1, max(len(ids) - noise_tokens, 1)
    )
    noise_lengths, kept_lengths = (
        _random_partition(noise_tokens, span_count, rng),
        _random_partition(len(ids) - noise_tokens, span_count, rng),
    )
    source, target, previous_ids, position = [], [], [], 0
    shifted = np.append(-1, ids)  # shifted by one
    for number in range(span_count):
        sentinel = np.array([vocab.sentinel_ids[number]])
        kept_length, noise_length = int(kept_lengths[number]), int(noise_lengths[number])
        source += [ids[position : position + kept_length], sentinel]
        span = slice(position + kept_length, position + kept_length + noise_length)
        target += [sentinel, ids[span]]
        previous_ids += [np.array([-1]), shifted[span]]
        position += kept_length + noise_length
    target.append(np.array([vocab.sentinel_ids[span_count]]))
    previous_ids.append(np.array([-1]))
    return np.concatenate(source), np.concatenate(target), np.concatenate(previous_ids)


def _random_partition(total: int, count: int, rng: np.random.Generator) -> Array:
    """Split a total into `count` random parts, none of them empty if possible."""
    if total < count:
        return np.append(np.zeros(count - 1, np.int64), total)
    cuts = np.sort(rng.choice(np.arange(1, total), count - 1, replace=False)) if count > 1 else np.array([], np.int64)
    return np.diff(np.concatenate([[0], cuts, [total]])).astype(np.int64)


def find_missing_tokens(vocab: VocabInfo) -> str:
    """Return what a vocabulary lacks for span corruption, or an empty string."""
    if len(vocab.sentinel_ids) < 2:
        return (
            "The tokenizer has no sentinels (<extra_id_0>, <extra_id_1>, ...); train one for t5 with "
            f"{verb('learn-tokenizer')}."
        )
    if vocab.eos_id is None:
        return "The tokenizer has no end token, which ends generation."
    return "The config of the model does not define a decoder start token." if vocab.decoder_start_id is None else ""


SPAN_CORRUPTION = PretrainObjective(
    name="span-corruption",
    title="masked spans",
    sample_spans=sample_texts,
    make_batch=make_corrupted_batch,
    max_text_tokens=lambda length, _: length - 1,
    heads=("seq2seq",),
    losses=("words",),
    find_problem=find_missing_tokens,
)
