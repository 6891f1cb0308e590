"""Translation of lines in order, in chunks, with resumption of interrupted outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.data.sources.texts import is_text_source, read_texts
from clearhead.deprecation import renamed_fields
from clearhead.errors import ClearheadError, InputError
from clearhead.html import short_repr
from clearhead.jobs.kinds import local_kind
from clearhead.model.alignment import Aligner
from clearhead.model.model import Model
from clearhead.model.opening import as_model, source_prefix
from clearhead.progress import Progress, no_progress
from clearhead.translate.evaluate import read_training_record
from clearhead.translate.files import OutputSummary, format_json_line, identify_source, open_output
from clearhead.translate.unknown import replace_unknown

if TYPE_CHECKING:
    from clearhead.decode import GeneratedText
    from clearhead.model.alignment import Alignment

CHUNK_LINES = 512  # lines that are sorted by length and translated together


@renamed_fields(ranked="ranked_lines")
@dataclass(frozen=True, kw_only=True)
class Translation:
    """One line and its translation; an empty line stays empty."""

    number: int  # from 1
    source: str
    generated: GeneratedText | None
    alignment: Alignment | None = None  # with `align`

    @property
    def text(self) -> str:
        """The translation in a single line."""
        return "" if self.generated is None else " ".join(self.generated.text.split("\n"))

    @property
    def ranked_lines(self) -> list[str]:
        """All returned translations, best first: rank, score and text, separated by tabs."""
        if self.generated is None:
            return ["1\t\t"]
        others = [(hypothesis.score, " ".join(hypothesis.text.split("\n"))) for hypothesis in self.generated.best[1:]]
        scored_texts = [(self.generated.score, self.text), *others]
        return [f"{rank}\t{score:.4f}\t{text}" for rank, (score, text) in enumerate(scored_texts, start=1)]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        score = None if self.generated is None else f"score {self.generated.score:.4f}"
        return short_repr("Translation", repr(self.text), f"of {self.source!r}", score)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as written by `translate` with JSON output."""
        values: dict[str, Any] = {"line": self.number, "source": self.source, "translation": self.text}
        if self.generated is None:
            return values | {"score": None, "stopped": "empty"}
        generated = self.generated
        values |= {"score": generated.score, "stopped": generated.stopped, "truncated": generated.truncated}
        values |= {} if self.alignment is None else self.alignment.to_json()
        if len(generated.best) > 1:
            values["best"] = [
                {"translation": hypothesis.text, "score": hypothesis.score} for hypothesis in generated.best
            ]
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
    """Translate lines in order; the first `skip` lines were translated before and are skipped.

    `align` adds word alignments, and `replace_unknowns` replaces unknown tokens by source words.
    """
    prefix, number = (
        source_prefix(model),
        skip - skip % CHUNK_LINES,
    )  # same chunks as without an interruption: same bits
    rows = islice(iter(lines), number, None)
    while chunk := list(islice(rows, CHUNK_LINES)):
        if number + len(chunk) <= skip:
            break
        nonempty = [index for index, line in enumerate(chunk) if line.strip()]
        generated = model.generate([prefix + chunk[index] for index in nonempty], **choices)
        if replace_unknowns:
            generated = replace_unknown(model, generated, prefix)
        generated_at = dict(zip(nonempty, generated, strict=True))
        texts = [chunk[index] for index in nonempty], [answer.text for answer in generated]
        alignment_at = dict(zip(nonempty, model.align(*texts, prefix=prefix), strict=True)) if align else {}
        for index, line in enumerate(chunk):
            number += 1
            if number > skip:
                yield Translation(
                    number=number, source=line, generated=generated_at.get(index), alignment=alignment_at.get(index)
                )
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
) -> list[Translation] | OutputSummary:
    """Translate a text, or the texts of a file, pipe or list; the output gets one line (or JSON object) per text."""
    if isinstance(source, str) and not source.strip():
        raise InputError("There is no text to translate.")
    name = str(model.reference or "This model") if isinstance(model, Model) else os.fspath(model)
    texts = open_texts(source, column, input_format, _training_columns(model)[:1])
    loaded = as_model(model, precision=precision, progress=download)
    if loaded.shape.decoder is None:
        raise InputError(f"{name} has no decoder and cannot translate.")
    if align is not False:
        decoding["align"] = _can_align(loaded, notify, required=align is True)
    if replace_unknown:
        decoding["replace_unknowns"] = _can_align(loaded, notify, required=True)
    if output is None:
        return list(translate_lines(loaded, texts, progress=progress, **decoding))
    is_ranked = decoding.get("num_return_sequences", 1) > 1 and not as_json
    with_numbers = is_ranked and (isinstance(output, Path) or is_text_source(source))
    source_key = identify_source(source)
    job_key = ("translate", name, source_key, column, input_format, precision, as_json, sorted(decoding.items()))
    with open_output(output, job_key, as_json=as_json, ranked=is_ranked, notify=notify) as (stream, done):
        count = done
        for translation in translate_lines(loaded, texts, skip=done, progress=progress, **decoding):
            if is_ranked:
                prefix = f"{translation.number}\t" if with_numbers else ""
                stream.write("".join(f"{prefix}{ranked_line}\n" for ranked_line in translation.ranked_lines))
            else:
                stream.write(format_json_line(translation.to_json(), stream) if as_json else translation.text + "\n")
            stream.flush()
            count += 1
    return OutputSummary(output=output if isinstance(output, Path) else None, texts=count, resumed=done)


def open_texts(
    source: Any, column: str | None, input_format: str | None, expected: Sequence[str] = ()
) -> Iterable[str]:
    """Iterate over the texts of a file, pipe, table or list, or over a single text."""
    if is_text_source(source):
        return read_texts(source, column, format=input_format, expected=expected)
    if input_format is not None:
        restriction = f"{setting('input_format')} is only for files and standard input"
        raise InputError(f"{restriction}, but {source[:60]!r} is a text.")
    if column is not None:
        raise InputError(f"{setting('column')} is only for files, but {source[:60]!r} is a text.")
    return [source]


def _training_columns(model: str | os.PathLike[str] | Model) -> tuple[str, ...]:
    """Return the columns that a translation model was trained on, the source first."""
    if isinstance(model, Model):
        return () if model.trained is None else tuple(model.trained.columns.values())
    return tuple(read_training_record(Path(model)).columns.values()) if local_kind(model) == "translator" else ()


def _can_align(model: Model, notify: Callable[[str], None] | None, *, required: bool) -> bool:
    """Whether the model can align words; if not, raise an error if `required`, else notify."""
    try:
        Aligner(model)
    except ClearheadError as error:
        if required:
            raise
        if notify is not None:
            notify(f"no alignments: {error}")
        return False
    return True
