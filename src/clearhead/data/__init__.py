"""Data in: open whatever holds rows, find its columns and labels, check, split and batch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.data.batches import token_batches
    from clearhead.data.column_layout import ColumnLayout, Role
    from clearhead.data.column_resolver import (
        by_plain_name,
        columns_beside,
        find_column,
        guess_columns,
        resolve_columns,
    )
    from clearhead.data.columns import ColumnRoles, Columns
    from clearhead.data.examples import (
        BadRows,
        Examples,
        TextRow,
        checked_row,
        checked_rows,
        id_in,
        load_examples,
        split_in,
        text_hash,
        text_in,
    )
    from clearhead.data.findings import Finding, findings_of
    from clearhead.data.inspect import Alike, Inspection, inspect_data
    from clearhead.data.labels import LabelCounter, LabelSpace, is_missing, read_labels
    from clearhead.data.lengths import Lengths
    from clearhead.data.row_codec import Encoder, LengthPolicy, PlainView, RowCodec, item_pieces, row_of_texts
    from clearhead.data.sources.readers import open_source
    from clearhead.data.sources.source import BadRow, Row, Source
    from clearhead.data.split import draw_rows, fold_rows, split_from_column, split_rows
    from clearhead.data.table import TokenTable, encode_rows, encode_stream, encode_table, read_rows, survey
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "batches": ("token_batches",),
            "column_layout": ("ColumnLayout", "Role"),
            "column_resolver": ("by_plain_name", "columns_beside", "find_column", "guess_columns", "resolve_columns"),
            "columns": ("ColumnRoles", "Columns"),
            "examples": (
                "BadRows",
                "Examples",
                "TextRow",
                "checked_row",
                "checked_rows",
                "id_in",
                "load_examples",
                "split_in",
                "text_hash",
                "text_in",
            ),
            "findings": ("Finding", "findings_of"),
            "inspect": ("Alike", "Inspection", "inspect_data"),
            "labels": ("LabelCounter", "LabelSpace", "is_missing", "read_labels"),
            "lengths": ("Lengths",),
            "row_codec": ("Encoder", "LengthPolicy", "PlainView", "RowCodec", "item_pieces", "row_of_texts"),
            "sources.readers": ("open_source",),
            "sources.source": ("BadRow", "Row", "Source"),
            "split": ("draw_rows", "fold_rows", "split_from_column", "split_rows"),
            "table": ("TokenTable", "encode_rows", "encode_stream", "encode_table", "read_rows", "survey"),
        },
    )

__all__ = [
    "Alike",
    "BadRow",
    "BadRows",
    "ColumnLayout",
    "ColumnRoles",
    "Columns",
    "Encoder",
    "Examples",
    "Finding",
    "Inspection",
    "LabelCounter",
    "LabelSpace",
    "LengthPolicy",
    "Lengths",
    "PlainView",
    "Role",
    "Row",
    "RowCodec",
    "Source",
    "TextRow",
    "TokenTable",
    "by_plain_name",
    "checked_row",
    "checked_rows",
    "columns_beside",
    "draw_rows",
    "encode_rows",
    "encode_stream",
    "encode_table",
    "find_column",
    "findings_of",
    "fold_rows",
    "guess_columns",
    "id_in",
    "inspect_data",
    "is_missing",
    "item_pieces",
    "load_examples",
    "open_source",
    "read_labels",
    "read_rows",
    "resolve_columns",
    "row_of_texts",
    "split_from_column",
    "split_in",
    "split_rows",
    "survey",
    "text_hash",
    "text_in",
    "token_batches",
]
