"""The layer that a passport names: one by its number, or weights of all of them."""

from __future__ import annotations

from clearhead.checkpoint.passport import TrainingRecord
from clearhead.errors import CheckpointError, InputError

WEIGHTED = "weighted"


def resolve_passport_layer(trained: TrainingRecord, layers: int) -> str | int | tuple[float, ...] | None:
    """The layer that a passport names; of weighted ones, what each is multiplied by."""
    if trained.layer != WEIGHTED:
        return trained.layer
    from clearhead.classic import scalar_mix_weights

    if len(trained.layer_scores) != layers + 1:
        raise CheckpointError(f"clearhead.json weighs {len(trained.layer_scores)} layers, and there are {layers + 1}.")
    try:
        return scalar_mix_weights(trained.layer_scores, trained.layer_gamma)
    except InputError as error:
        raise CheckpointError(f"clearhead.json: {error}") from None
