"""Every command with streams in any encoding, closed or full, and with invalid file names: never a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import clearhead
from clearhead.cli import VERBS, main
from clearhead.cli.streams import decode_arguments, to_json_text
from clearhead.errors import InputError
from clearhead.words import save_vectors
from tests.tiny_models import tiny_gpt
from tests.words.planted import make_topic_sentences, royal

LONG_NAME = "n" * 300
# quick commands with non-ASCII characters; {folder} contains their files
QUICK_COMMANDS = {
    "inspect": "inspect {folder}/über.csv --no-estimate --model {bert}",
    "train": "train {folder}/über.csv --method majority -o {out}/züge",
    "pretrain": "pretrain {folder}/fehlt-ü.txt -o {out}/x",
    "ladder": "ladder {folder}/über.csv --methods größe -o {out}/x",
    "evaluate": "evaluate {counted} {folder}/über.csv",
    "predict": "predict {counted} {folder}/über.csv -o -",
    "ask": "ask {answers} größe✓ ein_hund_sieht_über_das_haus",
    "describe": "describe {bert}",
    "models": "models",
    "learn-tokenizer": "learn-tokenizer {folder}/über.txt -o {out}/ü --vocab-size 300",
    "tokens": "tokens {bert} ürban✓",
    "fill": "fill {bert} ü[MASK]",
    "embed": "embed {bert} {folder}/über.txt -o {out}/ü.jsonl",
    "word2vec": "word2vec {folder}/über.txt -o {out}/ü --width 4 --epochs 1",
    "words": "words {vectors} king",
    "contrast": "contrast {bert} über_a_cat_sat the_cat_über cat",
    "generate": "generate {gpt} größe✓ --max-length 2",
    "translate": "translate {translator} größe✓ --max-length 2",
    "quantize": "quantize {bert} {folder}/über.txt -o {out}/ü --min-cosine 0.1",
    "explain": "explain {bert} über_stadt --json",
    "bench": "bench ü --seconds 0",
    "complexity": "complexity --lengths ü",
    "convert": "convert {bert} {out}/ü",
    "export": "export {bert} {out}/ü",
}
SILENT = ("embed", "convert", "export")  # they print only on standard error
FAILING = (
    "pretrain",
    "ladder",
    "bench",
    "complexity",
)  # mistakes instead of slow jobs; their messages have non-ASCII characters, too
WRITING_COMMANDS = {verb: line for verb, line in QUICK_COMMANDS.items() if " -o " in line and " -o -" not in line}
WRITING_COMMANDS["explain"] = "explain {bert} stadt -o {out}/x.svg"
WRITING_COMMANDS["evaluate"] = "evaluate {counted} {folder}/über.csv --report {out}/x.html"
WRITING_COMMANDS["predict"] = "predict {counted} {folder}/über.csv -o {out}/x.csv"
WRITING_COMMANDS["generate"] = "generate {gpt} word -o {out}/x.txt"
WRITING_COMMANDS["translate"] = "translate {translator} word -o {out}/x.txt"
WRITING_COMMANDS["ladder"] = "ladder {folder}/über.csv --methods majority -o {out}/x"
WRITING_COMMANDS |= {verb: QUICK_COMMANDS[verb].replace("{out}/ü", "{out}/x") for verb in ("convert", "export")}
READING_COMMANDS = {
    "predict": "predict {counted} - -o {out}/x.csv",
    "evaluate": "evaluate {counted} -",
    "learn-tokenizer": "learn-tokenizer - -o {out}/x",
    "word2vec": "word2vec - -o {out}/x",
    "embed": "embed {bert} - -o {out}/x.npy",
    "generate": "generate {gpt} -",
    "translate": "translate {translator} -",
}
Call = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory, masked_model: Path) -> dict[str, Path]:
    """Paths of tiny models and files, by the names in the commands."""
    folder = tmp_path_factory.mktemp("streams")
    rows = "".join(f"über die stadt {n} ✓,{'jä' if n % 2 else 'nein'}\n" for n in range(12))
    (folder / "über.csv").write_text("text,label\n" + rows, encoding="utf-8")
    lines = "".join("über " + " ".join(line) + "\n" for line in make_topic_sentences(60))
    (folder / "über.txt").write_text(lines, encoding="utf-8")
    save_vectors(folder / "royal.bin", royal())
    main(["train", str(folder / "über.csv"), "--method", "majority", "-o", str(folder / "counted"), "--quiet"])
    learned = clearhead.learn_tokenizer(
        ["ein hund sieht ein haus über"] * 9, kind="bpe", use="transformer", vocab_size=300
    )
    config: dict[str, int | None] = {"width": 16, "heads": 2, "feed_width": 16, "encoder_layers": 1}
    config |= {
        "decoder_layers": 1,
        "vocab_size": learned.tokenizer.vocab_size,
        "pad_token_id": learned.tokenizer.pad_id,
    }
    config |= {"eos_token_id": learned.tokenizer.eos_id, "decoder_start_token_id": learned.tokenizer.bos_id}
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    answers = clearhead.create("bert", config=sizes, head="span", tokenizer=clearhead.load(masked_model).tokenizer)
    translator = clearhead.create("transformer", config=config, head="seq2seq", tokenizer=learned.tokenizer)
    return {
        "folder": folder,
        "bert": masked_model,
        "gpt": tiny_gpt(folder / "gpt"),
        "vectors": folder / "royal.bin",
        "counted": folder / "counted",
        "answers": answers.save(folder / "answers"),
        "translator": translator.save(folder / "translator"),
    }


@pytest.fixture
def fill_in(paths: dict[str, Path], tmp_path: Path) -> Call:
    """Split a command into arguments, and insert paths; _ stands for a space."""
    return lambda line: [
        word.format(**paths, out=tmp_path) if "{" in word else word.replace("_", " ") for word in line.split()
    ]


def call_main(arguments: list[str]) -> int:
    """Run a command and return its exit code; other exceptions are bugs."""
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return 0


def test_every_command_is_covered() -> None:
    assert QUICK_COMMANDS.keys() == VERBS.keys()


@pytest.mark.parametrize("verb", QUICK_COMMANDS)
def test_a_terminal_with_a_small_character_set(verb: str, fill_in: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    err = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", errors="strict")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    code = call_main(fill_in(QUICK_COMMANDS[verb]))
    err.flush()
    messages = err.buffer.getvalue().decode("latin-1")
    assert code == (2 if verb in FAILING else 0), messages
    assert "Traceback" not in messages
    assert (out.errors, err.errors) == ("strict", "strict")
    out.flush()
    if "--json" in QUICK_COMMANDS[verb]:
        json.loads(out.buffer.getvalue())


@pytest.mark.parametrize("verb", QUICK_COMMANDS)
def test_a_closed_output(
    verb: str, fill_in: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    code = call_main(fill_in(QUICK_COMMANDS[verb]))
    messages = capsys.readouterr().err
    assert code in (0, 2)
    assert "Traceback" not in messages
    if code == 2 and verb not in FAILING:
        assert messages.splitlines()[-1].startswith("clearhead: Standard output is closed")


@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("verb", QUICK_COMMANDS)
def test_a_full_output(
    verb: str, buffered: bool, fill_in: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    out = (
        io.TextIOWrapper(io.FileIO("/dev/full", "w"))
        if buffered
        else io.TextIOWrapper(io.BufferedWriter(io.FileIO("/dev/full", "w"), 1), write_through=True)
    )
    monkeypatch.setattr(sys, "stdout", out)
    code = call_main(fill_in(QUICK_COMMANDS[verb]))
    out.close()
    message_lines = capsys.readouterr().err.splitlines()
    assert not any("Traceback" in line for line in message_lines)
    assert code == (2 if verb not in SILENT else 0), message_lines
    if code == 2 and verb not in FAILING:
        assert message_lines[-1].endswith("cannot be written: No space left on device.")


@pytest.mark.parametrize("verb", READING_COMMANDS)
def test_a_closed_input(
    verb: str, fill_in: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert call_main(fill_in(READING_COMMANDS[verb])) == 2
    message_lines = capsys.readouterr().err.splitlines()
    assert message_lines[-1] == "clearhead: Standard input is closed."


@pytest.mark.parametrize("verb", WRITING_COMMANDS)
@pytest.mark.parametrize("bad_name", [LONG_NAME, "file/below", "\0"], ids=["long", "below a file", "nul"])
def test_a_name_that_cannot_be_written(
    verb: str, bad_name: str, fill_in: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    name = next(word for word in WRITING_COMMANDS[verb].split() if "{out}" in word)
    suffix = Path(name).suffix
    code = call_main(fill_in(WRITING_COMMANDS[verb].replace(name, f"{{out}}/{bad_name}{suffix}")))
    message_lines = capsys.readouterr().err.splitlines()
    assert code == 2
    assert message_lines[-1].startswith("clearhead: ")
    assert len(message_lines[-1]) < 500
    assert not any("Traceback" in line for line in message_lines)


def test_json_is_valid_in_any_encoding() -> None:
    value = {"text": "über ✓", "half": "\udc80"}
    for encoding in ("utf-8", "ascii", "latin-1", "utf-16"):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        assert json.loads(to_json_text(value, stream)) == value
        line = to_json_text({"text": "über"}, stream)
        assert ("ü" in line) == (encoding == "utf-8")


def test_arguments_in_a_c_locale(tmp_path: Path) -> None:
    surrogates = os.fsdecode("über".encode()) if sys.getfilesystemencoding() == "ascii" else "\udcc3\udcbcber"
    assert decode_arguments(["tokens", "bert", surrogates]) == ["tokens", "bert", "über"]
    assert decode_arguments(["-o", surrogates]) == ["-o", surrogates]
    assert decode_arguments(["\udcff"]) == ["\udcff"]
    with pytest.raises(InputError, match="NUL"):
        decode_arguments(["a\0b"])


def run_in_shell(line: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", "-c", f'"$0" -m clearhead {line} {shell}', sys.executable]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


@pytest.mark.parametrize(
    ("line", "shell", "code", "message"),
    [
        ("--help", "> /dev/full", 2, "clearhead: Standard output or a file cannot be written: No space left on device"),
        ("--help", ">&-", 2, "clearhead: Standard output is closed"),
        ("--help", ">&- 2>&- <&-", 2, ""),
        ("learn-tokenizer - -o x", "<&-", 2, "clearhead: Standard input is closed"),
        ("--help", "| head -1 | grep -q .", 0, ""),
    ],
)
def test_real_streams(line: str, shell: str, code: int, message: str) -> None:
    process = run_in_shell(line, shell)
    assert process.returncode == code
    assert process.stderr.startswith(message)
    assert process.stderr.count("\n") == (1 if message else 0)


def test_a_c_locale_in_a_child(paths: dict[str, Path]) -> None:
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = run_in_shell(f"tokens {paths['bert']} 'ürban ✓' --json", **environment)
    assert (process.returncode, process.stderr) == (0, "")
    assert json.loads(process.stdout)["ids"][0] == 2


def test_warnings_are_one_line(paths: dict[str, Path], tmp_path: Path) -> None:
    process = run_in_shell(f"export {paths['bert']} {tmp_path / 'int8'} --precision int8 --quiet")
    assert process.returncode == 0
    assert process.stderr.startswith("clearhead: The int8 quality of")
    assert ".py:" not in process.stderr
    assert process.stderr.count("\n") == 1
