"""translate, generate, fill and tokens of `clearhead`: with texts, files and tables, as values or as files."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.cli import main
from clearhead.errors import InputError
from clearhead.translate.files import OutputSummary
from tests.decode.texts import load_text_model
from tests.tiny_models import tiny_gpt, tiny_model

TEXTS = ["The old lighthouse keeper", "", "rain fell, and fell"]
ROWS = [{"n": number, "text": text} for number, text in enumerate(TEXTS)]
CSV = 'n,text\n0,The old lighthouse keeper\n1,\n2,"rain fell, and fell"\n'
SHORT: dict[str, Any] = {"max_length": 6, "num_beams": 2}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian of random weights."""
    return load_text_model("marian", "core").save(tmp_path_factory.mktemp("translator") / "marian")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT of random weights."""
    return tiny_gpt(tmp_path_factory.mktemp("writer"))


@pytest.fixture(scope="module")
def expected(translator: Path) -> list[str]:
    """What the model itself makes of the texts, one by one; an empty line stays empty."""
    model = clearhead.load(translator)
    return [model.generate([text], **SHORT)[0].text if text else "" for text in TEXTS]


def write_parquet(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), path)


FILES: dict[str, Callable[[Path], Any]] = {
    "a.txt": lambda path: path.write_text("\n".join(TEXTS)),
    "a.csv.gz": lambda path: path.write_bytes(gzip.compress(CSV.encode())),
    "a.json": lambda path: path.write_text(json.dumps(ROWS)),
    "a.parquet": write_parquet,
}


@pytest.mark.parametrize("name", FILES)
def test_translate_reads_what_training_reads(
    name: str, translator: Path, expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FILES[name](tmp_path / name)
    made = clearhead.translate(translator, tmp_path / name, **SHORT)
    assert [one.text for one in made] == [" ".join(text.split("\n")) for text in expected]
    assert [one.number for one in made] == [1, 2, 3]
    main(["translate", str(translator), str(tmp_path / name), "--max-length", "6", "--num-beams", "2", "--quiet"])
    assert capsys.readouterr().out == "".join(f"{one}\n" for one in made)


@pytest.mark.parametrize("text", ["\n".join(TEXTS), CSV, "\n".join(map(json.dumps, ROWS))])
def test_translate_reads_standard_input(
    text: str,
    translator: Path,
    expected: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    main(["translate", str(translator), "-", "--max-length", "6", "--num-beams", "2", "--quiet"])
    assert capsys.readouterr().out.split("\n")[:-1] == [" ".join(one.split("\n")) for one in expected]


def test_translate_values(translator: Path, expected: list[str], tmp_path: Path) -> None:
    model = clearhead.load(translator)
    plain = [" ".join(text.split("\n")) for text in expected]
    for source in (TEXTS, ROWS, (text for text in TEXTS)):
        assert [str(one) for one in clearhead.translate(model, source, **SHORT)] == plain
    (alone,) = clearhead.translate(model, TEXTS[0], **SHORT)
    assert (alone.text, alone.source) == (plain[0], TEXTS[0])
    assert repr(alone).startswith("Translation(")
    (aligned,) = clearhead.translate(model, TEXTS[0], align=True, **SHORT)
    assert aligned.alignment is not None
    told = aligned.to_json()
    assert told["source_words"] == TEXTS[0].split()
    stream = io.StringIO()
    written = clearhead.translate(model, TEXTS, stream, **SHORT)
    assert (written, stream.getvalue()) == (
        OutputSummary(output=None, texts=3, resumed=0),
        "".join(f"{text}\n" for text in plain),
    )
    written = clearhead.translate(model, TEXTS, tmp_path / "out.jsonl", as_json=True, **SHORT)
    assert written.to_json() == {"texts": 3, "resumed": 0, "output": str(tmp_path / "out.jsonl")}
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["translation"] for row in rows] == plain
    with pytest.raises(InputError, match="already exists"):
        clearhead.translate(model, TEXTS, tmp_path / "out.jsonl", **SHORT)


def test_a_stopped_translation_is_resumed(translator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.translate import stream

    monkeypatch.setattr(stream, "CHUNK_LINES", 2)
    (tmp_path / "in.txt").write_text("\n".join([*TEXTS, *TEXTS]))
    given = (translator, tmp_path / "in.txt", tmp_path / "out.txt")
    real = stream.translate_lines

    def stopped(*arguments: Any, **choices: Any) -> Any:
        for count, line in enumerate(real(*arguments, **choices)):
            if count == 3:
                raise KeyboardInterrupt
            yield line

    with monkeypatch.context() as patch:
        patch.setattr(stream, "translate_lines", stopped)
        with pytest.raises(KeyboardInterrupt):
            clearhead.translate(*given, **SHORT)
    said: list[str] = []
    made = clearhead.translate(*given, notify=said.append, **SHORT)
    assert (made.texts, made.resumed) == (6, 3)
    assert len(said) == 1
    assert "after 3 lines" in said[0]
    whole = [str(one) for one in clearhead.translate(translator, tmp_path / "in.txt", **SHORT)]
    assert (tmp_path / "out.txt").read_text().split("\n")[:-1] == whole


def test_translate_mistakes(translator: Path, writer: Path) -> None:
    for model, text, choices, problem in (
        (translator, "  ", {}, "There is no text to translate"),
        (writer, "a text", {}, "has no decoder and cannot translate"),
        (translator, "a text", {"column": "text"}, "column is only for files, but 'a text' is a text"),
        (translator, "a text", {"input_format": "csv"}, "input_format is only for files and standard input"),
        (translator, "a text", {"beams": 3}, "Unknown decoding setting 'beams'"),
    ):
        with pytest.raises(InputError, match=problem):
            clearhead.translate(model, text, **choices)


def test_generate(writer: Path, tmp_path: Path) -> None:
    model = clearhead.load(writer)
    (made,) = clearhead.generate(writer, "the film was", max_length=4)
    (expected,) = model.generate(["the film was"], max_length=4)
    assert made.generated == expected
    assert str(made).startswith("the film was")
    assert repr(made).startswith("Continuation(")
    assert "".join(clearhead.generate_stream(writer, "the film was", max_length=4)) == str(made)[len("the film was") :]
    prompts = ["the film was", "it was good"]
    (tmp_path / "a.csv").write_text("n,text\n" + "".join(f"1,{prompt}\n" for prompt in prompts))
    both = clearhead.generate(model, tmp_path / "a.csv", max_length=4)
    assert [one.prompt for one in both] == prompts
    assert both[0].to_json()["text"] == str(made)
    written = clearhead.generate(model, prompts, tmp_path / "out.txt", max_length=4, new_only=True)
    assert written.texts == 2
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 2
    first = clearhead.generate(model, prompts, max_length=4, sample=True, seed=3)
    assert [str(one) for one in first] == [
        str(one) for one in clearhead.generate(model, prompts, max_length=4, sample=True, seed=3)
    ]


def test_generate_refuses_other_models(translator: Path) -> None:
    with pytest.raises(InputError, match="encoder-decoder model; use clearhead"):
        clearhead.generate(translator, "a text")


def test_fill_and_tokens(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    model = clearhead.load(folder, head="masked")
    ((best, second),) = clearhead.fill(model, "a good [MASK]", 2)
    assert best.probability >= second.probability
    assert clearhead.fill(model, "a good [MASK]", top=2) == [[best, second]]
    encoding = clearhead.tokens(folder, "a good film", "it was bad")
    assert encoding == clearhead.tokens(model, "a good film", "it was bad")
    assert encoding.tokens[:4] == ["[CLS]", "a", "good", "film"]
