"""Dropout in training: at the same places, in the same order and with the same rates as transformers.

Both sides draw from the same seed. Equal outputs then mean that every mask had the same shape, the same rate and the
same turn; a dropout that is absent, misplaced or of another rate moves every later draw, and nothing is equal any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.core.attention import Recorder
from tests.family_configs import CLASSES, FIXED_CONFIGS, make_batch_for
from tests.parity_models import (
    TOLERANCE,
    TokenBatch,
    compute_reference_outputs,
    import_transformers,
    perturb_weights,
    save_reference,
)

HIDDEN = {"hidden_dropout_prob": 0.11, "attention_probs_dropout_prob": 0.23}
RATES: dict[str, dict[str, Any]] = {
    "bert": HIDDEN | {"classifier_dropout": 0.37},
    "roberta": HIDDEN | {"classifier_dropout": 0.37},
    "xlm-roberta": HIDDEN | {"classifier_dropout": 0.37},
    "distilbert": {"dropout": 0.11, "attention_dropout": 0.23, "qa_dropout": 0.31, "seq_classif_dropout": 0.37},
    "electra": HIDDEN | {"classifier_dropout": 0.37, "summary_last_dropout": 0.41, "summary_first_dropout": 0.17},
    "albert": HIDDEN | {"classifier_dropout_prob": 0.37},
    "mpnet": HIDDEN,
    "deberta-v2": HIDDEN | {"pooler_dropout": 0.17, "cls_dropout": 0.37},
    "modernbert": {
        "attention_dropout": 0.23,
        "embedding_dropout": 0.11,
        "mlp_dropout": 0.17,
        "classifier_dropout": 0.37,
    },
    "openai-gpt": {"resid_pdrop": 0.11, "embd_pdrop": 0.17, "attn_pdrop": 0.23},
    "gpt2": {"resid_pdrop": 0.11, "embd_pdrop": 0.17, "attn_pdrop": 0.23, "classifier_dropout": 0.37},
    "t5": {"dropout_rate": 0.17},
    "marian": {"dropout": 0.11, "attention_dropout": 0.23, "activation_dropout": 0.17},
}
MORE: list[tuple[str, str, dict[str, Any]]] = [  # other settings that change where something is dropped
    ("bert", "BertForSequenceClassification", {"classifier_dropout": None}),
    ("gpt2", "GPT2ForTokenClassification", {"classifier_dropout": None, "hidden_dropout": 0.41}),
    ("gpt2", "GPT2ForTokenClassification", {"classifier_dropout": None, "hidden_dropout": None}),
    ("deberta-v2", "DebertaV2ForSequenceClassification", {"cls_dropout": None}),
    ("deberta-v2", "DebertaV2Model", {"conv_kernel_size": 0, "share_att_key": False, "type_vocab_size": 2}),
    ("deberta-v2", "DebertaV2Model", {"relative_attention": False, "conv_kernel_size": 0}),
    ("electra", "ElectraModel", {"embedding_size": 24}),
    ("electra", "ElectraForMultipleChoice", {"summary_use_proj": False}),
    ("albert", "AlbertModel", {"inner_group_num": 2}),
    ("t5", "T5ForConditionalGeneration", {"feed_forward_proj": "gated-gelu"}),
    ("marian", "MarianMTModel", {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 62}),
]


@contextmanager
def no_layer_drawn() -> Iterator[None]:
    """Marian draws a number per layer to skip it (never, at a rate of 0): that draw is kept out of the sequence."""
    real = torch.rand
    torch.rand = lambda *size, **how: torch.ones(())
    try:
        yield
    finally:
        torch.rand = real


def trained(family: str, title: str, changes: dict[str, Any]) -> tuple[Any, clearhead.Model, TokenBatch]:
    config = FIXED_CONFIGS[family] | RATES[family] | changes
    kind = getattr(import_transformers(), title)
    torch.manual_seed(0)
    theirs = perturb_weights(kind._from_config(kind.config_class(**config), attn_implementation="eager"))
    with save_reference(theirs) as folder:
        model = clearhead.load(folder, "core")
    return theirs.train(), model, make_batch_for(family, config, (9, 6, 3))


def ours_in_training(model: clearhead.Model, given: TokenBatch, seed: int) -> dict[str, Any]:
    parts = {name: torch.tensor(array) for name, array in given.to_clearhead().items()}
    torch.manual_seed(seed)
    with torch.no_grad():
        said = model.module.train()(**parts, kernel=Recorder())
    model.module.eval()
    names = ("hidden", "target_hidden", "pooled", "logits", "next_sentence")
    return {name: getattr(said, name) for name in names if getattr(said, name) is not None}


def largest(expected: dict[str, Any], got: dict[str, Any], given: TokenBatch, choices: bool) -> float:
    worst = 0.0
    for name, values in expected.items():
        mask = given.target_mask if name != "hidden" and given.target_mask is not None else given.mask
        listed = isinstance(values, list)
        for a, b in zip(values if listed else [values], got[name] if listed else [got[name]], strict=True):
            b = b.numpy()
            b = b.reshape(a.shape) if choices and name == "logits" else b
            same = a.shape[: mask.ndim] == mask.shape
            worst = max(worst, float(np.abs((a - b)[mask] if same else a - b).max()))
    return worst


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("family", "title", "changes"),
    [*((family, title, {}) for family, title in CLASSES), *MORE],
    ids=[title for _, title in CLASSES] + [f"{title}-{'-'.join(changes)}" for _, title, changes in MORE],
)
def test_same_draws_same_outputs(family: str, title: str, changes: dict[str, Any]) -> None:
    choices = "MultipleChoice" in title
    theirs, model, given = trained(family, title, changes)
    for seed in (1, 2):
        torch.manual_seed(seed)
        with no_layer_drawn():
            expected = compute_reference_outputs(theirs, given, choices=choices)
        assert largest(expected, ours_in_training(model, given, seed), given, choices) <= TOLERANCE
    # the control: other draws, other outputs
    assert largest(expected, ours_in_training(model, given, 3), given, choices) > 1e-2


RATE_OF = {
    "embed": "stack.embed.dropout",
    "attend": "stack.blocks.1.attend.dropout",
    "feed": "stack.blocks.1.feed.dropout",
}


@pytest.mark.parametrize("place", [*RATE_OF, "scores"])
def test_control_one_rate_off(place: str) -> None:
    """A single rate that is a little off is seen."""
    theirs, model, given = trained("bert", "BertForMaskedLM", {})
    torch.manual_seed(1)
    expected = compute_reference_outputs(theirs, given)
    if place == "scores":
        model.module.stack.blocks[1].attend.inner.dropout_rate += 0.05
    else:
        model.module.get_submodule(RATE_OF[place]).p += 0.05
    assert largest(expected, ours_in_training(model, given, 1), given, False) > TOLERANCE


@pytest.mark.parametrize("family", RATES)
def test_nothing_is_dropped_outside_training(family: str) -> None:
    title = next(title for kind, title in CLASSES if kind == family)
    _, model, given = trained(family, title, {})
    first, second = model.run(**given.to_clearhead()), model.run(**given.to_clearhead())
    np.testing.assert_array_equal(first.last, second.last)


@pytest.mark.thin(5)
@pytest.mark.parametrize("family", RATES)
def test_the_fused_kernel_drops_as_often(family: str) -> None:
    """It draws its masks inside, so only means can be compared: both kernels' average outputs agree."""
    title = next(title for kind, title in CLASSES if kind == family)
    _, model, given = trained(family, title, {})
    parts = {name: torch.tensor(array) for name, array in given.to_clearhead().items()}
    network = model.module.train()

    def mean(**how: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        rows = []
        with torch.no_grad():
            for seed in range(150):
                torch.manual_seed(seed)
                said = network(**parts, **(how if "kernel" not in how else {"kernel": how["kernel"]()}))
                rows.append((said.target_hidden or said.hidden)[-1].numpy())
        stack = np.stack(rows)
        return stack.mean(0), stack.std(0)

    middle, spread = mean()
    other, other_spread = mean(kernel=Recorder)
    mask = given.mask if given.target_mask is None else given.target_mask
    error = np.sqrt((spread**2 + other_spread**2) / 150)[mask] + 1e-6
    away = np.abs(middle - other)[mask] / error
    assert away.mean() < 1.2  # a standard normal's mean size is 0.8
    assert np.abs(np.log(spread[mask].mean() / other_spread[mask].mean())) < 0.1
