"""Head pooling: chosen by the encoder or a setting, and kept by everything that uses the model."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.api import export, load_predictor, predict, quantize, train
from clearhead.cli import main
from clearhead.errors import InputError
from clearhead.jobs.events import RunEvents
from clearhead.jobs.plan import make_plan
from clearhead.ladder.methods import plan_method
from clearhead.ladder.state import LadderState
from clearhead.train.job import read_run
from fuzz.kill import read_results
from tests.tiny_models import make_sentiment_rows, tiny_gpt, tiny_model, tiny_sentence_encoder, write_csv

SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "learning_rate": 3e-3,
    "batch_size": 16,
    "save_every": 0.0,
    "threads": 1,
    "precision": "float",
}
ROWS = make_sentiment_rows(96)
TEXTS = [row["text"] for row in ROWS[:9]]


@pytest.fixture(scope="module")
def sentence_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_sentence_encoder(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def mean_folder(sentence_model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the default head on an encoder with mean pooling."""
    return train(
        ROWS, output=tmp_path_factory.mktemp("runs") / "mean", model=sentence_model, report=False, **SETTINGS
    ).folder


def compute_logits(folder: Path, **options: Any) -> Any:
    """The logits of a few texts, computed one at a time."""
    model = clearhead.load(folder, **options)
    encodings = [model.tokenizer.encode(text) for text in TEXTS]
    return np.stack([model.run([encoding.ids], hidden=False).logits[0] for encoding in encodings])  # type: ignore[index]


