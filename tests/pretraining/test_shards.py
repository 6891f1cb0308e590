"""Token shards: atomic, verified, resumable, and memory-mapped."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from clearhead.errors import CheckpointError, ClearheadError, InputError
from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.pretraining.documents import Chunk
from clearhead.pretraining.shards import Corpus, hash_source, make_corpus
from clearhead.text import Tokenizer
from tests.planted import make_documents

DOCUMENTS = make_documents(30, 4)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer((line for document in DOCUMENTS for line in document), use="bert", vocab_size=200).tokenizer


def read_documents(notes: list[str]) -> Iterator[Chunk]:
    notes.append("read")
    for lines in DOCUMENTS:
        for index, line in enumerate(lines):
            yield Chunk(text=line, starts_document=index == 0)


def read_ids(corpus: Corpus) -> list[int]:
    return [int(token_id) for chunk in corpus.iterate_tokens() for token_id in chunk]


@pytest.mark.parametrize("shard", [1, 100, 1 << 20])
def test_what_is_written_is_what_was_read(tmp_path: Path, tokenizer: Tokenizer, shard: int) -> None:
    corpus = make_corpus(tmp_path, "x", tokenizer, read_documents, shard_tokens=shard)
    lines = [line for piece in DOCUMENTS for line in piece]
    assert read_ids(corpus) == [token_id for ids in tokenizer.encode_plain(lines) for token_id in ids]
    assert corpus.sentences == len(lines)
    assert corpus.index.notes == ["read"]
    bounds_of = [corpus.sentence_bounds(number) for number in range(corpus.documents)]
    assert len(bounds_of) >= len(DOCUMENTS)  # one that goes over the end of a shard is two
    assert bounds_of[0][0] == 0
    assert bounds_of[-1][-1] == corpus.tokens
    assert all(a[-1] == b[0] for a, b in pairwise(bounds_of))
    if shard > 100_000:
        assert len(bounds_of) == len(DOCUMENTS)
        bounds = bounds_of[3]
        texts = [tokenizer.decode(corpus.ids(int(a), int(b - a))) for a, b in pairwise(bounds)]
        assert [text.replace(" .", ".") for text in texts] == [line.lower() for line in DOCUMENTS[3]]


@pytest.mark.parametrize("short", [1, 100, 1000])
def test_a_disk_that_is_full_at_the_end_of_a_file(tmp_path: Path, tokenizer: Tokenizer, short: int) -> None:
    """A few bytes too few are noticed, too: what is not whole must not count as written."""
    size = 2 * make_corpus(tmp_path / "whole", "x", tokenizer, read_documents).tokens
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - short, before[1]))
        with pytest.raises(ClearheadError, match="cannot be written"):
            make_corpus(tmp_path / "part", "x", tokenizer, read_documents)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "part" / "index.json").exists()


def test_a_job_that_was_stopped_goes_on(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.pretraining.shards.CHUNK_SENTENCES", 8)
    uninterrupted = make_corpus(tmp_path / "whole", "x", tokenizer, read_documents, shard_tokens=200)
    assert len(uninterrupted.index.shards) >= 4

    def broken(notes: list[str]) -> Iterator[Chunk]:
        for number, chunk in enumerate(read_documents(notes)):
            if number == 70:
                raise KeyboardInterrupt
            yield chunk

    with pytest.raises(KeyboardInterrupt):
        make_corpus(tmp_path / "part", "x", tokenizer, broken, shard_tokens=200)
    written_at = {path: path.stat().st_mtime_ns for path in (tmp_path / "part").glob("*.tokens")}
    assert len(written_at) >= 2
    resumed = make_corpus(tmp_path / "part", "x", tokenizer, read_documents, shard_tokens=200)
    assert read_ids(resumed) == read_ids(uninterrupted)
    assert resumed.index.shards == uninterrupted.index.shards
    assert all(path.stat().st_mtime_ns == before for path, before in written_at.items())
    assert not list((tmp_path / "part").glob(".*"))


def test_what_is_there_is_not_read_again(tmp_path: Path, tokenizer: Tokenizer) -> None:
    first = make_corpus(tmp_path, "x", tokenizer, read_documents)

    def never(notes: list[str]) -> Iterator[Chunk]:
        raise AssertionError

    assert read_ids(make_corpus(tmp_path, "x", tokenizer, never)) == read_ids(first)


def test_damage_and_other_texts_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    make_corpus(tmp_path, "x", tokenizer, read_documents)
    with pytest.raises(CheckpointError, match="another text, tokenizer or setting"):
        make_corpus(tmp_path, "y", tokenizer, read_documents)
    path = tmp_path / "00000.tokens"
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="its size or hash does not match"):
        make_corpus(tmp_path, "x", tokenizer, read_documents)


def test_text_without_tokens(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="no tokens"):
        make_corpus(tmp_path, "x", tokenizer, lambda _: [Chunk(text="\u200b", starts_document=True)])


def test_a_large_vocabulary_has_wide_ids(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.pretraining.shards.SMALL_VOCAB_SIZE", 10)
    corpus = make_corpus(tmp_path, "x", tokenizer, read_documents)
    assert corpus.index.bytes == 4
    assert (tmp_path / "00000.tokens").stat().st_size == 4 * corpus.tokens
    assert corpus.ids(0, 3).dtype == np.int64


def test_the_source_is_all_that_ids_depend_on(tmp_path: Path, tokenizer: Tokenizer) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    first = hash_source([file], tokenizer, language="en")
    assert hash_source([file], tokenizer, language="en") == first
    assert hash_source([file], tokenizer, language="de") != first
    file.write_text("two")
    assert hash_source([file], tokenizer, language="en") != first
    with pytest.raises(InputError, match="cannot be read"):
        hash_source([tmp_path / "gone"], tokenizer)
