"""Rows with answers of their own kind as plain rows, which an inspection knows how to look at."""

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
    """The same rows with texts and labels of a cell: types of entities, whether there is an answer, the right option.

    `names`: the columns of another source of the same data, to be named alike.
    """
    named = names or view.rename_columns(columns)
    parts = {"text": named.text, "text_b": named.text_b, "label": named.label, "id": named.id}
    kept = {part: name for part, name in parts.items() if name is not None}
    if columns.split is not None:
        kept["split"] = columns.split
    space = _space(rows, view, source, columns)

    def plain_rows() -> Iterator[Row | BadRow]:
        for row in source.rows():
            checked = row if isinstance(row, BadRow) else rows.check_row(row, columns, None)
            if isinstance(row, Row) and not isinstance(checked, BadRow) and space is not None:
                judged = rows.check_row(row, columns, space)  # the label of an option that is not there
                checked = judged if isinstance(judged, BadRow) else checked
            yield checked if isinstance(checked, BadRow) else _plain(checked, kept, view, space)

    viewed = replace(source, columns=tuple(dict.fromkeys(kept.values())), open=plain_rows)
    return viewed, replace(named, split=columns.split)


def _space(rows: RowCodec, view: PlainView, source: Source, columns: Columns) -> LabelSpace | None:
    """What no single row can tell, where a label needs it."""
    if not view.needs_label_space or columns.label is None or rows.label_counter is None:
        return None
    return survey_rows(source, columns, skip_bad_rows=True, check=rows.check_row, counter=rows.label_counter())


def _plain(row: TextRow, kept: dict[str, str], view: PlainView, space: LabelSpace | None) -> Row:
    values = {
        "text": row.text,
        "text_b": row.text_b,
        "label": view.make_label(row, space),
        "id": row.id,
        "split": row.split,
    }
    return Row(row.number, {name: values[part] for part, name in kept.items()}, row.line)
