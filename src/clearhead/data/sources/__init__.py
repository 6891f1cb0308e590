"""Open files, folders, pipes and Python values as a `Source`; one module per format.

`readers.open_source` detects the format by name and content; `row_store` caches rows, so that later passes need not
read the file again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.data.sources.files import open_path
    from clearhead.data.sources.header import is_number
    from clearhead.data.sources.lines import is_table, read_line_texts, read_numbered_cells, read_numbered_lines
    from clearhead.data.sources.readers import open_source
    from clearhead.data.sources.row_store import store_rows
    from clearhead.data.sources.row_tally import RowTally
    from clearhead.data.sources.source import BadRow, Row, Source, excerpt
    from clearhead.data.sources.texts import is_text_source, read_texts
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "files": ("open_path",),
            "header": ("is_number",),
            "lines": ("is_table", "read_line_texts", "read_numbered_cells", "read_numbered_lines"),
            "readers": ("open_source",),
            "row_store": ("store_rows",),
            "source": ("BadRow", "Row", "Source", "excerpt"),
            "row_tally": ("RowTally",),
            "texts": ("is_text_source", "read_texts"),
        },
    )

__all__ = [
    "BadRow",
    "Row",
    "RowTally",
    "Source",
    "excerpt",
    "is_number",
    "is_table",
    "is_text_source",
    "open_path",
    "open_source",
    "read_line_texts",
    "read_numbered_cells",
    "read_numbered_lines",
    "read_texts",
    "store_rows",
]
