"""Validation of the arrays that users pass to `run`, before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.batch import Batch, to_integer_array
from clearhead.errors import InputError
from clearhead.html import pluralize
from clearhead.shape import ModelShape, Shape

if TYPE_CHECKING:
    import numpy as np

    from clearhead.text import Encoding, Tokenizer

    Array = np.ndarray[Any, Any]

MAX_TOKENS = 4_096  # per text, if neither folder nor positions set a limit: attention memory is quadratic


def encode_untruncated(tokenizer: Tokenizer, shape: ModelShape, text: str, second: str | None = None) -> Encoding:
    """Encode one text or a pair without truncation; too many tokens are an error."""
    stack = shape.stack
    limit = stack.max_length if stack.positions == "learned" and stack.max_length is not None else MAX_TOKENS
    encoding = tokenizer.encode(text, second, max_length=limit)
    if encoding.truncated:
        raise InputError(
            f"The text has {limit + encoding.truncated:,} tokens, but the model reads {limit:,}; shorten it or split "
            "it into windows (tokenizer.windows)."
        )
    return encoding


def check_batch(
    shape: ModelShape, ids: Any, mask: Any, segments: Any, target_ids: Any, target_mask: Any
) -> tuple[Batch, int | None]:
    """Check a batch against the model; also return the number of choices if ids are (batch, choices, length)."""
    token_ids = to_integer_array(ids, "ids")
    choices = None
    if shape.head is not None and shape.head.kind == "choice" and token_ids.ndim == 3:
        choices = token_ids.shape[1]
        token_ids, mask, segments = (_flatten_choices(value, token_ids.shape) for value in (token_ids, mask, segments))
    _check_ids(token_ids, shape.stack, "ids")
    batch = Batch(
        ids=token_ids,
        mask=_check_mask(mask, token_ids, "mask"),
        segments=_check_segments(segments, token_ids, shape.stack),
    )
    if target_ids is None:
        if target_mask is not None:
            raise InputError("target_mask was given without target_ids.")
        return batch, choices
    if shape.decoder is None:
        raise InputError(f"target_ids require a model with a decoder, but this {shape.family} has none.")
    targets = to_integer_array(target_ids, "target_ids")
    _check_ids(targets, shape.decoder, "target_ids")
    if len(targets) != len(token_ids):
        raise InputError(f"ids has {pluralize(len(token_ids), 'row')} and target_ids has {len(targets)}.")
    batch.target_ids, batch.target_mask = targets, _check_mask(target_mask, targets, "target_mask")
    return batch, choices


def _flatten_choices(value: Any, size: tuple[int, ...]) -> Any:
    if value is None:
        return None
    array = _to_array(value, "mask or segments")
    if array.shape != size:
        raise InputError(f"mask and segments must have shape {size} like ids, got {array.shape}.")
    return array.reshape(-1, size[-1])


def _to_array(value: Any, name: str) -> Array:
    import numpy as np

    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu().numpy()
    try:
        return np.asarray(value)
    except ValueError:
        raise InputError(f"{name} has rows of different lengths.") from None


def _check_ids(ids: Array, shape: Shape, name: str) -> None:
    if ids.ndim != 2:
        raise InputError(f"{name} must have shape (batch, length), got {ids.ndim} dimensions: {ids.shape}.")
    if 0 in ids.shape:
        raise InputError(f"{name} is empty: {pluralize(ids.shape[0], 'row')} of {ids.shape[1]} tokens.")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= shape.vocab_size:
        row, column = (int(n) for n in divmod(int((ids < 0).argmax() if low < 0 else ids.argmax()), ids.shape[1]))
        raise InputError(
            f"{name}[{row}, {column}] is {ids[row, column]}, but the vocabulary has {shape.vocab_size} tokens (0 to "
            f"{shape.vocab_size - 1})."
        )
    if shape.positions == "learned" and shape.max_length is not None and ids.shape[1] > shape.max_length:
        raise InputError(
            f"{name} has {ids.shape[1]} tokens per row, but the model has {shape.max_length} positions; shorten the "
            f"texts or split them into windows (tokenizer.windows)."
        )


def _check_mask(mask: Any, ids: Array, name: str) -> Array | None:
    if mask is None:
        return None
    import numpy as np

    array = _to_array(mask, name)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be true or false for each token, got {array.dtype}.")
    if array.shape != ids.shape:
        raise InputError(f"{name} must have shape {ids.shape} like its ids, got {array.shape}.")
    if array.dtype.kind != "b" and not np.isin(array, (0, 1)).all():  # for example an additive mask
        raise InputError(f"{name} must be 1 for real tokens and 0 for padding, got other values.")
    return array.astype(np.bool_)


def _check_segments(segments: Any, ids: Array, shape: Shape) -> Array | None:
    if segments is None:
        return None
    array = to_integer_array(segments, "segments")
    if array.shape != ids.shape:
        raise InputError(f"segments must have shape {ids.shape} like ids, got {array.shape}.")
    if not shape.segments:
        return None  # tokenizers may return segments even if the model has none
    if array.min() < 0 or array.max() >= shape.segments:
        invalid = array.min() if array.min() < 0 else array.max()
        raise InputError(f"segments contains {invalid}, expected 0 to {shape.segments - 1}.")
    return array


def head_scale_by_part(scale: Any) -> dict[str, Any] | None:
    """Return head scales by part; a plain array means the heads of the encoder."""
    return scale if scale is None or isinstance(scale, dict) else {"encoder": scale}
