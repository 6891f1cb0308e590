"""Former flags: each one works for one release, with one deprecation note on stderr."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.cli import VERBS, _make_app
from clearhead.cli.flags import FORMER_FLAGS, REMOVED_IN, flags_of, replace_former_flags
from tests.tiny_models import tiny_gpt

Run = Callable[..., tuple[int, str, str]]
CASES = [(verb, former, current) for verb, flags in FORMER_FLAGS.items() for former, current in flags.items()]
REQUIRED = {  # arguments without which a command cannot be parsed
    "ask": "model question passage",
    "bench": "model file",
    "embed": "model file -o out.npy",
    "evaluate": "model file",
    "explain": "model text",
    "generate": "model prompt",
    "learn-tokenizer": "file -o out",
    "pretrain": "file",
    "quantize": "model -o out",
    "train": "file",
    "translate": "model text",
    "word2vec": "file -o out",
}


def note(former: str, current: str) -> str:
    return f"clearhead: {former} is deprecated and will be removed in {REMOVED_IN}; use {current}.\n"


def parse(verb: str, arguments: list[str]) -> tuple[Any, dict[str, Any]]:
    """The function of a command and its arguments, as the command line calls it."""
    command, bound, _ = _make_app(verb).parse_args([verb, *arguments], exit_on_error=False, print_error=False)
    return command, bound.arguments


@pytest.mark.parametrize(("verb", "former", "current"), CASES)
def test_a_former_flag_stands_for_a_current_one(
    verb: str, former: str, current: str, capsys: pytest.CaptureFixture[str]
) -> None:
    current_flags = {flag for flags in flags_of(verb).values() for flag in flags}
    assert current in current_flags
    assert former not in current_flags
    required = shlex.split(REQUIRED[verb])
    expected = parse(verb, [*required, current, "2"])
    assert expected != parse(verb, required)
    for arguments in ([former, "2"], [f"{former}=2"]):
        assert parse(verb, replace_former_flags([*required, *arguments], verb)) == expected
        assert capsys.readouterr() == ("", note(former, current))


def test_former_flags_belong_to_commands_that_exist() -> None:
    assert FORMER_FLAGS.keys() <= VERBS.keys()
    assert FORMER_FLAGS.keys() == REQUIRED.keys()


def test_a_repeated_flag_has_one_note(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--forbid", "cat", "--beam", "2", "--forbid=dog"]
    expected = ["--bad-words", "cat", "--num-beams", "2", "--bad-words=dog"]
    assert replace_former_flags(arguments, "generate") == expected
    assert capsys.readouterr().err == note("--forbid", "--bad-words") + note("--beam", "--num-beams")


def test_texts_and_other_commands_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, arguments in (
        ("generate", ["gpt2", "--", "--beam"]),
        ("generate", ["gpt2", "a --beam of light", "--num-beams", "2"]),
        ("predict", ["model", "rows.csv", "--format", "csv"]),
        ("describe", ["--best"]),
        (None, ["--best"]),
    ):
        assert replace_former_flags(arguments, verb) == arguments
    assert capsys.readouterr() == ("", "")


def test_a_command_with_former_flags(run: Run, tmp_path: Path) -> None:
    gpt = tiny_gpt(tmp_path)
    line = ("generate", gpt, "the film was", "--max-length", 4, "--json")
    code, expected, err = run(*line, "--num-beams", 2, "--num-return-sequences", 2, "--bad-words", "good")
    assert (code, err) == (0, "")
    code, out, err = run(*line, "--beam", 2, "--best", 2, "--forbid", "good")
    assert (code, out) == (0, expected)
    assert len(json.loads(out)["best"]) == 2
    assert err == "".join(
        note(former, current)
        for former, current in (
            ("--beam", "--num-beams"),
            ("--best", "--num-return-sequences"),
            ("--forbid", "--bad-words"),
        )
    )


def test_a_table_with_former_flags(run: Run, masked_model: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("n,where\n1,a cat\n2,paris\n")
    line = ("embed", masked_model, tmp_path / "rows.csv", "-o", tmp_path / "out.npy", "--json")
    code, out, err = run(*line, "--column", "where", "--format", "csv")
    assert (code, json.loads(out)["texts"]) == (0, 2)
    assert err == note("--column", "--text") + note("--format", "--input-format")


def test_mistakes_name_the_current_flag(run: Run, masked_model: Path) -> None:
    code, out, err = run("ask", masked_model, "a question", "a passage", "--best", "many")
    assert (code, out) == (2, "")
    first, last = err.splitlines(keepends=True)
    assert first == note("--best", "--top")
    assert "--top" in last
    assert "--best" not in last
