"""clearhead.embed: texts, files and tables to an array or a file, and interrupted jobs."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.cli import main
from clearhead.embeddings import job
from clearhead.embeddings.job import EmbedOptions, embed_file
from clearhead.errors import InputError
from clearhead.model.embedding import Embedder, TruncationWarning
from tests.tiny_models import tiny_sentence_encoder

TEXTS = ["a good film", "", "it was bad, and sad"]
ROWS = [{"n": number, "text": text} for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny sentence encoder."""
    return tiny_sentence_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def expected_vectors(encoder: Path) -> Any:
    return clearhead.load(encoder).embed(TEXTS)


def write_parquet(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), path)


CSV = 'n,text\n0,a good film\n1,\n2,"it was bad, and sad"\n'
FILES: dict[str, Callable[[Path], Any]] = {
    "a.txt": lambda path: path.write_text("\n".join(TEXTS)),
    "a.csv.gz": lambda path: path.write_bytes(gzip.compress(CSV.encode())),
    "a.json": lambda path: path.write_text(json.dumps(ROWS)),
    "a.jsonl": lambda path: path.write_text("\n".join(map(json.dumps, ROWS))),
    "a.parquet": write_parquet,
}


@pytest.mark.parametrize("name", FILES)
def test_files_as_an_array_as_a_file_and_by_the_verb(
    name: str, encoder: Path, expected_vectors: Any, tmp_path: Path
) -> None:
    FILES[name](tmp_path / name)
    np.testing.assert_array_equal(clearhead.embed(encoder, tmp_path / name), expected_vectors)
    np.testing.assert_array_equal(clearhead.embed(encoder, str(tmp_path / name)), expected_vectors)
    summary = clearhead.embed(encoder, tmp_path / name, tmp_path / "made.npy")
    assert summary.to_json() == {"texts": 3, "width": 32, "output": str(tmp_path / "made.npy"), "resumed": 0}
    assert repr(summary).startswith("Vectors(3 texts, 32 numbers each, ")
    main(["embed", str(encoder), str(tmp_path / name), "-o", str(tmp_path / "verb.npy"), "--quiet"])
    for file in ("made.npy", "verb.npy"):
        np.testing.assert_array_equal(np.load(tmp_path / file), expected_vectors)


@pytest.mark.parametrize("text", ["\n".join(TEXTS), CSV, "\n".join(map(json.dumps, ROWS))])
def test_standard_input(
    text: str, encoder: Path, expected_vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    main(["embed", str(encoder), "-", "-o", str(tmp_path / "verb.npy"), "--quiet"])
    np.testing.assert_array_equal(np.load(tmp_path / "verb.npy"), expected_vectors)
    np.testing.assert_array_equal(clearhead.embed(encoder, io.BytesIO(text.encode())), expected_vectors)


def test_values_of_python(encoder: Path, expected_vectors: Any, tmp_path: Path) -> None:
    model = clearhead.load(encoder)
    for source in (TEXTS, tuple(TEXTS), ROWS, {"text": TEXTS}, (text for text in TEXTS)):
        np.testing.assert_array_equal(clearhead.embed(model, source), expected_vectors)
    np.testing.assert_array_equal(clearhead.embed(encoder, TEXTS[0]), expected_vectors[:1])
    assert clearhead.embed(model, []).shape == (0, 32)
    assert clearhead.embed(model, TEXTS, tmp_path / "v.jsonl").texts == 3
    assert [json.loads(line)["text"] for line in (tmp_path / "v.jsonl").read_text().splitlines()] == TEXTS
    progress_counts: list[int] = []
    clearhead.embed(model, TEXTS, progress=lambda count, _: progress_counts.append(count))
    assert progress_counts == [3]


def test_options(encoder: Path, tmp_path: Path) -> None:
    model = clearhead.load(encoder)
    options: dict[str, Any] = {"layer": 1, "pooling": "first", "normalize": True, "prompt": "a "}
    np.testing.assert_array_equal(clearhead.embed(model, TEXTS, **options), model.embed(TEXTS, **options))
    (tmp_path / "a.csv").write_text("one,two\na good film,bad\n")
    np.testing.assert_array_equal(clearhead.embed(model, tmp_path / "a.csv", column="two"), model.embed(["bad"]))
    with pytest.warns(TruncationWarning, match="1 of 1 texts are longer than 24 tokens"):
        clearhead.embed(model, ["good " * 60])


def test_mistakes(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "good"}\n')
    cases: tuple[tuple[Any, dict[str, Any], str], ...] = (
        ((tmp_path / "gone.csv",), {}, "gone.csv not found"),
        (("gone.csv",), {}, "gone.csv not found"),
        ((tmp_path / "a.jsonl", tmp_path / "a.jsonl"), {}, "is also the input; choose another output file"),
        ((TEXTS, tmp_path / "a.xml"), {}, r"must end in \.npy, \.jsonl"),
        ((TEXTS, None), {"layer": "middle"}, "layer"),
    )
    for arguments, choices, problem in cases:
        with pytest.raises(InputError, match=problem):
            clearhead.embed(encoder, *arguments, **choices)
    with pytest.raises(InputError, match="precision applies to a model given by name"):
        clearhead.embed(clearhead.load(encoder), TEXTS, precision="float")


@pytest.mark.parametrize("by_name", [True, False])
def test_a_job_is_resumed_where_the_model_is_named(
    by_name: bool, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model in memory may differ from its folder, so its vectors are never mixed with those of an earlier job."""
    from clearhead.model import embedding

    monkeypatch.setattr(embedding, "FIRST_CHUNK_TEXTS", 2)
    monkeypatch.setattr(embedding, "CHUNK_TEXTS", 2)
    (tmp_path / "a.txt").write_text("good\nbad\nfilm\nplot\nactor\n")
    model: Any = encoder if by_name else clearhead.load(encoder)
    all_vectors = clearhead.embed(model, tmp_path / "a.txt")
    real, calls = Embedder._vectors, [0]

    def vectors(self: Any, *arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "_vectors", vectors)
        with pytest.raises(KeyboardInterrupt) as error:
            clearhead.embed(model, tmp_path / "a.txt", tmp_path / "v.npy")
    assert getattr(error.value, "resumable", None) is by_name
    summary = clearhead.embed(model, tmp_path / "a.txt", tmp_path / "v.npy")
    assert summary.resumed == (2 if by_name else 0)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), all_vectors)


def test_parquet_needs_its_extra(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "find_spec", lambda name: None)
    with pytest.raises(clearhead.ClearheadError, match=r"pip install 'clearhead\[parquet\]'"):
        embed_file(encoder, TEXTS, tmp_path / "v.parquet", EmbedOptions())
