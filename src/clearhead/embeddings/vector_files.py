"""Write vectors of texts to files: chunk by chunk, resumable, and visible only when complete."""

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
    """Summary of a file of vectors."""

    output: Path
    texts: int
    width: int
    resumed: int  # texts embedded by an earlier, interrupted job

    def __repr__(self) -> str:
        return short_repr("Vectors", f"{self.texts:,} texts", f"{self.width} numbers each", self.output)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-compatible values."""
        return {"texts": self.texts, "width": self.width, "output": str(self.output), "resumed": self.resumed}


def get_file_ending(output: Path) -> str:
    """Return the supported ending of a file name."""
    ending = next((suffix for suffix in FILE_ENDINGS if output.name.endswith(suffix)), None)
    if ending is None:
        raise InputError(f"{output} must end in {', '.join(FILE_ENDINGS)}.")
    return ending


def hash_job(folder: Path, source: Path, options: dict[str, Any]) -> str:
    """Hash what must be unchanged to resume a job: model files, input and options."""
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
    """Write vectors of texts to a file; with a `key`, resume an interrupted job with the same key."""
    ending = get_file_ending(output)
    if key is None:
        if ending == ".parquet":
            return _write_whole_parquet(output, texts, embedder, batch_tokens, progress)
        with atomic_file(output) as file:
            return _write_chunks(output, file, ending, texts, embedder, batch_tokens, RowCounts(), progress)
    partial, mark_path = partial_paths(output)
    resume_point = read_resume_point(partial, mark_path, key)
    counts = RowCounts() if resume_point is None else resume_point.counts

    def save(file: IO[bytes]) -> None:
        file.flush()
        os.fsync(file.fileno())
        write_json(mark_path, asdict(ResumePoint(key=key, bytes=file.tell(), counts=counts).with_seal()))

    try:
        with explain_write_errors(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            if resume_point is None:
                remove_file(mark_path)  # delete the state of another job before its vectors are overwritten
            with partial.open("wb" if resume_point is None else "r+b") as file:
                if resume_point is not None:
                    file.truncate(resume_point.bytes)
                    file.seek(0, os.SEEK_END)
                vectors = _write_chunks(output, file, ending, texts, embedder, batch_tokens, counts, progress, save)
            if ending == ".parquet":  # converted at the end, since Parquet files cannot be appended to
                _convert_to_parquet(partial, output, vectors.width)
                partial.unlink()
            else:
                partial.replace(output)
    except InputError:  # the input must be fixed, which makes it another job
        remove_file(mark_path)
        partial.unlink(missing_ok=True)
        raise
    remove_file(mark_path)
    return vectors


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
    """Write chunks, starting after `counts.rows` texts; call `save` after each chunk."""
    resumed, width = counts.rows, embedder.width
    embedder.text_count, embedder.truncated_texts, embedder.truncated_tokens = (
        counts.rows,
        counts.truncated,
        counts.lost,
    )
    encode_chunk = {
        ".npy": _encode_npy,
        ".jsonl": _encode_json_lines,
        ".jsonl.gz": _encode_gzipped_lines,
        ".parquet": _encode_arrow,
    }[ending]
    if ending == ".npy" and not resumed:
        _write_header(file, 0, width)
    pending_texts: deque[str] = deque()
    for vectors in embedder.stream(_buffer_texts(texts, pending_texts, resumed), batch_tokens, skip=resumed):
        file.write(encode_chunk([pending_texts.popleft() for _ in range(len(vectors))], vectors))
        counts.rows += len(vectors)
        counts.truncated, counts.lost = embedder.truncated_texts, embedder.truncated_tokens
        save(file)
        progress("embedding", counts.rows, None)
    if ending == ".npy":
        file.seek(0)
        _write_header(file, counts.rows, width)
        file.seek(0, os.SEEK_END)
    return Vectors(output=output, texts=counts.rows, width=width, resumed=resumed)


def _buffer_texts(texts: Iterable[str], pending_texts: deque[str], skip: int) -> Iterator[str]:
    """Yield all texts, and buffer those after the first `skip` until their vectors are written."""
    for index, text in enumerate(texts):
        if index >= skip:
            pending_texts.append(text)
        yield text


def _write_header(file: IO[bytes], count: int, width: int) -> None:
    """Write the header of a .npy file; its size does not depend on the number of rows."""
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
    """Encode rows as a gzip member without a timestamp; concatenated members are a valid gzip file."""
    return gzip.compress(_encode_json_lines(texts, vectors), mtime=0)


def _write_whole_parquet(
    output: Path,
    texts: Iterable[str],
    embedder: Embedder,
    batch_tokens: int,
    progress: Progress,
) -> Vectors:
    """Write texts that cannot be read again, through a temporary file."""
    with explain_write_errors(output), tempfile.TemporaryFile() as file:
        vectors = _write_chunks(output, file, ".parquet", texts, embedder, batch_tokens, RowCounts(), progress)
        file.seek(0)
        _convert_to_parquet(file, output, vectors.width)
    return vectors


def _encode_arrow(texts: list[str], vectors: Array) -> bytes:
    """Encode rows as an Arrow stream; concatenated streams can be read in sequence."""
    import pyarrow as pa

    values = pa.array(vectors.reshape(-1))
    columns = [pa.array(texts, pa.string()), pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])]
    batch = pa.record_batch(columns, schema=_build_schema(vectors.shape[1]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _build_schema(width: int) -> Any:
    import pyarrow as pa

    return pa.schema({"text": pa.string(), "vector": pa.list_(pa.float32(), width)})


def _convert_to_parquet(arrow_streams: Path | IO[bytes], output: Path, width: int) -> None:
    """Convert Arrow streams to a Parquet file with one row group per stream."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with (
        atomic_file(output) as file,
        arrow_streams.open("rb") if isinstance(arrow_streams, Path) else nullcontext(arrow_streams) as source,
        pq.ParquetWriter(file, _build_schema(width)) as writer,
    ):
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        while source.tell() < size:
            writer.write_table(pa.ipc.open_stream(source).read_all())


def find_model_folder(reference: str) -> Path | None:
    """Return the local folder of a model, without a download; None if there is none."""

    try:
        return locate(reference, offline=True).folder
    except ClearheadError:
        return None
