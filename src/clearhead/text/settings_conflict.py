"""Detect a tokenizer.json and a tokenizer_config.json that tokenize text differently."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer as Pipeline

from clearhead.text.limits.pipeline_limits import check_pipeline
from clearhead.text.probes import PROBES

# Case, accents and scripts. Unusual whitespace is left out, because files from before version 5 often differ there.
ORDINARY_PROBES = PROBES[:3]


def describe_conflict(data: dict[str, Any], pipeline: Pipeline) -> str | None:
    """Return a warning if the rebuilt pipeline splits ordinary text differently from tokenizer.json, else None.

    The settings take precedence, as in `transformers` 5. The typical case is a cased model whose tokenizer_config.json
    lacks `do_lower_case: false`.
    """
    sections = {key: data.get(key) for key in ("normalizer", "pre_tokenizer")}
    if not any(sections.values()) or '"Regex"' in json.dumps(sections):
        return None  # patterns from files are not run unless necessary
    check_pipeline(sections)
    model = {"type": "WordLevel", "vocab": {}, "unk_token": "?"}
    file_pipeline = Pipeline.from_str(json.dumps({"version": "1.0", "added_tokens": [], "model": model} | sections))
    for text in ORDINARY_PROBES:
        for file_word, settings_word in zip(
            _split_words(file_pipeline, text), _split_words(pipeline, text), strict=False
        ):
            if file_word != settings_word:
                return (
                    f"tokenizer.json produces {file_word!r} where the settings in tokenizer_config.json produce "
                    f"{settings_word!r}; the settings take precedence, as in transformers 5"
                )
    return None


def _split_words(pipeline: Pipeline, text: str) -> list[str]:
    if pipeline.normalizer is not None:
        text = pipeline.normalizer.normalize_str(text)
    if pipeline.pre_tokenizer is None:
        return [text]
    return [word for word, _ in pipeline.pre_tokenizer.pre_tokenize_str(text)]
