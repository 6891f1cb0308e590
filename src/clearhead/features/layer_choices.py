"""Choices of layers and pooling, and the features of all of them out of one pass over the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from clearhead.batch import Batch
from clearhead.jobs.method import LayerChoice
from clearhead.model.layers import pool
from clearhead.predict.scoring import PACKED_TOKENS, compute_window_features
from clearhead.progress import Progress, no_progress
from clearhead.shape import POOLING_LAYERS

if TYPE_CHECKING:
    import numpy as np

    from clearhead.model import Model
    from clearhead.tasks.encoded import Encoded

    Array = np.ndarray[Any, Any]

Poolings = Mapping[str, Callable[["Array"], "Array"]]  # by name: token vectors (batch, length, width) to features

POOLINGS = ("cls", "mean", "max")  # of any layer; the pooler stands on the last one alone
LINEAR = ("cls", "mean", "each")  # pooling a sum of layers is the sum of the pooled layers; each: no pooling at all
MIN_LAYERS = {"second_to_last": 2, "sum_all": 2, "sum_last_four": 4, "concat_last_four": 4}  # layers


class PooledLayers(NamedTuple):
    """What is kept of a pass: some layers added up (0 is the embeddings), pooled in one way."""

    layers: tuple[int, ...]
    pooling: str


def list_layers(count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a model of so many layers can give, and why the other choices are left out."""
    short = {layer: least for layer, least in MIN_LAYERS.items() if count < least}
    said = (f"{layer} is left out: it needs {least} layers, and there are {count}." for layer, least in short.items())
    return tuple(layer for layer in POOLING_LAYERS if layer not in short), tuple(said)


def list_choices(model: Model) -> tuple[tuple[LayerChoice, ...], tuple[str, ...]]:
    """Every layer choice with every pooling that this model can give, and what is left out and why."""
    layers, said = list_layers(model.shape.stack.layers)
    made = [LayerChoice(layer=layer, pooling=pooling) for layer in layers for pooling in POOLINGS]
    if model.shape.pooler is None:
        return tuple(made), (*said, "pooler is left out: this checkpoint has none.")
    return (*made, LayerChoice(layer="last", pooling="pooler")), said


def split_choice(choice: LayerChoice, count: int) -> tuple[PooledLayers, ...]:
    """What a choice is made of in a model of so many layers, to be laid side by side."""
    four = tuple(range(count - 3, count + 1))
    layers: dict[str, tuple[tuple[int, ...], ...]] = {
        "first": ((0,),),  # the embeddings, as the lecture counts
        "last": ((count,),),
        "second_to_last": ((count - 1,),),
        "sum_all": (tuple(range(1, count + 1)),),
        "sum_last_four": (four,),
        "concat_last_four": tuple((layer,) for layer in four),
    }
    return tuple(PooledLayers(one, choice.pooling) for one in layers[choice.layer])


def pool_layers(hidden: Sequence[Array], pools: Poolings, pieces: Iterable[PooledLayers]) -> dict[PooledLayers, Array]:
    """Many pieces of one pass, each layer pooled once where that is linear."""
    each: dict[tuple[int, str], Array] = {}
    made: dict[PooledLayers, Array] = {}
    for piece in pieces:
        way = pools[piece.pooling]
        if piece.pooling in LINEAR:
            for layer in piece.layers:
                if (layer, piece.pooling) not in each:
                    each[layer, piece.pooling] = way(hidden[layer])
            first, *rest = (each[layer, piece.pooling] for layer in piece.layers)
            made[piece] = sum(rest, start=first)
        else:
            lowest, *others = (hidden[layer] for layer in piece.layers)
            made[piece] = way(sum(others, start=lowest))
    return made


@dataclass(frozen=True, kw_only=True)
class LayerFeatures:
    """The features of many choices, kept as their distinct pieces."""

    parts: Mapping[PooledLayers, Array]  # (rows, width) float32 each
    layers: int

    def select(self, choice: LayerChoice) -> Array:
        """(rows, features) of one choice."""
        import numpy as np

        parts = [self.parts[piece] for piece in split_choice(choice, self.layers)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, -1)

    @property
    def megabytes(self) -> float:
        """How much memory they take."""
        return sum(piece.nbytes for piece in self.parts.values()) / 1e6


def compute_text_features(
    model: Model,
    data: Encoded,
    choices: Sequence[LayerChoice],
    *,
    budget: int = PACKED_TOKENS,
    progress: Progress = no_progress,
) -> LayerFeatures:
    """Features of all choices in one pass over the rows; a row's windows are averaged, as everywhere."""
    count = model.shape.stack.layers
    wanted = list(dict.fromkeys(piece for choice in choices for piece in split_choice(choice, count)))

    def made(ids: Array, mask: Array, segments: Array | None) -> list[Array]:
        batch = Batch(ids=ids, mask=None if mask.all() else mask, segments=segments)
        out = model.runner.encode(batch, layers=True, pooled=True)
        pools = {mode: _make_pooling(mode, mask, out.pooled) for mode in {piece.pooling for piece in wanted}}
        found = pool_layers(out.hidden, pools, wanted)
        return [found[piece] for piece in wanted]

    arrays = compute_window_features(model, data, made, budget=budget, progress=progress)
    return LayerFeatures(parts=dict(zip(wanted, arrays, strict=True)), layers=count)


def _make_pooling(mode: str, mask: Array, pooled: Array | None) -> Callable[[Array], Array]:
    return lambda tokens: pool(tokens, mask, pooled, (mode,))
