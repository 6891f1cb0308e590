"""translate, generate, fill and tokens accept texts, files and tables, and return values or write files."""

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
    """The folder of a random Marian model."""
    return load_text_model("marian", "core").save(tmp_path_factory.mktemp("translator") / "marian")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random GPT-2 model."""
    return tiny_gpt(tmp_path_factory.mktemp("writer"))


@pytest.fixture(scope="module")
def expected_texts(translator: Path) -> list[str]:
    """The translation of each text by the model itself; an empty line stays empty."""
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
    name: str, translator: Path, expected_texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FILES[name](tmp_path / name)
    translations = clearhead.translate(translator, tmp_path / name, **SHORT)
    assert [translation.text for translation in translations] == [" ".join(text.split("\n")) for text in expected_texts]
    assert [translation.number for translation in translations] == [1, 2, 3]
    main(["translate", str(translator), str(tmp_path / name), "--max-length", "6", "--num-beams", "2", "--quiet"])
    assert capsys.readouterr().out == "".join(f"{translation}\n" for translation in translations)


@pytest.mark.parametrize("text", ["\n".join(TEXTS), CSV, "\n".join(map(json.dumps, ROWS))])
def test_translate_reads_standard_input(
    text: str,
    translator: Path,
    expected_texts: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    main(["translate", str(translator), "-", "--max-length", "6", "--num-beams", "2", "--quiet"])
    assert capsys.readouterr().out.split("\n")[:-1] == [
        " ".join(translation.split("\n")) for translation in expected_texts
    ]


def test_translate_values(translator: Path, expected_texts: list[str], tmp_path: Path) -> None:
    model = clearhead.load(translator)
    plain = [" ".join(text.split("\n")) for text in expected_texts]
    for source in (TEXTS, ROWS, (text for text in TEXTS)):
        assert [str(translation) for translation in clearhead.translate(model, source, **SHORT)] == plain
    (single,) = clearhead.translate(model, TEXTS[0], **SHORT)
    assert (single.text, single.source) == (plain[0], TEXTS[0])
    assert repr(single).startswith("Translation(")
    (aligned,) = clearhead.translate(model, TEXTS[0], align=True, **SHORT)
    assert aligned.alignment is not None
    json_output = aligned.to_json()
    assert json_output["source_words"] == TEXTS[0].split()
    stream = io.StringIO()
    summary = clearhead.translate(model, TEXTS, stream, **SHORT)
    assert (summary, stream.getvalue()) == (
        OutputSummary(output=None, texts=3, resumed=0),
        "".join(f"{text}\n" for text in plain),
    )
    summary = clearhead.translate(model, TEXTS, tmp_path / "out.jsonl", as_json=True, **SHORT)
    assert summary.to_json() == {"texts": 3, "resumed": 0, "output": str(tmp_path / "out.jsonl")}
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["translation"] for row in rows] == plain
    with pytest.raises(InputError, match="already exists"):
        clearhead.translate(model, TEXTS, tmp_path / "out.jsonl", **SHORT)


def test_a_stopped_translation_is_resumed(translator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.translate import stream

    monkeypatch.setattr(stream, "CHUNK_LINES", 2)
    (tmp_path / "in.txt").write_text("\n".join([*TEXTS, *TEXTS]))
    call = (translator, tmp_path / "in.txt", tmp_path / "out.txt")
    translate_lines = stream.translate_lines

    def interrupt_after_three_lines(*args: Any, **choices: Any) -> Any:
        for count, line in enumerate(translate_lines(*args, **choices)):
            if count == 3:
                raise KeyboardInterrupt
            yield line

    with monkeypatch.context() as patch:
        patch.setattr(stream, "translate_lines", interrupt_after_three_lines)
        with pytest.raises(KeyboardInterrupt):
            clearhead.translate(*call, **SHORT)
    notes: list[str] = []
    summary = clearhead.translate(*call, notify=notes.append, **SHORT)
    assert (summary.texts, summary.resumed) == (6, 3)
    assert len(notes) == 1
    assert "after 3 lines" in notes[0]
    expected = [str(translation) for translation in clearhead.translate(translator, tmp_path / "in.txt", **SHORT)]
    assert (tmp_path / "out.txt").read_text().split("\n")[:-1] == expected


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
    (continuation,) = clearhead.generate(writer, "the film was", max_length=4)
    (expected,) = model.generate(["the film was"], max_length=4)
    assert continuation.generated == expected
    assert str(continuation).startswith("the film was")
    assert repr(continuation).startswith("Continuation(")
    assert (
        "".join(clearhead.generate_stream(writer, "the film was", max_length=4))
        == str(continuation)[len("the film was") :]
    )
    prompts = ["the film was", "it was good"]
    (tmp_path / "a.csv").write_text("n,text\n" + "".join(f"1,{prompt}\n" for prompt in prompts))
    continuations = clearhead.generate(model, tmp_path / "a.csv", max_length=4)
    assert [continuation_of_prompt.prompt for continuation_of_prompt in continuations] == prompts
    assert continuations[0].to_json()["text"] == str(continuation)
    summary = clearhead.generate(model, prompts, tmp_path / "out.txt", max_length=4, new_only=True)
    assert summary.texts == 2
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 2
    sampled = clearhead.generate(model, prompts, max_length=4, sample=True, seed=3)
    assert [str(continuation_of_prompt) for continuation_of_prompt in sampled] == [
        str(continuation_of_prompt)
        for continuation_of_prompt in clearhead.generate(model, prompts, max_length=4, sample=True, seed=3)
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
