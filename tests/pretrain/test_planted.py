"""A text with a planted rule is learned by every objective: the path from a file to a model can really learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.model import Model
from clearhead.pretrain.result import PretrainResult
from tests.planted import COLORS, write_planted_text
from tests.variation import THREADS

BERT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
T5 = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4}
SENTENCE = "The {} drum of music is"


def pretrain_planted_rule(
    folder: Path, family: str, config: dict[str, Any], *, sentences: int = 1, **choices: Any
) -> PretrainResult:
    """A small model after some steps over a text with the rule in it."""
    text = write_planted_text(folder / "text.txt", 1500 // sentences, sentences)
    usual: dict[str, Any] = {
        "vocab_size": 200,
        "max_length": 24,
        "batch_tokens": 1024,
        "learning_rate": 3e-3,
        "threads": THREADS,
        "evaluations": 1,
    }
    return clearhead.pretrain(
        text,
        output=folder / "run",
        family=family,
        preset="tiny",
        config=json.dumps(config),
        report=False,
        **(usual | choices),
    )


@pytest.mark.slow
@pytest.mark.learns
def test_masked_words(tmp_path: Path) -> None:
    run = pretrain_planted_rule(tmp_path, "bert", BERT, objective="mlm", mlm_probability=0.2, max_steps=200)
    assert run.held_out is not None
    assert run.held_out.loss < 0.5 * run.held_out.bigram.loss < 0.5 * run.held_out.unigram.loss
    model = clearhead.load(run.folder)
    for color in COLORS:
        best = model.fill(f"{SENTENCE.format(color)} [MASK].")[0][0]
        assert best.token == color
        assert best.probability > 0.8


@pytest.mark.slow
@pytest.mark.learns
def test_next_sentence(tmp_path: Path) -> None:
    run = pretrain_planted_rule(
        tmp_path, "bert", BERT, sentences=8, learning_rate=2e-3, batch_tokens=640, max_steps=1000
    )
    assert run.objective == "mlm+nsp"
    assert run.held_out is not None
    assert run.held_out.pair_accuracy is not None
    assert run.held_out.pair_majority is not None
    assert run.held_out.pair_majority < 0.56
    assert run.held_out.pair_accuracy > 0.75


@pytest.mark.slow
@pytest.mark.learns
def test_next_words(tmp_path: Path) -> None:
    run = pretrain_planted_rule(tmp_path, "gpt2", GPT, vocab_size=400, max_steps=250)
    model = clearhead.load(run.folder)
    continuations = [
        answer.text for answer in model.generate([SENTENCE.format(color) for color in COLORS], max_length=3)
    ]
    assert continuations == [f" {color}." for color in COLORS]  # and then the document ends


@pytest.mark.slow
@pytest.mark.learns
def test_spans(tmp_path: Path) -> None:
    run = pretrain_planted_rule(tmp_path, "t5", T5, learning_rate=1e-2, max_steps=300, max_length=48)
    model = clearhead.load(run.folder)
    prompts = [f"The {color} drum of music <extra_id_0>" for color in COLORS]  # a span of some tokens
    spans = [answer.text for answer in model.generate(prompts, max_length=8)]
    correct = sum(text == f"is {color}." for color, text in zip(COLORS, spans, strict=True))
    assert correct >= 7  # 8 over seeds and precisions, 1 by chance
    assert run.held_out is not None
    assert run.held_out.loss < 0.1  # 0.001


@pytest.mark.slow
@pytest.mark.learns
def test_replaced_words(tmp_path: Path) -> None:
    wide = BERT | {"hidden_size": 128, "embedding_size": 64}
    run = pretrain_planted_rule(tmp_path, "electra", wide, mlm_probability=0.2, learning_rate=2e-3, max_steps=420)
    assert run.held_out is not None
    assert run.held_out.replaced_accuracy is not None
    assert run.held_out.replaced_majority is not None
    assert run.held_out.replaced_accuracy > run.held_out.replaced_majority
    model = clearhead.load(run.folder, "core")
    differences = []
    for index, color in enumerate(COLORS):
        wrong_color = COLORS[index - 1]
        original_logit, replaced_logit = (
            _replaced_logit(model, f"{SENTENCE.format(color)} {last}.", last) for last in (color, wrong_color)
        )
        differences.append(replaced_logit - original_logit)
    assert np.mean(differences) > 1
    generator = clearhead.load(run.folder / "generator")
    assert generator.fill(f"{SENTENCE.format('red')} [MASK].")[0][0].token in COLORS


@pytest.mark.slow
@pytest.mark.learns
def test_both_ways(tmp_path: Path) -> None:
    run = pretrain_planted_rule(tmp_path, "elmo", {"width": 64}, learning_rate=1e-2, max_steps=250)
    assert run.objective == "bilm"
    assert run.held_out is not None
    assert run.held_out.loss < 0.75 * run.held_out.bigram.loss
    model = clearhead.load(run.folder)
    after, before = [], []
    for color in COLORS:
        encoding = model.tokenizer.encode(f"{SENTENCE.format(color)} {color}.")
        logits = np.asarray(model.run([encoding.ids]).logits)[0]  # (tokens, 2, vocabulary)
        first, last = (index for index, token in enumerate(encoding.tokens) if token == color)
        after.append(model.tokenizer.tokens([int(logits[last - 1, 0].argmax())]) == [color])
        before.append(model.tokenizer.tokens([int(logits[first + 1, 1].argmax())]) == [color])
    assert sum(after) >= 7  # the forward network remembers the color from the beginning of the sentence, ...
    assert sum(before) >= 7  # ... and the backward one from its end


def _replaced_logit(model: Model, text: str, word: str) -> float:
    """How much the model doubts the last occurrence of a word."""
    encoding = model.tokenizer.encode(text)
    position = max(index for index, token in enumerate(encoding.tokens) if token == word)
    return float(np.asarray(model.run([encoding.ids]).logits)[0, position])


@pytest.mark.parametrize(("family", "steps"), [("roberta", 1), ("transformer", 1), ("rnn", 1), ("deberta-v2", 1)])
def test_any_family_takes_a_step(tmp_path: Path, family: str, steps: int) -> None:
    text = write_planted_text(tmp_path / "text.txt", 60, 3)
    run = clearhead.pretrain(
        text,
        output=tmp_path / "run",
        family=family,
        preset="tiny",
        max_steps=steps,
        vocab_size=400,
        max_length=32,
        batch_tokens=512,
        threads=1,
        report=False,
    )
    assert run.steps == steps
    assert clearhead.load(run.folder).parameters == run.parameters
