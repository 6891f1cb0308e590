"""Description of an aspect model and its two parts."""

from __future__ import annotations

from pathlib import Path

from clearhead.aspects.predictor import MODEL_ROLES, read_aspect_labels
from clearhead.model.describe import Description, collect_facts, count_parameters, summary_rows
from clearhead.model.loading import load
from clearhead.progress import Progress


def describe_aspects(reference: str, download: Progress | None = None) -> Description:
    """Describe both models of a folder and their roles."""
    labels = read_aspect_labels(Path(reference))
    models = {name: load(str(Path(reference) / name), progress=download) for name in MODEL_ROLES}
    total = sum(model.parameters for model in models.values())
    model_facts = {name: collect_facts(model) | {"parts": count_parameters(model)} for name, model in models.items()}
    summary = [
        ("task", "aspect"),
        *MODEL_ROLES.items(),
        ("polarities", ", ".join(labels)),
        ("parameters", f"{total:,}"),
    ]
    return Description(
        facts={"reference": reference, "task": "aspect", "labels": labels, "parameters": total, "models": model_facts},
        tables=(
            (reference, tuple(summary)),
            *((f"{name}: {MODEL_ROLES[name]}", tuple(summary_rows(models[name]))) for name in models),
        ),
    )
