"""Explanations of one text: attention, alignment, beams, steps or positions, to display, save or read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.explain.alignment import alignment, alignment_svg, trace_generated
from clearhead.explain.attention_lines import attention_svg
from clearhead.explain.beam_picture import beams_svg, save_beams
from clearhead.explain.beams import beam_tree
from clearhead.explain.headings import join_heading
from clearhead.explain.positions import positions, positions_svg, save_positions
from clearhead.explain.steps import decoding_steps, save_steps, steps_svg
from clearhead.explain.svg import inline_svg
from clearhead.explain.trace_files import attention_data, save_alignment, save_attention
from clearhead.explain.trace_table import attention_table
from clearhead.explain.trace_view import list_parts
from clearhead.html import short_repr
from clearhead.model.opening import source_prefix

if TYPE_CHECKING:
    from clearhead.core.trace import Trace
    from clearhead.model.model import Model

# accepted settings by kind
SETTINGS_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "attention": (
        "second",
        "target",
        "layer",
        "head",
        "word",
        "part",
        "special",
        "all_words",
        "num_beams",
        "max_length",
    ),
    "alignment": ("target", "layer", "head", "words", "special", "num_beams", "max_length"),
    "beams": ("num_beams", "max_length"),
    "steps": ("target", "num_beams", "top", "max_length"),
    "positions": (),
}
PROMPT_MAX_LENGTH = 20  # new tokens after a prompt, which may never reach an end token
Table = tuple[Any, ...]  # columns, rows and possibly a title


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """An explanation of one text: displayed in notebooks, saved as a file, or read as a table or plain values."""

    kind: str
    summary: str
    facts: Mapping[str, Any] = field(repr=False)  # the most important values
    svg: Callable[[], str] = field(repr=False)
    to_json: Callable[[], dict[str, Any]] = field(repr=False)
    table: Callable[[], Table] | None = field(repr=False)  # None: no tokens to list
    write: Callable[[Path], Path] = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a picture (.svg or .png), an interactive page (.html) or plain values (.json)."""
        return self.write(Path(path))

    def __repr__(self) -> str:
        return short_repr("Explanation", self.kind, self.summary)

    def _repr_html_(self) -> str:
        return inline_svg(self.svg())


def make_explanation(
    model: Model, text: str | None, show: str | None, settings: Mapping[str, Any], *, source_note: str = ""
) -> Explanation:
    """Explain one text; `show` defaults to alignment for encoder-decoder models and attention for others."""
    writes = model.shape.decoder is not None and not settings.keys() & {"part", "word", "second", "all_words"}
    kind = show or ("alignment" if writes else "attention")
    if kind not in SETTINGS_BY_KIND:
        raise InputError(f"{setting('show')} must be one of {', '.join(SETTINGS_BY_KIND)}, got {kind[:40]!r}.")
    _check_settings(kind, settings, text)
    source = "" if text is None else source_prefix(model) + text
    return EXPLAINERS[kind](model, source, settings, source_note)


def _check_settings(kind: str, settings: Mapping[str, Any], text: str | None) -> None:
    """Raise InputError for settings that do not apply to this kind or exclude each other."""
    for name in settings:
        if name not in SETTINGS_BY_KIND[kind]:
            subject = "A second text" if name == "second" else setting(name)
            raise InputError(f"{subject} does not apply to {kind}; omit it, or use another {setting('show')}.")
    if "target" in settings and {"num_beams", "max_length"} & settings.keys():
        search = f"{setting('num_beams')} and {setting('max_length')}"
        raise InputError(f"{setting('target')} sets the output, so nothing is searched; omit {search}.")
    if kind != "positions" and (text is None or not text.strip()):
        show = setting("show", "positions")
        raise InputError(f"There is no text to explain: pass a text after the model, or use {show}.")
    if "word" in settings and "all_words" in settings:
        conflicting = f"{setting('word')} and {setting('all_words')}"
        raise InputError(f"{conflicting} exclude each other; set only one of them.")


def _search_settings(model: Model, settings: Mapping[str, Any], num_beams: int) -> dict[str, Any]:
    """Return the search settings with their defaults."""
    longest = 128 if model.shape.decoder is not None else PROMPT_MAX_LENGTH
    return {"num_beams": settings.get("num_beams", num_beams), "max_length": settings.get("max_length", longest)}


def _trace_text(model: Model, text: str, settings: Mapping[str, Any]) -> Trace:
    """Trace a text with the given target or the one that the model generates."""
    if model.shape.decoder is None or "target" in settings or settings.get("part") == "encoder":
        trace = model.trace(text, settings.get("second"), target=settings.get("target"))
    else:
        trace = trace_generated(model, text, **_search_settings(model, settings, 4))
    return replace(trace, text=text.removeprefix(source_prefix(model)))  # without the task prefix


