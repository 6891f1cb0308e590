"""Predictions as files: written row by row, taken up again where an interrupted run stopped, whole in the end."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from clearhead.caller import setting
from clearhead.data import BadRow, Columns, Row, Source, survey_rows
from clearhead.data.examples import BadRows
from clearhead.data.sources.conll import SUFFIXES
from clearhead.errors import ClearheadError, InputError
from clearhead.files import decode_dataclass, read_json, remove_file, write_json
from clearhead.html import render_table, short_repr
from clearhead.predict.column_roles import report_columns
from clearhead.predict.columns import (
    FORMATS_BY_ID,
    ID_COLUMN,
    OutputColumns,
    UniqueIds,
    check_probabilities,
    make_task_writer,
    plan_output_columns,
)
from clearhead.predict.predictor import Predictor
from clearhead.predict.stream import answer_chunks, build_answers
from clearhead.predict.writers import TASK_FORMATS, WRITERS, Writer
from clearhead.progress import Progress, no_progress

MAX_NAME_BYTES = 240  # bytes of an output's name to which something is added; most systems allow 255 in all


@dataclass(frozen=True, kw_only=True)
class PredictionSummary:
    """What was done with a file of rows."""

    output: str
    rows: int
    resumed: int  # rows that an earlier, interrupted run had written
    truncated: int
    windowed: int
    abstained: int
    skipped: dict[str, int]
    columns: dict[str, str]
    blank_lines: int = 0  # of a text a line: passed over

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __repr__(self) -> str:
        counts = {"truncated": self.truncated, "without an answer": self.abstained}
        counts |= {"skipped": sum(self.skipped.values()), "blank lines": self.blank_lines}
        some = [f"{count:,} {name}" for name, count in counts.items() if count]
        return short_repr("PredictionSummary", f"{self.rows:,} rows", *some, f"output {self.output}")

    def _repr_html_(self) -> str:
        """The counts as a table in a notebook."""

        counted = {
            "rows": self.rows,
            "from an earlier run": self.resumed,
            "of which something was cut": self.truncated,
            "read in windows": self.windowed,
            "without an answer": self.abstained,
            "blank lines passed over": self.blank_lines,
        }
        counted |= {f"left out: {problem}": count for problem, count in self.skipped.items()}
        rows = [(name, f"{count:,}") for name, count in counted.items() if count or name == "rows"]
        return render_table(f"predictions in {self.output}", ("rows", "count"), rows)


@dataclass
class RowCounts:
    """What has been written so far."""

    rows: int = 0
    read: int = 0  # rows of the source, the bad ones included
    truncated: int = 0
    windowed: int = 0
    abstained: int = 0
    lost: int = 0  # tokens that were cut off, where vectors are written
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ResumePoint:
    """Where a half-written file stands: so many bytes of it are whole."""

    key: str
    bytes: int
    counts: RowCounts
    seal: str = ""  # a hash of the others: a mark that was damaged is not believed

    def with_seal(self) -> ResumePoint:
        """The same with its seal."""
        values = asdict(replace(self, seal=""))
        return replace(self, seal=hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest())


def predict_file(
    predictor: Predictor,
    source: Source,
    output: Path | IO[bytes],
    *,
    text: str | None = None,
    text_b: str | None = None,
    options: str | None = None,
    format: str | None = None,  # noqa: A002
    prefix: str = "",
    probabilities: bool = False,
    skip_bad_rows: bool = False,
    progress: Progress = no_progress,
) -> PredictionSummary:
    """All columns of a source and what the model says of each row; a file is whole or not there."""
    columns = predictor.resolve_columns(source, text, text_b, options=options, labelled=False)
    report_columns(predictor, source, columns)
    kind = _resolve_format(output, format, source, predictor)
    if probabilities:
        check_probabilities(predictor, columns)
    if isinstance(output, Path):
        _check_output(output, source)
    keys = (
        UniqueIds(source=source.name, column=columns.id) if kind in FORMATS_BY_ID and columns.id is not None else None
    )
    total, names = _survey_rows(source, columns, predictor, keys, skip_bad_rows=skip_bad_rows)
    if kind in TASK_FORMATS:
        maker, writer = make_task_writer(kind, source, columns)
    else:
        maker = plan_output_columns(predictor, source, columns, names, prefix, probabilities=probabilities)
        writer = WRITERS[kind]((*maker.select_values(dict.fromkeys(names)), *maker.names), maker.json_columns)
    job = _FilePrediction(
        predictor=predictor,
        source=source,
        columns=columns,
        output_columns=maker,
        writer=writer,
        unique_ids=None if source.is_rereadable else keys,  # looked at already
        total=total,
        skip_bad_rows=skip_bad_rows,
        progress=progress,
    )
    if isinstance(output, Path):
        return job.write_file(output)
    output.write(job.writer.header())
    for _ in job.write_chunks(output):
        output.flush()
    output.write(job.writer.footer())
    output.flush()
    return job.summarize("-", 0)


@dataclass(kw_only=True)
class _FilePrediction:
    """Everything about one file that is being predicted."""

    predictor: Predictor
    source: Source
    columns: Columns
    output_columns: OutputColumns
    writer: Writer
    unique_ids: UniqueIds | None
    total: int | None
    skip_bad_rows: bool
    progress: Progress
    counts: RowCounts = field(default_factory=RowCounts)

    def write_file(self, output: Path) -> PredictionSummary:
        """Write beside the output, keep count of what is safe, and rename in the end."""
        partial, mark = partial_paths(output)
        key = self._compute_key()
        begun = None if key is None else read_resume_point(partial, mark, key)
        if begun is not None:
            self.counts = begun.counts
        resumed = self.counts.rows
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            if begun is None:
                remove_file(mark)  # of another job, before its rows are overwritten
            with partial.open("wb" if begun is None else "r+b") as file:
                if begun is None:
                    file.write(self.writer.header())
                else:
                    file.truncate(begun.bytes)
                    file.seek(0, os.SEEK_END)
                for _ in self.write_chunks(file):
                    file.flush()
                    os.fsync(file.fileno())
                    if key is not None:
                        write_json(
                            mark, asdict(ResumePoint(key=key, bytes=file.tell(), counts=self.counts).with_seal())
                        )
                file.write(self.writer.footer())
            partial.replace(output)
        except OSError as error:
            raise ClearheadError(f"{output} cannot be written: {error.strerror or error}.") from error
        finally:
            if key is None:
                partial.unlink(missing_ok=True)  # nobody can go on with it
        remove_file(mark)
        return self.summarize(str(output), resumed)

    def write_chunks(self, file: IO[bytes]) -> Iterator[None]:
        """Write chunk after chunk; yields when one is done."""
        counts = self.counts
        for chunk in answer_chunks(self.predictor, self.source, self.columns, skip=counts.read):
            bad = BadRows()
            for one in chunk.bad:
                bad.add(one)
                counts.skipped[one.problem] = counts.skipped.get(one.problem, 0) + 1
            if not self.skip_bad_rows:
                bad.raise_if_any(self.source, counts.rows + len(chunk.usable))
            said = {prediction.row: prediction for prediction in build_answers(self.predictor, chunk)}
            for row in chunk.rows:
                if not isinstance(row, BadRow):  # a row without a usable text keeps its place, and has no answer
                    if self.unique_ids is not None:
                        self.unique_ids.add(row)
                    number = {ID_COLUMN: str(row.number)} if self.output_columns.needs_id else {}
                    made = {
                        **self.output_columns.select_values(row.values),
                        **number,
                        **self.output_columns.build_cells(said.get(row.number)),
                    }
                    file.write(self.writer.format_row(made, first=counts.rows == 0))
                    counts.rows += 1
            counts.read += len(chunk.rows)
            counts.truncated += sum(prediction.truncated > 0 for prediction in said.values())
            counts.windowed += sum(prediction.windows > 1 for prediction in said.values())
            counts.abstained += sum(prediction.abstained for prediction in said.values())
            yield
            self.progress("predicting", counts.read, self.total)

    def summarize(self, output: str, resumed: int) -> PredictionSummary:
        """What came of it."""
        names = {"text": self.columns.text, "text_b": self.columns.text_b}
        counts = {key: value for key, value in asdict(self.counts).items() if key not in ("read", "lost")}
        used = {part: name for part, name in names.items() if name is not None}
        blank = self.source.count_blank_lines()
        return PredictionSummary(output=output, resumed=resumed, columns=used, blank_lines=blank, **counts)

    def _compute_key(self) -> str | None:
        """What must be the same for a half-written file to be gone on with; None: rows that are not in a file."""
        predictor, path = self.predictor, self.source.path
        if path is None or not path.is_file() or not self.source.is_rereadable:
            return None
        trained = None if predictor.trained is None else asdict(predictor.trained)
        weights = (*predictor.folder.glob("*.safetensors"), *predictor.folder.glob("*/*.safetensors"))
        writer = [self.writer.names, self.writer.kind]
        files = [sorted(map(describe_file_state, weights)), describe_file_state(path)]
        said = [*files, trained, asdict(predictor.calibration), asdict(self.columns), writer]
        return hashlib.sha256(json.dumps(said, default=str).encode()).hexdigest()


def describe_file_state(path: Path) -> tuple[str, int, int]:
    """What changes when a file does: its place, size and time."""
    status = path.stat()
    return str(path.resolve()), status.st_size, status.st_mtime_ns


def _resolve_format(output: Path | IO[bytes], said: str | None, source: Source, predictor: Predictor) -> str:
    """By what was said, by the ending, or as the input is."""
    codec = predictor.task.answers
    known = (*WRITERS, *codec.formats)
    if said is None and isinstance(output, Path):
        ending = output.suffix.removeprefix(".").lower().replace("ndjson", "jsonl")
        if output.suffix.lower() in SUFFIXES:
            ending = "conll"
        ending = "squad" if ending == "json" and "squad" in known else ending
        if ending not in known:
            endings = ", ".join(f".{name}" for name in WRITERS)
            raise InputError(f"{output} must end in {endings}, or say {setting('format', 'FORMAT')}.")
        said = ending
    if said is not None:
        if said not in known:
            raise InputError(f"format must be one of {', '.join(known)}, and it is {said!r}.")
        if said == "conll" and source.kind != "conll":
            raise InputError(f"{source.name} has no tokens in columns, so that it cannot become CoNLL; write .jsonl.")
        return said
    if codec.prefers_json:
        return source.kind if source.kind in codec.formats and source.kind not in FORMATS_BY_ID else "jsonl"
    return {"jsonl": "jsonl", "json": "jsonl", "tsv": "tsv"}.get(source.kind, "csv")


def _check_output(output: Path, source: Source) -> None:
    """Refuse what would be found out only after the work, or what would destroy the input."""
    if output.is_dir():
        raise InputError(f"{output} is a folder; name a file in it.")
    try:
        places = [place.resolve() for place in (output, *partial_paths(output))]
    except (OSError, RuntimeError):
        raise InputError(f"{output} or a file beside it is a link that leads in a circle; remove it.") from None
    if source.path is not None and source.path.resolve() in places:
        raise InputError(f"{output} is the input itself; name another file.")


def partial_paths(output: Path) -> tuple[Path, Path]:
    """Where rows are gathered, and where it stands how many of them are whole."""
    name = output.name
    if len(os.fsencode(name)) > MAX_NAME_BYTES:  # a longer one would be too long for a file
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return output.with_name(f"{name}.partial"), output.with_name(f"{name}.partial.json")


def _survey_rows(
    source: Source, columns: Columns, predictor: Predictor, keys: UniqueIds | None, *, skip_bad_rows: bool
) -> tuple[int | None, tuple[str, ...]]:
    """How many rows there are and all their columns; bad rows are refused before the work and not after it."""
    if not source.is_rereadable:
        return None, source.columns
    count, names = 0, dict.fromkeys(source.columns)

    def counted() -> Iterator[Row | BadRow]:
        nonlocal count
        for row in source.rows():
            count += 1
            if isinstance(row, Row):
                if keys is not None:
                    keys.add(row)
                names.update(dict.fromkeys(row.values))  # an object may have keys that those before it do not have
            yield row

    bare = replace(columns, label=None)
    survey_rows(replace(source, open=counted), bare, skip_bad_rows=skip_bad_rows, check=predictor.task.rows.check_row)
    return count, tuple(names)


def read_resume_point(partial: Path, mark: Path, key: str) -> ResumePoint | None:
    """Where an interrupted run of the same job stands."""
    if not (partial.is_file() and mark.is_file()):
        return None
    try:
        found = decode_dataclass(read_json(mark), ResumePoint, mark.name)
    except ClearheadError:
        return None
    whole = found == found.with_seal() and found.key == key and found.bytes <= partial.stat().st_size
    return found if whole else None
