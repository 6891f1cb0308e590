"""The loss and the gradient of a lesson are those that `transformers` computes from the same weights and ids."""

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

IGNORED = -100  # what nobody is asked about
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 48}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlm": ("bert", "bert", SMALL),
    "mlm+nsp": ("bert", "bert", SMALL),
    "mlm+sop": ("albert", "bert", SMALL | {"embedding_size": 16}),
    "clm": ("gpt2", "gpt", {"n_embd": 32, "n_layer": 2, "n_head": 2}),
    "span-corruption": ("t5", "t5", {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}),
}


def model_and_lesson(name: str) -> tuple[Model, PretrainBatch]:
    family, use, config = CASES[name]
    lines = make_lines(40)
    tokenizer = learn_tokenizer(iter(lines), use=use, vocab_size=400).tokenizer
    objective = OBJECTIVES[name]
    named = {"pad_token_id": tokenizer.pad_id, "decoder_start_token_id": tokenizer.pad_id}
    head = objective.heads[0]
    config = config | ({} if family == "gpt2" else {"pad_token_id": tokenizer.pad_id})
    config |= {"decoder_start_token_id": named["pad_token_id"]} if family == "t5" else {}
    config["vocab_size"] = max(tokenizer.vocab.values()) + 1
    model = create(family, config=config, head=head, tokenizer=tokenizer, seed=3)
    kit = read_vocab_info(tokenizer, decoder_start_id=model.shape.decoder_start_id)
    pieces = [np.array(ids) for ids in tokenizer.encode_plain(lines)]
    two = "pairs" in objective.losses
    texts: TextPairs = [
        (pieces[place], pieces[place + 1] if two else None, place % 3 % 2) for place in range(0, 2 * 9, 2)
    ]
    return model, objective.make_batch(texts, kit, np.random.default_rng(5))


def padded(values: Any, lengths: Any, fill: int) -> torch.Tensor:
    parts = torch.as_tensor(values).split([int(one) for one in lengths])
    return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=fill)


def theirs(name: str, folder: Path, lesson: PretrainBatch) -> tuple[torch.Tensor, Any]:
    """Their model's own loss, padded and with labels for every token."""
    config = import_transformers().AutoConfig.from_pretrained(folder)
    model = getattr(import_transformers(), config.architectures[0]).from_pretrained(folder)
    labels = np.full(len(lesson.ids if lesson.target_ids is None else lesson.target_ids), IGNORED)
    labels[lesson.positions] = lesson.labels
    mask = padded(np.ones(len(lesson.ids), np.int64), lesson.lengths, 0)
    given: dict[str, Any] = {"input_ids": padded(lesson.ids, lesson.lengths, 0), "attention_mask": mask}
    if name == "span-corruption":
        return model(**given, labels=padded(labels, lesson.target_lengths, IGNORED)).loss, model
    if name == "clm":  # theirs shifts by itself: the last word of each row is asked about as well
        logits = model(**given).logits
        right = padded(labels, lesson.lengths, IGNORED)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), right.flatten()), model
    given["token_type_ids"] = padded(lesson.segments, lesson.lengths, 0)
    pairs = {"mlm+nsp": "next_sentence_label", "mlm+sop": "sentence_order_label"}
    if name in pairs:
        given[pairs[name]] = torch.as_tensor(lesson.pair_labels)
    return model(**given, labels=padded(labels, lesson.lengths, IGNORED)).loss, model


@pytest.mark.parametrize("name", CASES)
def test_a_lesson_has_the_loss_and_the_gradient_of_transformers(name: str, tmp_path: Path) -> None:
    model, lesson = model_and_lesson(name)
    model.save(tmp_path)
    network = model.module.eval()
    shares = {kind: 1 / count for kind, count in count_targets(lesson, OBJECTIVES[name].losses).items()}
    loss = torch.stack(list(compute_pretrain_losses(network, lesson, shares, "cpu").values())).sum()
    loss.backward()
    gradient = torch.nn.utils.get_total_norm([p.grad for p in network.parameters() if p.grad is not None])
    expected, other = theirs(name, tmp_path, lesson)
    expected.backward()
    length = torch.nn.utils.get_total_norm([p.grad for p in other.parameters() if p.grad is not None])
    assert loss.item() == pytest.approx(expected.item(), rel=TOLERANCE)
    assert gradient.item() == pytest.approx(length.item(), rel=1e-4)
    # the control: another right word is another loss
    wrong = replace(lesson, labels=np.roll(lesson.labels, 1))
    assert compute_pretrain_losses(network, wrong, shares, "cpu")["words"].item() != pytest.approx(
        expected.item(), rel=1e-4
    )


@pytest.mark.parametrize("name", CASES)
def test_packed_is_unpacked(name: str) -> None:
    """Texts in one batch hear nothing of each other: their losses are those of each text alone."""
    model, lesson = model_and_lesson(name)
    network = model.module.eval()
    losses = OBJECTIVES[name].losses
    shares = dict.fromkeys(losses, 1.0)
    together = compute_pretrain_losses(network, lesson, shares, "cpu")
    alone = [
        compute_pretrain_losses(network, lesson.slice_texts(row, row + 1), shares, "cpu")
        for row in range(len(lesson.lengths))
    ]
    for kind in losses:
        apart = sum(one[kind].item() for one in alone)
        assert together[kind].item() == pytest.approx(apart, rel=1e-5)


def test_a_step_in_parts_is_a_step() -> None:
    """Gradients of micro-batches add up to those of the whole lesson."""
    found = []
    for parts in ([(0, 9)], [(0, 4), (4, 9)], [(row, row + 1) for row in range(9)]):
        model, lesson = model_and_lesson("mlm+nsp")
        network = model.module.eval()
        shares = {kind: 1 / count for kind, count in count_targets(lesson, ("words", "pairs")).items()}
        for first, last in parts:
            torch.stack(
                list(compute_pretrain_losses(network, lesson.slice_texts(first, last), shares, "cpu").values())
            ).sum().backward()
        found.append({name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None})
    for other in found[1:]:
        for name, gradient in found[0].items():
            torch.testing.assert_close(other[name], gradient, rtol=1e-4, atol=1e-6)
