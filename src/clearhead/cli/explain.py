"""clearhead explain: what each word looks at, and how a decoder finds its words."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from clearhead.cli.loading import load_model
from clearhead.cli.screen import print_json, print_table, progress, say
from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.core.trace import Trace
    from clearhead.model import Model

Show = Literal["attention", "alignment", "beams", "steps", "positions"]
# what can be said of each kind
USES: Mapping[str, tuple[str, ...]] = {
    "attention": ("second", "target", "layer", "head", "word", "part", "special", "all_words", "beam", "max_length"),
    "alignment": ("target", "layer", "head", "words", "special", "beam", "max_length"),
    "beams": ("beam", "max_length"),
    "steps": ("target", "beam", "top", "max_length"),
    "positions": (),
}
SHORT = 20  # new tokens of a prompt, which need not have an end


def explain(
    reference: str,
    text: str | None = None,
    second: str | None = None,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    show: Show | None = None,
    target: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    word: str | None = None,
    part: str | None = None,
    special: bool = False,
    all_words: bool = False,
    words: bool = False,
    beam: int | None = None,
    top: int | None = None,
    max_length: int | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Draw what each word looks at, and how a decoder finds its words.

    Parameters
    ----------
    reference
        A model folder, a hub id, or an alias such as `default`.
    text
        The text, which --show positions can do without.
    second
        A second text, for pairs.
    output
        A file: .svg or .png (a picture), .html (a page to look around in) or .json (the numbers).
    show
        attention: who looks at whom. alignment: which source words each written word looked at. beams: the tree of the
        search. steps: the likeliest words at each step. positions: how places are numbered. Without it, alignment for
        models that write, attention for others.
    target
        For a model with a decoder: the text it writes; without it, the model writes one itself.
    layer
        Which layer an .svg or .png shows, counted from 0.
    head
        Which head; without it, all heads together, or the mean of them.
    word
        Only the lines from this word; without it, those from the most informative word.
    part
        encoder, decoder or cross attention; without it, all of them.
    special
        Show special tokens such as [CLS] and [SEP], which are hidden otherwise.
    all_words
        Draw the lines from all words.
    words
        Take the tokens of a word together in an alignment.
    beam
        How many beginnings are kept while searching; without it 4, and 1 for steps: the likeliest word each time.
    top
        How many candidates each step shows; without it, 5.
    max_length
        New tokens at most; without it 128, and 20 for a model that goes on with a prompt.
    json
        Print one JSON object about what was done; without -o, the numbers themselves.
    quiet
        Say nothing.
    """
    from clearhead.explain.figure import check_file
    from clearhead.translate.stream import prefix_of

    if output is not None:
        check_file(output)
    model = load_model(reference, quiet=quiet or json)
    writes = model.shape.decoder is not None and not (part or word or second or all_words)
    kind = show or ("alignment" if writes else "attention")
    given = {
        "second": second,
        "target": target,
        "layer": layer,
        "head": head,
        "word": word,
        "part": part,
        "special": special or None,
        "all_words": all_words or None,
        "words": words or None,
        "beam": beam,
        "top": top,
        "max_length": max_length,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    _check(kind, chosen, text, output, as_json=json)
    source = "" if text is None else prefix_of(model) + text
    with warnings.catch_warnings(record=True) as caught, progress("looking", quiet=quiet or json):
        warnings.simplefilter("always")
        saved, told, table = KINDS[kind](model, source, chosen, reference)
        path = None if output is None else saved(output)
    for warning in caught:
        say(str(warning.message), quiet=quiet or json)
    if path is None and not json:
        print_table(*table())
        return
    about = told(path)
    summary = about.pop("summary", "")
    if json:
        print_json(about)
    else:
        say(f"{summary}: {path}", quiet=quiet)


Shown = tuple[Callable[[Path], Path], Callable[[Path | None], dict[str, Any]], Callable[[], Any]]


def _check(kind: str, chosen: Mapping[str, Any], text: str | None, output: Path | None, *, as_json: bool) -> None:
    """What was asked for fits together."""
    for name in chosen:
        if name not in USES[kind]:
            said = "A second text" if name == "second" else f"--{name.replace('_', '-')}"
            raise InputError(f"{said} is not for {kind}; leave it out, or take another --show.")
    if "target" in chosen and {"beam", "max_length"} & chosen.keys():
        raise InputError(
            "--target gives what is written, so there is nothing to search: leave --beam and --max-length out."
        )
    if kind != "positions" and (text is None or not text.strip()):
        raise InputError("There is no text to explain: give one after the model, or take --show positions.")
    if "word" in chosen and "all_words" in chosen:
        raise InputError("--word and --all-words exclude each other: draw the lines of one word, or those of all.")
    if output is None and not as_json and kind == "positions":
        raise InputError(f"Name a file for the picture of {kind} with -o, such as {kind}.svg, .png or .html.")


def _search(model: Model, chosen: Mapping[str, Any], beam: int) -> dict[str, Any]:
    """How words are looked for."""
    longest = 128 if model.shape.decoder is not None else SHORT
    return {"beam": chosen.get("beam", beam), "max_length": chosen.get("max_length", longest)}


def _traced(model: Model, text: str, chosen: Mapping[str, Any]) -> Trace:
    """The trace of a text, with what was given as a target or what the model writes."""
    from clearhead.explain import trace_written
    from clearhead.translate.stream import prefix_of

    if model.shape.decoder is None or "target" in chosen or chosen.get("part") == "encoder":
        trace = model.trace(text, chosen.get("second"), target=chosen.get("target"))
    else:
        trace = trace_written(model, text, **_search(model, chosen, 4))
    return replace(trace, text=text.removeprefix(prefix_of(model)))  # as it was typed


def _attention(model: Model, text: str, chosen: Mapping[str, Any], note: str) -> Shown:
    from clearhead.explain import attention_data, attention_table, save_attention

    trace = _traced(model, text, chosen)
    some: dict[str, Any] = {name: chosen.get(name) for name in ("layer", "head", "word", "part")}
    some["special"], every = "special" in chosen, "all_words" in chosen

    def told(path: Path | None) -> dict[str, Any]:
        if path is None:
            return attention_data(trace, **some)
        summary = f"{len(trace.tokens)} tokens, {len(trace.layers)} layers"
        return {"output": str(path), "summary": summary, "tokens": trace.tokens, "layers": len(trace.layers)}

    def table() -> Any:
        return attention_table(trace, **some, all_words=every)

    return lambda path: save_attention(trace, path, **some, all_words=every, source_note=note), told, table


def _alignment(model: Model, text: str, chosen: Mapping[str, Any], note: str) -> Shown:
    from clearhead.explain import alignment, save_alignment
    from clearhead.explain.headings import heading_text

    if model.shape.decoder is None:
        raise InputError("An alignment needs a model with an encoder and a decoder; --show attention is for this one.")
    some = {name: chosen[name] for name in ("layer", "head", "words", "special") if name in chosen}
    trace = _traced(model, text, chosen)
    found = alignment(trace, **some)

    def told(path: Path | None) -> dict[str, Any]:
        if path is None:
            return found.to_json()
        sizes = f"{len(found.source)} source and {len(found.target)} target tokens"
        summary = f"{sizes}, layer {found.layer} of 0 to {found.layers - 1}"
        return {
            "output": str(path),
            "summary": summary,
            "tokens": trace.tokens,
            "target_tokens": trace.written,
            "layer": found.layer,
            "layers": found.layers,
            "head": found.head,
        }

    def table() -> Any:
        looked = ((word, "  ".join(f"{name} {prob:.2f}" for name, prob in looks)) for word, looks in found.rows())
        if not found.special_share.any():
            return ("written", "looked at"), list(looked), heading_text(trace)
        shares = (f"{float(share):.2f}" for share in found.special_share)
        rows = [(*row, share) for row, share in zip(looked, shares, strict=True)]
        return ("written", "looked at", "special tokens (hidden)"), rows, heading_text(trace)

    return lambda path: save_alignment(trace, path, **some, source_note=note), told, table


def _beams(model: Model, text: str, chosen: Mapping[str, Any], note: str) -> Shown:
    from clearhead.explain import beam_tree, save_beams

    tree = beam_tree(model, text, **_search(model, chosen, 4))

    def told(path: Path | None) -> dict[str, Any]:
        if path is None:
            return tree.to_json()
        summary = f"{len(tree.nodes)} beginnings in {tree.steps} steps, {len(tree.answers)} answers"
        return {"output": str(path), "summary": summary} | {"answers": tree.to_json()["answers"]}

    return lambda path: save_beams(tree, path, source_note=note), told, tree.table


def _steps(model: Model, text: str, chosen: Mapping[str, Any], note: str) -> Shown:
    from clearhead.explain import decoding_steps, save_steps

    search = {} if "target" in chosen else _search(model, chosen, 1)
    found = decoding_steps(model, text, target=chosen.get("target"), top=chosen.get("top", 5), **search)

    def told(path: Path | None) -> dict[str, Any]:
        if path is None:
            return found.to_json()
        return {"output": str(path), "summary": f"{len(found.steps)} steps", "text": found.text}

    return lambda path: save_steps(found, path, source_note=note), told, found.table


def _positions(model: Model, text: str, chosen: Mapping[str, Any], note: str) -> Shown:  # noqa: ARG001
    from clearhead.explain import positions, save_positions

    found = positions(model)

    def told(path: Path | None) -> dict[str, Any]:
        if path is None:
            return found.to_json()
        summary = f"{len(found.table)} rows, {found.table.shape[1]} columns, {found.kind}"
        return {"output": str(path), "summary": summary, "kind": found.kind, "note": found.note}

    return lambda path: save_positions(found, path, source_note=note), told, dict


KINDS: Mapping[str, Callable[[Model, str, Mapping[str, Any], str], Shown]] = {
    "attention": _attention,
    "alignment": _alignment,
    "beams": _beams,
    "steps": _steps,
    "positions": _positions,
}
