"""Parse model references and select the files of a repository, without network access."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from clearhead.caller import command
from clearhead.errors import CheckpointError, HubError, ModelNotFoundError, UnsafeError

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"

ALIASES: Mapping[str, str] = MappingProxyType(
    {"default": DEFAULT_MODEL, "minilm": DEFAULT_MODEL, "all-MiniLM-L6-v2": DEFAULT_MODEL}
)

# models that come with the package and load without a network
SHIPPED: Mapping[str, Path] = MappingProxyType({"novels": Path(__file__).parents[1] / "shipped" / "novels"})

# the hub's rules for names: at most 96 ASCII characters, no '..' and no '--' (the separator of the cache)
_HUB_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"(?:{_HUB_NAME}/)?{_HUB_NAME}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+-]*)*")
_COMMIT = re.compile(r"[0-9a-f]{40}")

# all files of a model except its weights, in the root and in the module folders of sentence-transformers
_MODEL_FILES = frozenset(
    (
        *("config.json", "generation_config.json", "clearhead.json"),
        *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
        *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
        *("vocab.txt", "vocab.json", "merges.txt", "target_vocab.json"),
        *("spiece.model", "sentencepiece.bpe.model", "spm.model", "source.spm", "target.spm"),
    )
)
_MODULE_FOLDER = re.compile(r"[0-9]{1,2}_[A-Za-z0-9_]{1,60}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")
_MAX_SHARDS = 1_000
_MAX_INDEX_BYTES = 64 * 2**20

SAFETENSORS_FILE = "model.safetensors"
PICKLE_FILE = "pytorch_model.bin"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A parsed model reference: an existing folder, or a hub id with an optional revision."""

    text: str  # as given by the caller
    folder: Path | None = None
    repo: str | None = None
    revision: str | None = None  # None: the main branch, or the pinned weights of the default model

    @property
    def is_default(self) -> bool:
        """Whether this is the default model, whose weights are pinned by their hash."""
        return self.repo == DEFAULT_MODEL and self.revision is None


def parse_reference(reference: str | os.PathLike[str]) -> Reference:
    """Parse a model reference; a reference that names no model is an error."""
    text = os.fsdecode(reference)
    quoted = repr(text if len(text) <= 100 else text[:97] + "...")
    if not text.strip():
        raise ModelNotFoundError(
            "The model reference is empty. Pass a folder, a hub id such as 'org/name', or 'default'."
        )
    kind = _classify_path(text)
    if kind == "folder":
        return Reference(text=text, folder=Path(text).expanduser())
    if kind == "file":
        raise ModelNotFoundError(f"{quoted} is a file, but a model is a folder. Pass the folder that contains it.")
    if text in SHIPPED:
        return Reference(text=text, folder=SHIPPED[text])
    name, separator, revision = text.partition("@")
    if not isinstance(reference, str) or _looks_like_path(name):
        raise ModelNotFoundError(
            f"Folder {quoted} does not exist, and a path is never looked up on the hub. "
            "Check the path, or pass a hub id such as 'org/name'."
        )
    repo = ALIASES.get(name, name)
    if not is_hub_id(repo):
        raise ModelNotFoundError(
            f"{quoted} is not a model: it is neither a folder, nor one of {', '.join((*ALIASES, *SHIPPED))}, nor "
            "a hub id, which is 'org/name' with letters, digits, '-', '_' and '.'."
        )
    if separator and (not _REVISION.fullmatch(revision) or ".." in revision or len(revision) > 200):
        raise ModelNotFoundError(f"{quoted} has an invalid revision; expected a branch, a tag or a commit after '@'.")
    return Reference(text=text, repo=repo, revision=revision if separator else None)


