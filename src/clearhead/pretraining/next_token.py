"""Next token prediction, as in GPT: every token is predicted from those before it."""

from __future__ import annotations

import numpy as np

from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import sample_texts
from clearhead.pretraining.objective import PretrainObjective, TextPairs
from clearhead.pretraining.vocab_info import VocabInfo

START_TOKEN_SHARE = 0.5  # of the texts start with the end token


def make_next_token_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:
    """Build a batch: the input is the text without its last token, the labels are the next tokens.

    Half of the texts start with the end token, like a document after another one, and half start like a prompt. At the
    end of a document, the label is the end token.
    """
    prefix = np.array(vocab.prefix_ids or ((vocab.eos_id,) if vocab.eos_id is not None else ()), np.int64)
    end = np.array((vocab.eos_id,) if vocab.eos_id is not None else (), np.int64)
    has_prefix = rng.random(len(texts)) < START_TOKEN_SHARE
    rows = [
        np.concatenate([prefix if use_prefix or len(text) < 2 else prefix[:0], text, end if is_end else end[:0]])
        for use_prefix, (text, _, is_end) in zip(has_prefix, texts, strict=True)
    ]
    ids = np.concatenate([row[:-1] for row in rows])
    labels = np.concatenate([row[1:] for row in rows])
    lengths = np.array([len(row) - 1 for row in rows], np.int64)
    text_starts = np.cumsum(lengths) - lengths
    previous_ids = ids.copy()
    previous_ids[text_starts[has_prefix]] = -1  # the end token of another document is not context
    return PretrainBatch(
        ids=ids, lengths=lengths, positions=np.arange(len(ids)), labels=labels, previous_ids=previous_ids
    )


NEXT_TOKEN = PretrainObjective(
    name="clm",
    title="next token",
    sample_spans=sample_texts,
    make_batch=make_next_token_batch,
    max_text_tokens=lambda length, _: length - 2,
    heads=("causal",),
    losses=("words",),
    min_text_tokens=lambda vocab: (
        2 if vocab.eos_id is None and not vocab.prefix_ids else 1
    ),  # the first token is predicted only after a start token
)
