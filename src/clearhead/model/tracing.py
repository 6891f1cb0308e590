"""Traces of one text: the implementation of `Model.trace`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.model.inputs import check_batch, encode_untruncated, head_scale_by_part

if TYPE_CHECKING:
    from clearhead.core.trace import Trace
    from clearhead.model.model import Model


def trace_text(model: Model, text: str, second: str | None, target: str | Sequence[int] | None, scale: Any) -> Trace:
    """Trace every attention step of one text or a pair, in the core."""
    core = model.core
    from clearhead.core.trace import trace

    encoding = encode_untruncated(model.tokenizer, model.shape, text, second)
    segments = [encoding.segments] if model.shape.stack.segments > 1 else None
    target_ids, target_tokens, next_tokens = None, None, None
    texts: dict[str, Any] = {"text": text, "second": second, "special": list(encoding.special)}
    if target is not None:
        if model.shape.decoder is None:
            raise InputError("target requires a model with a decoder.")
        ids, next_tokens, target_info = _encode_target(model, target)
        texts |= target_info
        start = model.shape.decoder_start_id or 0
        target_ids = [[start, *ids[:-1]]]  # shifted right: each position predicts the next token
        target_tokens = ["<start>", *next_tokens[:-1]]
    batch, _ = check_batch(model.shape, [encoding.ids], None, segments, target_ids, None)
    traced = trace(core, batch, list(encoding.tokens), target_tokens, next_tokens, head_scale=head_scale_by_part(scale))
    return replace(traced, **texts)


def _encode_target(model: Model, target: str | Sequence[int]) -> tuple[list[int], list[str], dict[str, Any]]:
    """Encode a target: its ids, its tokens, its text and which tokens are special."""
    tokenizer = model.target_tokenizer or model.tokenizer
    if isinstance(target, str):
        encoding = tokenizer.encode(target)
        return list(encoding.ids), list(encoding.tokens), {"target": target, "next_special": list(encoding.special)}
    ids = [int(token) for token in target]
    tokens, special_ids = tokenizer.tokens(ids), {tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id}
    return ids, tokens, {"target": tokenizer.decode(ids), "next_special": [token in special_ids for token in ids]}
