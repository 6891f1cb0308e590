"""One fuzz case: a seed folder with one mutated file, and the outcome of loading it.

A case is fully determined by the seed of the campaign and its number.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clearhead
from clearhead.cli.screen import UNSAFE_CHARACTERS
from clearhead.errors import ClearheadError
from clearhead.model.describe import summary, summary_rows
from clearhead.text import load_tokenizer
from fuzz.hostile import TEXTS, hostile_mutations
from fuzz.mutate import FILE_REPLACEMENTS, SECRET, list_mutations

TEXT = "The old keeper, Abc fi 猫\u0301 \U0001f600 [MASK] <mask> 42 " + "a" * 40 + "!"
MAX_MESSAGE = 1000  # characters of a message, including a path
LONG_TEXT = 100_000  # characters: 0.7 GB of tokens if each of them expands to 33, as some do in NFKD
PLANTED_MODULE = "planted_module.py"
SAVED_FOLDER = "saved"
TOKENIZER_KINDS = ("pipeline", "vocabulary", "added tokens", "pieces", "ids")


@dataclass(frozen=True, kw_only=True)
class FuzzCase:
    """Which file of which seed was mutated, and how."""

    number: int
    seed: str
    file: str
    kind: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a case: "ran", "refused while running", the name of a ClearheadError, or a finding."""

    word: str
    detail: str = ""
    finding: bool = False


