"""Fine-tuning Marian and T5: loss and gradient of a step and the saved folder agree with `transformers`."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.cli import main
from clearhead.jobs.events import RunEvents
from clearhead.training.loop import TrainingStep
from tests.parity_models import TOLERANCE, import_transformers
from tests.seq2seq_folders import CASES, MODEL_CLASSES, save_seq2seq_folder
from tests.text.tokenizer_folders import SENTENCES

ROWS = [{"source": source, "target": target} for source, target in zip(SENTENCES[:8], SENTENCES[2:10], strict=True)]
IGNORE_INDEX = -100  # padding of labels


def load_reference(folder: Path, family: str) -> tuple[Any, Any]:
    """Load a folder's tokenizer and model with transformers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Marian's tokenizer recommends installing sacremoses
        tokenizer = import_transformers().AutoTokenizer.from_pretrained(folder)
    return tokenizer, getattr(import_transformers(), MODEL_CLASSES[family]).from_pretrained(folder)


def compute_reference_step(folder: Path, case: str, prefix: str, smoothing: float = 0.0) -> tuple[float, float]:
    """Loss and gradient norm of one batch in transformers."""
    family = CASES[case][0]
    tokenizer, model = load_reference(folder, family)
    model.train()
    sources = tokenizer([prefix + row["source"] for row in ROWS], padding=True, return_tensors="pt")
    targets = tokenizer(text_target=[row["target"] for row in ROWS], padding=True, return_tensors="pt")
    labels = targets["input_ids"].masked_fill(targets["attention_mask"] == 0, IGNORE_INDEX)
    out = model(**sources, labels=labels)
    loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing)
    if not smoothing:
        torch.testing.assert_close(loss, out.loss)
    loss.backward()
    gradient = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    return loss.item(), gradient.item()


def run_first_step(model: Path, output: Path, **choices: Any) -> TrainingStep:
    """Train and return what the first step reports."""
    steps: list[TrainingStep] = []
    clearhead.train(
        ROWS,
        model=str(model),
        task="translate",
        output=output,
        epochs=1,
        batch_tokens=None,
        batch_size=len(ROWS),
        dev_share=0.0,
        test_share=0.0,
        threads=1,
        precision="float",
        events=RunEvents(training_step=steps.append),
        **choices,
    )
    return steps[0]


@pytest.mark.parametrize(("case", "smoothing"), [*((case, 0.0) for case in CASES), ("marian", 0.1), ("t5", 0.1)])
def test_a_step_has_the_loss_and_the_gradient_of_transformers(case: str, smoothing: float, tmp_path: Path) -> None:
    base = save_seq2seq_folder(tmp_path / "base", case)
    prefix = "translate: " if case.startswith("t5") else ""
    loss, gradient_norm = compute_reference_step(base, case, prefix, smoothing)
    step = run_first_step(base, tmp_path / "run", prefix=prefix, label_smoothing=smoothing)
    assert step.rows == len(ROWS)
    assert step.loss == pytest.approx(loss, rel=TOLERANCE)
    assert step.gradient == pytest.approx(gradient_norm, rel=1e-4)
    if prefix:  # the control: another prefix gives another loss
        without_prefix = run_first_step(base, tmp_path / "other", prefix="", label_smoothing=smoothing)
        assert without_prefix.loss != pytest.approx(loss, rel=1e-4)


def test_output_bias_and_padding_embedding_of_marian_stay_fixed(tmp_path: Path) -> None:
    base = save_seq2seq_folder(tmp_path / "base", "marian untied")
    run_first_step(base, tmp_path / "run", learning_rate=0.1, weight_decay=0.0)
    before, after = (clearhead.load(folder, "core").module for folder in (base, tmp_path / "run"))
    pad = before.shape.stack.pad_id
    torch.testing.assert_close(after.head.out.bias, before.head.out.bias)
    torch.testing.assert_close(after.stack.embed.token.weight[pad], before.stack.embed.token.weight[pad])
    assert not torch.allclose(after.head.out.weight, before.head.out.weight)


@pytest.mark.learns
@pytest.mark.parametrize("case", ["marian apart", "t5 gated"])
def test_a_fine_tuned_folder_generates_the_same_in_transformers(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    family = CASES[case][0]
    prefix = "summarize: " if family == "t5" else ""
    base = save_seq2seq_folder(tmp_path / "base", case)
    generation_config = json.loads((base / "generation_config.json").read_text())
    rows = [{"source": row["source"], "target": row["source"].split()[1]} for row in ROWS[:4]]
    steps: list[TrainingStep] = []
    run = clearhead.train(
        rows,
        test=rows,
        model=str(base),
        task="translate",
        output=tmp_path / "run",
        epochs=40,
        batch_size=4,
        batch_tokens=None,
        learning_rate=1e-2,
        warmup_ratio=0.1,
        prefix=prefix,
        dev_share=0.0,
        threads=1,
        precision="float",
        num_beams=2,
        events=RunEvents(training_step=steps.append),
    )
    assert steps[-1].loss < 0.3 * steps[0].loss
    assert json.loads((run.folder / "generation_config.json").read_text()) == generation_config
    evaluation = clearhead.evaluate(run.folder, rows)
    assert evaluation.metrics["chrf"].value == run.metrics["chrf"].value  # the prefix is remembered
    tokenizer, model = load_reference(run.folder, family)
    texts = [prefix + row["source"] for row in rows]
    for beam in (1, 3):
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        generated = model.generate(**inputs, num_beams=beam, max_new_tokens=12, do_sample=False)
        ours = clearhead.load(run.folder).generate(texts, num_beams=beam, max_length=12)
        for translation, row in zip(ours, generated[:, 1:].tolist(), strict=True):
            assert row[: len(translation.ids)] == list(translation.ids)
            assert set(row[len(translation.ids) :]) <= {model.config.eos_token_id, model.config.pad_token_id}
    capsys.readouterr()
    main(["translate", str(run.folder), rows[0]["source"], "--num-beams", "3", "--max-length", "12", "--quiet"])
    assert capsys.readouterr().out.strip() == ours[0].text
