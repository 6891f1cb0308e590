"""Arrays that users hand to `run`, checked against the model before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.batch import Batch, to_integer_array
from clearhead.errors import InputError
from clearhead.shape import ModelShape, Shape

if TYPE_CHECKING:
    import numpy as np

    from clearhead.text import Encoding, Tokenizer

    Array = np.ndarray[Any, Any]

MAX_TOKENS = 4_096  # of a text where neither the folder nor the positions say: attention takes their square in memory


def encode_untruncated(tokenizer: Tokenizer, shape: ModelShape, text: str, second: str | None = None) -> Encoding:
    """One text or two, whole; refused at once where the network cannot read so many tokens."""
    stack = shape.stack
    limit = stack.max_length if stack.positions == "learned" and stack.max_length is not None else MAX_TOKENS
    encoding = tokenizer.encode(text, second, max_length=limit)
    if encoding.truncated:
        raise InputError(
            f"The text has {limit + encoding.truncated:,} tokens, and the model reads {limit:,}; shorten it or cut it "
            "into windows (tokenizer.windows)."
        )
    return encoding


def check_batch(
    shape: ModelShape, ids: Any, mask: Any, segments: Any, target_ids: Any, target_mask: Any
) -> tuple[Batch, int | None]:
    """A batch that fits the model, and the number of choices when the ids were (batch, choices, length)."""
    words = to_integer_array(ids, "ids")
    choices = None
    if shape.head is not None and shape.head.kind == "choice" and words.ndim == 3:
        choices = words.shape[1]
        words, mask, segments = (_flatten_choices(value, words.shape) for value in (words, mask, segments))
    _check_ids(words, shape.stack, "ids")
    batch = Batch(
        ids=words, mask=_check_mask(mask, words, "mask"), segments=_check_segments(segments, words, shape.stack)
    )
    if target_ids is None:
        if target_mask is not None:
            raise InputError("target_mask was given without target_ids.")
        return batch, choices
    if shape.decoder is None:
        raise InputError(f"target_ids are for models with a decoder, and this {shape.family} has none.")
    targets = to_integer_array(target_ids, "target_ids")
    _check_ids(targets, shape.decoder, "target_ids")
    if len(targets) != len(words):
        raise InputError(f"ids has {len(words)} rows and target_ids has {len(targets)}.")
    batch.target_ids, batch.target_mask = targets, _check_mask(target_mask, targets, "target_mask")
    return batch, choices


def _flatten_choices(value: Any, size: tuple[int, ...]) -> Any:
    if value is None:
        return None
    array = _to_array(value, "mask or segments")
    if array.shape != size:
        raise InputError(f"mask and segments must be {size} like ids, and one is {array.shape}.")
    return array.reshape(-1, size[-1])


def _to_array(value: Any, name: str) -> Array:
    import numpy as np

    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu().numpy()
    try:
        return np.asarray(value)
    except ValueError:
        raise InputError(f"{name} has rows of different length.") from None


def _check_ids(ids: Array, shape: Shape, name: str) -> None:
    if ids.ndim != 2:
        raise InputError(f"{name} must be (batch, length), and it has {ids.ndim} sides: {ids.shape}.")
    if 0 in ids.shape:
        raise InputError(f"{name} is empty: {ids.shape[0]} rows of {ids.shape[1]} tokens.")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= shape.vocab_size:
        row, place = (int(n) for n in divmod(int((ids < 0).argmax() if low < 0 else ids.argmax()), ids.shape[1]))
        raise InputError(
            f"{name}[{row}, {place}] is {ids[row, place]}, and the vocabulary has {shape.vocab_size} tokens (0 to "
            f"{shape.vocab_size - 1})."
        )
    if shape.positions == "learned" and shape.max_length is not None and ids.shape[1] > shape.max_length:
        raise InputError(
            f"{name} has {ids.shape[1]} tokens a row, and the model numbers {shape.max_length}; shorten the texts or "
            f"cut them into windows (tokenizer.windows)."
        )


def _check_mask(mask: Any, ids: Array, name: str) -> Array | None:
    if mask is None:
        return None
    import numpy as np

    array = _to_array(mask, name)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be true or false for each token, and it is {array.dtype}.")
    if array.shape != ids.shape:
        raise InputError(f"{name} must be {ids.shape} like its ids, and it is {array.shape}.")
    if array.dtype.kind != "b" and not np.isin(array, (0, 1)).all():  # a mask to be added to scores, perhaps
        raise InputError(f"{name} must be 1 at real tokens and 0 at padding, and it holds other numbers.")
    return array.astype(np.bool_)


def _check_segments(segments: Any, ids: Array, shape: Shape) -> Array | None:
    if segments is None:
        return None
    array = to_integer_array(segments, "segments")
    if array.shape != ids.shape:
        raise InputError(f"segments must be {ids.shape} like ids, and it is {array.shape}.")
    if not shape.segments:
        return None  # a tokenizer may number the two texts of a pair all the same
    if array.min() < 0 or array.max() >= shape.segments:
        wrong = array.min() if array.min() < 0 else array.max()
        raise InputError(f"segments holds {wrong}, and this model knows 0 to {shape.segments - 1}.")
    return array


def head_scale_by_part(scale: Any) -> dict[str, Any] | None:
    """Scales of heads by part; a plain table of numbers means the encoder's heads."""
    return scale if scale is None or isinstance(scale, dict) else {"encoder": scale}