class AccessMonitor:
    """Records suspicious files, sockets and processes that Python opens while a case runs."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.base = ""
        self.events: list[str] = []
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            is_outside = path.startswith(self.base) and not path.startswith(
                (str(self.folder), f"{self.base}{SAVED_FOLDER}")
            )
            if is_outside or path.endswith(PLANTED_MODULE):
                self.events.append(f"opened {path}")
        elif event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "pty.")):
            self.events.append(event)


def build_case(
    seed: int, number: int, seeds: Path, names: list[str], base: Path, hostile_share: float = 0.5
) -> FuzzCase:
    """Write one case to base/case: hard links to the files of a seed, one of which is mutated."""
    rng = random.Random(f"{seed}:{number}")
    folder = base / "case"
    shutil.rmtree(folder, ignore_errors=True)
    name = rng.choice(names)
    files = sorted(path.relative_to(seeds / name) for path in (seeds / name).rglob("*") if path.is_file())
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        os.link(seeds / name / file, folder / file)
    (base / "secret.txt").write_text(SECRET, encoding="utf-8")
    (folder / PLANTED_MODULE).write_text("raise SystemExit('planted')\n", encoding="utf-8")
    hostile_files = [file for file in files if hostile_mutations(file.name)]
    if hostile_files and rng.random() < hostile_share:
        return _mutate_hostile(number, name, folder, rng.choice(hostile_files), rng)
    # config, weights and tokenizer get a third each, regardless of how many files they have
    groups = (
        [file for file in files if "config" in file.name and "tokenizer" not in file.name],
        [file for file in files if "safetensors" in file.name],
        [file for file in files if file.name != "config.json" and "safetensors" not in file.name],
    )
    file = rng.choice(rng.choice([group for group in groups if group]))
    path = folder / file
    if rng.random() < 0.06:
        kind = rng.choice(list(FILE_REPLACEMENTS))
        FILE_REPLACEMENTS[kind](path, base)
    else:
        kind, mutate = rng.choice(list_mutations(path))
        mutated = mutate(path.read_bytes(), rng)
        path.unlink()
        path.write_bytes(mutated)
    return FuzzCase(number=number, seed=name, file=str(file), kind=kind)


def _mutate_hostile(number: int, name: str, folder: Path, file: Path, rng: random.Random) -> FuzzCase:
    """Apply a format-aware mutation; most tokenizer.json files are then loaded directly, not rebuilt by a recipe."""
    kind, mutate = rng.choice(hostile_mutations(file.name))
    path = folder / file
    data = mutate(path.read_bytes(), rng)
    path.unlink()
    path.write_bytes(data)
    if kind in ("pipeline", "vocabulary") and rng.random() < 0.7:
        config_path = path.with_name("tokenizer_config.json")
        config = json.loads(config_path.read_bytes()) if config_path.is_file() else {}
        config_path.unlink(missing_ok=True)
        config_path.write_text(json.dumps(config | {"tokenizer_class": "PreTrainedTokenizerFast"}), encoding="utf-8")
    return FuzzCase(number=number, seed=name, file=str(file), kind=kind)


def check_case(case: FuzzCase, base: Path, monitor: AccessMonitor) -> Outcome:
    """Load the case through the public API, and run the model if it loads."""
    modules_before = set(sys.modules)
    folder = base / "case"
    monitor.events.clear()
    monitor.base, monitor.folder = str(base.resolve()) + os.sep, folder.resolve()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for example about a text that is too long
            tokenizer_only = (
                case.kind in TOKENIZER_KINDS and case.number % 4
            )  # for most of these the tokenizer suffices
            outcome = _load_tokenizer(folder, case.number) if tokenizer_only else _load(folder, case.number)
    except BaseException as error:  # a panic in Rust is a BaseException
        if isinstance(error, KeyboardInterrupt):
            raise
        trace = "".join(traceback.format_exception(error))
        outcome = Outcome(word=f"untyped {type(error).__name__}", detail=trace[-6000:], finding=True)
    finally:
        monitor.folder = None
    if outcome.finding:
        return outcome
    case_path = str(folder.resolve())
    planted_modules = [
        module_name
        for module_name in set(sys.modules) - modules_before
        if str(getattr(sys.modules[module_name], "__file__", "")).startswith(case_path)
    ]
    if planted_modules or monitor.events:
        return Outcome(word="reached out", detail="; ".join([*planted_modules, *monitor.events])[:2000], finding=True)
    if "link out" in case.kind and outcome.word == "ran":
        return Outcome(word="followed a link out", detail=case.file, finding=True)
    return outcome


def _load(folder: Path, number: int) -> Outcome:
    try:
        model = clearhead.load(folder, device="cpu", offline=True)
    except ClearheadError as error:
        return _check_message(error, type(error).__name__)
    try:
        _use_model(model, number, folder.parent / SAVED_FOLDER)
    except ClearheadError as error:
        return _check_message(error, "refused while running")
    return Outcome(word="ran")


def _load_tokenizer(folder: Path, number: int) -> Outcome:
    try:
        config = json.loads((folder / "config.json").read_bytes())
        tokenizers = load_tokenizer(folder, str(config.get("model_type")), config)
    except ClearheadError as error:
        return _check_message(error, type(error).__name__)
    text = TEXTS[number % len(TEXTS)]
    if number % 16 == 1:
        text = (text * (LONG_TEXT // max(len(text), 1) + 1))[:LONG_TEXT]
    try:
        for tokenizer in (tokenizers.source, tokenizers.target or tokenizers.source):
            tokenizer.encode_batch([text, TEXT], max_length=40)
            tokenizer.encode_ids([TEXT, ("the sea", TEXT)] if tokenizers.target is None and number % 2 else [TEXT])
            tokenizer.decode(range(min(tokenizer.vocab_size, 300)))
    except ClearheadError as error:
        return _check_message(error, "refused while running")
    return Outcome(word="ran")


def _check_message(error: ClearheadError, word: str) -> Outcome:
    """Check that a message is one printable line of reasonable length without content of other files."""
    text = str(error)
    if not text.isprintable() or len(text) > MAX_MESSAGE or SECRET in text or "Traceback" in text or not text.strip():
        return Outcome(word="bad sentence", detail=repr(text[:3000]), finding=True)
    return Outcome(word=word, detail=text)


def _use_model(model: Any, number: int, saved: Path) -> None:
    """Call a loaded model a few times; save and reload every eighth one."""
    summary(model).encode("utf-8", "surrogatepass")
    for row in summary_rows(model):
        UNSAFE_CHARACTERS.sub("?", " ".join(row)).encode()
    if number % 8 == 0:
        shutil.rmtree(saved, ignore_errors=True)
        clearhead.load(model.save(saved), device="cpu", offline=True)
    if model.source_tokenizer is None:
        model.run([[0, 1, 0]], target_ids=[[0, 1]] if model.shape.decoder is not None else None)
        return
    encoding = model.tokenizer.encode(TEXT, max_length=16)
    model.tokenizer.decode(encoding.ids)
    if encoding.ids:
        model.run([encoding.ids], target_ids=[encoding.ids] if model.shape.decoder is not None else None)
    model.embed([TEXT, "the sea", TEXTS[number % len(TEXTS)]])
