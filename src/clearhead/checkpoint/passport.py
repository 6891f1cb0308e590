"""The passport: what a saved model promises about itself, in clearhead.json, checked whenever it is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.checkpoint.weights import inside, present
from clearhead.config import decode, read_json, shown, write_json
from clearhead.errors import CheckpointError, TokenizerError

NAME = "clearhead.json"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Passport:
    """Who made a model folder and what must still be true of it."""

    format: int = FORMAT
    clearhead: str = ""
    family: str = ""
    head: str | None = None
    labels: list[str] = field(default_factory=list)
    golden: dict[str, list[int]] = field(default_factory=dict)  # probe text -> token ids
    target_golden: dict[str, list[int]] = field(default_factory=dict)
    pruned: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # part -> block -> heads


def read_passport(folder: Path) -> Passport | None:
    """The passport of a folder, or None when it has none."""
    if not present(folder, NAME):
        return None
    data: Any = read_json(inside(folder, NAME))
    passport = decode(data, Passport, NAME)
    if passport.format > FORMAT:
        newer = shown(passport.format, 20)
        raise CheckpointError(f"{NAME} has format {newer}, and this version reads up to {FORMAT}: upgrade.")
    return passport


def write_passport(folder: Path, passport: Passport) -> None:
    """Save it beside the weights."""
    import msgspec

    write_json(folder / NAME, msgspec.to_builtins(passport))


def check_tokens(promised: dict[str, list[int]], now: dict[str, list[int]]) -> None:
    """Refuse a tokenizer that gives other ids than it did when the model was saved."""
    for text, ids in promised.items():
        if text in now and now[text] != ids:
            raise TokenizerError(
                f"The tokenizer changed since this model was saved: {text[:40]!r} gave {shown(ids[:8])} and now gives "
                f"{now[text][:8]}. Restore the tokenizer files, or train again."
            )
