"""From hidden states to one vector per text: which layers, which tokens, what then. numpy only."""

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


Layer = str | int | tuple[float, ...]  # by name or number, or what each layer is multiplied by


def choose_layer(hidden: Sequence[Array], choice: Layer) -> Array:
    """One array of token vectors from all layers; `hidden` has the embeddings first."""
    import numpy as np

    if isinstance(choice, tuple):
        if len(choice) != len(hidden):
            raise InputError(f"{len(choice)} layers are weighted, and the model has {len(hidden)}.")
        parts = [np.float32(weight) * layer for weight, layer in zip(choice, hidden, strict=True)]
        return sum(parts[1:], start=parts[0])
    if isinstance(choice, int):
        if not -len(hidden) <= choice < len(hidden):
            raise InputError(f"There is no layer {choice}; the model has {len(hidden)} (0 is the embeddings).")
        return hidden[choice]
    four = hidden[1:][-4:]
    choices: dict[str, Callable[[], Array]] = {
        "first": lambda: hidden[0],  # the embeddings, as the lecture counts
        "last": lambda: hidden[-1],
        "second_to_last": lambda: hidden[-2],
        "sum_all": lambda: sum(hidden[2:], start=hidden[1]),
        "sum_last_four": lambda: sum(four[1:], start=four[0]),
        "concat_last_four": lambda: np.concatenate(four, -1),
    }
    if choice in ("sum_last_four", "concat_last_four") and len(hidden) < 5:
        raise InputError(f"{choice} needs four layers, and this model has {len(hidden) - 1}.")
    if choice not in choices:
        raise InputError(f"layer must be a number or one of {', '.join(POOLING_LAYERS)}, and it is {choice!r}.")
    return choices[choice]()


def pool(tokens: Array, mask: Array, pooled: Array | None, modes: Sequence[str]) -> Array:
    """Token vectors (batch, length, width) to text vectors; several ways are laid side by side."""
    import numpy as np

    real = mask.astype(tokens.dtype)[..., None]
    count = np.maximum(real.sum(1), 1e-9)
    place = np.arange(1, tokens.shape[1] + 1, dtype=tokens.dtype)[None, :, None]

    def pooler() -> Array:
        if pooled is None:
            raise InputError("This checkpoint has no pooler; pool by mean, first or max instead.")
        return pooled

    def at(index: Array) -> Array:
        return tokens[np.arange(len(tokens)), index]

    ways: dict[str, Callable[[], Array]] = {
        "cls": lambda: at(mask.argmax(1)),
        "lasttoken": lambda: at(mask.shape[1] - 1 - mask[:, ::-1].argmax(1)),
        "pooler": pooler,
        "mean": lambda: (tokens * real).sum(1) / count,
        "mean_sqrt_len_tokens": lambda: (tokens * real).sum(1) / np.sqrt(count),
        "max": lambda: np.where(real > 0, tokens, -np.inf).max(1),
        "weightedmean": lambda: (tokens * real * place).sum(1) / np.maximum((real * place).sum(1), 1e-9),
    }
    return np.concatenate([ways[mode]() for mode in modes], -1)


def pooling_modes(given: str | Sequence[str]) -> tuple[str, ...]:
    """The ways of pooling by their names here, checked."""
    asked = (given,) if isinstance(given, str) else tuple(given)
    modes = tuple(SYNONYMS.get(mode, mode) for mode in asked)
    for mode in modes:
        if mode not in POOLING_MODES:
            raise InputError(f"pooling must be one of first, {', '.join(POOLING_MODES[1:])}, and it is {mode!r}.")
    if not modes:
        raise InputError("pooling names no way to pool.")
    return modes


def apply_activation(name: str, x: Array) -> Array:
    """The few activations that dense steps of sentence encoders use."""
    import numpy as np

    kinds: dict[str, Callable[[], Array]] = {
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
    return kinds[name]().astype(x.dtype)


def finish_vectors(vectors: Array, pooling: Pooling, dense: Sequence[Mapping[str, Array]], *, normalize: bool) -> Array:
    """Dense steps and unit length, as the folder says."""
    import numpy as np

    for shape, weights in zip(pooling.dense, dense, strict=True):
        vectors = vectors @ weights["weight"].T
        if shape.bias:
            vectors = vectors + weights["bias"]
        vectors = apply_activation(shape.activation, vectors)
    check_finite(vectors)
    if normalize:
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        check_finite(lengths)  # of large numbers, the squares may overflow
        vectors = vectors / np.maximum(lengths, 1e-12)
    return vectors.astype(np.float32)
