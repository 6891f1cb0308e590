"""What a model reference means, and which files it stands for; decided without touching the network."""

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

# folders that come with the package, so that there is something to load without a network
SHIPPED: Mapping[str, Path] = MappingProxyType({"novels": Path(__file__).parents[1] / "shipped" / "novels"})

# The hub's own rules for names: ASCII words of at most 96 characters, no '..' and no '--' (the cache's separator).
_HUB_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"(?:{_HUB_NAME}/)?{_HUB_NAME}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+-]*)*")
_COMMIT = re.compile(r"[0-9a-f]{40}")

# Everything a model needs besides its weights, in the root and in the module folders of sentence-transformers.
_KNOWN_FILES = frozenset(
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
    """A model reference, read: either a folder that exists or a hub id with the revision asked for."""

    text: str  # as it came
    folder: Path | None = None
    repo: str | None = None
    revision: str | None = None  # None: the main branch, or the pinned weights of the default model

    @property
    def is_default(self) -> bool:
        """Tell whether this is the default model, whose weights are pinned by their hash."""
        return self.repo == DEFAULT_MODEL and self.revision is None


def parse_reference(reference: str | os.PathLike[str]) -> Reference:
    """Decide what a reference names, or say in one sentence why it names nothing."""
    text = os.fsdecode(reference)
    shown = repr(text if len(text) <= 100 else text[:97] + "...")
    if not text.strip():
        raise ModelNotFoundError(
            "an empty model reference names nothing: give a folder, a hub id 'org/name' or 'default'"
        )
    kind = _path_kind(text)
    if kind == "folder":
        return Reference(text=text, folder=Path(text).expanduser())
    if kind == "file":
        raise ModelNotFoundError(f"{shown} is a file, and a model is a folder: give the folder that holds it")
    if text in SHIPPED:
        return Reference(text=text, folder=SHIPPED[text])
    name, at, revision = text.partition("@")
    if not isinstance(reference, str) or _looks_like_path(name):
        raise ModelNotFoundError(
            f"there is no folder {shown}, and it is read as a path, so the hub was not asked: "
            "check the path, or give a hub id such as 'org/name'"
        )
    repo = ALIASES.get(name, name)
    if not is_hub_id(repo):
        raise ModelNotFoundError(
            f"{shown} names no model: there is no such folder, it is none of {', '.join((*ALIASES, *SHIPPED))}, and it "
            "cannot be a hub id, which is 'org/name' in letters, digits, '-', '_' and '.'"
        )
    if at and (not _REVISION.fullmatch(revision) or ".." in revision or len(revision) > 200):
        raise ModelNotFoundError(
            f"{shown} asks for a revision that cannot be one: after '@' comes a branch, a tag or a commit"
        )
    return Reference(text=text, repo=repo, revision=revision if at else None)


def is_hub_id(repo: str) -> bool:
    """Tell whether a name follows the hub's rules for repositories."""
    return _HUB_ID.fullmatch(repo) is not None and not (".." in repo or "--" in repo or repo.endswith(".git"))


def is_commit(revision: str | None) -> bool:
    """Tell whether a revision is a full commit hash, which never moves."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def select_files(names: Collection[str], reference: str, *, pickle: bool) -> list[str]:
    """Choose the files of a repository that a model needs: by a list of known names, the root's weights last.

    Names that leave the folder are never chosen, because only known names are. A shard index stands for its shards.
    """
    if "config.json" not in names:
        raise HubError(f"'{reference}' has no config.json, so it is no Transformer model that can be loaded")
    chosen = sorted(
        name for name in names if name in _KNOWN_FILES or (name.endswith(".spm") and _PLAIN_NAME.fullmatch(name))
    )
    # Without modules.json a folder such as 1_epoch is somebody's experiment, not a part of the model.
    folders = {name.partition("/")[0] for name in names if "/" in name} if "modules.json" in names else set()
    for folder in sorted(filter(_MODULE_FOLDER.fullmatch, folders)):
        chosen += sorted(f"{folder}/{name}" for name in _KNOWN_FILES if f"{folder}/{name}" in names)
        chosen += _select_weights(names, f"{folder}/", reference, pickle=pickle)
    weights = _select_weights(names, "", reference, pickle=pickle)
    if not weights:
        raise HubError(f"'{reference}' has no {SAFETENSORS_FILE}: it holds no weights in a format that is read here")
    return chosen + weights


def _select_weights(names: Collection[str], folder: str, reference: str, *, pickle: bool) -> list[str]:
    # Pickles are taken only where there is nothing safe, even when they are allowed.
    for name in (SAFETENSORS_FILE, f"{SAFETENSORS_FILE}.index.json", PICKLE_FILE, f"{PICKLE_FILE}.index.json"):
        if folder + name not in names:
            continue
        if name.startswith(PICKLE_FILE) and not pickle:
            raise UnsafeError(
                f"'{reference}' has only pickled weights ({folder}{name}), which can run code when they are read: "
                f"convert them once with {command('convert', reference, 'NEW-FOLDER', allow_pickle=True)}, or choose a "
                f"model with {SAFETENSORS_FILE}"
            )
        return [folder + name]
    return []


def read_shard_names(index: Path) -> list[str]:
    """Read the names of the shards from an index file, refusing any that is not a plain name beside it."""
    suffix = index.name.removesuffix(".index.json").rpartition(".")[2]
    try:
        if index.stat().st_size > _MAX_INDEX_BYTES:
            raise UnsafeError(f"{index.name} is larger than any index of weights should be: {index}")
        weights = json.loads(index.read_bytes())["weight_map"]
        shards = sorted(set(weights.values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{index} is no index of weights: expected JSON with a 'weight_map' object") from error
    wrong = [name for name in shards if not (isinstance(name, str) and _PLAIN_NAME.fullmatch(name))]
    wrong += [name for name in shards if name not in wrong and not name.endswith("." + suffix)]
    if wrong:
        raise UnsafeError(
            f"{index} names a shard {str(wrong[0])[:100]!r}, which is not a plain .{suffix} file beside it"
        )
    if not 0 < len(shards) <= _MAX_SHARDS:
        raise CheckpointError(f"{index} names {len(shards)} shards; expected 1 to {_MAX_SHARDS}")
    return shards


def find_missing_files(folder: Path, *, pickle: bool) -> list[str]:
    """List what a snapshot folder lacks to be a model: config.json and all of its weights."""

    def has(name: str) -> bool:
        return (folder / name).is_file()

    missing = [] if has("config.json") else ["config.json"]
    for weights in (SAFETENSORS_FILE, PICKLE_FILE) if pickle else (SAFETENSORS_FILE,):
        if has(weights):
            return missing
        if has(f"{weights}.index.json"):
            return missing + [name for name in read_shard_names(folder / f"{weights}.index.json") if not has(name)]
    return [*missing, SAFETENSORS_FILE]


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or name.endswith("/")


def _path_kind(text: str) -> str | None:
    try:
        path = Path(text).expanduser()
        return "folder" if path.is_dir() else "file" if path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, not allowed, a NUL inside, a home that is not known
        return None
