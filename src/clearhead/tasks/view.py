"""Plain views: rows with spans, tags or options as texts with labels, for data inspection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import PlainView, RowCodec
from clearhead.data.sources.source import BadRow, Row, Source
from clearhead.data.table import survey_rows


def build_plain_view(
    rows: RowCodec, view: PlainView, source: Source, columns: Columns, names: Columns | None = None
) -> tuple[Source, Columns]:
    """Return the rows with plain labels: entity types, whether there is an answer, or the correct option.

    `names`: columns of another source of the same data, whose names are reused.
    """
    plain_columns = names or view.rename_columns(columns)
    column_names = {
        "text": plain_columns.text,
        "text_b": plain_columns.text_b,
        "label": plain_columns.label,
        "id": plain_columns.id,
    }
    roles = {part: name for part, name in column_names.items() if name is not None}
    if columns.split is not None:
        roles["split"] = columns.split
    space = _survey_labels(rows, view, source, columns)

    def plain_rows() -> Iterator[Row | BadRow]:
        for row in source.rows():
            checked = row if isinstance(row, BadRow) else rows.check_row(row, columns, None)
            if isinstance(row, Row) and not isinstance(checked, BadRow) and space is not None:
                labeled = rows.check_row(row, columns, space)  # its label may name an option that does not exist
                checked = labeled if isinstance(labeled, BadRow) else checked
            yield checked if isinstance(checked, BadRow) else _make_plain_row(checked, roles, view, space)

    viewed = replace(source, columns=tuple(dict.fromkeys(roles.values())), open=plain_rows)
    return viewed, replace(plain_columns, split=columns.split)


def _survey_labels(rows: RowCodec, view: PlainView, source: Source, columns: Columns) -> LabelSpace | None:
    """Survey the labels, if the label of a row depends on all rows."""
    if not view.needs_label_space or columns.label is None or rows.label_counter is None:
        return None
    return survey_rows(source, columns, skip_bad_rows=True, check=rows.check_row, counter=rows.label_counter())


def _make_plain_row(row: TextRow, roles: dict[str, str], view: PlainView, space: LabelSpace | None) -> Row:
    values = {
        "text": row.text,
        "text_b": row.text_b,
        "label": view.make_label(row, space),
        "id": row.id,
        "split": row.split,
    }
    return Row(row.number, {name: values[part] for part, name in roles.items()}, row.line)
