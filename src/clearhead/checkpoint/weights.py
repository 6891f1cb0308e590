"""Safetensors files, mapped: every size is checked from the header before memory is taken, and nothing is copied."""

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
MAX_WEIGHT = 1e15  # of a weight: products of larger ones overflow, and some runtimes make zeros of them without a word
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
    """One tensor as it lies in a file."""

    file: Path
    dtype: str
    size: tuple[int, ...]
    start: int  # from the beginning of the file
    stop: int


def resolve_inside(folder: Path, name: str) -> Path:
    """A file of a model folder, refused when its name or its link leaves the folder."""
    plain = Path(name)
    if plain.is_absolute() or ".." in plain.parts or "\\" in name or "\0" in name or name.strip() in ("", "."):
        raise UnsafeError(f"The file name {name[:80]!r} leaves the model folder, so it is not opened.")
    path = folder / plain
    try:
        home = folder.resolve()
        target = path.resolve(strict=path.is_symlink())
    except (OSError, RuntimeError, ValueError):  # nowhere, in a circle, or no name that a file can have
        raise UnsafeError(f"{to_printable(name)} is a link or a name that leads nowhere.") from None
    if not (target.is_relative_to(home) or any(target.is_relative_to(blobs) for blobs in _find_blob_folders(home))):
        raise UnsafeError(f"{to_printable(name)} is a link that leaves the model folder, so it is not opened.")
    return path


def has_entry(folder: Path, name: str) -> bool:
    """Whether a folder has something of that name; a link that leads nowhere is something too."""
    try:
        (folder / name).lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror or error}.") from error
    return True


def _find_blob_folders(home: Path) -> list[Path]:
    """The Hugging Face cache keeps a snapshot's files, and its modules', as links to blobs/ beside snapshots/."""
    return [place.parent / "blobs" for place in home.parents if place.name == "snapshots"][:1]


def list_tensors(folder: Path, model: Path | None = None) -> dict[str, StoredTensor]:
    """Every tensor of a folder, from one file or from the shards that the index names; `model` is the whole model's."""
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
    raise CheckpointError(f"{folder} holds no {WEIGHTS_FILE} and no {INDEX_FILE}{hint}.")


def _list_sharded_tensors(folder: Path) -> dict[str, StoredTensor]:
    index = read_json(resolve_inside(folder, INDEX_FILE), unique_keys=True, max_bytes=MAX_HEADER_BYTES)
    where = index.get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(shard, str) for shard in where.values()):
        raise CheckpointError(f"{INDEX_FILE} has no weight_map from tensor names to files.")
    found: dict[str, StoredTensor] = {}
    for shard in sorted(set(where.values())):
        if "/" in shard or not shard.endswith(".safetensors"):
            raise UnsafeError(f"{INDEX_FILE} names {shard[:80]!r}, which is not a safetensors file of this folder.")
        path = resolve_inside(folder, shard)
        if not path.is_file():
            raise CheckpointError(f"{INDEX_FILE} names {to_printable(shard)}, which is not in the folder.")
        tensors = read_header(path)
        if twice := sorted(found.keys() & tensors.keys()):
            raise TensorError(
                f"{to_printable(twice[0])} stands in {found[twice[0]].file.name} and again in {to_printable(shard)}."
            )
        found |= tensors
    wrong = sorted(name for name, shard in where.items() if name not in found or found[name].file.name != shard)
    if wrong or len(found) != len(where):
        extra = wrong or sorted(found.keys() - where.keys())
        raise TensorError(
            f"{INDEX_FILE} and the shards disagree about {len(extra)} tensors, first {to_printable(extra[0])}."
        )
    return found


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Names, types, sizes and places of a file's tensors; a file that could mislead is refused whole."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeError(f"{path.name} is not a regular file, so it is not opened.")
        with path.open("rb") as file:
            begin = file.read(8)
            if begin == b"version " and status.st_size < 1024:
                raise CheckpointError(f"{path.name} is a Git LFS pointer, not the weights: run `git lfs pull` first.")
            length = int.from_bytes(begin, "little")
            if status.st_size < 8 or length > min(MAX_HEADER_BYTES, status.st_size - 8):
                raise UnsafeError(f"{path.name} promises a header of {length:,} bytes in {status.st_size:,}.")
            text = file.read(length)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_reject_duplicate_names)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name} has a broken header: {str(error)[:120]}.") from None
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise CheckpointError(f"{path.name} has a header that is not a list of tensors.")
    header.pop("__metadata__", None)
    tensors = {name: _parse_entry(path, name, entry, 8 + length, status.st_size) for name, entry in header.items()}
    _check_overlap(path, tensors)
    return tensors


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice")
    return made


