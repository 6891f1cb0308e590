"""A tiny masked language model, and a function that runs a command as the shell does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.cli import main
from clearhead.text import load_tokenizer

WORDS = """
[PAD] [UNK] [CLS] [SEP] [MASK] paris is the capital of france a cat sat on mat . , ##s city big
"""


@pytest.fixture(scope="session")
def masked_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny BERT with a masked language modeling head."""
    source = tmp_path_factory.mktemp("vocabulary")
    (source / "vocab.txt").write_text("\n".join(WORDS.split()) + "\n")
    tokenizer = load_tokenizer(source, "bert", {"model_type": "bert"}).source
    config: dict[str, Any] = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    config |= {"intermediate_size": 16, "max_position_embeddings": 24}
    model = clearhead.create("bert", config=config, head="masked", tokenizer=tokenizer)
    return model.save(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process; returns exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
