"""Loading trained folders: files that were changed after training are refused with the reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.api import evaluate, load_predictor, predict
from clearhead.errors import ClearheadError, InputError, ModelNotFoundError, TokenizerError
from clearhead.text import load_tokenizer
from clearhead.train.finish import Run
from tests.tiny_models import make_sentiment_rows

CopyRun = Callable[..., Path]


@pytest.fixture
def copy_run(tmp_path: Path) -> CopyRun:
    """Copies a run and changes values in one of its JSON files."""

    def make(run: Run, file: str = "clearhead.json", **values: Any) -> Path:
        folder = tmp_path / "copy"
        shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns("state"))
        document = json.loads((folder / file).read_text())
        (document["trained"] if file == "clearhead.json" else document).update(values)
        (folder / file).write_text(json.dumps(document))
        return folder

    return make


def test_a_copy_answers_as_before(fine_tuned_run: Run, copy_run: CopyRun, reviews: Path) -> None:
    assert predict(copy_run(fine_tuned_run), reviews) == predict(fine_tuned_run.folder, reviews)


def test_a_changed_label_is_refused(fine_tuned_run: Run, copy_run: CopyRun) -> None:
    folder = copy_run(
        fine_tuned_run, "config.json", id2label={"0": "bad", "1": "great"}, label2id={"bad": 0, "great": 1}
    )
    with pytest.raises(ClearheadError, match="The labels changed since this model was saved: label 1 was 'good'"):
        load_predictor(folder)


def test_swapped_labels_are_refused(fine_tuned_run: Run, copy_run: CopyRun) -> None:
    folder = copy_run(fine_tuned_run, "config.json", id2label={"0": "good", "1": "bad"}, label2id={"good": 0, "bad": 1})
    with pytest.raises(ClearheadError, match="label 0 was 'bad' and is now 'good'"):
        load_predictor(folder)


def test_a_changed_tokenizer_is_refused(fine_tuned_run: Run, copy_run: CopyRun) -> None:
    folder = copy_run(fine_tuned_run)
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace('"the"', '"##the"'))
    with pytest.raises(TokenizerError, match="The tokenizer changed since this model was saved"):
        predict(folder, ["it was good"])


def test_a_lost_tokenizer_is_refused(fine_tuned_run: Run, copy_run: CopyRun) -> None:
    folder = copy_run(fine_tuned_run)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ClearheadError, match="was saved with a tokenizer, but its files are missing"):
        load_predictor(folder)


@pytest.mark.parametrize(
    "values",
    [
        {"task": "regress"},
        {"task": "pair"},
        {"task": "poetry"},
        {"task": 3},
        {"kind": "number"},
        {"kind": "words"},
        {"labels": ["bad"]},
        {"labels": ["good", "bad"]},
        {"labels": []},
        {"labels": "bad"},
        {"temperature": 0},
        {"temperature": -1.0},
        {"temperature": 1e9},
        {"temperature": float("nan")},
        {"thresholds": [0.5]},
        {"thresholds": [float("nan"), 0.5]},
        {"abstain_below": 5},
        {"abstain_below": "high"},
        {"method": "tfidf"},
        {"method": "majority"},
        {"method": "oracle"},
        {"max_length": 512},
        {"max_length": 0},
        {"max_length": -3},
        {"max_length": None},
        {"long": "keep"},
        {"long": "tear"},
        {"stride": -1},
        {"columns": {"text": "text", "text_b": "other"}},
        {"columns": 7},
    ],
    ids=str,
)
def test_a_passport_that_cannot_be_is_refused(values: dict[str, Any], fine_tuned_run: Run, copy_run: CopyRun) -> None:
    folder = copy_run(fine_tuned_run, **values)
    with pytest.raises(ClearheadError) as caught:
        predict(folder, [" ".join(["film"] * 100)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [{"task": "regress"}, {"kind": "number"}, {"labels": ["bad"]}, {"method": "features"}, {"method": "finetune"}],
    ids=str,
)
def test_a_passport_of_words_that_cannot_be_is_refused(
    values: dict[str, Any], tfidf_run: Run, copy_run: CopyRun
) -> None:
    with pytest.raises(ClearheadError):
        load_predictor(copy_run(tfidf_run, **values))


def test_a_passport_that_is_no_json(fine_tuned_run: Run, copy_run: CopyRun) -> None:
    folder = copy_run(fine_tuned_run)
    (folder / "clearhead.json").write_text("{")
    with pytest.raises(ClearheadError, match=r"clearhead.json is not valid JSON"):
        load_predictor(folder)


def test_a_head_that_is_gone(fine_tuned_run: Run, tiny: str, copy_run: CopyRun) -> None:
    folder = copy_run(fine_tuned_run)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(Path(tiny) / name, folder / name)
    with pytest.raises(ClearheadError):
        load_predictor(folder)


@pytest.mark.parametrize(
    ("reference", "error"), [("nowhere/at/all", ModelNotFoundError), ("", ClearheadError), (".", ClearheadError)]
)
def test_no_model(reference: str, error: type[ClearheadError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error):
        load_predictor(reference)


def test_an_encoder_that_never_learned_to_answer(tiny: str) -> None:
    with pytest.raises(InputError, match=r"it turns texts into vectors \(Model\.embed\); train one with clearhead\."):
        load_predictor(tiny)


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Callable[..., Path]:
    """Makes a Hugging Face checkpoint without a passport, with three labels by default."""

    def make(labels: tuple[str, ...] = ("neg", "neutral", "pos"), **config: Any) -> Path:
        tokenizer = load_tokenizer(Path(tiny), "bert", {"model_type": "bert"}).source
        config_of_tiny = json.loads((Path(tiny) / "config.json").read_text())
        keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        sizes = {key: config_of_tiny[key] for key in (*keys, "max_position_embeddings")}
        model = clearhead.create("bert", config=sizes, head="classify", labels=labels, tokenizer=tokenizer, seed=4)
        folder = model.save(tmp_path_factory.mktemp("foreign") / "model")
        (folder / "clearhead.json").unlink()
        document = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(document))
        return folder

    return make


def test_a_checkpoint_of_others_answers_with_its_labels(make_checkpoint: Callable[..., Path]) -> None:
    folder = make_checkpoint()
    texts = [row["text"] for row in make_sentiment_rows(20)]
    predictor = load_predictor(folder)
    assert (predictor.trained, predictor.task.name, predictor.space.names) == (
        None,
        "classify",
        ("neg", "neutral", "pos"),
    )
    answers = predict(predictor, [{"id": n, "review": text} for n, text in enumerate(texts)])
    model = clearhead.load(folder)
    for text, answer in zip(texts, answers, strict=True):
        encoding = model.tokenizer.encode(text)
        logits = np.asarray(model.run([encoding.ids], None, [encoding.segments], hidden=False).logits)[0]
        np.testing.assert_allclose(
            list(answer.probabilities.values()), np.exp(logits) / np.exp(logits).sum(), atol=1e-6
        )
    rows = [{"text": text, "label": "pos"} for text in texts]
    evaluation = evaluate(folder, rows)
    assert evaluation.metrics["accuracy"].value == sum(answer.label == "pos" for answer in answers) / 20
    with pytest.raises(InputError, match="label 'good' is not one of neg, neutral, pos"):
        evaluate(folder, make_sentiment_rows(5))


def test_a_checkpoint_of_others_reads_two_texts_when_it_is_said(make_checkpoint: Callable[..., Path]) -> None:
    rows = [{"a": "it was a good film", "b": "it was a bad film"}]
    single = predict(make_checkpoint(), rows, text="a")
    paired_answers = predict(make_checkpoint(), rows, text="a", text_b="b")
    assert single[0].probabilities != paired_answers[0].probabilities


def test_a_checkpoint_of_others_with_several_labels(make_checkpoint: Callable[..., Path]) -> None:
    predictor = load_predictor(make_checkpoint(problem_type="multi_label_classification"))
    assert predictor.space.kind == "multilabel"
    answer = predict(predictor, ["it was good"])[0]
    assert answer.labels == tuple(name for name, p in answer.probabilities.items() if p >= 0.5)


@pytest.mark.parametrize("problem", ["regression", None])
def test_a_checkpoint_of_others_with_one_output(problem: str | None, make_checkpoint: Callable[..., Path]) -> None:
    predictor = load_predictor(make_checkpoint(("LABEL_0",), problem_type=problem))
    assert predictor.task.name == "regress"
    assert predict(predictor, ["it was good"])[0].value is not None
    with pytest.raises(InputError, match=r"predicts numbers \(regress\), which have no confidence"):
        load_predictor(make_checkpoint(("LABEL_0",), problem_type=problem), abstain_below=0.5)
