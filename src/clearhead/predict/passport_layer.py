"""The layer that a passport names: a single layer, or a weighted sum of all layers."""

from __future__ import annotations

from clearhead.checkpoint.passport import TrainingRecord
from clearhead.errors import CheckpointError, InputError

WEIGHTED = "weighted"


def resolve_passport_layer(trained: TrainingRecord, layers: int) -> str | int | tuple[float, ...] | None:
    """Resolve the layer of a passport; a weighted sum becomes one weight per layer."""
    if trained.layer != WEIGHTED:
        return trained.layer
    from clearhead.classic import scalar_mix_weights

    if len(trained.layer_scores) != layers + 1:
        raise CheckpointError(
            f"clearhead.json has weights for {len(trained.layer_scores)} layers; the model has {layers + 1}."
        )
    try:
        return scalar_mix_weights(trained.layer_scores, trained.layer_gamma)
    except InputError as error:
        raise CheckpointError(f"clearhead.json: {error}") from None
