"""The two models of an aspect model in words."""

from __future__ import annotations

from pathlib import Path

from clearhead.aspects.predictor import ABOUT, aspect_labels
from clearhead.model.describe import Description, collect_facts, count_parameters, summary_rows
from clearhead.model.loading import load
from clearhead.progress import Progress


def describe_aspects(reference: str, download: Progress | None = None) -> Description:
    """Both models of a folder, and what they are for."""
    labels = aspect_labels(Path(reference))
    models = {name: load(str(Path(reference) / name), progress=download) for name in ABOUT}
    total = sum(model.parameters for model in models.values())
    described = {name: collect_facts(model) | {"parts": count_parameters(model)} for name, model in models.items()}
    summary = [("task", "aspect"), *ABOUT.items(), ("polarities", ", ".join(labels)), ("parameters", f"{total:,}")]
    return Description(
        facts={"reference": reference, "task": "aspect", "labels": labels, "parameters": total, "models": described},
        tables=(
            (reference, tuple(summary)),
            *((f"{name}: {ABOUT[name]}", tuple(summary_rows(models[name]))) for name in models),
        ),
    )
