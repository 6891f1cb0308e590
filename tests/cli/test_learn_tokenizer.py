"""clearhead learn-tokenizer: folders, JSON, pipes and mistakes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiny_models import make_sentiment_rows, write_csv

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "rows.csv", make_sentiment_rows(200))


def test_learn_tokenizer_writes_a_folder_that_other_commands_read(run: Run, rows: Path, tmp_path: Path) -> None:
    folder = tmp_path / "words"
    code, out, err = run(
        "learn-tokenizer", rows, "-o", folder, "--kind", "wordpiece", "--vocab-size", 120, "--text", "text"
    )
    assert code == 0, err
    for phrase in ("wordpiece, for bert", "tokens per word", "unknown"):
        assert phrase in " ".join(out.split())
    assert sorted(path.name for path in folder.iterdir()) == [
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    code, out, _ = run("tokens", folder, "the film", "was good", "--json")
    tokens = json.loads(out)["tokens"]
    assert code == 0
    assert (tokens[0], tokens.count("[SEP]")) == ("[CLS]", 2)


def test_learn_tokenizer_prints_only_json(run: Run, rows: Path, tmp_path: Path) -> None:
    command = (
        "learn-tokenizer",
        rows,
        rows,
        "-o",
        tmp_path / "out",
        "--for",
        "transformer",
        "--vocab-size",
        400,
        "--limit",
        50,
    )
    code, out, err = run(*command, "--special", "<de>", "--special", "pad=<fill>", "--json")
    assert (code, err) == (0, "")
    json_output = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert (json_output["kind"], json_output["use"], json_output["lines"]) == ("bpe", "transformer", 50)
    assert json_output["folder"] == str(tmp_path / "out")
    assert json_output["special"] == ["<fill>", "<unk>", "<s>", "</s>", "<de>"]
    code, out, err = run("learn-tokenizer", rows, "-o", tmp_path / "quiet", "--kind", "unigram", "--quiet")
    assert (code, out, err) == (0, "", "")


def test_learn_tokenizer_reads_a_pipe(tmp_path: Path) -> None:
    text = "der Mann fährt Rad\n" * 300
    for data in (text.encode(), text.encode("utf-16")):
        out = tmp_path / f"out{len(data)}"
        command = [
            sys.executable,
            "-m",
            "clearhead",
            "learn-tokenizer",
            "-",
            "-o",
            str(out),
            "--vocab-size",
            "300",
            "--json",
        ]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.run(command, input=data, capture_output=True, check=False, env=environment)
        assert process.returncode == 0, process.stderr
        assert json.loads(process.stdout)["words"] == 1200


def test_notes_go_to_stderr(run: Run, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("to be or not to be\n")
    code, _, err = run("learn-tokenizer", tmp_path / "few.txt", "-o", tmp_path / "out", "--vocab-size", 5000)
    assert code == 0
    assert "fewer than the requested 5,000" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "OUT"), "Name at least one text file"),
        (("nowhere.txt", "-o", "OUT"), "nowhere.txt not found."),
        (("-", "-", "-o", "OUT"), "Standard input (-) can be read only once."),
        (("ROWS", "-o", "OUT", "--kind", "words"), "kind must be one of bpe, unigram, wordpiece"),
        (("ROWS", "-o", "OUT", "--vocab-size", "20"), "size 20 is too small"),
        (("ROWS", "-o", "OUT", "--text", "nothing"), "has no column 'nothing'"),
        (("ROWS", "-o", "FULL"), "already exists and is not empty"),
        (("EMPTY", "-o", "OUT"), "empty.txt is empty."),
        (("BINARY", "-o", "OUT"), "contains NUL bytes"),
        (("ROWS",), "--output"),
    ],
)
def test_learn_tokenizer_mistakes(
    run: Run, rows: Path, tmp_path: Path, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.bin").write_bytes(b"\x7fELF\x02\x01\x00" + bytes(range(256)))
    paths = {
        "ROWS": rows,
        "OUT": tmp_path / "out",
        "FULL": tmp_path / "full",
        "EMPTY": tmp_path / "empty.txt",
        "BINARY": tmp_path / "binary.bin",
    }
    code, out, err = run("learn-tokenizer", *(paths.get(argument, argument) for argument in arguments))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