def is_hub_id(repo: str) -> bool:
    """Whether a name follows the hub's rules for repositories."""
    return _HUB_ID.fullmatch(repo) is not None and not (".." in repo or "--" in repo or repo.endswith(".git"))


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a full commit hash, which never moves."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def select_files(names: Collection[str], reference: str, *, pickle: bool) -> list[str]:
    """Select the files of a repository that a model needs, the weights in the root last.

    Only known names are selected, so no name can leave the folder. Selecting a shard index implies its shards.
    """
    if "config.json" not in names:
        raise HubError(f"'{reference}' is not a Transformer model (config.json not found).")
    selected = sorted(
        name for name in names if name in _MODEL_FILES or (name.endswith(".spm") and _PLAIN_NAME.fullmatch(name))
    )
    # without modules.json, a folder such as 1_epoch is not part of the model
    folders = {name.partition("/")[0] for name in names if "/" in name} if "modules.json" in names else set()
    for folder in sorted(filter(_MODULE_FOLDER.fullmatch, folders)):
        selected += sorted(f"{folder}/{name}" for name in _MODEL_FILES if f"{folder}/{name}" in names)
        selected += _select_weights(names, f"{folder}/", reference, pickle=pickle)
    weights = _select_weights(names, "", reference, pickle=pickle)
    if not weights:
        raise HubError(f"'{reference}' has no {SAFETENSORS_FILE}; its weights are missing or in an unsupported format.")
    return selected + weights


def _select_weights(names: Collection[str], folder: str, reference: str, *, pickle: bool) -> list[str]:
    # even when pickles are allowed, safetensors files take precedence
    for name in (SAFETENSORS_FILE, f"{SAFETENSORS_FILE}.index.json", PICKLE_FILE, f"{PICKLE_FILE}.index.json"):
        if folder + name not in names:
            continue
        if name.startswith(PICKLE_FILE) and not pickle:
            raise UnsafeError(
                f"'{reference}' only has pickled weights ({folder}{name}), which can run code when they are read. "
                f"Convert them once with {command('convert', reference, 'NEW-FOLDER', allow_pickle=True)}, or use a "
                f"model with {SAFETENSORS_FILE}."
            )
        return [folder + name]
    return []


def read_shard_names(index: Path) -> list[str]:
    """Read the names of the shards from an index file; refuse paths and other file types."""
    suffix = index.name.removesuffix(".index.json").rpartition(".")[2]
    try:
        if index.stat().st_size > _MAX_INDEX_BYTES:
            raise UnsafeError(f"{index} is larger than {_MAX_INDEX_BYTES:,} bytes, too large for an index of weights.")
        weight_map = json.loads(index.read_bytes())["weight_map"]
        shards = sorted(set(weight_map.values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{index} is not an index of weights; expected JSON with a 'weight_map' object."
        ) from error
    invalid = [name for name in shards if not (isinstance(name, str) and _PLAIN_NAME.fullmatch(name))]
    invalid += [name for name in shards if name not in invalid and not name.endswith("." + suffix)]
    if invalid:
        raise UnsafeError(
            f"{index} lists the shard {str(invalid[0])[:100]!r}, expected a .{suffix} file in the same folder."
        )
    if not 0 < len(shards) <= _MAX_SHARDS:
        raise CheckpointError(f"{index} lists {len(shards)} shards, expected 1 to {_MAX_SHARDS}.")
    return shards


def find_missing_files(folder: Path, *, pickle: bool) -> list[str]:
    """List the files that a model folder needs but does not have: config.json and the weights."""

    def exists(name: str) -> bool:
        return (folder / name).is_file()

    missing = [] if exists("config.json") else ["config.json"]
    for weights_file in (SAFETENSORS_FILE, PICKLE_FILE) if pickle else (SAFETENSORS_FILE,):
        if exists(weights_file):
            return missing
        if exists(f"{weights_file}.index.json"):
            return missing + [
                name for name in read_shard_names(folder / f"{weights_file}.index.json") if not exists(name)
            ]
    return [*missing, SAFETENSORS_FILE]


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or name.endswith("/")


def _classify_path(text: str) -> str | None:
    try:
        path = Path(text).expanduser()
        return "folder" if path.is_dir() else "file" if path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, not permitted, contains NUL, or ~ of an unknown user
        return None
