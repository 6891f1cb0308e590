"""Odd files and wrong commands for translators: a model, or one sentence with a remedy; never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.parallel_rows import make_parallel_rows, write_tsv

Run = Callable[..., tuple[int, str, str]]
SMALL = '{"width": 16, "heads": 2, "feed_width": 16, "encoder_layers": 1, "decoder_layers": 1}'
TINY = ("--task", "translate", "--set", f"config={SMALL}", "--set", "vocab_size=200", "--epochs", "1", "--threads", "1")
ROWS = "".join(f"ein hund {number}\tone dog {number}\n" for number in range(20))
HEADED = f"a\tb\n{ROWS}"

WORKS = {
    "one row": ("a\tb\nein hund\tone dog\n", "The model was not evaluated"),
    "a row of 10,000 words": (HEADED + "w " * 10_000 + "\t" + "v " * 10_000 + "\n", "rows: "),
    "the same text on both sides": ("a\tb\n" + "".join(f"hund {n}\thund {n}\n" for n in range(20)), "the same text"),
    "one row again and again": ("a\tb\n" + "ein hund\tone dog\n" * 20, "The model was not evaluated"),
    "line ends of Windows": (HEADED.replace("\n", "\r\n"), "header: a, b"),
    "a byte order mark": ("\ufeff" + HEADED, "header: a, b"),
    "no header": (ROWS, "no header"),
    "markup and special tokens": (HEADED + "<script>alert(1)</script> </s>\t<pad><b>\n" * 9, "rows: "),
}
REFUSED = {
    "empty cells": (HEADED + "x\t\n\ty\n", "row 21 (line 22): b is empty"),
    "one column": ("a\n" + "ein hund\n" * 9, "has one column, a"),
    "three columns": ("a\tb\tc\n" + "x y\tz\tw\n" * 9, "--source COLUMN and --target COLUMN"),
    "nothing": ("", "is empty"),
    "only a header": ("a\tb\n", "no rows to train on"),
    "bytes that are not text": (HEADED + "x\0y\tz\n", "NUL byte"),
}


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", WORKS)
def test_odd_files_are_accepted(name: str, run: Run, tmp_path: Path) -> None:
    text, message = WORKS[name]
    (tmp_path / "rows.tsv").write_bytes(text.encode())
    code, _, err = run("train", tmp_path / "rows.tsv", *TINY, "-o", tmp_path / "model")
    assert code == 0, err
    assert message in err
    code, out, _ = run("translate", tmp_path / "model", "ein hund <b>", "--max-length", "3", "--quiet")
    assert (code, out.count("\n")) == (0, 1)


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_files_are_refused(name: str, run: Run, tmp_path: Path) -> None:
    text, message = REFUSED[name]
    (tmp_path / "rows.tsv").write_bytes(text.encode())
    code, out, err = run("train", tmp_path / "rows.tsv", *TINY, "-o", tmp_path / "model")
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "model").exists()


def test_cells_that_are_not_text(run: Run, tmp_path: Path) -> None:
    rows = [{"a": f"x {index}", "b": value} for index, value in enumerate([None, [1], {"k": 1}, True, "y"])]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, _, err = run("train", tmp_path / "rows.jsonl", *TINY, "-o", tmp_path / "model")
    assert code == 2
    for phrase in ("4 of 5 rows", "b is missing", "b is a list", "b is a dict", "b is a bool"):
        assert phrase in err


def test_other_commands_name_the_right_one(run: Run, masked_model: Path, tmp_path: Path) -> None:
    pairs = write_tsv(tmp_path / "pairs.tsv", make_parallel_rows(30))
    model = tmp_path / "model"
    assert run("train", pairs, *TINY, "-o", model, "--quiet")[0] == 0
    mistakes = {
        "use clearhead translate": ("predict", model, pairs, "-o", tmp_path / "out.csv"),
        "have no labels to inspect": ("inspect", pairs, "--task", "translate"),
        "only one training method": ("ladder", pairs, "--task", "translate"),
        "no masked-word head": ("fill", model, "ein [MASK]"),
        "has no decoder and cannot translate": ("translate", masked_model, "ein hund"),
        "has no head 'seq2seq'": (
            "train",
            pairs,
            "--task",
            "translate",
            "--model",
            masked_model,
            "-o",
            tmp_path / "no",
        ),
        "has no head 'classify'": (
            "train",
            pairs,
            "--task",
            "classify",
            "--text",
            "de",
            "--label",
            "en",
            "--model",
            model,
            "-o",
            tmp_path / "no",
        ),
        "or use --task translate": ("train", pairs, "-o", tmp_path / "no"),
    }
    for message, arguments in mistakes.items():
        code, out, err = run(*arguments)
        assert (code, out) == (2, ""), err
        assert message in err.splitlines()[-1], err
        assert not (tmp_path / "no").exists(), message
    # the encoder of a translator embeds texts
    (tmp_path / "texts.txt").write_text("ein hund\nzwei\n")
    assert run("embed", model, tmp_path / "texts.txt", "-o", tmp_path / "e.npy", "--quiet")[0] == 0


def test_a_vocabulary_that_is_too_small_is_refused(run: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.tsv"
    rows.write_text("de\ten\n" + "".join(f"{letter}x\t{letter}y\n" for letter in "abcdefghijklmnopqrs"))
    code, _, err = run("train", rows, "--task", "translate", "--set", "vocab_size=16", "-o", tmp_path / "model")
    assert code == 2
    assert (
        "A vocabulary of 16 tokens is too small for the characters of these rows; use at least --set vocab_size=" in err
    )
    assert not (tmp_path / "model").exists()
