"""A network that was trained, as a method gives it back: it answers rows, and is saved so that others can read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clearhead.checkpoint.activation import set_activation
from clearhead.checkpoint.passport import TrainingRecord
from clearhead.jobs.method import FitInputs, FittedMethod
from clearhead.jobs.prepare import encode_part
from clearhead.predict.scoring import compute_network_logits

PROBLEM_TYPES = {  # as transformers calls them
    "classes": "single_label_classification",
    "multilabel": "multi_label_classification",
    "number": "regression",
}


def make_fitted_method(inputs: FitInputs, notes: tuple[str, ...] = (), steps: int = 0) -> FittedMethod:
    """A model whose network is trained already."""
    model = inputs.model
    assert model is not None
    problem_type = PROBLEM_TYPES.get(inputs.prepared.space.kind)

    def save(folder: Path, trained: TrainingRecord) -> None:
        config = {
            **model.config,
            **({} if problem_type is None else {"problem_type": problem_type}),
        }  # transformers reads by it
        if model.head == "classify":  # ... and sentence-transformers by this
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