def test_the_default_is_the_pooling_of_the_encoder(mean_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = clearhead.load(mean_folder)
    assert (model.shape.head_pooling, model.head) == ("mean", "classify")
    assert model.trained is not None
    assert model.trained.settings["head_pooling"] == "mean"
    assert read_run(mean_folder)[0].head_pooling == "mean"
    main(["describe", str(mean_folder)])
    assert "the mean of all token states" in capsys.readouterr().out
    main(["describe", str(mean_folder), "--json"])
    assert json.loads(capsys.readouterr().out)["head_pooling"] == "mean"


@pytest.mark.parametrize("head_pooling", ["first", "mean"])
def test_the_setting_overrides_the_encoder(tmp_path: Path, sentence_model: str, head_pooling: str) -> None:
    run = train(
        ROWS,
        output=tmp_path / "run",
        model=sentence_model,
        head_pooling=head_pooling,
        report=False,
        **(SETTINGS | {"epochs": 1}),
    )
    config = json.loads((run.folder / "config.json").read_text())
    assert clearhead.load(run.folder).shape.head_pooling == head_pooling
    assert (run.folder / "modules.json").exists() == (head_pooling == "mean")
    assert config["architectures"] == ["BertModel" if head_pooling == "mean" else "BertForSequenceClassification"]
    assert config.get("head_pooling") == ("mean" if head_pooling == "mean" else None)


def test_other_encoders_keep_their_head(tmp_path: Path) -> None:
    settings = SETTINGS | {"epochs": 1}
    bert = train(ROWS, output=tmp_path / "run", model=str(tiny_model(tmp_path / "plain")), report=False, **settings)
    assert clearhead.load(bert.folder).shape.head_pooling == "first"
    assert read_run(bert.folder)[0].head_pooling == "first"
    gpt = train(ROWS, output=tmp_path / "gpt", model=str(tiny_gpt(tmp_path / "tiny")), report=False, **settings)
    assert clearhead.load(gpt.folder).shape.head_pooling == "last"
    assert read_run(gpt.folder)[0].head_pooling == "auto"


def test_both_runtimes_and_int8_agree(tmp_path: Path, mean_folder: Path) -> None:
    expected = compute_logits(mean_folder, runtime="core")
    np.testing.assert_allclose(compute_logits(mean_folder, runtime="engine", precision="float"), expected, atol=1e-4)
    int8_folder = quantize(mean_folder, ROWS[:40], output=tmp_path / "int8", max_drop=100.0).folder
    assert clearhead.load(int8_folder).shape.head_pooling == "mean"
    max_logit = float(np.abs(expected).max())
    np.testing.assert_allclose(compute_logits(int8_folder), expected, atol=0.1 * max_logit)
    labels = [prediction.label for prediction in predict(mean_folder, TEXTS)]
    assert [prediction.label for prediction in predict(int8_folder, TEXTS)] == labels
    assert np.array_equal(expected.argmax(1), [clearhead.load(mean_folder).labels.index(label) for label in labels])


def test_evaluate_reproduces_the_metrics_of_the_run(mean_folder: Path, sentence_model: str, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "rows.csv", ROWS)
    run = train(data, output=tmp_path / "run", model=sentence_model, report=False, **(SETTINGS | {"epochs": 1}))
    evaluation = clearhead.evaluate(run.folder, data, part="test")
    assert evaluation.value == pytest.approx(run.evaluations["test"].value)
    report = train(data, output=tmp_path / "seen", model=sentence_model, **(SETTINGS | {"epochs": 1})).report
    assert report is not None
    assert "head_pooling" in report.read_text()


def test_an_export_contains_the_head(tmp_path: Path, mean_folder: Path) -> None:
    import onnxruntime

    folder = export(mean_folder, tmp_path / "onnx")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [encoding.name for encoding in session.get_inputs()]
    model = clearhead.load(mean_folder, "core")
    for text in TEXTS[:3]:
        encoding = model.tokenizer.encode(text)
        values = {
            "input_ids": encoding.ids,
            "attention_mask": [1] * len(encoding.ids),
            "token_type_ids": encoding.segments,
        }
        feeds = {name: np.array([values[name]], np.int64) for name in names}
        outputs = dict(
            zip((encoding.name for encoding in session.get_outputs()), session.run(None, feeds), strict=True)
        )
        expected = model.run([encoding.ids], hidden=False).logits
        assert expected is not None
        np.testing.assert_allclose(outputs["logits"], expected, atol=1e-4)


def test_a_converted_copy_is_complete(tmp_path: Path, mean_folder: Path) -> None:
    copy = clearhead.convert(mean_folder, tmp_path / "copy")
    np.testing.assert_array_equal(compute_logits(copy, runtime="core"), compute_logits(mean_folder, runtime="core"))


def test_estimators_keep_the_head(tmp_path: Path, sentence_model: str) -> None:
    labels = [row["label"] for row in ROWS]
    classifier = clearhead.TextClassifier(model=sentence_model, epochs=1, settings={"precision": "float"}, threads=1)
    classifier.fit([row["text"] for row in ROWS], labels)
    assert clearhead.load(classifier.trained_folder_.folder).shape.head_pooling == "mean"
    expected = classifier.predict_proba(TEXTS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(classifier)).predict_proba(TEXTS), expected)
    predictor = load_predictor(classifier.save(tmp_path / "saved"))
    assert [prediction.label for prediction in predict(predictor, TEXTS)] == classifier.predict(TEXTS).tolist()


def test_a_resumed_run_keeps_its_head(tmp_path: Path, sentence_model: str) -> None:
    class StopError(Exception):
        """Ends a run."""

    def stop(step: Any) -> None:
        if step.step == 7:
            raise StopError

    data = write_csv(tmp_path / "rows.csv", ROWS)
    options = SETTINGS | {"model": sentence_model, "seeds": 2, "command": "x", "report": False}
    train(data, output=tmp_path / "whole", **options)
    with pytest.raises(StopError):
        train(data, output=tmp_path / "half", events=RunEvents(training_step=stop), **options)
    train(resume=tmp_path / "half", report=False)
    assert read_results(tmp_path / "half") == read_results(tmp_path / "whole")


def test_a_run_of_an_earlier_version_keeps_its_head(tmp_path: Path, sentence_model: str) -> None:
    settings = SETTINGS | {"epochs": 1}
    run = train(
        write_csv(tmp_path / "rows.csv", ROWS),
        output=tmp_path / "run",
        model=sentence_model,
        head_pooling="first",
        report=False,
        **settings,
    )
    run_file = json.loads((run.folder / "run.json").read_text())
    del run_file["plan"]["head_pooling"]
    (run.folder / "run.json").write_text(json.dumps(run_file))
    logits_before = compute_logits(run.folder, runtime="core")
    (run.folder / "metrics.json").unlink()
    resumed = train(resume=run.folder, report=False)
    assert clearhead.load(resumed.folder).shape.head_pooling == "first"
    np.testing.assert_array_equal(compute_logits(resumed.folder, runtime="core"), logits_before)


