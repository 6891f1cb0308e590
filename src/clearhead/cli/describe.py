"""clearhead describe: what a model is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clearhead.cli.loading import load_model
from clearhead.cli.screen import print_json, print_table


def describe(reference: str, /, *, json: bool = False, quiet: bool = False) -> None:
    """Tell what a model is: architecture, sizes, tokenizer, head, passport.

    Parameters
    ----------
    reference
        A model folder, a hub id (org/name or org/name@revision), or an alias such as `default`; of a folder of
        `train --task aspect`, both of its models are told. Counted words (`train --method tfidf`) are a model too.
    json
        Print one JSON object instead of a table.
    quiet
        Say nothing but the answer.
    """
    from clearhead.jobs.kinds import local_kind
    from clearhead.model.describe import rows

    silent = quiet or json
    kind = local_kind(reference)
    if kind == "aspect model":
        _aspects(reference, json=json, quiet=silent)
        return
    if kind in ("classic model", "word vector model"):
        _counted(reference, json=json)
        return
    model = load_model(reference, quiet=silent)
    size = _disk_bytes(reference)
    if json:
        print_json(_told(model) | {"disk_bytes": size})
    else:
        room = [] if size is None else [("size on disk", f"{size / 1e6:,.1f} MB (what is needed to predict)")]
        print_table(("what", "value"), [*rows(model), *room], title=model.reference)


def _disk_bytes(reference: str) -> int | None:
    """What the files of a model take that are needed to use it."""
    from clearhead.embeddings.vector_files import model_folder
    from clearhead.predict.latency import disk_bytes

    folder = model_folder(reference)
    return None if folder is None else disk_bytes(folder)


def _aspects(reference: str, *, json: bool, quiet: bool) -> None:
    """Both models of a folder of aspect sentiment, and what they are for."""
    from clearhead.aspects.predictor import ABOUT, aspect_labels
    from clearhead.model.describe import rows

    labels = aspect_labels(Path(reference))
    models = {name: load_model(str(Path(reference) / name), quiet=quiet) for name in ABOUT}
    total = sum(model.parameters for model in models.values())
    if json:
        every = {name: _told(model) for name, model in models.items()}
        print_json({"reference": reference, "task": "aspect", "labels": labels, "parameters": total, "models": every})
        return
    both = [("task", "aspect"), *ABOUT.items(), ("polarities", ", ".join(labels)), ("parameters", f"{total:,}")]
    print_table(("what", "value"), both, title=reference)
    for name, model in models.items():
        print_table(("what", "value"), rows(model), title=f"{name}: {ABOUT[name]}")


def _counted(reference: str, *, json: bool) -> None:
    """A model without a network."""
    from clearhead.predict.classic_folder import counted_facts, counted_rows

    if json:
        print_json({"reference": reference, "disk_bytes": _disk_bytes(reference)} | counted_facts(Path(reference)))
    else:
        room = ("size on disk", f"{(_disk_bytes(reference) or 0) / 1e6:,.1f} MB (what is needed to predict)")
        print_table(("what", "value"), [*counted_rows(Path(reference)), room], title=reference)


def _told(model: Any) -> dict[str, Any]:
    from clearhead.model.describe import facts, parts

    return facts(model) | {"parts": parts(model)}
