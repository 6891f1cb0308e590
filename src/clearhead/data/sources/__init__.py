"""Whatever holds rows, opened as a `Source`: files, folders, pipes, Python values; each format in a file of its own.

`readers.open_source` decides by name and content, and `row_store` keeps rows as they are read, so that later passes
need not read the file again.
"""
