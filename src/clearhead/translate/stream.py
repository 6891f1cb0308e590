"""Lines in, translations out: in their order, some at a time, and on from where a stopped job stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.translate.unknown import replace_unknown

if TYPE_CHECKING:
    from clearhead.decode import Generated
    from clearhead.model import Model
    from clearhead.model.alignment import Alignment

CHUNK = 512  # lines that are read, sorted by length and translated together


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line and what became of it; an empty one stays empty."""

    number: int  # from 1
    source: str
    made: Generated | None
    aligned: Alignment | None = None  # where that was asked for

    @property
    def text(self) -> str:
        """The translation on one line."""
        return "" if self.made is None else " ".join(self.made.text.split("\n"))

    @property
    def ranked(self) -> list[str]:
        """All translations that were asked for, best first: rank, score and text with tabs between them."""
        if self.made is None:
            return ["1\t\t"]
        others = [(one.score, " ".join(one.text.split("\n"))) for one in self.made.best[1:]]
        every = [(self.made.score, self.text), *others]
        return [f"{rank}\t{score:.4f}\t{text}" for rank, (score, text) in enumerate(every, start=1)]

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        told: dict[str, Any] = {"line": self.number, "source": self.source, "translation": self.text}
        if self.made is None:
            return told | {"score": None, "stopped": "empty"}
        told |= {"score": self.made.score, "stopped": self.made.stopped, "truncated": self.made.truncated}
        told |= {} if self.aligned is None else self.aligned.to_json()
        if len(self.made.best) > 1:
            told["best"] = [{"translation": one.text, "score": one.score} for one in self.made.best]
        return told


def prefix_of(model: Model) -> str:
    """What the model was taught to find before every source."""
    said = {} if model.trained is None else model.trained.settings
    prefix = said.get("prefix")
    return prefix if isinstance(prefix, str) else ""


def translate_lines(
    model: Model,
    lines: Iterable[str],
    *,
    skip: int = 0,
    told: Callable[[int, int | None], None] | None = None,
    align: bool = False,
    replace_unknowns: bool = False,
    **choices: Any,
) -> Iterator[Line]:
    """Every line in its order; `skip` of them were translated before, and are passed over.

    `align` tells which words belong together, and `replace_unknowns` puts source words where the model knew none.
    """
    prefix, number = prefix_of(model), skip - skip % CHUNK  # in the chunks of a job that was not stopped: same bits
    rows = islice(iter(lines), number, None)
    while some := list(islice(rows, CHUNK)):
        if number + len(some) <= skip:
            break
        full = [place for place, line in enumerate(some) if line.strip()]
        found = model.generate([prefix + some[place] for place in full], **choices)
        if replace_unknowns:
            found = replace_unknown(model, found, prefix)
        made = dict(zip(full, found, strict=True))
        words = [some[place] for place in full], [one.text for one in found]
        aligned = dict(zip(full, model.align(*words, prefix=prefix), strict=True)) if align else {}
        for place, line in enumerate(some):
            number += 1
            if number > skip:
                yield Line(number=number, source=line, made=made.get(place), aligned=aligned.get(place))
        if told is not None:
            told(number, None)


def lines_done(path: Path, *, as_json: bool) -> int:
    """How many lines of an output are whole; half a line at its end is cut off."""
    if not path.is_file():
        return 0
    try:
        with path.open("r+b") as file:
            count, end = 0, 0
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if as_json:
                    json.loads(line)
                count, end = count + 1, end + len(line)
            file.truncate(end)
    except (OSError, ValueError):
        raise InputError(f"{path} is there and is not the output of this job; name another file.") from None
    return count


def ranked_done(path: Path) -> int:
    """How many lines of a source have all their ranked translations in an output; the last one is made again."""
    if not path.is_file():
        return 0
    number = begun = end = 0
    try:
        with path.open("r+b") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                now = int(line.split(b"\t", 1)[0])
                if now not in (number, number + 1) or now < 1:
                    raise ValueError
                if now != number:
                    number, begun = now, end
                end += len(line)
            file.truncate(begun)
    except (OSError, ValueError):
        raise InputError(f"{path} is there and is not the output of this job; name another file.") from None
    return max(number - 1, 0)
