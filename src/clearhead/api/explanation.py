"""Public functions that look inside: kind_of, describe and explain."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.checkpoint.hub import locate
from clearhead.deprecation import renamed_parameters
from clearhead.explain.complexity import complexity
from clearhead.jobs import kinds
from clearhead.model.opening import as_model
from clearhead.progress import Progress

if TYPE_CHECKING:
    from clearhead.explain.explanation import Explanation
    from clearhead.model import Model
    from clearhead.model.describe import Description


def kind_of(model: str | os.PathLike[str]) -> kinds.ModelKind:
    """What a folder, a file of word vectors or a model of the hub is: "classifier", "encoder", "translator", ..."""
    if Path(model).expanduser().is_file():
        return kinds.kind_of(model)
    return kinds.kind_of(locate(model).folder)


def describe(model: str | os.PathLike[str] | Model, *, download: Progress | None = None) -> Description:
    """What a model is: architecture, sizes, tokenizer, head, passport, and what it was trained for."""
    from clearhead.aspects.describe import describe_aspects
    from clearhead.model.describe import describe_model
    from clearhead.predict.classic_folder import describe_classic
    from clearhead.predict.latency import measure_disk_bytes

    if not isinstance(model, str | os.PathLike):
        return describe_model(model)
    folder = locate(model, progress=download).folder
    kind = kinds.kind_of(folder)
    if kind == "aspect model":
        return describe_aspects(os.fspath(model), download)
    if kind in ("classic model", "word vector model"):
        return describe_classic(folder, os.fspath(model), measure_disk_bytes(folder))
    return describe_model(as_model(model, progress=download), measure_disk_bytes(folder))


@renamed_parameters(beam="num_beams")
def explain(
    model: str | os.PathLike[str] | Model,
    text: str | None = None,
    second: str | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    show: str | None = None,
    target: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    word: str | None = None,
    part: str | None = None,
    special: bool = False,
    all_words: bool = False,
    words: bool = False,
    num_beams: int | None = None,
    top: int | None = None,
    max_length: int | None = None,
    download: Progress | None = None,
) -> Explanation:
    """Attention, alignments or decoding steps of a model, for a notebook, a file or as numbers.

    `show` is attention, alignment, beams, steps or positions (default: alignment for models with a decoder, attention
    for others). `target` is the output of a model with a decoder (default: the model generates it). `output` also
    saves a figure (.svg, .png), a page (.html) or the numbers (.json).
    """
    from clearhead.explain.explanation import make_explanation
    from clearhead.explain.figure import check_figure_path

    path = None if output is None else check_figure_path(output)
    loaded = as_model(model, progress=download)
    settings = {
        "second": second,
        "target": target,
        "layer": layer,
        "head": head,
        "word": word,
        "part": part,
        "special": special or None,
        "all_words": all_words or None,
        "words": words or None,
        "num_beams": num_beams,
        "top": top,
        "max_length": max_length,
    }
    options = {name: value for name, value in settings.items() if value is not None}
    explanation = make_explanation(loaded, text, show, options, source_note=loaded.reference or "")
    if path is not None:
        explanation.save(path)
    return explanation


__all__ = ["complexity", "describe", "explain", "kind_of"]
