"""`layer=weighted`: a weighted sum of layers (scalar mix), fitted on the pooled layers of the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.batch import Batch
from clearhead.caller import setting
from clearhead.classic import fit_scalar_mix
from clearhead.data import LabelSpace
from clearhead.errors import InputError
from clearhead.features.taggers import sample_rows, select_tags
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import PreparedData, encode_part
from clearhead.model import Model
from clearhead.model.layers import pool
from clearhead.predict.frozen_features import compute_window_features, compute_word_arrays
from clearhead.progress import Progress, for_stage

if TYPE_CHECKING:
    import numpy as np

    from clearhead.classic import ScalarMix
    from clearhead.tasks.packed import PackedDataset

    Array = np.ndarray[Any, Any]

# poolings for which the pooled sum of layers is the sum of the pooled layers
MIXABLE_POOLINGS = ("mean", "cls", "lasttoken", "mean_sqrt_len_tokens", "weightedmean")
# rows and words that the weights are fitted on; all of their layers are in memory
MAX_ROWS = 5000
MAX_WORDS = 10_000


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """The fitted weights of the layers, and a note about them."""

    mixture: ScalarMix
    note: str


def learn_text_weights(
    model: Model,
    prepared: PreparedData,
    plan: RunPlan,
    pooling: Sequence[str] | None,
    *,
    seed: int,
    progress: Progress,
) -> LayerWeights:
    """Fit layer weights on texts, whose layers are pooled in the same way as the features."""
    import numpy as np

    modes = tuple(pooling or model.pooling.modes)
    if unsupported := [mode for mode in modes if mode not in MIXABLE_POOLINGS]:
        weighted_layer, mean_pooling = setting("layer", "weighted"), setting("pooling", "mean")
        raise InputError(f"{weighted_layer} needs a linear pooling, which {unsupported[0]} is not; use {mean_pooling}.")
    train = prepared.parts["train"]
    rows = np.sort(np.random.default_rng(seed).permutation(len(train))[:MAX_ROWS])

    def pool_all_layers(ids: Array, mask: Array, segments: Array | None) -> list[Array]:
        batch = Batch(ids=ids, mask=None if mask.all() else mask, segments=segments)
        hidden = model.runner.encode(batch, layers=True, pooled=False).hidden
        return [pool(layer, mask, None, modes) for layer in hidden]

    layers = compute_window_features(
        model, encode_part(model, train).select(rows), pool_all_layers, progress=for_stage(progress, "all layers")
    )
    mixture = fit_scalar_mix(
        layers,
        train.targets[rows],
        prepared.space,
        strength=plan.C,
        class_weight=plan.settings.class_weight,
        seed=seed,
        progress=for_stage(progress, "weighing the layers"),
    )
    return LayerWeights(mixture=mixture, note=_make_note(mixture, len(rows), len(train)))


def learn_word_weights(
    model: Model,
    data: PackedDataset,
    prepared: PreparedData,
    plan: RunPlan,
    *,
    seed: int,
    progress: Progress,
) -> LayerWeights:
    """Fit layer weights on tagged words."""

    sample = data.select(sample_rows(data, MAX_WORDS, seed))
    layers = compute_word_arrays(model, sample, list, progress=for_stage(progress, "all layers"))
    space = LabelSpace(names=prepared.space.names, kind="classes")
    mixture = fit_scalar_mix(
        layers,
        select_tags(sample),
        space,
        strength=plan.C,
        seed=seed,
        progress=for_stage(progress, "weighing the layers"),
    )
    return LayerWeights(mixture=mixture, note=_make_note(mixture, len(sample), len(data)))


def _make_note(mixture: ScalarMix, fitted_count: int, total_count: int) -> str:
    if fitted_count == total_count:
        return mixture.summary
    return f"{mixture.summary} Fitted on {fitted_count:,} of {total_count:,} training rows."
