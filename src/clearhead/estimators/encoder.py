"""A scikit-learn transformer that embeds texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from clearhead.deprecation import rename_stored
from clearhead.estimators.inputs import read_single_texts, set_text_tags
from clearhead.estimators.model_handle import ModelHandle
from clearhead.metrics.checks import Array


class TextEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Embed texts with a frozen model; layer and pooling default to those of its folder.

    A pickle contains the name of the model, not its weights.
    """

    def __init__(
        self,
        *,
        model: str = "default",
        layer: str | int | None = None,
        pooling: str | Sequence[str] | None = None,
        normalize: bool | None = None,
        prompt: str | None = None,
        device: str = "auto",
    ) -> None:
        self.model = model
        self.layer = layer
        self.pooling = pooling
        self.normalize = normalize
        self.prompt = prompt
        self.device = device

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(rename_stored(state, {"loaded_": "model_handle_"}))  # of pickles written by version 0.1

    def __sklearn_tags__(self) -> Any:
        tags = set_text_tags(super().__sklearn_tags__())
        tags.transformer_tags.preserves_dtype = []  # texts have no dtype; vectors are float32
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Load the model; nothing is learned."""
        texts = read_single_texts(X)
        handle = ModelHandle(str(self.model), self.device)
        self.width_ = int(self._embed(handle, texts[:1]).shape[1])
        self.n_features_in_ = 1
        self.model_handle_ = handle
        return self

    def transform(self, X: Any) -> Array:
        """Return one float32 vector per text."""
        check_is_fitted(self)
        return self._embed(self.model_handle_, read_single_texts(X))

    def get_feature_names_out(self, input_features: Any = None) -> Array:  # noqa: ARG002
        """Return names of the dimensions of a vector."""
        check_is_fitted(self)
        return np.array([f"textencoder{index}" for index in range(self.width_)], object)

    def _embed(self, handle: ModelHandle, texts: list[str]) -> Array:
        return handle.load_model().embed(
            texts, layer=self.layer, pooling=self.pooling, normalize=self.normalize, prompt=self.prompt
        )
