"""Loss and gradient of a pre-training batch equal those of `transformers` for the same weights and ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.model import Model
from clearhead.model.loading import create
from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.objective import TextPairs
from clearhead.pretraining.registry import OBJECTIVES
from clearhead.pretraining.vocab_info import read_vocab_info
from clearhead.training.objectives.pretraining import compute_pretrain_losses, count_targets
from tests.parity_models import TOLERANCE, import_transformers
from tests.planted import make_lines

IGNORE_INDEX = -100  # labels that the loss skips
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 48}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlm": ("bert", "bert", SMALL),
    "mlm+nsp": ("bert", "bert", SMALL),
    "mlm+sop": ("albert", "bert", SMALL | {"embedding_size": 16}),
    "clm": ("gpt2", "gpt", {"n_embd": 32, "n_layer": 2, "n_head": 2}),
    "span-corruption": ("t5", "t5", {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}),
}


def make_model_and_batch(name: str) -> tuple[Model, PretrainBatch]:
    family, use, config = CASES[name]
    lines = make_lines(40)
    tokenizer = learn_tokenizer(iter(lines), use=use, vocab_size=400).tokenizer
    objective = OBJECTIVES[name]
    head = objective.heads[0]
    config = config | ({} if family == "gpt2" else {"pad_token_id": tokenizer.pad_id})
    config |= {"decoder_start_token_id": tokenizer.pad_id} if family == "t5" else {}
    config["vocab_size"] = max(tokenizer.vocab.values()) + 1
    model = create(family, config=config, head=head, tokenizer=tokenizer, seed=3)
    vocab_info = read_vocab_info(tokenizer, decoder_start_id=model.shape.decoder_start_id)
    encoded_lines = [np.array(ids) for ids in tokenizer.encode_plain(lines)]
    has_pairs = "pairs" in objective.losses
    text_pairs: TextPairs = [
        (encoded_lines[line_index], encoded_lines[line_index + 1] if has_pairs else None, line_index % 3 % 2)
        for line_index in range(0, 2 * 9, 2)
    ]
    return model, objective.make_batch(text_pairs, vocab_info, np.random.default_rng(5))


def pad_rows(values: Any, lengths: Any, fill: int) -> torch.Tensor:
    rows = torch.as_tensor(values).split([int(length) for length in lengths])
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=fill)


def compute_reference_loss(name: str, folder: Path, batch: PretrainBatch) -> tuple[torch.Tensor, Any]:
    """Loss of the transformers model on the padded batch, with a label for every token; and the model."""
    config = import_transformers().AutoConfig.from_pretrained(folder)
    model = getattr(import_transformers(), config.architectures[0]).from_pretrained(folder)
    labels = np.full(len(batch.ids if batch.target_ids is None else batch.target_ids), IGNORE_INDEX)
    labels[batch.positions] = batch.labels
    mask = pad_rows(np.ones(len(batch.ids), np.int64), batch.lengths, 0)
    inputs: dict[str, Any] = {"input_ids": pad_rows(batch.ids, batch.lengths, 0), "attention_mask": mask}
    if name == "span-corruption":
        return model(**inputs, labels=pad_rows(labels, batch.target_lengths, IGNORE_INDEX)).loss, model
    if name == "clm":  # their own loss skips the last token of each row
        logits = model(**inputs).logits
        padded_labels = pad_rows(labels, batch.lengths, IGNORE_INDEX)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), padded_labels.flatten()), model
    inputs["token_type_ids"] = pad_rows(batch.segments, batch.lengths, 0)
    pair_keys = {"mlm+nsp": "next_sentence_label", "mlm+sop": "sentence_order_label"}
    if name in pair_keys:
        inputs[pair_keys[name]] = torch.as_tensor(batch.pair_labels)
    return model(**inputs, labels=pad_rows(labels, batch.lengths, IGNORE_INDEX)).loss, model


@pytest.mark.parametrize("name", CASES)
def test_a_batch_has_the_loss_and_the_gradient_of_transformers(name: str, tmp_path: Path) -> None:
    model, batch = make_model_and_batch(name)
    model.save(tmp_path)
    network = model.module.eval()
    weights = {kind: 1 / count for kind, count in count_targets(batch, OBJECTIVES[name].losses).items()}
    loss = torch.stack(list(compute_pretrain_losses(network, batch, weights, "cpu").values())).sum()
    loss.backward()
    gradient_norm = torch.nn.utils.get_total_norm([p.grad for p in network.parameters() if p.grad is not None])
    expected, reference = compute_reference_loss(name, tmp_path, batch)
    expected.backward()
    expected_norm = torch.nn.utils.get_total_norm([p.grad for p in reference.parameters() if p.grad is not None])
    assert loss.item() == pytest.approx(expected.item(), rel=TOLERANCE)
    assert gradient_norm.item() == pytest.approx(expected_norm.item(), rel=1e-4)
    # the control: other labels give another loss
    wrong_batch = replace(batch, labels=np.roll(batch.labels, 1))
    assert compute_pretrain_losses(network, wrong_batch, weights, "cpu")["words"].item() != pytest.approx(
        expected.item(), rel=1e-4
    )


@pytest.mark.parametrize("name", CASES)
def test_packed_losses_equal_unpacked_losses(name: str) -> None:
    """Texts in one batch do not influence each other: the losses add up to those of the single texts."""
    model, batch = make_model_and_batch(name)
    network = model.module.eval()
    losses = OBJECTIVES[name].losses
    weights = dict.fromkeys(losses, 1.0)
    packed = compute_pretrain_losses(network, batch, weights, "cpu")
    losses_per_row = [
        compute_pretrain_losses(network, batch.slice_texts(row, row + 1), weights, "cpu")
        for row in range(len(batch.lengths))
    ]
    for kind in losses:
        unpacked = sum(row_losses[kind].item() for row_losses in losses_per_row)
        assert packed[kind].item() == pytest.approx(unpacked, rel=1e-5)


def test_micro_batch_gradients_add_up() -> None:
    """Gradients of micro-batches add up to those of the whole batch."""
    gradients = []
    for ranges in ([(0, 9)], [(0, 4), (4, 9)], [(row, row + 1) for row in range(9)]):
        model, batch = make_model_and_batch("mlm+nsp")
        network = model.module.eval()
        weights = {kind: 1 / count for kind, count in count_targets(batch, ("words", "pairs")).items()}
        for first, last in ranges:
            torch.stack(
                list(compute_pretrain_losses(network, batch.slice_texts(first, last), weights, "cpu").values())
            ).sum().backward()
        gradients.append({name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None})
    for split_gradients in gradients[1:]:
        for name, gradient in gradients[0].items():
            torch.testing.assert_close(split_gradients[name], gradient, rtol=1e-4, atol=1e-6)
