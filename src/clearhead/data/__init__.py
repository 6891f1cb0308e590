"""Read datasets: open files and values, resolve columns and labels, check, split and batch rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.data.batches import token_batches
    from clearhead.data.column_layout import ColumnLayout, Role
    from clearhead.data.column_resolver import (
        columns_by_normalized_name,
        find_column,
        guess_columns,
        match_columns,
        resolve_columns,
    )
    from clearhead.data.columns import ColumnRoles, Columns
    from clearhead.data.examples import (
        BadRows,
        Examples,
        TextRow,
        check_row,
        check_rows,
        hash_text,
        load_examples,
        read_id,
        read_split,
        read_text,
    )
    from clearhead.data.findings import Finding, collect_findings
    from clearhead.data.inspect import Duplicates, Inspection, inspect_data
    from clearhead.data.labels import LabelCounter, LabelSpace, is_missing, read_labels
    from clearhead.data.lengths import Lengths
    from clearhead.data.row_codec import LengthPolicy, PlainView, RowCodec, TextEncoder, encode_items, row_from_texts
    from clearhead.data.sources.readers import open_source
    from clearhead.data.sources.source import BadRow, Row, Source
    from clearhead.data.split import fold_rows, sample_rows, split_from_column, split_rows
    from clearhead.data.table import TokenTable, encode_rows, encode_stream, encode_table, read_rows, survey_rows
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "batches": ("token_batches",),
            "column_layout": ("ColumnLayout", "Role"),
            "column_resolver": (
                "columns_by_normalized_name",
                "match_columns",
                "find_column",
                "guess_columns",
                "resolve_columns",
            ),
            "columns": ("ColumnRoles", "Columns"),
            "examples": (
                "BadRows",
                "Examples",
                "TextRow",
                "check_row",
                "check_rows",
                "read_id",
                "load_examples",
                "read_split",
                "hash_text",
                "read_text",
            ),
            "findings": ("Finding", "collect_findings"),
            "inspect": ("Duplicates", "Inspection", "inspect_data"),
            "labels": ("LabelCounter", "LabelSpace", "is_missing", "read_labels"),
            "lengths": ("Lengths",),
            "row_codec": ("TextEncoder", "LengthPolicy", "PlainView", "RowCodec", "encode_items", "row_from_texts"),
            "sources.readers": ("open_source",),
            "sources.source": ("BadRow", "Row", "Source"),
            "split": ("sample_rows", "fold_rows", "split_from_column", "split_rows"),
            "table": ("TokenTable", "encode_rows", "encode_stream", "encode_table", "read_rows", "survey_rows"),
        },
        former={
            "Alike": "Duplicates",
            "Encoder": "TextEncoder",
            "checked_row": "check_row",
            "checked_rows": "check_rows",
            "columns_beside": "match_columns",
            "draw_rows": "sample_rows",
            "findings_of": "collect_findings",
            "survey": "survey_rows",
            "text_hash": "hash_text",
        },
    )

__all__ = [
    "BadRow",
    "BadRows",
    "ColumnLayout",
    "ColumnRoles",
    "Columns",
    "Duplicates",
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
    "TextEncoder",
    "TextRow",
    "TokenTable",
    "check_row",
    "check_rows",
    "collect_findings",
    "columns_by_normalized_name",
    "encode_items",
    "encode_rows",
    "encode_stream",
    "encode_table",
    "find_column",
    "fold_rows",
    "guess_columns",
    "hash_text",
    "inspect_data",
    "is_missing",
    "load_examples",
    "match_columns",
    "open_source",
    "read_id",
    "read_labels",
    "read_rows",
    "read_split",
    "read_text",
    "resolve_columns",
    "row_from_texts",
    "sample_rows",
    "split_from_column",
    "split_rows",
    "survey_rows",
    "token_batches",
]
