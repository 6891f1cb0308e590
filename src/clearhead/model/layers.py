"""Pooling of hidden states to one vector per text: layer, pooling mode, dense layers, normalization. Numpy only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clearhead.batch import check_finite
from clearhead.errors import InputError
from clearhead.shape import POOLING_LAYERS, POOLING_MODES, Pooling

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

SYNONYMS = {"first": "cls", "last_token": "lasttoken"}


Layer = str | int | tuple[float, ...]  # a name, an index, or a weight for each layer


def choose_layer(hidden: Sequence[Array], choice: Layer) -> Array:
    """Select or combine layers to one array of token vectors; `hidden` starts with the embeddings."""
    import numpy as np

    if isinstance(choice, tuple):
        if len(choice) != len(hidden):
            raise InputError(f"Got weights for {len(choice)} layers, but the model has {len(hidden)}.")
        parts = [np.float32(weight) * layer for weight, layer in zip(choice, hidden, strict=True)]
        return sum(parts[1:], start=parts[0])
    if isinstance(choice, int):
        if not -len(hidden) <= choice < len(hidden):
            raise InputError(
                f"Layer {choice} does not exist; the model has {len(hidden)} layers (0 is the embeddings)."
            )
        return hidden[choice]
    last_four = hidden[1:][-4:]
    choices: dict[str, Callable[[], Array]] = {
        "first": lambda: hidden[0],  # the embeddings
        "last": lambda: hidden[-1],
        "second_to_last": lambda: hidden[-2],
        "sum_all": lambda: sum(hidden[2:], start=hidden[1]),
        "sum_last_four": lambda: sum(last_four[1:], start=last_four[0]),
        "concat_last_four": lambda: np.concatenate(last_four, -1),
    }
    if choice in ("sum_last_four", "concat_last_four") and len(hidden) < 5:
        raise InputError(f"{choice} requires four layers, but this model has {len(hidden) - 1}.")
    if choice not in choices:
        raise InputError(f"layer must be an integer or one of {', '.join(POOLING_LAYERS)}, got {choice!r}.")
    return choices[choice]()


def pool(tokens: Array, mask: Array, pooled: Array | None, modes: Sequence[str]) -> Array:
    """Pool token vectors (batch, length, width) to text vectors; several modes are concatenated."""
    import numpy as np

    mask_float = mask.astype(tokens.dtype)[..., None]
    count = np.maximum(mask_float.sum(1), 1e-9)
    positions = np.arange(1, tokens.shape[1] + 1, dtype=tokens.dtype)[None, :, None]

    def pooler() -> Array:
        if pooled is None:
            raise InputError("This checkpoint has no pooler; pool by mean, first or max instead.")
        return pooled

    def token_at(index: Array) -> Array:
        return tokens[np.arange(len(tokens)), index]

    pool_by_mode: dict[str, Callable[[], Array]] = {
        "cls": lambda: token_at(mask.argmax(1)),
        "lasttoken": lambda: token_at(mask.shape[1] - 1 - mask[:, ::-1].argmax(1)),
        "pooler": pooler,
        "mean": lambda: (tokens * mask_float).sum(1) / count,
        "mean_sqrt_len_tokens": lambda: (tokens * mask_float).sum(1) / np.sqrt(count),
        "max": lambda: np.where(mask_float > 0, tokens, -np.inf).max(1),
        "weightedmean": lambda: (
            (tokens * mask_float * positions).sum(1) / np.maximum((mask_float * positions).sum(1), 1e-9)
        ),
    }
    return np.concatenate([pool_by_mode[mode]() for mode in modes], -1)


def pooling_modes(pooling: str | Sequence[str]) -> tuple[str, ...]:
    """Resolve pooling modes to their canonical names."""
    names = (pooling,) if isinstance(pooling, str) else tuple(pooling)
    modes = tuple(SYNONYMS.get(mode, mode) for mode in names)
    for mode in modes:
        if mode not in POOLING_MODES:
            raise InputError(f"pooling must be one of first, {', '.join(POOLING_MODES[1:])}, got {mode!r}.")
    if not modes:
        raise InputError("pooling must name at least one mode.")
    return modes


def apply_activation(name: str, x: Array) -> Array:
    """Apply an activation that dense layers of sentence encoders use."""
    import numpy as np

    functions: dict[str, Callable[[], Array]] = {
        "linear": lambda: x,
        "tanh": lambda: np.tanh(x),
        "relu": lambda: np.maximum(x, 0),
        "relu6": lambda: np.clip(x, 0, 6),
        "leaky_relu": lambda: np.where(x > 0, x, 0.01 * x),
        "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "silu": lambda: x / (1 + np.exp(-x)),
        "elu": lambda: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "mish": lambda: x * np.tanh(np.logaddexp(0, x)),
        "gelu": lambda: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    }
    return functions[name]().astype(x.dtype)


def finish_vectors(vectors: Array, pooling: Pooling, dense: Sequence[Mapping[str, Array]], *, normalize: bool) -> Array:
    """Apply the dense layers of the pooling, and normalize to unit length."""
    import numpy as np

    for shape, weights in zip(pooling.dense, dense, strict=True):
        vectors = vectors @ weights["weight"].T
        if shape.bias:
            vectors = vectors + weights["bias"]
        vectors = apply_activation(shape.activation, vectors)
    check_finite(vectors)
    if normalize:
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        check_finite(lengths)  # the squares of large values may overflow
        vectors = vectors / np.maximum(lengths, 1e-12)
    return vectors.astype(np.float32)
