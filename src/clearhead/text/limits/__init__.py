"""Bounds on tokenizer files that came from anywhere: how much a text can grow, and in what time a pattern matches.

`pipeline_limits` and `vocabulary_limits` check a tokenizer.json before the library builds it, `patterns` its regular
expressions.
"""
