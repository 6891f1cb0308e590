"""Label names from num_labels, id2label and the weights, consistent or not, as in transformers."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import CheckpointError
from tests.parity_models import import_transformers

TWO_LABELS = {"0": "no", "1": "yes"}
THREE_LABELS = {"0": "a", "1": "b", "2": "c"}


def save_bert(folder: Path, outputs: int, title: str = "SequenceClassification", **keys: Any) -> Path:
    """Save a BERT with transformers, and set other keys in its config.json."""
    transformers = import_transformers()
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(**sizes, vocab_size=20, max_position_embeddings=10, num_labels=outputs)
    getattr(transformers, f"BertFor{title}")(config).save_pretrained(folder)
    saved = json.loads((folder / "config.json").read_text())
    for key in ("id2label", "label2id", "num_labels"):
        saved.pop(key, None)
    (folder / "config.json").write_text(json.dumps(saved | keys))
    return folder


CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "stale names": (50, {"num_labels": 50, "id2label": TWO_LABELS}),
    "stale names both ways": (50, {"num_labels": 50, "id2label": TWO_LABELS, "label2id": {"no": 0, "yes": 1}}),
    "more names than labels": (2, {"num_labels": 2, "id2label": THREE_LABELS}),
    "one label of two names": (1, {"num_labels": 1, "id2label": TWO_LABELS}),
    "names with a gap that are stale": (3, {"num_labels": 3, "id2label": {"0": "a", "5": "b"}}),
    "no names": (3, {"num_labels": 3}),
    "an empty list of names": (3, {"num_labels": 3, "id2label": {}}),
    "names alone": (3, {"id2label": THREE_LABELS}),
    "names and number": (3, {"num_labels": 3, "id2label": THREE_LABELS, "label2id": {"x": 0}}),
    "neither": (2, {}),
    "numbers of names alone": (3, {"num_labels": 3, "label2id": {"a": 0, "b": 1, "c": 2}}),
}


@pytest.mark.parametrize("title", ["SequenceClassification", "TokenClassification"])
@pytest.mark.parametrize("name", list(CASES))
def test_labels_are_those_of_transformers(
    name: str, title: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outputs, keys = CASES[name]
    folder = save_bert(tmp_path / "model", outputs, title, **keys)
    expected = getattr(import_transformers(), f"AutoModelFor{title}").from_pretrained(folder).config
    with caplog.at_level(logging.WARNING, "clearhead"):
        model = clearhead.load(folder)
    assert list(model.labels) == [expected.id2label[i] for i in range(expected.num_labels)]
    warns = "num_labels" in keys and len(keys.get("id2label") or ()) not in (0, outputs)
    assert ("The names are outdated" in caplog.text) == warns
    again = clearhead.load(model.save(tmp_path / "again"))
    assert again.labels == model.labels


def test_names_that_fit_the_weights_are_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = save_bert(tmp_path / "model", 2, num_labels=50, id2label=TWO_LABELS)
    with caplog.at_level(logging.WARNING, "clearhead"):
        assert clearhead.load(folder).labels == ("no", "yes")
    assert "config.json has num_labels 50 and 2 names in id2label. The names are used" in caplog.text


@pytest.mark.parametrize("keys", [{"id2label": TWO_LABELS}, {"num_labels": 7, "id2label": TWO_LABELS}, {}])
def test_labels_that_fit_no_weights_are_refused(keys: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config.json and the weights disagree"):
        clearhead.load(save_bert(tmp_path / "model", 5, **keys))