def _explain_attention(model: Model, text: str, settings: Mapping[str, Any], note: str) -> Explanation:
    trace = _trace_text(model, text, settings)
    view: dict[str, Any] = {name: settings.get(name) for name in ("layer", "head", "word", "part")}
    view["special"], all_words = "special" in settings, "all_words" in settings
    first_part = view["part"] or (list_parts(trace) or ["encoder"])[0]
    return Explanation(
        kind="attention",
        summary=f"{len(trace.tokens)} tokens, {len(trace.layers)} layers",
        facts={"tokens": trace.tokens, "layers": len(trace.layers)},
        svg=lambda: attention_svg(trace, **(view | {"part": first_part}), all_words=all_words),
        to_json=lambda: attention_data(trace, **view),
        table=lambda: attention_table(trace, **view, all_words=all_words),
        write=lambda path: save_attention(trace, path, **view, all_words=all_words, source_note=note),
    )


def _explain_alignment(model: Model, text: str, settings: Mapping[str, Any], note: str) -> Explanation:
    if model.shape.decoder is None:
        show = setting("show", "attention")
        raise InputError(f"An alignment needs a model with an encoder and a decoder; use {show} for this model.")
    view = {name: settings[name] for name in ("layer", "head", "words", "special") if name in settings}
    trace = _trace_text(model, text, settings)
    matrix = alignment(trace, **view)

    def table() -> Table:
        rows = [(word, "  ".join(f"{name} {prob:.2f}" for name, prob in sources)) for word, sources in matrix.rows()]
        if not matrix.special_share.any():
            return ("target", "source tokens"), rows, join_heading(trace)
        shares = (f"{float(share):.2f}" for share in matrix.special_share)
        with_shares = [(*row, share) for row, share in zip(rows, shares, strict=True)]
        return ("target", "source tokens", "special tokens (hidden)"), with_shares, join_heading(trace)

    sizes = f"{len(matrix.source)} source and {len(matrix.target)} target tokens"
    return Explanation(
        kind="alignment",
        summary=f"{sizes}, layer {matrix.layer} of 0 to {matrix.layers - 1}",
        facts={
            "tokens": trace.tokens,
            "target_tokens": trace.next_tokens,
            "layer": matrix.layer,
            "layers": matrix.layers,
            "head": matrix.head,
        },
        svg=lambda: alignment_svg(trace, **view),
        to_json=matrix.to_json,
        table=table,
        write=lambda path: save_alignment(trace, path, **view, source_note=note),
    )


def _explain_beams(model: Model, text: str, settings: Mapping[str, Any], note: str) -> Explanation:
    tree = beam_tree(model, text, **_search_settings(model, settings, 4))
    return Explanation(
        kind="beams",
        summary=f"{len(tree.nodes)} hypotheses in {tree.steps} steps, {len(tree.answers)} answers",
        facts={"answers": tree.to_json()["answers"]},
        svg=lambda: beams_svg(tree),
        to_json=tree.to_json,
        table=tree.table,
        write=lambda path: save_beams(tree, path, source_note=note),
    )


def _explain_steps(model: Model, text: str, settings: Mapping[str, Any], note: str) -> Explanation:
    search = {} if "target" in settings else _search_settings(model, settings, 1)
    decoded = decoding_steps(model, text, target=settings.get("target"), top=settings.get("top", 5), **search)
    return Explanation(
        kind="steps",
        summary=f"{len(decoded.steps)} steps",
        facts={"text": decoded.text},
        svg=lambda: steps_svg(decoded),
        to_json=decoded.to_json,
        table=decoded.table,
        write=lambda path: save_steps(decoded, path, source_note=note),
    )


def _explain_positions(model: Model, text: str, settings: Mapping[str, Any], note: str) -> Explanation:  # noqa: ARG001
    encoding = positions(model)
    return Explanation(
        kind="positions",
        summary=f"{len(encoding.table)} rows, {encoding.table.shape[1]} columns, {encoding.kind}",
        facts={"kind": encoding.kind, "note": encoding.note},
        svg=lambda: positions_svg(encoding),
        to_json=encoding.to_json,
        table=None,
        write=lambda path: save_positions(encoding, path, source_note=note),
    )


EXPLAINERS: Mapping[str, Callable[[Model, str, Mapping[str, Any], str], Explanation]] = {
    "attention": _explain_attention,
    "alignment": _explain_alignment,
    "beams": _explain_beams,
    "steps": _explain_steps,
    "positions": _explain_positions,
}
__all__ = ["Explanation", "make_explanation"]
