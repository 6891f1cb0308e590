"""Span corruption, as T5 learns: spans are taken out and a sentinel put in their place; the decoder says the spans.

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
    """A batch of spans; what the decoder reads is what it should have said, one place later."""
    assert vocab.eos_id is not None
    assert vocab.decoder_start_id is not None
    sources, targets, before = [], [], []
    for first, *_ in texts:
        source, target, known = _corrupt(first, vocab, rng)
        sources.append(np.append(source, vocab.eos_id))
        targets.append(np.append(target, vocab.eos_id))
        before.append(np.append(known, -1))
    words = np.concatenate(targets)
    read = np.concatenate([np.append(vocab.decoder_start_id, target[:-1]) for target in targets])
    return PretrainBatch(
        ids=np.concatenate(sources),
        lengths=np.array([len(source) for source in sources], np.int64),
        positions=np.arange(len(words)),
        labels=words,
        previous_ids=np.concatenate(before),
        target_ids=read,
        target_lengths=np.array([len(target) for target in targets], np.int64),
    )


def _corrupt(ids: Array, vocab: VocabInfo, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """A text with spans taken out, the spans, and the token of the text before each of theirs (-1: none)."""
    count = min(max(round(vocab.mask_rate * len(ids)), 1), max(len(ids) - 1, 1))
    spans = min(max(round(count / MEAN_SPAN), 1), len(vocab.sentinel_ids) - 1, max(len(ids) - count, 1))
    noise, rest = _random_partition(count, spans, rng), _random_partition(len(ids) - count, spans, rng)
    source, target, before, place = [], [], [], 0
    earlier = np.append(-1, ids)  # shifted by one
    for number in range(spans):
        mark = np.array([vocab.sentinel_ids[number]])
        kept, gone = int(rest[number]), int(noise[number])
        source += [ids[place : place + kept], mark]
        span = slice(place + kept, place + kept + gone)
        target += [mark, ids[span]]
        before += [np.array([-1]), earlier[span]]
        place += kept + gone
    target.append(np.array([vocab.sentinel_ids[spans]]))
    before.append(np.array([-1]))
    return np.concatenate(source), np.concatenate(target), np.concatenate(before)


def _random_partition(total: int, count: int, rng: np.random.Generator) -> Array:
    """A random cut of a total into so many parts, none of them empty where there is enough."""
    if total < count:
        return np.append(np.zeros(count - 1, np.int64), total)
    cuts = np.sort(rng.choice(np.arange(1, total), count - 1, replace=False)) if count > 1 else np.array([], np.int64)
    return np.diff(np.concatenate([[0], cuts, [total]])).astype(np.int64)


def find_missing_tokens(vocab: VocabInfo) -> str:
    """What a vocabulary lacks for span corruption."""
    if len(vocab.sentinel_ids) < 2:
        return (
            "The tokenizer has no sentinels (<extra_id_0>, <extra_id_1>, ...); learn one for t5 with "
            f"{verb('learn-tokenizer')}."
        )
    if vocab.eos_id is None:
        return "The tokenizer has no end token, which a decoder stops with."
    return "The model does not say which token its decoder starts with." if vocab.decoder_start_id is None else ""


SPAN_CORRUPTION = PretrainObjective(
    name="span-corruption",
    title="spans that were taken out",
    sample_spans=sample_texts,
    make_batch=make_corrupted_batch,
    max_text_tokens=lambda length, _: length - 1,
    heads=("seq2seq",),
    losses=("words",),
    find_problem=find_missing_tokens,
)
