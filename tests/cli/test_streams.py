"""Every verb with streams of any encoding, closed or full, and with names that no file can have: never a traceback."""

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

LONG = "n" * 300
# arguments that are quick, with letters beyond ASCII; {place} is a folder with the files that they name
GOOD = {
    "inspect": "inspect {place}/über.csv --no-estimate --model {bert}",
    "train": "train {place}/über.csv --method majority -o {out}/züge",
    "pretrain": "pretrain {place}/fehlt-ü.txt -o {out}/x",
    "ladder": "ladder {place}/über.csv --methods größe -o {out}/x",
    "evaluate": "evaluate {counted} {place}/über.csv",
    "predict": "predict {counted} {place}/über.csv -o -",
    "ask": "ask {answers} größe✓ ein_hund_sieht_über_das_haus",
    "describe": "describe {bert}",
    "models": "models",
    "learn-tokenizer": "learn-tokenizer {place}/über.txt -o {out}/ü --vocab-size 300",
    "tokens": "tokens {bert} ürban✓",
    "fill": "fill {bert} ü[MASK]",
    "embed": "embed {bert} {place}/über.txt -o {out}/ü.jsonl",
    "word2vec": "word2vec {place}/über.txt -o {out}/ü --width 4 --epochs 1",
    "words": "words {vectors} king",
    "contrast": "contrast {bert} über_a_cat_sat the_cat_über cat",
    "generate": "generate {gpt} größe✓ --max-length 2",
    "translate": "translate {translator} größe✓ --max-length 2",
    "quantize": "quantize {bert} {place}/über.txt -o {out}/ü --min-cosine 0.1",
    "explain": "explain {bert} über_stadt --json",
    "bench": "bench ü --seconds 0",
    "complexity": "complexity --lengths ü",
    "convert": "convert {bert} {out}/ü",
    "export": "export {bert} {out}/ü",
}
SILENT = ("embed", "convert", "export")  # what they say goes to standard error
MISTAKES = ("pretrain", "ladder", "bench", "complexity")  # what would take long; the sentence has such letters as well
WRITES = {verb: line for verb, line in GOOD.items() if " -o " in line and " -o -" not in line}
WRITES["explain"] = "explain {bert} stadt -o {out}/x.svg"
WRITES["evaluate"] = "evaluate {counted} {place}/über.csv --report {out}/x.html"
WRITES["predict"] = "predict {counted} {place}/über.csv -o {out}/x.csv"
WRITES["generate"] = "generate {gpt} word -o {out}/x.txt"
WRITES["translate"] = "translate {translator} word -o {out}/x.txt"
WRITES["ladder"] = "ladder {place}/über.csv --methods majority -o {out}/x"
WRITES |= {verb: GOOD[verb].replace("{out}/ü", "{out}/x") for verb in ("convert", "export")}
READS = {
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
def places(tmp_path_factory: pytest.TempPathFactory, masked_model: Path) -> dict[str, Path]:
    """Tiny models and files."""
    place = tmp_path_factory.mktemp("streams")
    rows = "".join(f"über die stadt {n} ✓,{'jä' if n % 2 else 'nein'}\n" for n in range(12))
    (place / "über.csv").write_text("text,label\n" + rows, encoding="utf-8")
    lines = "".join("über " + " ".join(line) + "\n" for line in make_topic_sentences(60))
    (place / "über.txt").write_text(lines, encoding="utf-8")
    save_vectors(place / "royal.bin", royal())
    main(["train", str(place / "über.csv"), "--method", "majority", "-o", str(place / "counted"), "--quiet"])
    spoken = clearhead.learn_tokenizer(
        ["ein hund sieht ein haus über"] * 9, kind="bpe", use="transformer", vocab_size=300
    )
    config: dict[str, int | None] = {"width": 16, "heads": 2, "feed_width": 16, "encoder_layers": 1}
    config |= {"decoder_layers": 1, "vocab_size": spoken.tokenizer.vocab_size, "pad_token_id": spoken.tokenizer.pad_id}
    config |= {"eos_token_id": spoken.tokenizer.eos_id, "decoder_start_token_id": spoken.tokenizer.bos_id}
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    answers = clearhead.create("bert", config=sizes, head="span", tokenizer=clearhead.load(masked_model).tokenizer)
    made = clearhead.create("transformer", config=config, head="seq2seq", tokenizer=spoken.tokenizer)
    return {
        "place": place,
        "bert": masked_model,
        "gpt": tiny_gpt(place / "gpt"),
        "vectors": place / "royal.bin",
        "counted": place / "counted",
        "answers": answers.save(place / "answers"),
        "translator": made.save(place / "translator"),
    }


@pytest.fixture
def filled(places: dict[str, Path], tmp_path: Path) -> Call:
    """The words of a line, with the names of files in their places; _ is a blank."""
    return lambda line: [
        word.format(**places, out=tmp_path) if "{" in word else word.replace("_", " ") for word in line.split()
    ]


def called(arguments: list[str]) -> int:
    """The exit code of a verb; whatever else it raises is a traceback that people would see."""
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return 0


def test_every_verb_is_here() -> None:
    assert GOOD.keys() == VERBS.keys()


@pytest.mark.parametrize("verb", GOOD)
def test_a_terminal_that_knows_few_letters(verb: str, filled: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    err = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", errors="strict")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    code = called(filled(GOOD[verb]))
    err.flush()
    said = err.buffer.getvalue().decode("latin-1")
    assert code == (2 if verb in MISTAKES else 0), said
    assert "Traceback" not in said
    assert (out.errors, err.errors) == ("strict", "strict")
    out.flush()
    if "--json" in GOOD[verb]:
        json.loads(out.buffer.getvalue())


@pytest.mark.parametrize("verb", GOOD)
def test_a_closed_output(
    verb: str, filled: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    code = called(filled(GOOD[verb]))
    said = capsys.readouterr().err
    assert code in (0, 2)
    assert "Traceback" not in said
    if code == 2 and verb not in MISTAKES:
        assert said.splitlines()[-1].startswith("clearhead: Standard output is closed")


@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("verb", GOOD)
def test_a_full_output(
    verb: str, buffered: bool, filled: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    out = (
        io.TextIOWrapper(io.FileIO("/dev/full", "w"))
        if buffered
        else io.TextIOWrapper(io.BufferedWriter(io.FileIO("/dev/full", "w"), 1), write_through=True)
    )
    monkeypatch.setattr(sys, "stdout", out)
    code = called(filled(GOOD[verb]))
    out.close()
    said = capsys.readouterr().err.splitlines()
    assert not any("Traceback" in line for line in said)
    assert code == (2 if verb not in SILENT else 0), said
    if code == 2 and verb not in MISTAKES:
        assert said[-1].endswith("cannot be written: No space left on device.")


@pytest.mark.parametrize("verb", READS)
def test_a_closed_input(
    verb: str, filled: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert called(filled(READS[verb])) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "clearhead: Standard input is closed."


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("where", [LONG, "file/below", "\0"], ids=["long", "below a file", "nul"])
def test_a_name_that_cannot_be_written(
    verb: str, where: str, filled: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    name = next(word for word in WRITES[verb].split() if "{out}" in word)
    suffix = Path(name).suffix
    code = called(filled(WRITES[verb].replace(name, f"{{out}}/{where}{suffix}")))
    said = capsys.readouterr().err.splitlines()
    assert code == 2
    assert said[-1].startswith("clearhead: ")
    assert len(said[-1]) < 500
    assert not any("Traceback" in line for line in said)


def test_json_is_valid_in_any_encoding() -> None:
    value = {"text": "über ✓", "half": "\udc80"}
    for encoding in ("utf-8", "ascii", "latin-1", "utf-16"):
        into = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        assert json.loads(to_json_text(value, into)) == value
        line = to_json_text({"text": "über"}, into)
        assert ("ü" in line) == (encoding == "utf-8")


def test_arguments_in_a_c_locale(tmp_path: Path) -> None:
    disguised = os.fsdecode("über".encode()) if sys.getfilesystemencoding() == "ascii" else "\udcc3\udcbcber"
    assert decode_arguments(["tokens", "bert", disguised]) == ["tokens", "bert", "über"]
    assert decode_arguments(["-o", disguised]) == ["-o", disguised]
    assert decode_arguments(["\udcff"]) == ["\udcff"]
    with pytest.raises(InputError, match="NUL"):
        decode_arguments(["a\0b"])


def child(line: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", "-c", f'"$0" -m clearhead {line} {shell}', sys.executable]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


@pytest.mark.parametrize(
    ("line", "shell", "code", "said"),
    [
        ("--help", "> /dev/full", 2, "clearhead: Standard output or a file cannot be written: No space left on device"),
        ("--help", ">&-", 2, "clearhead: Standard output is closed"),
        ("--help", ">&- 2>&- <&-", 2, ""),
        ("learn-tokenizer - -o x", "<&-", 2, "clearhead: Standard input is closed"),
        ("--help", "| head -1 | grep -q .", 0, ""),
    ],
)
def test_real_streams(line: str, shell: str, code: int, said: str) -> None:
    done = child(line, shell)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == (1 if said else 0)


def test_a_c_locale_in_a_child(places: dict[str, Path]) -> None:
    bare = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = child(f"tokens {places['bert']} 'ürban ✓' --json", **bare)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ids"][0] == 2


def test_warnings_are_sentences(places: dict[str, Path], tmp_path: Path) -> None:
    done = child(f"export {places['bert']} {tmp_path / 'int8'} --precision int8 --quiet")
    assert done.returncode == 0
    assert done.stderr.startswith("clearhead: The int8 quality of")
    assert ".py:" not in done.stderr
    assert done.stderr.count("\n") == 1
