"""Common mistakes in pre-training: early errors, and no leftovers that block another attempt."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.data.sources.lines import CHUNK_CHARS, read_line_texts
from clearhead.errors import ClearheadError, InputError
from clearhead.jobs.events import RunEvents
from clearhead.pretrain.plan import make_pretrain_plan
from clearhead.pretraining.documents import find_corpus_files
from clearhead.training.loop import DivergedError
from tests.planted import write_planted_text

SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
CHOICES: dict[str, Any] = {
    "preset": "tiny",
    "config": SMALL,
    "vocab_size": 200,
    "max_length": 32,
    "batch_tokens": 512,
    "threads": 1,
    "report": False,
    "objective": "mlm",
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_planted_text(tmp_path_factory.mktemp("text") / "text.txt", 60, 4)


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_a_loss_that_is_no_number_is_not_a_result(text: Path, tmp_path: Path, family: str) -> None:
    """The step itself was fine, and its weights are ruined: they are neither the best nor saved."""
    with pytest.raises(DivergedError, match="at step 1: held-out loss nan"):
        clearhead.pretrain(
            text,
            output=tmp_path / "run",
            family=family,
            max_steps=1,
            learning_rate=1e30,
            **(CHOICES | {"objective": None}),
        )
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not list((tmp_path / "run").rglob("state/*/*.safetensors"))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"preset": "huge"}, "no preset 'huge'; it has tiny, mini"),
        ({"device": "gpu"}, "Device 'gpu' cannot be used"),
        ({"config": {"hidden_sise": 3}}, "no key 'hidden_sise'"),
        ({"config": {"hidden_size": 33}}, "hidden_size 33"),
        ({"max_length": 5000}, "max_length is 5000, but the model accepts at most 512"),
    ],
)
def test_what_cannot_be_is_said_before_text_is_read(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choices: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr("clearhead.jobs.learn_tokenizer.learn_tokenizer", None)
    with pytest.raises(ClearheadError, match=message):
        clearhead.pretrain(text, output=tmp_path / "run", max_steps=1, **(CHOICES | choices))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_model_too_short_for_the_sample_sentence(text: Path, tmp_path: Path, family: str) -> None:
    size = {"max_position_embeddings": 16} | SMALL
    if family == "gpt2":
        size = {"n_positions": 16, "n_embd": 32, "n_layer": 1, "n_head": 2}
    choices = CHOICES | {"config": size, "max_length": 16, "objective": None, "vocab_size": 300}
    messages: list[str] = []
    events = RunEvents(message=messages.append)
    run = clearhead.pretrain(text, output=tmp_path / "run", family=family, max_steps=1, events=events, **choices)
    assert run.held_out is not None
    assert all(line.strip() for line in messages)


def test_one_file_under_several_names_is_one(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_bytes(text.read_bytes())
    (folder / "link.txt").symlink_to(folder / "a.txt")
    (folder / "self").symlink_to(folder)
    names: list[str | Path] = [folder / "a.txt", folder / "self" / ".." / "texts" / "a.txt", folder / "link.txt"]
    names.append(f"{folder}/**/*.txt")
    assert find_corpus_files(names) == [folder / "a.txt"]


def test_names_that_are_none(text: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="file name is empty"):
        clearhead.pretrain("", output=tmp_path / "run", max_steps=1)
    with pytest.raises(InputError, match="does not exist"):
        clearhead.pretrain("a text that was pasted " * 30, output=tmp_path / "run", max_steps=1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        InputError, match="is not a regular file; the text is read twice, which a pipe does not support"
    ):
        clearhead.pretrain(tmp_path / "pipe", output=tmp_path / "run", max_steps=1)
    with pytest.raises(InputError, match=r"text applies only to tables, but text\.txt is plain text"):
        clearhead.pretrain(text, text="message", output=tmp_path / "run", max_steps=1)
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(InputError, match=r"Held-out text \(dev\): "):
        clearhead.pretrain(text, dev=tmp_path / "blank.txt", output=tmp_path / "run", max_steps=1, **CHOICES)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"masking": "word"}, "Setting masking: invalid enum value 'word'. Choices: tokens, words, spans"),
        ({"documents": "line"}, "Setting documents: .* Choices: auto, blank, lines, file"),
        ({"schedule": "flat"}, "Setting schedule: .* Choices: linear, cosine"),
        ({"label_smoothing": 0.1}, "Unknown setting 'label_smoothing'"),
        ({"layer_decay": 0.5}, "Unknown setting 'layer_decay'"),
        ({"learning_rate": float("inf")}, "learning_rate must be above 0"),
        ({"weight_decay": float("inf")}, "weight_decay must be at least 0"),
    ],
)
def test_settings_that_are_none(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_pretrain_plan(choices)


def test_a_tokenizer_that_was_half_saved_goes(text: Path, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(*_: Any) -> None:
        raise StopError

    with pytest.raises(StopError):
        clearhead.pretrain(text, output=tmp_path / "run", max_steps=3, events=RunEvents(training_step=stop), **CHOICES)
    half = tmp_path / "run" / ".vocabulary.abcd_123"
    half.mkdir()
    (half / "tokenizer.json").write_text("{")
    clearhead.pretrain(resume=tmp_path / "run", report=False)
    assert not half.exists()


@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_long_lines_are_cut_between_words(tmp_path: Path, ending: str) -> None:
    words = [f"word{number}" for number in range(3 * CHUNK_CHARS // 8)]
    path = tmp_path / f"long.{ending}"
    path.write_text(" ".join(words) if ending == "txt" else json.dumps({"text": " ".join(words)}))
    pieces = list(read_line_texts([path], None, None, []))
    assert len(pieces) > 2
    assert [word for piece in pieces for word in piece.split()] == words
    path.write_text(
        "x" * (2 * CHUNK_CHARS + 5) if ending == "txt" else json.dumps({"text": "x" * (2 * CHUNK_CHARS + 5)})
    )
    assert sum(map(len, read_line_texts([path], None, None, []))) == 2 * CHUNK_CHARS + 5
