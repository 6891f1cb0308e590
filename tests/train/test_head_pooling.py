"""What a trained head reads: chosen by the encoder's folder or by a setting, kept by everything that uses the model."""

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
from clearhead.ladder.methods import rung_plan
from clearhead.ladder.state import Kept
from clearhead.train.job import read_run
from fuzz.kill import contents
from tests.tiny_models import labelled, tiny_gpt, tiny_model, tiny_sentence_encoder, write_csv

SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "learning_rate": 3e-3,
    "batch_size": 16,
    "save_every": 0.0,
    "threads": 1,
    "precision": "float",
}
ROWS = labelled(96)
TEXTS = [row["text"] for row in ROWS[:9]]


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_sentence_encoder(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def trained(sentences: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the default head on an encoder that pools by the mean."""
    return train(
        ROWS, output=tmp_path_factory.mktemp("runs") / "mean", model=sentences, report=False, **SETTINGS
    ).folder


def logits(folder: Path, **how: Any) -> Any:
    """What a folder's model says of a few texts, one at a time."""
    model = clearhead.load(folder, **how)
    encoded = [model.tokenizer.encode(text) for text in TEXTS]
    return np.stack([model.run([one.ids], hidden=False).logits[0] for one in encoded])  # type: ignore[index]


def test_a_run_reads_as_the_encoder_pools_and_says_so(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = clearhead.load(trained)
    assert (model.shape.head_pooling, model.head) == ("mean", "classify")
    assert model.trained is not None
    assert model.trained.settings["head_pooling"] == "mean"
    assert read_run(trained)[0].head_pooling == "mean"
    main(["describe", str(trained)])
    assert "the mean of all token states" in capsys.readouterr().out
    main(["describe", str(trained), "--json"])
    assert json.loads(capsys.readouterr().out)["head_pooling"] == "mean"


@pytest.mark.parametrize("choice", ["first", "mean"])
def test_the_setting_decides(tmp_path: Path, sentences: str, choice: str) -> None:
    run = train(
        ROWS, output=tmp_path / "run", model=sentences, head_pooling=choice, report=False, **(SETTINGS | {"epochs": 1})
    )
    config = json.loads((run.folder / "config.json").read_text())
    assert clearhead.load(run.folder).shape.head_pooling == choice
    assert (run.folder / "modules.json").exists() == (choice == "mean")
    assert config["architectures"] == ["BertModel" if choice == "mean" else "BertForSequenceClassification"]
    assert config.get("head_pooling") == ("mean" if choice == "mean" else None)


def test_other_encoders_keep_their_head(tmp_path: Path) -> None:
    few = SETTINGS | {"epochs": 1}
    plain = train(ROWS, output=tmp_path / "run", model=str(tiny_model(tmp_path / "plain")), report=False, **few)
    assert clearhead.load(plain.folder).shape.head_pooling == "first"
    assert read_run(plain.folder)[0].head_pooling == "first"
    gpt = train(ROWS, output=tmp_path / "gpt", model=str(tiny_gpt(tmp_path / "tiny")), report=False, **few)
    assert clearhead.load(gpt.folder).shape.head_pooling == "last"
    assert read_run(gpt.folder)[0].head_pooling == "auto"


def test_both_runtimes_and_int8_say_the_same(tmp_path: Path, trained: Path) -> None:
    core = logits(trained, runtime="core")
    np.testing.assert_allclose(logits(trained, runtime="engine", precision="float"), core, atol=1e-4)
    small = quantize(trained, ROWS[:40], output=tmp_path / "int8", max_drop=100.0).folder
    assert clearhead.load(small).shape.head_pooling == "mean"
    spread = float(np.abs(core).max())
    np.testing.assert_allclose(logits(small), core, atol=0.1 * spread)
    answers = [one.label for one in predict(trained, TEXTS)]
    assert [one.label for one in predict(small, TEXTS)] == answers
    assert np.array_equal(core.argmax(1), [clearhead.load(trained).labels.index(label) for label in answers])


def test_evaluate_finds_what_the_run_measured(trained: Path, sentences: str, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "rows.csv", ROWS)
    run = train(data, output=tmp_path / "run", model=sentences, report=False, **(SETTINGS | {"epochs": 1}))
    again = clearhead.evaluate(run.folder, data, part="test")
    assert again.value == pytest.approx(run.evaluations["test"].value)
    report = train(data, output=tmp_path / "seen", model=sentences, **(SETTINGS | {"epochs": 1})).report
    assert report is not None
    assert "head_pooling" in report.read_text()


def test_an_export_holds_the_head(tmp_path: Path, trained: Path) -> None:
    import onnxruntime

    folder = export(trained, tmp_path / "onnx")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    model = clearhead.load(trained, "core")
    for text in TEXTS[:3]:
        one = model.tokenizer.encode(text)
        values = {"input_ids": one.ids, "attention_mask": [1] * len(one.ids), "token_type_ids": one.segments}
        given = {name: np.array([values[name]], np.int64) for name in names}
        made = dict(zip((one.name for one in session.get_outputs()), session.run(None, given), strict=True))
        ours = model.run([one.ids], hidden=False).logits
        assert ours is not None
        np.testing.assert_allclose(made["logits"], ours, atol=1e-4)


def test_copies_are_whole(tmp_path: Path, trained: Path) -> None:
    copied = clearhead.convert(trained, tmp_path / "copy")
    np.testing.assert_array_equal(logits(copied, runtime="core"), logits(trained, runtime="core"))


def test_estimators_carry_the_head_along(tmp_path: Path, sentences: str) -> None:
    labels = [row["label"] for row in ROWS]
    made = clearhead.TextClassifier(model=sentences, epochs=1, settings={"precision": "float"}, threads=1)
    made.fit([row["text"] for row in ROWS], labels)
    assert clearhead.load(made.kept_.folder).shape.head_pooling == "mean"
    expected = made.predict_proba(TEXTS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).predict_proba(TEXTS), expected)
    saved = load_predictor(made.save(tmp_path / "saved"))
    assert [one.label for one in predict(saved, TEXTS)] == made.predict(TEXTS).tolist()


def test_a_stopped_run_goes_on_with_its_head(tmp_path: Path, sentences: str) -> None:
    class StopError(Exception):
        """Ends a run."""

    def stop(step: Any) -> None:
        if step.step == 7:
            raise StopError

    data = write_csv(tmp_path / "rows.csv", ROWS)
    given = SETTINGS | {"model": sentences, "seeds": 2, "command": "x", "report": False}
    train(data, output=tmp_path / "whole", **given)
    with pytest.raises(StopError):
        train(data, output=tmp_path / "half", events=RunEvents(training_step=stop), **given)
    train(resume=tmp_path / "half", report=False)
    assert contents(tmp_path / "half") == contents(tmp_path / "whole")


def test_a_run_of_an_earlier_version_keeps_its_head(tmp_path: Path, sentences: str) -> None:
    few = SETTINGS | {"epochs": 1}
    run = train(
        write_csv(tmp_path / "rows.csv", ROWS),
        output=tmp_path / "run",
        model=sentences,
        head_pooling="first",
        report=False,
        **few,
    )
    saved = json.loads((run.folder / "run.json").read_text())
    del saved["plan"]["head_pooling"]
    (run.folder / "run.json").write_text(json.dumps(saved))
    before = logits(run.folder, runtime="core")
    (run.folder / "metrics.json").unlink()
    again = train(resume=run.folder, report=False)
    assert clearhead.load(again.folder).shape.head_pooling == "first"
    np.testing.assert_array_equal(logits(again.folder, runtime="core"), before)


def test_training_goes_on_from_a_head_on_the_mean(tmp_path: Path, trained: Path) -> None:
    few = SETTINGS | {"epochs": 1, "learning_rate": 1e-12}
    same = train(ROWS, output=tmp_path / "same", model=str(trained), report=False, **few)
    np.testing.assert_allclose(logits(same.folder), logits(trained), atol=1e-3)
    other = train(ROWS, output=tmp_path / "other", model=str(trained), head_pooling="first", report=False, **few)
    assert clearhead.load(other.folder).shape.head_pooling == "first"
    features = train(ROWS, output=tmp_path / "features", model=str(trained), method="features", report=False)
    assert features.evaluations["test"].value > 0.5


def test_tasks_with_one_vector_alone_can_choose(tmp_path: Path, sentences: str) -> None:
    with pytest.raises(InputError, match=r"Setting head_pooling: .*'max'.* Choices: auto, first, mean"):
        make_plan({"head_pooling": "max"})
    with pytest.raises(InputError, match="head_pooling is for methods finetune and head"):
        make_plan({"head_pooling": "mean", "method": "features"})
    for task in ("tag", "span", "choice", "translate"):
        with pytest.raises(InputError, match=r"one vector per text \(classify, pair, regress, aspect\)"):
            make_plan({"head_pooling": "mean", "task": task})
    tagged = [{"tokens": ["the", "good", "film"], "tags": ["O", "B-X", "O"]} for _ in range(30)]
    with pytest.raises(InputError, match=r"one vector per text .*; this is tag"):
        train(tagged, output=tmp_path / "tags", model=sentences, head_pooling="first", report=False, **SETTINGS)
    run = train(tagged, output=tmp_path / "tags", model=sentences, report=False, **(SETTINGS | {"epochs": 1}))
    assert clearhead.load(run.folder).head == "tag"
    assert not (run.folder / "modules.json").exists()


def test_pairs_and_numbers_read_the_mean_too(tmp_path: Path, sentences: str) -> None:
    pairs = [{"a": row["text"], "b": row["text"], "score": float(number)} for number, row in enumerate(ROWS)]
    few = SETTINGS | {"epochs": 1, "model": sentences, "report": False, "text": "a", "text_b": "b"}
    run = train(pairs, output=tmp_path / "run", label="score", task="regress", **few)
    model = clearhead.load(run.folder, "core")
    assert model.shape.head_pooling == "mean"
    values = [one.value for one in predict(run.folder, [{"a": row["a"], "b": row["b"]} for row in pairs[:5]])]
    encoded = [model.tokenizer.encode(row["a"], row["b"]) for row in pairs[:5]]
    ours = [model.run([one.ids], None, [one.segments], hidden=False).logits[0, 0] for one in encoded]  # type: ignore[index]
    assert values == pytest.approx(ours, rel=1e-4)


def test_a_ladder_gives_the_choice_to_networks_alone(tmp_path: Path) -> None:
    said = {"head_pooling": "first", "train": "x.csv"}
    assert rung_plan("finetune", said).head_pooling == "first"
    assert rung_plan("tfidf", said).head_pooling == "auto"
    plans = {method: rung_plan(method, {"train": "x.csv"}) for method in ("tfidf", "finetune")}
    before = {method: asdict(plan) for method, plan in plans.items()}
    for plan in before.values():
        del plan["head_pooling"]  # as an earlier version wrote them
    (tmp_path / "ladder.json").write_text(json.dumps({"format": 1, "asked": before, "finished": {}}))
    assert Kept.read(tmp_path, {"tfidf": plans["tfidf"]}).finished == {}
    with pytest.raises(InputError, match="head_pooling was None, got auto"):
        Kept.read(tmp_path, plans)