def test_a_model_with_mean_pooling_can_be_fine_tuned(tmp_path: Path, mean_folder: Path) -> None:
    settings = SETTINGS | {"epochs": 1, "learning_rate": 1e-12}
    unchanged = train(ROWS, output=tmp_path / "same", model=str(mean_folder), report=False, **settings)
    np.testing.assert_allclose(compute_logits(unchanged.folder), compute_logits(mean_folder), atol=1e-3)
    first_token = train(
        ROWS, output=tmp_path / "other", model=str(mean_folder), head_pooling="first", report=False, **settings
    )
    assert clearhead.load(first_token.folder).shape.head_pooling == "first"
    features = train(ROWS, output=tmp_path / "features", model=str(mean_folder), method="features", report=False)
    assert features.evaluations["test"].value > 0.5


def test_only_tasks_with_one_vector_per_text_have_the_setting(tmp_path: Path, sentence_model: str) -> None:
    with pytest.raises(InputError, match=r"Setting head_pooling: .*'max'.* Choices: auto, first, mean"):
        make_plan({"head_pooling": "max"})
    with pytest.raises(InputError, match="head_pooling applies only to methods finetune and head"):
        make_plan({"head_pooling": "mean", "method": "features"})
    for task in ("tag", "span", "choice", "translate"):
        with pytest.raises(InputError, match=r"one vector per text \(classify, pair, regress, aspect\)"):
            make_plan({"head_pooling": "mean", "task": task})
    tag_rows = [{"tokens": ["the", "good", "film"], "tags": ["O", "B-X", "O"]} for _ in range(30)]
    with pytest.raises(InputError, match=r"one vector per text .*; this is tag"):
        train(tag_rows, output=tmp_path / "tags", model=sentence_model, head_pooling="first", report=False, **SETTINGS)
    run = train(tag_rows, output=tmp_path / "tags", model=sentence_model, report=False, **(SETTINGS | {"epochs": 1}))
    assert clearhead.load(run.folder).head == "tag"
    assert not (run.folder / "modules.json").exists()


def test_mean_pooling_for_pairs_and_regression(tmp_path: Path, sentence_model: str) -> None:
    pairs = [{"a": row["text"], "b": row["text"], "score": float(number)} for number, row in enumerate(ROWS)]
    options = SETTINGS | {"epochs": 1, "model": sentence_model, "report": False, "text": "a", "text_b": "b"}
    run = train(pairs, output=tmp_path / "run", label="score", task="regress", **options)
    model = clearhead.load(run.folder, "core")
    assert model.shape.head_pooling == "mean"
    values = [
        prediction.value for prediction in predict(run.folder, [{"a": row["a"], "b": row["b"]} for row in pairs[:5]])
    ]
    expected = []
    for row in pairs[:5]:
        encoding = model.tokenizer.encode(row["a"], row["b"])
        logits = model.run([encoding.ids], None, [encoding.segments], hidden=False).logits
        assert logits is not None
        expected.append(logits[0, 0])
    assert values == pytest.approx(expected, rel=1e-4)


def test_a_ladder_passes_the_setting_only_to_networks(tmp_path: Path) -> None:
    options = {"head_pooling": "first", "train": "x.csv"}
    assert plan_method("finetune", options).head_pooling == "first"
    assert plan_method("tfidf", options).head_pooling == "auto"
    plans = {method: plan_method(method, {"train": "x.csv"}) for method in ("tfidf", "finetune")}
    stored_plans = {method: asdict(plan) for method, plan in plans.items()}
    for plan in stored_plans.values():
        del plan["head_pooling"]  # as earlier versions wrote them
    (tmp_path / "ladder.json").write_text(json.dumps({"format": 1, "asked": stored_plans, "finished": {}}))
    assert LadderState.read(tmp_path, {"tfidf": plans["tfidf"]}).finished == {}
    with pytest.raises(InputError, match="head_pooling was None, got auto"):
        LadderState.read(tmp_path, plans)
