"""Small synthetic texts, targets and features that several tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from clearhead.data import LabelSpace
from clearhead.metrics.checks import Array

WORDS = (
    "red",
    "blue",
    "green",
    "warm",
    "cold",
    "quick",
    "slow",
    "bright",
    "dark",
    "loud",
    "quiet",
    "soft",
    "old",
    "flat",
)

TWO_CLASSES = LabelSpace(names=("no", "yes"))
FOUR_CLASSES = LabelSpace(names=("a", "b", "c", "d"))
LABELS = LabelSpace(names=("x", "y", "z"), kind="multilabel")
NUMBER = LabelSpace(kind="number")


def make_texts(count: int, seed: int = 0) -> list[str]:
    """Texts of a few words each; one is empty."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(count)]
    texts[count // 2] = ""
    return texts


def make_features(count: int, columns: int = 7, seed: int = 0) -> Array:
    """Columns of very different scales, one of them constant."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, columns)) * 10.0 ** np.arange(-2, columns - 2) + np.arange(columns)
    features[:, 3] = 5.0
    return features.astype(np.float32)


def make_targets(features: Array, space: LabelSpace, seed: int = 0) -> Array:
    """Targets that depend on the features, with noise."""
    rng = np.random.default_rng(seed)
    std = features.std(0)
    scores = (features / np.where(std > 0, std, 1)) @ rng.normal(size=(features.shape[1], max(len(space), 1)))
    scores += rng.normal(size=scores.shape)
    if space.kind == "number":
        return np.asarray(scores[:, 0] * 3 + 20)
    scores -= scores.mean(0)
    return np.asarray(scores > 0 if space.kind == "multilabel" else scores.argmax(1))


def iter_texts(texts: Sequence[str]) -> Callable[[], Iterator[tuple[str, str | None]]]:
    """Texts as rows that can be read repeatedly."""
    return lambda: ((text, None) for text in texts)


def iter_text_pairs(first: Sequence[str], second: Sequence[str]) -> Callable[[], Iterator[tuple[str, str | None]]]:
    """Pairs of texts as rows."""
    return lambda: iter(zip(first, second, strict=True))


def softmax(logits: Array) -> Array:
    """Probabilities of classes."""
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(1, keepdims=True))


def sigmoid(logits: Array) -> Array:
    """Probabilities of labels."""
    return np.asarray(1 / (1 + np.exp(-logits)))
