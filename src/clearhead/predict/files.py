"""Prediction files: written in chunks, resumed after an interruption, and renamed when complete."""

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
from clearhead.files import remove_file, write_json
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
from clearhead.predict.resume_point import (
    ResumePoint,
    RowCounts,
    describe_file_state,
    partial_paths,
    read_resume_point,
)
from clearhead.predict.stream import answer_chunks, build_answers
from clearhead.predict.writers import TASK_FORMATS, WRITERS, Writer
from clearhead.progress import Progress, no_progress


@dataclass(frozen=True, kw_only=True)
class PredictionSummary:
    """The result of predicting a file."""

    output: str
    rows: int
    resumed: int  # rows that an interrupted run had written before
    truncated: int
    windowed: int
    abstained: int
    skipped: dict[str, int]
    columns: dict[str, str]
    blank_lines: int = 0  # skipped, if the input has one text per line

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values."""
        return asdict(self)

    def __repr__(self) -> str:
        counts = {"truncated": self.truncated, "without an answer": self.abstained}
        counts |= {"skipped": sum(self.skipped.values()), "blank lines": self.blank_lines}
        described = [f"{count:,} {name}" for name, count in counts.items() if count]
        return short_repr("PredictionSummary", f"{self.rows:,} rows", *described, f"output {self.output}")

    def _repr_html_(self) -> str:
        """Render the counts as a table for notebooks."""

        counts = {
            "rows": self.rows,
            "from an interrupted run": self.resumed,
            "truncated": self.truncated,
            "split into windows": self.windowed,
            "without an answer": self.abstained,
            "skipped blank lines": self.blank_lines,
        }
        counts |= {f"skipped: {problem}": count for problem, count in self.skipped.items()}
        rows = [(name, f"{count:,}") for name, count in counts.items() if count or name == "rows"]
        return render_table(f"predictions in {self.output}", ("rows", "count"), rows)


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
    """Write all columns of a source with the model's predictions; the output file appears when it is complete."""
    columns = predictor.resolve_columns(source, text, text_b, options=options, labeled=False)
    report_columns(predictor, source, columns)
    kind = _resolve_format(output, format, source, predictor)
    if probabilities:
        check_probabilities(predictor, columns)
    if isinstance(output, Path):
        _check_output(output, source)
    unique_ids = (
        UniqueIds(source=source.name, column=columns.id) if kind in FORMATS_BY_ID and columns.id is not None else None
    )
    total, names = _survey_rows(source, columns, predictor, unique_ids, skip_bad_rows=skip_bad_rows)
    if kind in TASK_FORMATS:
        output_columns, writer = make_task_writer(kind, source, columns)
    else:
        output_columns = plan_output_columns(predictor, source, columns, names, prefix, probabilities=probabilities)
        writer = WRITERS[kind](
            (*output_columns.select_values(dict.fromkeys(names)), *output_columns.names), output_columns.json_columns
        )
    job = _FilePrediction(
        predictor=predictor,
        source=source,
        columns=columns,
        output_columns=output_columns,
        writer=writer,
        unique_ids=None if source.is_rereadable else unique_ids,  # checked by the survey
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
    """The prediction of one file."""

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
        """Write a partial file beside the output with a resume point after each chunk, and rename it at the end."""
        partial, point_path = partial_paths(output)
        key = self._compute_key()
        resume_point = None if key is None else read_resume_point(partial, point_path, key)
        if resume_point is not None:
            self.counts = resume_point.counts
        resumed = self.counts.rows
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            if resume_point is None:
                remove_file(point_path)  # it belongs to another job, whose rows are overwritten next
            with partial.open("wb" if resume_point is None else "r+b") as file:
                if resume_point is None:
                    file.write(self.writer.header())
                else:
                    file.truncate(resume_point.bytes)
                    file.seek(0, os.SEEK_END)
                for _ in self.write_chunks(file):
                    file.flush()
                    os.fsync(file.fileno())
                    if key is not None:
                        write_json(
                            point_path, asdict(ResumePoint(key=key, bytes=file.tell(), counts=self.counts).with_seal())
                        )
                file.write(self.writer.footer())
            partial.replace(output)
        except OSError as error:
            raise ClearheadError(f"{output} cannot be written: {error.strerror or error}.") from error
        finally:
            if key is None:
                partial.unlink(missing_ok=True)  # it cannot be resumed
        remove_file(point_path)
        return self.summarize(str(output), resumed)

    def write_chunks(self, file: IO[bytes]) -> Iterator[None]:
        """Write the rows in chunks and yield after each."""
        counts = self.counts
        for chunk in answer_chunks(self.predictor, self.source, self.columns, skip=counts.read):
            bad_rows = BadRows()
            for bad_row in chunk.bad:
                bad_rows.add(bad_row)
                counts.skipped[bad_row.problem] = counts.skipped.get(bad_row.problem, 0) + 1
            if not self.skip_bad_rows:
                bad_rows.raise_if_any(self.source, counts.rows + len(chunk.usable))
            answers = {prediction.row: prediction for prediction in build_answers(self.predictor, chunk)}
            for row in chunk.rows:
                if not isinstance(row, BadRow):  # a row without a usable text is written without an answer
                    if self.unique_ids is not None:
                        self.unique_ids.add(row)
                    row_id = {ID_COLUMN: str(row.number)} if self.output_columns.needs_id else {}
                    cells = {
                        **self.output_columns.select_values(row.values),
                        **row_id,
                        **self.output_columns.build_cells(answers.get(row.number)),
                    }
                    file.write(self.writer.format_row(cells, first=counts.rows == 0))
                    counts.rows += 1
            counts.read += len(chunk.rows)
            counts.truncated += sum(prediction.truncated > 0 for prediction in answers.values())
            counts.windowed += sum(prediction.windows > 1 for prediction in answers.values())
            counts.abstained += sum(prediction.abstained for prediction in answers.values())
            yield
            self.progress("predicting", counts.read, self.total)

    def summarize(self, output: str, resumed: int) -> PredictionSummary:
        """Summarize the finished job."""
        column_names = {"text": self.columns.text, "text_b": self.columns.text_b}
        counts = {key: value for key, value in asdict(self.counts).items() if key not in ("read", "lost")}
        columns = {part: name for part, name in column_names.items() if name is not None}
        blank_lines = self.source.count_blank_lines()
        return PredictionSummary(output=output, resumed=resumed, columns=columns, blank_lines=blank_lines, **counts)

    def _compute_key(self) -> str | None:
        """Hash what must be equal to resume; None if the rows do not come from a file that can be read again."""
        predictor, path = self.predictor, self.source.path
        if path is None or not path.is_file() or not self.source.is_rereadable:
            return None
        trained = None if predictor.trained is None else asdict(predictor.trained)
        weights = (*predictor.folder.glob("*.safetensors"), *predictor.folder.glob("*/*.safetensors"))
        writer = [self.writer.names, self.writer.kind]
        files = [sorted(map(describe_file_state, weights)), describe_file_state(path)]
        columns = asdict(replace(self.columns, messages=()))  # their wording may change between versions
        parts = [*files, trained, asdict(predictor.calibration), columns, writer]
        return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _resolve_format(output: Path | IO[bytes], format_name: str | None, source: Source, predictor: Predictor) -> str:
    """Resolve the output format from the setting, the file suffix or the input format."""
    codec = predictor.task.answers
    formats = (*WRITERS, *codec.formats)
    if format_name is None and isinstance(output, Path):
        suffix = output.suffix.removeprefix(".").lower().replace("ndjson", "jsonl")
        if output.suffix.lower() in SUFFIXES:
            suffix = "conll"
        suffix = "squad" if suffix == "json" and "squad" in formats else suffix
        if suffix not in formats:
            suffixes = ", ".join(f".{name}" for name in WRITERS)
            raise InputError(f"{output} must end in {suffixes}; or name the format with {setting('format', 'FORMAT')}.")
        format_name = suffix
    if format_name is not None:
        if format_name not in formats:
            raise InputError(f"format must be one of {', '.join(formats)}, got {format_name!r}.")
        if format_name == "conll" and source.kind != "conll":
            raise InputError(f"{source.name} has no token column and cannot be written as CoNLL; write .jsonl.")
        return format_name
    if codec.prefers_json:
        return source.kind if source.kind in codec.formats and source.kind not in FORMATS_BY_ID else "jsonl"
    return {"jsonl": "jsonl", "json": "jsonl", "tsv": "tsv"}.get(source.kind, "csv")


def _check_output(output: Path, source: Source) -> None:
    """Refuse outputs that cannot be written or that would overwrite the input."""
    if output.is_dir():
        raise InputError(f"{output} is a folder; name a file.")
    try:
        paths = [path.resolve() for path in (output, *partial_paths(output))]
    except (OSError, RuntimeError):
        raise InputError(f"{output} or one of its partial files is a circular symbolic link; remove it.") from None
    if source.path is not None and source.path.resolve() in paths:
        raise InputError(f"{output} is the input file; name another file.")


def _survey_rows(
    source: Source, columns: Columns, predictor: Predictor, unique_ids: UniqueIds | None, *, skip_bad_rows: bool
) -> tuple[int | None, tuple[str, ...]]:
    """Count the rows and collect their columns, and refuse bad rows before the first prediction."""
    if not source.is_rereadable:
        return None, source.columns
    count, names = 0, dict.fromkeys(source.columns)

    def read_rows() -> Iterator[Row | BadRow]:
        nonlocal count
        for row in source.rows():
            count += 1
            if isinstance(row, Row):
                if unique_ids is not None:
                    unique_ids.add(row)
                names.update(dict.fromkeys(row.values))  # later JSON objects may have new keys
            yield row

    unlabeled_columns = replace(columns, label=None)
    survey_rows(
        replace(source, open=read_rows),
        unlabeled_columns,
        skip_bad_rows=skip_bad_rows,
        check=predictor.task.rows.check_row,
    )
    return count, tuple(names)
