"""kind_of: every kind of model folder, checkpoints of other tools, and damaged folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.checkpoint.passport import Passport, TrainingRecord, write_passport
from clearhead.errors import CheckpointError, ClearheadError, ConfigError
from clearhead.jobs.kinds import (
    KINDS,
    PREDICTOR_KINDS,
    TRANSLATION_KINDS,
    WORD_VECTOR_KINDS,
    has_vectors,
    kind_of,
    local_kind,
)
from clearhead.tasks import TASKS
from clearhead.train.finish import Run
from clearhead.words import WordVectors, save_vectors
from tests.tiny_models import (
    NEGATIVE_WORDS,
    POSITIVE_WORDS,
    make_sentiment_rows,
    tiny_gpt,
    tiny_model,
    tiny_sentence_encoder,
)
from tests.words.planted import royal

BERT = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9}
T5: dict[str, Any] = {"d_model": 8, "num_layers": 1, "num_heads": 2, "d_kv": 4, "d_ff": 8, "vocab_size": 9}
KIND_OF_HEAD = {
    "classify": "classifier",
    "tag": "tagger",
    "span": "question answerer",
    "choice": "multiple choice model",
    "masked": "masked language model",
    "pretrain": "masked language model",
    "next": "encoder",
    None: "encoder",
}


def save_bert(folder: Path, head: str | None = None, **changes: Any) -> Path:
    return clearhead.create("bert", config=BERT | changes, head=head).save(folder / "model")


def edit_config(folder: Path, **changes: Any) -> Path:
    """Remove the passport and change keys of config.json, as in checkpoints of other tools; None removes a key."""
    (folder / "clearhead.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return folder


@pytest.mark.parametrize("head", KIND_OF_HEAD)
def test_a_checkpoint_is_what_its_head_does(head: str | None, tmp_path: Path) -> None:
    folder = save_bert(tmp_path, head)
    assert kind_of(folder) == KIND_OF_HEAD[head]
    assert kind_of(edit_config(folder)) == KIND_OF_HEAD[head]
    assert kind_of(str(folder)) == local_kind(folder) == KIND_OF_HEAD[head]


@pytest.mark.parametrize("head", ["classify", "tag", "masked", None])
def test_where_config_json_names_no_class_the_tensors_tell(head: str | None, tmp_path: Path) -> None:
    assert kind_of(edit_config(save_bert(tmp_path, head), architectures=None)) == KIND_OF_HEAD[head]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"id2label": {"0": "LABEL_0"}}, "reranker"),
        ({"id2label": {"0": "LABEL_0"}, "problem_type": "regression"}, "regressor"),
        ({"id2label": {"0": "one"}, "problem_type": "multi_label_classification"}, "classifier"),
        ({"id2label": {"0": "no", "1": "yes"}}, "classifier"),
    ],
)
def test_one_output_without_a_word_about_it_ranks(changes: dict[str, Any], kind: str, tmp_path: Path) -> None:
    assert kind_of(edit_config(save_bert(tmp_path, "classify"), label2id=None, **changes)) == kind


def test_models_that_write(tmp_path: Path) -> None:
    assert kind_of(tiny_gpt(tmp_path / "gpt")) == "language model"
    assert kind_of(clearhead.create("t5", config=T5, head="seq2seq").save(tmp_path / "t5")) == "text-to-text model"
    assert kind_of(clearhead.create("t5", config=T5, head="encode").save(tmp_path / "half")) == "encoder"
    assert kind_of(clearhead.create("t5", config=T5).save(tmp_path / "bare")) == "text-to-text model"


def test_sentence_encoders_and_cross_encoders(tmp_path: Path) -> None:
    folder = tiny_sentence_encoder(tmp_path)
    assert kind_of(folder) == "encoder"
    edit_config(folder, architectures=["BertForSequenceClassification"], id2label={"0": "LABEL_0"})
    assert kind_of(folder) == "encoder"  # it pools, whatever its config.json says
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Transformer", "path": ""}]))
    assert kind_of(folder) == "reranker"


KIND_OF_TASK = {
    "classify": "classifier",
    "pair": "classifier",
    "regress": "regressor",
    "tag": "tagger",
    "span": "question answerer",
    "choice": "multiple choice model",
    "translate": "translator",
}


@pytest.mark.parametrize("task", [*KIND_OF_TASK, "of a later version"])
def test_a_passport_comes_first(task: str, tmp_path: Path) -> None:
    folder = save_bert(tmp_path, "masked")
    write_passport(folder, Passport(trained=TrainingRecord(task=task)))
    assert kind_of(folder) == KIND_OF_TASK.get(task, "classifier")


def test_every_task_has_a_kind() -> None:
    assert TASKS.keys() <= KIND_OF_TASK.keys()
    assert {task.answers.model_kind for task in TASKS.values()} <= set(KINDS)
    assert {*PREDICTOR_KINDS, *TRANSLATION_KINDS, *WORD_VECTOR_KINDS} <= set(KINDS)
    assert not set(PREDICTOR_KINDS) & set(TRANSLATION_KINDS)


def test_models_without_a_network(tfidf_run: Run, tmp_path: Path) -> None:
    assert kind_of(tfidf_run.folder) == "classic model"
    words_with_vectors = (*POSITIVE_WORDS, *NEGATIVE_WORDS)
    save_vectors(
        tmp_path / "words",
        WordVectors(words=words_with_vectors, matrix=np.eye(len(words_with_vectors), dtype=np.float32)),
    )
    assert kind_of(tmp_path / "words") == "word vectors"
    run = clearhead.train(
        make_sentiment_rows(60), output=tmp_path / "run", model=str(tmp_path / "words"), method="features"
    )
    assert kind_of(run.folder) == "word vector model"
    assert has_vectors(run.folder)
    assert not has_vectors(tfidf_run.folder)


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_a_file_of_word_vectors(name: str, tmp_path: Path) -> None:
    save_vectors(tmp_path / name, royal())
    assert kind_of(tmp_path / name) == "word vectors"
    assert local_kind(tmp_path / name) is None  # a file is not a folder
    (tmp_path / "prose.txt").write_text("The river bank\nis near\n")
    with pytest.raises(CheckpointError, match="is not a folder"):
        kind_of(tmp_path / "prose.txt")
    assert not has_vectors(tmp_path / "prose.txt")


def test_an_aspect_model(tmp_path: Path) -> None:
    (tmp_path / "aspects.json").write_text("{}")
    assert kind_of(tmp_path) == "aspect model"


@pytest.mark.parametrize("name", ["", "modules.json", "clearhead.json", "config.json"])
def test_damage_is_named_as_loading_names_it(name: str, tmp_path: Path) -> None:
    folder = tiny_sentence_encoder(tmp_path / "model")
    shutil.rmtree(folder) if not name else (folder / name).write_text("{")
    if not name:
        folder.mkdir()
    with pytest.raises(ClearheadError) as kind_error:
        kind_of(folder)
    with pytest.raises(ClearheadError) as load_error:
        clearhead.load(folder)
    assert str(kind_error.value) == str(load_error.value)
    assert not has_vectors(folder)


def test_unknown_architectures_are_refused_as_loading_refuses_them(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    for changes in ({"architectures": ["BertForPoetry"]}, {"model_type": "llama", "architectures": ["Llama"]}):
        with pytest.raises(ConfigError) as kind_error:
            kind_of(edit_config(folder, **changes))
        with pytest.raises(ConfigError) as load_error:
            clearhead.load(folder)
        assert str(kind_error.value) == str(load_error.value)


@pytest.mark.parametrize("name", ["default", "org/name", "gone", "~nobody-here/x", "a\0b", "x" * 5000])
def test_names_of_no_folder(name: str) -> None:
    assert local_kind(name) is None
    assert not has_vectors(name)


def test_finding_out_needs_no_torch_and_no_weights(tmp_path: Path) -> None:
    folder = save_bert(tmp_path, "classify")
    (folder / "model.safetensors").unlink()
    code = (
        f"import sys\nfrom clearhead.jobs.kinds import kind_of\nprint(kind_of({str(folder)!r}), 'torch' in sys.modules)"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert completed.stdout.split() == ["classifier", "False"], completed.stderr
