"""Telling when tokenizer.json and tokenizer_config.json would read the same text differently."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer as Pipeline

from clearhead.text.limits.pipeline_limits import check_pipeline
from clearhead.text.probes import PROBES

# Case, accents and scripts; not the odd blanks, where files from before version 5 differ as a rule.
ORDINARY_PROBES = PROBES[:3]


def describe_conflict(data: dict[str, Any], pipeline: Pipeline) -> str | None:
    """A sentence for people if the rebuilt pipeline does not cut ordinary text as tokenizer.json itself would.

    The settings win, as they do in `transformers` 5. The usual case is a cased model whose tokenizer_config.json does
    not say `do_lower_case: false`.
    """
    parts = {key: data.get(key) for key in ("normalizer", "pre_tokenizer")}
    if not any(parts.values()) or '"Regex"' in json.dumps(parts):
        return None  # a pattern of a file is never run without need
    check_pipeline(parts)
    model = {"type": "WordLevel", "vocab": {}, "unk_token": "?"}
    own = Pipeline.from_str(json.dumps({"version": "1.0", "added_tokens": [], "model": model} | parts))
    for text in ORDINARY_PROBES:
        for theirs, ours in zip(_words(own, text), _words(pipeline, text), strict=False):
            if theirs != ours:
                return (
                    f"tokenizer.json alone would read {theirs!r} where the settings in tokenizer_config.json give "
                    f"{ours!r}; the settings are followed, as in transformers 5"
                )
    return None


def _words(pipeline: Pipeline, text: str) -> list[str]:
    if pipeline.normalizer is not None:
        text = pipeline.normalizer.normalize_str(text)
    if pipeline.pre_tokenizer is None:
        return [text]
    return [word for word, _ in pipeline.pre_tokenizer.pre_tokenize_str(text)]
