"""A trained network as a fitted method: it computes logits, and is saved in a format that other libraries read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clearhead.checkpoint.activation import set_activation
from clearhead.checkpoint.passport import TrainingRecord
from clearhead.jobs.method import FitInputs, FittedMethod
from clearhead.jobs.prepare import encode_part
from clearhead.predict.scoring import compute_network_logits

PROBLEM_TYPES = {  # the names of transformers
    "classes": "single_label_classification",
    "multilabel": "multi_label_classification",
    "number": "regression",
}


def make_fitted_method(inputs: FitInputs, notes: tuple[str, ...] = (), steps: int = 0) -> FittedMethod:
    """Wrap a model with a trained network."""
    model = inputs.model
    assert model is not None
    problem_type = PROBLEM_TYPES.get(inputs.prepared.space.kind)

    def save(folder: Path, trained: TrainingRecord) -> None:
        config = {
            **model.config,
            **({} if problem_type is None else {"problem_type": problem_type}),
        }  # for transformers
        if model.head == "classify":  # for sentence-transformers
            config = set_activation(config, "identity")
        replace(model, trained=trained, config=config).save(folder)

    task = inputs.prepared.task
    return FittedMethod(
        logits=lambda part: compute_network_logits(
            model.runner, encode_part(model, part), task, progress=inputs.stage_progress("measuring")
        ),
        save=save,
        notes=notes,
        steps=steps,
        model=model,
    )
