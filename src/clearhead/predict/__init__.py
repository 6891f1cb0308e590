"""A trained folder in use: rows in, answers out, as values or as files.

`Predictor` answers rows; `scoring` turns texts into logits or features; `files` reads and writes tables.
"""
