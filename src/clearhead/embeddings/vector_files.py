"""Vectors of texts as files: written as they come, resumed where an interrupted job stopped, complete or not there."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from clearhead.checkpoint.hub import locate
from clearhead.errors import ClearheadError, InputError
from clearhead.files import atomic_file, explain_write_errors, remove_file, write_json
from clearhead.html import short_repr
from clearhead.predict.resume_point import ResumePoint, RowCounts, describe_file_state, partial_paths, read_resume_point
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np

    from clearhead.model.embedding import Embedder

    Array = np.ndarray[Any, Any]

MODEL_FILES = (".safetensors", ".json", ".txt", ".model", ".spm", ".bpe", ".onnx")
FILE_ENDINGS = (".npy", ".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """What was written."""

    output: Path
    texts: int
    width: int
    resumed: int  # texts whose vectors an earlier, interrupted job had written

    def __repr__(self) -> str:
        return short_repr("Vectors", f"{self.texts:,} texts", f"{self.width} numbers each", self.output)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"texts": self.texts, "width": self.width, "output": str(self.output), "resumed": self.resumed}


def get_file_ending(output: Path) -> str:
    """The kind of file that a name stands for."""
    ending = next((one for one in FILE_ENDINGS if output.name.endswith(one)), None)
    if ending is None:
        raise InputError(f"{output} must end in {', '.join(FILE_ENDINGS)}.")
    return ending


def hash_job(folder: Path, source: Path, options: dict[str, Any]) -> str:
    """What must be the same for an interrupted job to be resumed: the model's files, the input and every option."""
    from clearhead import __version__

    files = [path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.suffix in MODEL_FILES]
    states = [sorted(describe_file_state(path) for path in files if path.is_file()), describe_file_state(source)]
    text = json.dumps([__version__, states, options], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_vectors(
    output: Path,
    texts: Iterable[str],
    embedder: Embedder,
    *,
    batch_tokens: int,
    key: str | None = None,
    progress: Progress = no_progress,
) -> Vectors:
    """The vectors of texts to a file; with a `key`, on from where an interrupted job with the same one stopped."""
    ending = get_file_ending(output)
    if key is None:
        if ending == ".parquet":
            return _write_whole_parquet(output, texts, embedder, batch_tokens, progress)
        with atomic_file(output) as file:
            return _write_chunks(output, file, ending, texts, embedder, batch_tokens, RowCounts(), progress)
    partial, mark = partial_paths(output)
    begun = read_resume_point(partial, mark, key)
    counts = RowCounts() if begun is None else begun.counts

    def save(file: IO[bytes]) -> None:
        file.flush()
        os.fsync(file.fileno())
        write_json(mark, asdict(ResumePoint(key=key, bytes=file.tell(), counts=counts).with_seal()))

    try:
        with explain_write_errors(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            if begun is None:
                remove_file(mark)  # of another job, before its vectors are overwritten
            with partial.open("wb" if begun is None else "r+b") as file:
                if begun is not None:
                    file.truncate(begun.bytes)
                    file.seek(0, os.SEEK_END)
                made = _write_chunks(output, file, ending, texts, embedder, batch_tokens, counts, progress, save)
            if ending == ".parquet":  # it has its table of contents at the end, so that nothing can be appended
                _convert_to_parquet(partial, output, made.width)
                partial.unlink()
            else:
                partial.replace(output)
    except InputError:  # the input has to change, and then the job is another one
        remove_file(mark)
        partial.unlink(missing_ok=True)
        raise
    remove_file(mark)
    return made


def _write_chunks(
    output: Path,
    file: IO[bytes],
    ending: str,
    texts: Iterable[str],
    embedder: Embedder,
    batch_tokens: int,
    counts: RowCounts,
    progress: Progress,
    save: Callable[[IO[bytes]], None] = lambda _: None,
) -> Vectors:
    """Chunk after chunk from where the counts stand; `save` is called when one is written."""
    resumed, width = counts.rows, embedder.width
    embedder.text_count, embedder.truncated_texts, embedder.truncated_tokens = (
        counts.rows,
        counts.truncated,
        counts.lost,
    )
    chunk = {
        ".npy": _encode_npy,
        ".jsonl": _encode_json_lines,
        ".jsonl.gz": _encode_gzipped_lines,
        ".parquet": _encode_arrow,
    }[ending]
    if ending == ".npy" and not resumed:
        _write_header(file, 0, width)
    waiting: deque[str] = deque()
    for vectors in embedder.stream(_buffer_texts(texts, waiting, resumed), batch_tokens, skip=resumed):
        file.write(chunk([waiting.popleft() for _ in range(len(vectors))], vectors))
        counts.rows += len(vectors)
        counts.truncated, counts.lost = embedder.truncated_texts, embedder.truncated_tokens
        save(file)
        progress("embedding", counts.rows, None)
    if ending == ".npy":
        file.seek(0)
        _write_header(file, counts.rows, width)
        file.seek(0, os.SEEK_END)
    return Vectors(output=output, texts=counts.rows, width=width, resumed=resumed)


def _buffer_texts(texts: Iterable[str], waiting: deque[str], skip: int) -> Iterator[str]:
    """The same texts, each of them but the first ones kept until its vector is written."""
    for place, text in enumerate(texts):
        if place >= skip:
            waiting.append(text)
        yield text


def _write_header(file: IO[bytes], count: int, width: int) -> None:
    """The header of an array; it leaves room for the number of rows to grow."""
    import numpy as np

    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (count, width)})


