"""Dropout in training has the same locations, order and rates as in transformers.

Both sides draw from the same seed, so outputs are equal only if every mask has the same shape, rate and order: a
dropout that is missing, misplaced or has another rate shifts every later draw.
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
VARIANTS: list[tuple[str, str, dict[str, Any]]] = [  # other settings that change where dropout applies
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
def without_layer_drop() -> Iterator[None]:
    """Keep Marian's layer-drop draws (one per layer, rate 0) out of the random sequence."""
    original = torch.rand
    torch.rand = lambda *size, **options: torch.ones(())
    try:
        yield
    finally:
        torch.rand = original


def load_training_pair(family: str, title: str, changes: dict[str, Any]) -> tuple[Any, clearhead.Model, TokenBatch]:
    config = FIXED_CONFIGS[family] | RATES[family] | changes
    model_class = getattr(import_transformers(), title)
    torch.manual_seed(0)
    theirs = perturb_weights(model_class._from_config(model_class.config_class(**config), attn_implementation="eager"))
    with save_reference(theirs) as folder:
        model = clearhead.load(folder, "core")
    return theirs.train(), model, make_batch_for(family, config, (9, 6, 3))


def run_in_training(model: clearhead.Model, batch: TokenBatch, seed: int) -> dict[str, Any]:
    inputs = {name: torch.tensor(array) for name, array in batch.to_clearhead().items()}
    torch.manual_seed(seed)
    with torch.no_grad():
        outputs = model.module.train()(**inputs, kernel=Recorder())
    model.module.eval()
    names = ("hidden", "target_hidden", "pooled", "logits", "next_sentence")
    return {name: getattr(outputs, name) for name in names if getattr(outputs, name) is not None}


def max_difference(expected: dict[str, Any], got: dict[str, Any], batch: TokenBatch, is_choice: bool) -> float:
    worst = 0.0
    for name, values in expected.items():
        mask = batch.target_mask if name != "hidden" and batch.target_mask is not None else batch.mask
        is_list = isinstance(values, list)
        for expected_array, array in zip(
            values if is_list else [values], got[name] if is_list else [got[name]], strict=True
        ):
            array = array.numpy()
            array = array.reshape(expected_array.shape) if is_choice and name == "logits" else array
            has_token_axis = expected_array.shape[: mask.ndim] == mask.shape
            errors = np.abs(expected_array - array)
            worst = max(worst, float((errors[mask] if has_token_axis else errors).max()))
    return worst


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("family", "title", "changes"),
    [*((family, title, {}) for family, title in CLASSES), *VARIANTS],
    ids=[title for _, title in CLASSES] + [f"{title}-{'-'.join(changes)}" for _, title, changes in VARIANTS],
)
def test_same_draws_same_outputs(family: str, title: str, changes: dict[str, Any]) -> None:
    is_choice = "MultipleChoice" in title
    theirs, model, batch = load_training_pair(family, title, changes)
    for seed in (1, 2):
        torch.manual_seed(seed)
        with without_layer_drop():
            expected = compute_reference_outputs(theirs, batch, choices=is_choice)
        assert max_difference(expected, run_in_training(model, batch, seed), batch, is_choice) <= TOLERANCE
    # the control: another seed gives other outputs
    assert max_difference(expected, run_in_training(model, batch, 3), batch, is_choice) > 1e-2


DROPOUT_MODULES = {
    "embed": "stack.embed.dropout",
    "attend": "stack.blocks.1.attend.dropout",
    "feed": "stack.blocks.1.feed.dropout",
}


@pytest.mark.parametrize("location", [*DROPOUT_MODULES, "scores"])
def test_control_one_rate_off(location: str) -> None:
    """A small error in a single rate is detected."""
    theirs, model, batch = load_training_pair("bert", "BertForMaskedLM", {})
    torch.manual_seed(1)
    expected = compute_reference_outputs(theirs, batch)
    if location == "scores":
        model.module.stack.blocks[1].attend.inner.dropout_rate += 0.05
    else:
        model.module.get_submodule(DROPOUT_MODULES[location]).p += 0.05
    assert max_difference(expected, run_in_training(model, batch, 1), batch, False) > TOLERANCE


@pytest.mark.parametrize("family", RATES)
def test_nothing_is_dropped_outside_training(family: str) -> None:
    title = next(title for kind, title in CLASSES if kind == family)
    _, model, batch = load_training_pair(family, title, {})
    first, second = model.run(**batch.to_clearhead()), model.run(**batch.to_clearhead())
    np.testing.assert_array_equal(first.last, second.last)


@pytest.mark.thin(5)
@pytest.mark.parametrize("family", RATES)
def test_the_fused_kernel_drops_at_the_same_rate(family: str) -> None:
    """The fused kernel draws its own masks, so only the mean outputs of both kernels are compared."""
    title = next(title for kind, title in CLASSES if kind == family)
    _, model, batch = load_training_pair(family, title, {})
    inputs = {name: torch.tensor(array) for name, array in batch.to_clearhead().items()}
    network = model.module.train()

    def mean(**options: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        rows = []
        with torch.no_grad():
            for seed in range(150):
                torch.manual_seed(seed)
                outputs = network(**inputs, **(options if "kernel" not in options else {"kernel": options["kernel"]()}))
                rows.append((outputs.target_hidden or outputs.hidden)[-1].numpy())
        samples = np.stack(rows)
        return samples.mean(0), samples.std(0)

    fused_mean, fused_std = mean()
    plain_mean, plain_std = mean(kernel=Recorder)
    mask = batch.mask if batch.target_mask is None else batch.target_mask
    standard_error = np.sqrt((fused_std**2 + plain_std**2) / 150)[mask] + 1e-6
    z_scores = np.abs(fused_mean - plain_mean)[mask] / standard_error
    assert z_scores.mean() < 1.2  # the mean absolute value of a standard normal is 0.8
    assert np.abs(np.log(fused_std[mask].mean() / plain_std[mask].mean())) < 0.1
