"""Choices of layers and pooling, and the features of all of them from one pass over the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from clearhead.batch import Batch
from clearhead.jobs.method import LayerChoice
from clearhead.model.layers import pool
from clearhead.predict.frozen_features import PACKED_TOKENS, compute_window_features
from clearhead.progress import Progress, no_progress
from clearhead.shape import POOLING_LAYERS

if TYPE_CHECKING:
    import numpy as np

    from clearhead.model import Model
    from clearhead.tasks.packed import PackedDataset

    Array = np.ndarray[Any, Any]

Poolings = Mapping[str, Callable[["Array"], "Array"]]  # by name: token vectors (batch, length, width) to features

POOLINGS = ("cls", "mean", "max")  # of any layer; the pooler reads only the last one
# poolings for which a pooled sum of layers is the sum of the pooled layers; each: no pooling
LINEAR_POOLINGS = ("cls", "mean", "each")
MIN_LAYERS = {"second_to_last": 2, "sum_all": 2, "sum_last_four": 4, "concat_last_four": 4}


class PooledLayers(NamedTuple):
    """A component of features: the sum of some layers (0 is the embeddings) with one pooling."""

    layers: tuple[int, ...]
    pooling: str


def list_layers(layer_count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The layer choices of a model with `layer_count` layers, and a note for each unavailable one."""
    unavailable = {layer: min_layers for layer, min_layers in MIN_LAYERS.items() if layer_count < min_layers}
    notes = (
        f"{layer} skipped: needs {min_layers} layers, the model has {layer_count}."
        for layer, min_layers in unavailable.items()
    )
    return tuple(layer for layer in POOLING_LAYERS if layer not in unavailable), tuple(notes)


def list_choices(model: Model) -> tuple[tuple[LayerChoice, ...], tuple[str, ...]]:
    """All combinations of layers and pooling of a model, and a note for each unavailable one."""
    layers, notes = list_layers(model.shape.stack.layers)
    choices = [LayerChoice(layer=layer, pooling=pooling) for layer in layers for pooling in POOLINGS]
    if model.shape.pooler is None:
        return tuple(choices), (*notes, "pooler skipped: this checkpoint has none.")
    return (*choices, LayerChoice(layer="last", pooling="pooler")), notes


def split_choice(choice: LayerChoice, layer_count: int) -> tuple[PooledLayers, ...]:
    """The components of a choice, whose features are concatenated."""
    last_four = tuple(range(layer_count - 3, layer_count + 1))
    layer_groups: dict[str, tuple[tuple[int, ...], ...]] = {
        "first": ((0,),),  # the embeddings
        "last": ((layer_count,),),
        "second_to_last": ((layer_count - 1,),),
        "sum_all": (tuple(range(1, layer_count + 1)),),
        "sum_last_four": (last_four,),
        "concat_last_four": tuple((layer,) for layer in last_four),
    }
    return tuple(PooledLayers(layers, choice.pooling) for layers in layer_groups[choice.layer])


def pool_layers(
    hidden: Sequence[Array], poolings: Poolings, components: Iterable[PooledLayers]
) -> dict[PooledLayers, Array]:
    """Compute components from the hidden states of one pass; linear poolings pool each layer only once."""
    pooled_layers: dict[tuple[int, str], Array] = {}
    features: dict[PooledLayers, Array] = {}
    for component in components:
        pool_tokens = poolings[component.pooling]
        if component.pooling in LINEAR_POOLINGS:
            for layer in component.layers:
                if (layer, component.pooling) not in pooled_layers:
                    pooled_layers[layer, component.pooling] = pool_tokens(hidden[layer])
            first_layer, *other_layers = (pooled_layers[layer, component.pooling] for layer in component.layers)
            features[component] = sum(other_layers, start=first_layer)
        else:
            first_layer, *other_layers = (hidden[layer] for layer in component.layers)
            features[component] = pool_tokens(sum(other_layers, start=first_layer))
    return features


@dataclass(frozen=True, kw_only=True)
class LayerFeatures:
    """The features of many choices, stored as their distinct components."""

    components: Mapping[PooledLayers, Array]  # (rows, width) float32 each
    layers: int  # number of layers of the model

    def select(self, choice: LayerChoice) -> Array:
        """The features of a choice: (rows, features)."""
        import numpy as np

        arrays = [self.components[component] for component in split_choice(choice, self.layers)]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, -1)

    @property
    def megabytes(self) -> float:
        """The memory of all components in MB."""
        return sum(array.nbytes for array in self.components.values()) / 1e6


def compute_text_features(
    model: Model,
    data: PackedDataset,
    choices: Sequence[LayerChoice],
    *,
    budget: int = PACKED_TOKENS,
    progress: Progress = no_progress,
) -> LayerFeatures:
    """Compute the features of all choices in one pass over the rows; the windows of a row are averaged."""
    layer_count = model.shape.stack.layers
    components = list(dict.fromkeys(component for choice in choices for component in split_choice(choice, layer_count)))

    def compute_components(ids: Array, mask: Array, segments: Array | None) -> list[Array]:
        batch = Batch(ids=ids, mask=None if mask.all() else mask, segments=segments)
        output = model.runner.encode(batch, layers=True, pooled=True)
        poolings = {
            mode: _make_pooling(mode, mask, output.pooled) for mode in {component.pooling for component in components}
        }
        features = pool_layers(output.hidden, poolings, components)
        return [features[component] for component in components]

    arrays = compute_window_features(model, data, compute_components, budget=budget, progress=progress)
    return LayerFeatures(components=dict(zip(components, arrays, strict=True)), layers=layer_count)


def _make_pooling(mode: str, mask: Array, pooled: Array | None) -> Callable[[Array], Array]:
    return lambda tokens: pool(tokens, mask, pooled, (mode,))