def _encode_npy(_: list[str], vectors: Array) -> bytes:
    import numpy as np

    return np.ascontiguousarray(vectors, "<f4").tobytes()


def _encode_json_lines(texts: list[str], vectors: Array) -> bytes:
    rows = (
        {"text": text, "vector": [float(f"{number:.8g}") for number in vector]}
        for text, vector in zip(texts, vectors, strict=True)
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _encode_gzipped_lines(texts: list[str], vectors: Array) -> bytes:
    """A gzip member of its own, without a time in it: members one after the other are a gzip file."""
    return gzip.compress(_encode_json_lines(texts, vectors), mtime=0)


def _write_whole_parquet(
    output: Path,
    texts: Iterable[str],
    embedder: Embedder,
    batch_tokens: int,
    progress: Progress,
) -> Vectors:
    """Texts that can be read only once."""
    with explain_write_errors(output), tempfile.TemporaryFile() as file:
        made = _write_chunks(output, file, ".parquet", texts, embedder, batch_tokens, RowCounts(), progress)
        file.seek(0)
        _convert_to_parquet(file, output, made.width)
    return made


def _encode_arrow(texts: list[str], vectors: Array) -> bytes:
    """A stream of Arrow of its own: streams one after the other are read one after the other."""
    import pyarrow as pa

    flat = pa.array(vectors.reshape(-1))
    columns = [pa.array(texts, pa.string()), pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])]
    batch = pa.record_batch(columns, schema=_build_schema(vectors.shape[1]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _build_schema(width: int) -> Any:
    import pyarrow as pa

    return pa.schema({"text": pa.string(), "vector": pa.list_(pa.float32(), width)})


def _convert_to_parquet(streams: Path | IO[bytes], output: Path, width: int) -> None:
    """Streams of Arrow as one Parquet file, a group of rows for each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with (
        atomic_file(output) as file,
        streams.open("rb") if isinstance(streams, Path) else nullcontext(streams) as source,
        pq.ParquetWriter(file, _build_schema(width)) as writer,
    ):
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        while source.tell() < size:
            writer.write_table(pa.ipc.open_stream(source).read_all())


def find_model_folder(reference: str) -> Path | None:
    """Where the files of a model that was loaded just now are; None where that cannot be told."""

    try:
        return locate(reference, offline=True).folder
    except ClearheadError:
        return None
