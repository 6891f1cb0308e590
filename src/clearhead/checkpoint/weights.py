"""Read and write safetensors files; headers are validated before memory is allocated, and tensors are mapped."""

from __future__ import annotations

import json
import math
import mmap
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from clearhead.caller import command
from clearhead.errors import CheckpointError, TensorError, UnsafeError
from clearhead.files import atomic_file, read_json, to_printable, write_json

if TYPE_CHECKING:
    import numpy as np

MAX_HEADER_BYTES = 16 << 20  # a thousand layers take about 2 MB
MAX_TENSORS = 1 << 20
MAX_WEIGHT = 1e15  # products of larger weights overflow, which some runtimes silently turn into zeros
WEIGHTS_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"
PICKLE_FILES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin", "training_args.bin")

DTYPE_BYTES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
}
FLOAT_DTYPES = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class StoredTensor:
    """The location of a tensor in a file."""

    file: Path
    dtype: str
    size: tuple[int, ...]
    start: int  # from the beginning of the file
    stop: int


def resolve_inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a model folder; refuse a name or a link that leaves the folder."""
    relative = Path(name)
    if relative.is_absolute() or ".." in relative.parts or "\\" in name or "\0" in name or name.strip() in ("", "."):
        raise UnsafeError(f"The file name {name[:80]!r} leaves the model folder; the file is not opened.")
    path = folder / relative
    try:
        real_folder = folder.resolve()
        target = path.resolve(strict=path.is_symlink())
    except (OSError, RuntimeError, ValueError):  # a dangling or circular link, or an invalid name
        raise UnsafeError(f"{to_printable(name)} is a broken link or an invalid file name.") from None
    if not any(target.is_relative_to(root) for root in (real_folder, *_find_blob_folders(real_folder))):
        raise UnsafeError(f"{to_printable(name)} is a link that leaves the model folder; it is not opened.")
    return path


def has_entry(folder: Path, name: str) -> bool:
    """Whether a folder has an entry with this name; a broken link counts."""
    try:
        (folder / name).lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror or error}.") from error
    return True


def _find_blob_folders(real_folder: Path) -> list[Path]:
    """Return the blobs/ folder of the Hugging Face cache, which the links in snapshots/ point to."""
    return [parent.parent / "blobs" for parent in real_folder.parents if parent.name == "snapshots"][:1]


def list_tensors(folder: Path, model: Path | None = None) -> dict[str, StoredTensor]:
    """List the tensors of a folder with one file or shards; `model` is the model folder if `folder` is a module."""
    if has_entry(folder, WEIGHTS_FILE):
        return read_header(resolve_inside(folder, WEIGHTS_FILE))
    if has_entry(folder, INDEX_FILE):
        return _list_sharded_tensors(folder)
    pickles = [name for name in PICKLE_FILES if (folder / name).exists()]
    if pickles:
        raise UnsafeError(
            f"{pickles[0]} is a pickle, which can run code when it is read. If you trust it, convert it once: "
            f"{command('convert', model or folder, 'NEW-FOLDER', allow_pickle=True)}."
        )
    others = sorted(to_printable(path.name) for path in folder.glob("*.safetensors"))
    hint = f" (found {', '.join(others[:3])})" if others else ""
    raise CheckpointError(f"{folder} has neither {WEIGHTS_FILE} nor {INDEX_FILE}{hint}.")


def _list_sharded_tensors(folder: Path) -> dict[str, StoredTensor]:
    index = read_json(resolve_inside(folder, INDEX_FILE), unique_keys=True, max_bytes=MAX_HEADER_BYTES)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise CheckpointError(f"{INDEX_FILE} has no weight_map of tensor names to files.")
    tensors: dict[str, StoredTensor] = {}
    for shard in sorted(set(weight_map.values())):
        if "/" in shard or not shard.endswith(".safetensors"):
            raise UnsafeError(f"{INDEX_FILE} lists {shard[:80]!r}, which is not a safetensors file in this folder.")
        path = resolve_inside(folder, shard)
        if not path.is_file():
            raise CheckpointError(f"{INDEX_FILE} lists {to_printable(shard)}, which does not exist.")
        shard_tensors = read_header(path)
        if duplicates := sorted(tensors.keys() & shard_tensors.keys()):
            first_shard = tensors[duplicates[0]].file.name
            raise TensorError(f"{to_printable(duplicates[0])} is in {first_shard} and again in {to_printable(shard)}.")
        tensors |= shard_tensors
    shards = {name: tensor.file.name for name, tensor in tensors.items()}
    misplaced = sorted(name for name, shard in weight_map.items() if shards.get(name) != shard)
    if misplaced or len(tensors) != len(weight_map):
        disagreements = misplaced or sorted(tensors.keys() - weight_map.keys())
        raise TensorError(
            f"{INDEX_FILE} and the shards disagree on {len(disagreements)} tensors, "
            f"first {to_printable(disagreements[0])}."
        )
    return tensors


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Read the header of a file: name, type, size and location of each tensor; refuse inconsistent headers."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeError(f"{path.name} is not a regular file, so it is not opened.")
        with path.open("rb") as file:
            prefix, file_size = file.read(8), status.st_size
            if prefix == b"version " and file_size < 1024:
                raise CheckpointError(f"{path.name} is a Git LFS pointer, not the weights: run `git lfs pull` first.")
            length = int.from_bytes(prefix, "little")
            if file_size < 8 or length > min(MAX_HEADER_BYTES, file_size - 8):
                raise UnsafeError(f"{path.name} declares a header of {length:,} bytes in a file of {file_size:,}.")
            text = file.read(length)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_reject_duplicate_names)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name} has a broken header: {str(error)[:120]}.") from None
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise CheckpointError(f"{path.name} has a header that is not an object of at most {MAX_TENSORS:,} tensors.")
    header.pop("__metadata__", None)
    tensors = {name: _parse_entry(path, name, entry, 8 + length, file_size) for name, entry in header.items()}
    _check_overlap(path, tensors)
    return tensors


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("duplicate name")
    return entries


def _parse_entry(path: Path, name: str, entry: Any, data_start: int, file_size: int) -> StoredTensor:
    def is_int_list(values: Any, length: int | None = None) -> bool:
        return (
            isinstance(values, list)
            and len(values) <= 16
            and (length is None or len(values) == length)
            and all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 60 for v in values)
        )

    if not (isinstance(entry, dict) and is_int_list(entry.get("shape")) and is_int_list(entry.get("data_offsets"), 2)):
        raise CheckpointError(f"{path.name} has an invalid entry for {to_printable(name)}.")
    dtype, size = entry.get("dtype"), tuple(entry["shape"])
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise CheckpointError(f"{path.name} stores {to_printable(name)} as {str(dtype)[:20]!r}, an unknown type.")
    start, stop = entry["data_offsets"]
    if stop - start != math.prod(size) * DTYPE_BYTES[dtype] or data_start + stop > file_size or start > stop:
        raise UnsafeError(
            f"{path.name} declares the size {to_printable(size)} for {to_printable(name)}, which does not match "
            "its data_offsets or the length of the file."
        )
    return StoredTensor(path, dtype, size, data_start + start, data_start + stop)


def _check_overlap(path: Path, tensors: Mapping[str, StoredTensor]) -> None:
    spans = sorted((t.start, t.stop, name) for name, t in tensors.items())
    for (_, stop, first), (start, _, second) in pairwise(spans):
        if start < stop:
            raise UnsafeError(f"{path.name} stores {to_printable(first)} and {to_printable(second)} in the same bytes.")


FloatConverter = Callable[["np.ndarray[Any, Any]", str], "np.ndarray[Any, Any]"]


def to_float32(raw: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Convert the bytes of another floating-point type to float32."""
    import numpy as np

    if dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # overflow becomes infinity, which is refused later
        return raw.view(np.float64 if dtype == "F64" else np.float16).astype(np.float32)


