"""Data in: open whatever holds rows, find its columns and labels, check, split and batch it."""

from clearhead.data.batches import token_batches
from clearhead.data.column_resolver import guess_columns, resolve_columns
from clearhead.data.columns import Columns
from clearhead.data.examples import Examples, TextRow, checked_row, checked_rows, load_examples, text_hash
from clearhead.data.findings import Finding
from clearhead.data.inspect import Alike, Inspection, inspect_data
from clearhead.data.labels import LabelCounter, LabelSpace, read_labels
from clearhead.data.lengths import Lengths
from clearhead.data.row_codec import LengthPolicy
from clearhead.data.sources.readers import open_source
from clearhead.data.sources.source import BadRow, Row, Source
from clearhead.data.split import fold_rows, split_from_column, split_rows
from clearhead.data.table import TokenTable, encode_stream, encode_table, read_rows, survey

__all__ = [
    "Alike",
    "BadRow",
    "Columns",
    "Examples",
    "Finding",
    "Inspection",
    "LabelCounter",
    "LabelSpace",
    "LengthPolicy",
    "Lengths",
    "Row",
    "Source",
    "TextRow",
    "TokenTable",
    "checked_row",
    "checked_rows",
    "encode_stream",
    "encode_table",
    "fold_rows",
    "guess_columns",
    "inspect_data",
    "load_examples",
    "open_source",
    "read_labels",
    "read_rows",
    "resolve_columns",
    "split_from_column",
    "split_rows",
    "survey",
    "text_hash",
    "token_batches",
]
