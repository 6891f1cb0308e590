"""A trained folder in use: rows in, answers out, as values or as files.

`Predictor.answer` answers plain values; `stream` answers the rows of a source in chunks, and `files` writes them to
tables; `scoring` turns texts into logits or features.
"""
