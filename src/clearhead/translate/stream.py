"""Lines in, translations out: in their order, some at a time, and on from where a stopped job stands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.data.sources.texts import is_text_source, read_texts
from clearhead.errors import ClearheadError, InputError
from clearhead.html import short_repr
from clearhead.jobs.kinds import local_kind
from clearhead.model.alignment import Aligner
from clearhead.model.model import Model
from clearhead.model.opening import as_model, source_prefix
from clearhead.progress import Progress, no_progress
from clearhead.translate.evaluate import read_trained
from clearhead.translate.files import TextsWritten, answers_file, json_line, source_key
from clearhead.translate.unknown import replace_unknown

if TYPE_CHECKING:
    from clearhead.decode import Generated
    from clearhead.model.alignment import Alignment

CHUNK = 512  # lines that are read, sorted by length and translated together


@dataclass(frozen=True, kw_only=True)
class Translation:
    """One line and what became of it; an empty one stays empty."""

    number: int  # from 1
    source: str
    generated: Generated | None
    alignment: Alignment | None = None  # where that was asked for

    @property
    def text(self) -> str:
        """The translation on one line."""
        return "" if self.generated is None else " ".join(self.generated.text.split("\n"))

    @property
    def ranked(self) -> list[str]:
        """All translations that were asked for, best first: rank, score and text with tabs between them."""
        if self.generated is None:
            return ["1\t\t"]
        others = [(one.score, " ".join(one.text.split("\n"))) for one in self.generated.best[1:]]
        every = [(self.generated.score, self.text), *others]
        return [f"{rank}\t{score:.4f}\t{text}" for rank, (score, text) in enumerate(every, start=1)]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        score = None if self.generated is None else f"score {self.generated.score:.4f}"
        return short_repr("Translation", repr(self.text), f"of {self.source!r}", score)

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `translate` with JSON writes them."""
        values: dict[str, Any] = {"line": self.number, "source": self.source, "translation": self.text}
        if self.generated is None:
            return values | {"score": None, "stopped": "empty"}
        made = self.generated
        values |= {"score": made.score, "stopped": made.stopped, "truncated": made.truncated}
        values |= {} if self.alignment is None else self.alignment.to_json()
        if len(made.best) > 1:
            values["best"] = [{"translation": one.text, "score": one.score} for one in made.best]
        return values


def translate_lines(
    model: Model,
    lines: Iterable[str],
    *,
    skip: int = 0,
    progress: Progress = no_progress,
    align: bool = False,
    replace_unknowns: bool = False,
    **choices: Any,
) -> Iterator[Translation]:
    """Every line in its order; `skip` of them were translated before, and are passed over.

    `align` tells which words belong together, and `replace_unknowns` puts source words where the model knew none.
    """
    prefix, number = source_prefix(model), skip - skip % CHUNK  # in the chunks of a job that was not stopped: same bits
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
                yield Translation(number=number, source=line, generated=made.get(place), alignment=aligned.get(place))
        progress("translating", number, None)


def translate_texts(
    model: str | os.PathLike[str] | Model,
    source: Any,
    output: Path | IO[str] | None = None,
    *,
    column: str | None = None,
    input_format: str | None = None,
    as_json: bool = False,
    align: bool | None = False,
    replace_unknown: bool = False,
    precision: str | None = None,
    progress: Progress = no_progress,
    download: Progress | None = None,
    notify: Callable[[str], None] | None = None,
    **decoding: Any,
) -> list[Translation] | TextsWritten:
    """Translate a text, or what a file, a pipe or a list holds; an output gets a line (or JSON object) for each."""
    if isinstance(source, str) and not source.strip():
        raise InputError("There is no text to translate.")
    name = str(model.reference or "This model") if isinstance(model, Model) else os.fspath(model)
    texts = open_texts(source, column, input_format, _columns(model)[:1])
    loaded = as_model(model, precision=precision, progress=download)
    if loaded.shape.decoder is None:
        raise InputError(f"{name} has no decoder, so that it cannot translate.")
    if align is not False:
        decoding["align"] = _can_align(loaded, notify, required=align is True)
    if replace_unknown:
        decoding["replace_unknowns"] = _can_align(loaded, notify, required=True)
    if output is None:
        return list(translate_lines(loaded, texts, progress=progress, **decoding))
    ranked = decoding.get("num_return_sequences", 1) > 1 and not as_json
    numbered = ranked and (isinstance(output, Path) or is_text_source(source))
    key = source_key(source)
    job = ("translate", name, key, column, input_format, precision, as_json, sorted(decoding.items()))
    with answers_file(output, job, as_json=as_json, ranked=ranked, notify=notify) as (into, done):
        count = done
        for line in translate_lines(loaded, texts, skip=done, progress=progress, **decoding):
            if ranked:
                first = f"{line.number}\t" if numbered else ""
                into.write("".join(f"{first}{one}\n" for one in line.ranked))
            else:
                into.write(json_line(line.to_json(), into) if as_json else line.text + "\n")
            into.flush()
            count += 1
    return TextsWritten(output=output if isinstance(output, Path) else None, texts=count, resumed=done)


def open_texts(
    source: Any, column: str | None, input_format: str | None, expected: Sequence[str] = ()
) -> Iterable[str]:
    """What a file, a pipe, a table or a list holds, or the one text itself."""
    if is_text_source(source):
        return read_texts(source, column, format=input_format, expected=expected)
    if input_format is not None:
        files = f"{setting('input_format')} is for files and standard input"
        raise InputError(f"{files}, and {source[:60]!r} is a text.")
    if column is not None:
        raise InputError(f"{setting('column')} is for files, and {source[:60]!r} is none.")
    return [source]


def _columns(model: str | os.PathLike[str] | Model) -> tuple[str, ...]:
    """The columns that a translator learned from, the source first."""
    if isinstance(model, Model):
        return () if model.trained is None else tuple(model.trained.columns.values())
    return tuple(read_trained(Path(model)).columns.values()) if local_kind(model) == "translator" else ()


def _can_align(model: Model, notify: Callable[[str], None] | None, *, required: bool) -> bool:
    """Whether words can be aligned; what is required and cannot be is an error, the rest is said and left out."""
    try:
        Aligner(model)
    except ClearheadError as error:
        if required:
            raise
        if notify is not None:
            notify(f"no alignments: {error}")
        return False
    return True
