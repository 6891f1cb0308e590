"""clearhead embed resumes interrupted files with the same bytes, and reads and writes gzipped files."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.model import embedding

Run = Callable[..., tuple[int, str, str]]
WORDS = ("paris", "cat", "mat", "city", "france", "big")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "FIRST_CHUNK_TEXTS", 20)
    monkeypatch.setattr(embedding, "CHUNK_TEXTS", 30)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    lines = (f"a {WORDS[n % 6]} is {' '.join(WORDS[: n % 5])} {'the ' * (30 if n % 7 == 0 else 1)}" for n in range(120))
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.fixture
def chunk_counter(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the embedded chunks, and interrupt before the chunk number `stop`."""
    counter = {"chunks": 0, "stop": -1}
    embed_chunk = embedding.Embedder._vectors

    def count_and_embed(self: Any, *arguments: Any) -> Any:
        if counter["chunks"] == counter["stop"]:
            raise KeyboardInterrupt
        counter["chunks"] += 1
        return embed_chunk(self, *arguments)

    monkeypatch.setattr(embedding.Embedder, "_vectors", count_and_embed)
    return counter


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".jsonl.gz", ".parquet"])
@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_the_same_bytes_after_an_interruption(
    run: Run, masked_model: Path, texts: Path, tmp_path: Path, chunk_counter: dict[str, int], ending: str, chunks: int
) -> None:
    uninterrupted, out = tmp_path / f"whole{ending}", tmp_path / f"out{ending}"
    _, expected, _ = run("embed", masked_model, texts, "-o", uninterrupted, "--json")
    chunk_counter |= {"chunks": 0, "stop": chunks}
    code, _, err = run("embed", masked_model, texts, "-o", out, "--quiet")
    assert (code, "the same command" in err) == (130, True)
    assert not out.exists()
    chunk_counter |= {"chunks": 0, "stop": -1}
    code, resumed, _ = run("embed", masked_model, texts, "-o", out, "--json")
    assert code == 0
    assert chunk_counter["chunks"] == 5 - chunks  # one chunk of 20 texts, three of 30, and the remaining 10
    assert out.read_bytes() == uninterrupted.read_bytes()
    texts_done = {0: 0, 1: 20, 3: 80}[chunks]
    assert json.loads(resumed) == json.loads(expected) | {"output": str(out), "resumed": texts_done}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([texts.name, uninterrupted.name, out.name])


@pytest.mark.filterwarnings("ignore::clearhead.model.embedding.TruncationWarning")
def test_another_job_starts_over(
    run: Run, masked_model: Path, texts: Path, tmp_path: Path, chunk_counter: dict[str, int]
) -> None:
    arguments = ("embed", masked_model, texts, "-o", tmp_path / "out.npy", "--quiet")

    def interrupt_after_two_chunks() -> None:
        chunk_counter.update(chunks=0, stop=2)
        assert run(*arguments)[0] == 130
        chunk_counter.update(chunks=0, stop=-1)

    lines = texts.read_text().splitlines()
    model = clearhead.load(masked_model)
    for options, choices in (
        (("--pooling", "max"), {"pooling": "max"}),
        (("--layer", "first"), {"layer": "first"}),
        (("--normalize",), {"normalize": True}),
        (("--prompt", "the "), {"prompt": "the "}),
    ):
        interrupt_after_two_chunks()
        assert run(*arguments, *options)[0] == 0
        assert chunk_counter["chunks"] == 5
        vectors = np.load(tmp_path / "out.npy")
        np.testing.assert_allclose(vectors, model.embed(lines, **choices), atol=1e-6)
        (tmp_path / "out.npy").unlink()
    interrupt_after_two_chunks()
    lines[3] = "a big city"
    texts.write_text("".join(line + "\n" for line in lines))
    assert run(*arguments)[0] == 0
    assert chunk_counter["chunks"] == 5
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), model.embed(lines), atol=1e-6)


def test_another_model_starts_over(
    run: Run, masked_model: Path, texts: Path, tmp_path: Path, chunk_counter: dict[str, int]
) -> None:
    copy = clearhead.load(masked_model).save(tmp_path / "model")
    chunk_counter["stop"] = 2
    assert run("embed", copy, texts, "-o", tmp_path / "out.npy", "--quiet")[0] == 130
    weights = copy / "model.safetensors"
    status = weights.stat()
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # as if saved again
    chunk_counter |= {"chunks": 0, "stop": -1}
    assert run("embed", copy, texts, "-o", tmp_path / "out.npy", "--quiet")[0] == 0
    assert chunk_counter["chunks"] == 5


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"key": 1}'])
def test_a_damaged_fingerprint_is_ignored(
    run: Run, masked_model: Path, texts: Path, tmp_path: Path, chunk_counter: dict[str, int], damage: bytes
) -> None:
    chunk_counter["stop"] = 2
    assert run("embed", masked_model, texts, "-o", tmp_path / "out.npy", "--quiet")[0] == 130
    (tmp_path / "out.npy.partial.json").write_bytes(damage)
    chunk_counter |= {"chunks": 0, "stop": -1}
    assert run("embed", masked_model, texts, "-o", tmp_path / "out.npy", "--quiet")[0] == 0
    assert chunk_counter["chunks"] == 5


def test_gzipped_input_is_read(run: Run, masked_model: Path, tmp_path: Path) -> None:
    expected = clearhead.load(masked_model).embed(["a cat", "paris is big"])
    files = {
        "plain.txt.gz": "a cat\nparis is big\n",
        "table.tsv.gz": "label\tsentence\nx\ta cat\ny\tparis is big\n",
        "bom.csv.gz": "\ufefftext\r\na cat\r\nparis is big\r\n",
        "rows.jsonl.gz": '{"text": "a cat", "n": 1}\n\n{"text": "paris is big"}\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(gzip.compress(content.encode()))
        code, _, err = run("embed", masked_model, tmp_path / name, "-o", tmp_path / "v.jsonl.gz", "--quiet")
        assert (code, err) == (0, ""), name
        rows = [json.loads(line) for line in gzip.decompress((tmp_path / "v.jsonl.gz").read_bytes()).splitlines()]
        assert [row["text"] for row in rows] == ["a cat", "paris is big"]
        np.testing.assert_allclose([row["vector"] for row in rows], expected, atol=1e-6)


@pytest.mark.parametrize("keep", [20, -8])
def test_a_broken_archive_is_refused_and_leaves_nothing(
    run: Run, masked_model: Path, tmp_path: Path, keep: int
) -> None:
    data = gzip.compress("".join(f"a cat sat on mat {n}\n" for n in range(200)).encode())
    (tmp_path / "texts.txt.gz").write_bytes(data[:keep])
    code, _, err = run("embed", masked_model, tmp_path / "texts.txt.gz", "-o", tmp_path / "v.npy", "--quiet")
    assert (code, err.count("\n"), "texts.txt.gz" in err) == (2, 1, True), err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt.gz"]


def test_the_input_is_not_overwritten(run: Run, masked_model: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text('"a cat"\n')
    code, _, err = run("embed", masked_model, tmp_path / "texts.jsonl", "-o", tmp_path / "texts.jsonl")
    assert (code, "is also the input" in err) == (2, True)
    assert (tmp_path / "texts.jsonl").read_text() == '"a cat"\n'