def _parse_entry(path: Path, name: str, entry: Any, base: int, end: int) -> StoredTensor:
    def whole(values: Any, length: int | None = None) -> bool:
        return (
            isinstance(values, list)
            and len(values) <= 16
            and (length is None or len(values) == length)
            and all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 60 for v in values)
        )

    if not isinstance(entry, dict) or not whole(entry.get("shape")) or not whole(entry.get("data_offsets"), 2):
        raise CheckpointError(f"{path.name} has a broken entry for {to_printable(name)}.")
    dtype, size = entry.get("dtype"), tuple(entry["shape"])
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise CheckpointError(f"{path.name} stores {to_printable(name)} as {str(dtype)[:20]!r}, no known number type.")
    start, stop = entry["data_offsets"]
    if stop - start != math.prod(size) * DTYPE_BYTES[dtype] or base + stop > end or start > stop:
        sides = to_printable(size)
        raise UnsafeError(
            f"{path.name} promises {to_printable(name)} of size {sides} where the file has no room for it."
        )
    return StoredTensor(path, dtype, size, base + start, base + stop)


def _check_overlap(path: Path, tensors: Mapping[str, StoredTensor]) -> None:
    spans = sorted((t.start, t.stop, name) for name, t in tensors.items())
    for (_, stop, first), (start, _, second) in pairwise(spans):
        if start < stop:
            raise UnsafeError(f"{path.name} stores {to_printable(first)} and {to_printable(second)} in the same bytes.")


FloatConverter = Callable[["np.ndarray[Any, Any]", str], "np.ndarray[Any, Any]"]


def to_float32(raw: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Bytes of another floating-point type as float32."""
    import numpy as np

    if dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large becomes infinity, which is refused
        return raw.view(np.float64 if dtype == "F64" else np.float16).astype(np.float32)


class MappedTensors:
    """Arrays over mapped files: pages come in when they are touched, and writing never reaches the file."""

    def __init__(
        self, tensors: Mapping[str, StoredTensor], to_float: FloatConverter | None = None, *, writable: bool = True
    ) -> None:
        self.tensors = tensors
        self.to_float = to_float or to_float32
        self.access = mmap.ACCESS_COPY if writable else mmap.ACCESS_READ
        self._maps: dict[Path, mmap.mmap] = {}
        self._lock = Lock()  # several threads may ask for the first tensor of a file

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """One tensor, as float32 without a copy where the file holds float32."""
        import numpy as np

        stored = self.tensors[name]
        if stored.dtype not in FLOAT_DTYPES:
            raise TensorError(f"{name} is stored as {stored.dtype}; weights must be floating-point numbers.")
        if stored.start == stored.stop:
            return np.zeros(stored.size, np.float32)
        raw = np.frombuffer(self._map(stored.file), np.uint8, stored.stop - stored.start, stored.start)
        if stored.start % DTYPE_BYTES[stored.dtype]:
            raw = raw.copy()
        if stored.dtype == "F32":
            return raw.view(np.float32).reshape(stored.size)
        return self._release(stored, self.to_float(raw, stored.dtype).reshape(stored.size))

    def _release(self, stored: StoredTensor, converted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # a converted tensor no longer needs its pages: give them back, so that memory stays at one copy
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
    """Free the pages of arrays that lie in files and cannot be written; a page comes again when it is touched."""
    if not hasattr(mmap, "MADV_DONTNEED"):
        return
    owners = {id(owner): owner for array in arrays if (owner := _find_map(array)) is not None}
    for owner in owners.values():
        owner.madvise(mmap.MADV_DONTNEED)


def _find_map(array: np.ndarray[Any, Any]) -> mmap.mmap | None:
    """The map of a file that an array looks at, if it does and may not write there."""
    place: Any = array
    while place is not None and not isinstance(place, mmap.mmap):
        place = place.obj if isinstance(place, memoryview) else getattr(place, "base", None)
    return None if array.flags.writeable else place


def is_finite(array: np.ndarray[Any, Any]) -> bool:
    """Whether every number is finite; one pass at the speed of memory in the usual case."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        total = float(array.sum())
    return math.isfinite(total) or bool(np.isfinite(array).all())


def check_values(array: np.ndarray[Any, Any], name: str) -> None:
    """Refuse weights with which no network can compute."""
    if array.size and not (array.min() >= -MAX_WEIGHT and array.max() <= MAX_WEIGHT):  # NaN is neither
        raise TensorError(f"{name} holds NaN or infinity, or numbers above {MAX_WEIGHT:g}; the weights are broken.")


def write_tensors(folder: Path, tensors: Iterable[tuple[str, np.ndarray[Any, Any]]], shard_bytes: int) -> None:
    """One file, or numbered shards with an index when it would be larger than `shard_bytes`."""
    groups: list[dict[str, np.ndarray[Any, Any]]] = [{}]
    filled = 0
    for name, array in tensors:
        if groups[-1] and filled + array.nbytes > shard_bytes:
            groups.append({})
            filled = 0
        groups[-1][name] = array
        filled += array.nbytes
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
    """The format by hand, tensor by tensor, so that no second copy of the weights is ever in memory."""
    import numpy as np

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [place, place + array.size * 4]}
        place += array.size * 4
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array, np.float32).data)


def _remove_stale_weights(folder: Path, keep: set[str]) -> None:
    """Weights of an earlier save that the new ones replace."""
    for path in folder.glob("model*.safetensors*"):
        if path.name not in keep and not path.is_symlink():
            path.unlink()