class MappedTensors:
    """Arrays over memory-mapped files: pages are loaded on first access, and writes never reach the file."""

    def __init__(
        self, tensors: Mapping[str, StoredTensor], to_float: FloatConverter | None = None, *, writable: bool = True
    ) -> None:
        self.tensors = tensors
        self.to_float = to_float or to_float32
        self.access = mmap.ACCESS_COPY if writable else mmap.ACCESS_READ
        self._maps: dict[Path, mmap.mmap] = {}
        self._lock = Lock()  # several threads may open the same file

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """Return a tensor as float32; float32 files are not copied."""
        import numpy as np

        stored = self.tensors[name]
        if stored.dtype not in FLOAT_DTYPES:
            raise TensorError(f"{name} is stored as {stored.dtype}; weights must have a floating-point type.")
        if stored.start == stored.stop:
            return np.zeros(stored.size, np.float32)
        raw = np.frombuffer(self._map(stored.file), np.uint8, stored.stop - stored.start, stored.start)
        if stored.start % DTYPE_BYTES[stored.dtype]:
            raw = raw.copy()
        if stored.dtype == "F32":
            return raw.view(np.float32).reshape(stored.size)
        return self._release(stored, self.to_float(raw, stored.dtype).reshape(stored.size))

    def _release(self, stored: StoredTensor, converted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # a converted tensor no longer needs its pages: release them, so that only one copy is in memory
        page = mmap.PAGESIZE
        start, stop = -(-stored.start // page) * page, stored.stop // page * page
        if stop > start and hasattr(mmap, "MADV_DONTNEED"):
            self._map(stored.file).madvise(mmap.MADV_DONTNEED, start, stop - start)
        return converted

    def _map(self, path: Path) -> mmap.mmap:
        with self._lock:
            if path not in self._maps:
                try:
                    with path.open("rb") as file:
                        self._maps[path] = mmap.mmap(file.fileno(), 0, access=self.access)
                except (OSError, ValueError) as error:
                    raise CheckpointError(f"{path.name} cannot be mapped into memory: {error}.") from error
            return self._maps[path]


def release_pages(arrays: Iterable[np.ndarray[Any, Any]]) -> None:
    """Release the pages of read-only mapped arrays; they are loaded again on the next access."""
    if not hasattr(mmap, "MADV_DONTNEED"):
        return
    maps = {id(mapped_file): mapped_file for array in arrays if (mapped_file := _find_map(array)) is not None}
    for mapped_file in maps.values():
        mapped_file.madvise(mmap.MADV_DONTNEED)


def _find_map(array: np.ndarray[Any, Any]) -> mmap.mmap | None:
    """Return the memory map of a read-only array, or None."""
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return None if array.flags.writeable else base


def is_finite(array: np.ndarray[Any, Any]) -> bool:
    """Whether all values are finite; usually takes a single pass."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        total = float(array.sum())
    return math.isfinite(total) or bool(np.isfinite(array).all())


def check_values(array: np.ndarray[Any, Any], name: str) -> None:
    """Refuse weights that are NaN, infinite or too large."""
    if array.size and not (array.min() >= -MAX_WEIGHT and array.max() <= MAX_WEIGHT):  # false for NaN
        raise TensorError(f"{name} contains NaN, infinity or values above {MAX_WEIGHT:g}; the weights are corrupt.")


def write_tensors(folder: Path, tensors: Iterable[tuple[str, np.ndarray[Any, Any]]], shard_bytes: int) -> None:
    """Write one file, or numbered shards with an index if it would be larger than `shard_bytes`."""
    groups: list[dict[str, np.ndarray[Any, Any]]] = [{}]
    group_bytes = 0
    for name, array in tensors:
        if groups[-1] and group_bytes + array.nbytes > shard_bytes:
            groups.append({})
            group_bytes = 0
        groups[-1][name] = array
        group_bytes += array.nbytes
    if len(groups) == 1:
        write_safetensors(folder / WEIGHTS_FILE, groups[0])
        _remove_stale_weights(folder, keep={WEIGHTS_FILE})
        return
    names = [f"model-{number:05d}-of-{len(groups):05d}.safetensors" for number in range(1, len(groups) + 1)]
    for name, group in zip(names, groups, strict=True):
        write_safetensors(folder / name, group)
    total = sum(array.nbytes for group in groups for array in group.values())
    weight_map = {tensor: name for name, group in zip(names, groups, strict=True) for tensor in group}
    write_json(folder / INDEX_FILE, {"metadata": {"total_size": total}, "weight_map": weight_map})
    _remove_stale_weights(folder, keep={INDEX_FILE, *names})


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write a safetensors file tensor by tensor, without a second copy of the weights in memory."""
    import numpy as np

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.size * 4]}
        offset += array.size * 4
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array, np.float32).data)


def _remove_stale_weights(folder: Path, keep: set[str]) -> None:
    """Delete the weight files of an earlier save."""
    for path in folder.glob("model*.safetensors*"):
        if path.name not in keep and not path.is_symlink():
            path.unlink()
