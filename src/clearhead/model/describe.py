"""A model in words: for a terminal, a notebook and a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from clearhead import tensors
from clearhead.files import to_printable
from clearhead.html import render_table, write_cell, write_row, write_table

if TYPE_CHECKING:
    from clearhead.checkpoint.passport import Passport
    from clearhead.model.model import Model
    from clearhead.shape import ModelShape, Shape


HEAD_POOLING_TEXTS = {
    "first": "the first token's state",
    "last": "the last token's state",
    "mean": "the mean of all token states",
}


def describe_architecture(shape: ModelShape, title: str) -> str:
    """One line: family, layers, width, heads."""
    stack = shape.stack
    depth = f"{stack.layers}" if shape.decoder is None else f"{stack.layers} + {shape.decoder.layers}"
    if stack.recurrent is not None:
        cell = stack.recurrent.cell.upper()
        return f"{title}: {depth} layers of {cell}, width {stack.width}, {describe_recurrence(shape)}"
    return f"{title}: {depth} layers, width {stack.width}, {stack.heads} heads, feed-forward {stack.feed_forward_width}"


def describe_recurrence(shape: ModelShape) -> str:
    """How a recurrent pair reads and looks back."""
    if shape.stack.recurrent and shape.stack.recurrent.independent_directions:
        return "read forward and backward apart"
    ways = "read from both ends" if shape.stack.recurrent and shape.stack.recurrent.bidirectional else "read forward"
    how = shape.top.recurrent
    if how is None or how.score == "none":
        return f"{ways}, no attention"
    return f"{ways}, {how.score} attention" + (", input feeding" if how.input_feeding else "")


def describe_positions(shape: Shape) -> str:
    """How a stack knows where a word stands."""
    if shape.recurrent is not None:
        return "the order of reading"
    words = {
        "none": "",
        "learned": "learned",
        "sinusoidal": "sines and cosines, interleaved",
        "sinusoidal_halves": "sines and cosines, in halves",
    }[shape.positions]
    relative = {
        "none": "",
        "buckets": "distances in buckets",
        "rotary": "rotary",
        "disentangled": "disentangled distances",
    }[shape.relative]
    return " and ".join(part for part in (words, relative) if part) or "none"


def collect_facts(model: Model) -> dict[str, Any]:
    """Everything that `clearhead describe` tells, as plain values."""
    shape, stack = model.shape, model.shape.stack
    blocks = stack.recurrent is None  # and what only blocks have
    described: dict[str, Any] = {
        "reference": model.reference,
        "family": model.family.title,
        "model_type": model.family.model_type,
        "architecture": describe_architecture(shape, model.family.title),
        "layers": stack.layers,
        "decoder_layers": shape.decoder.layers if shape.decoder else None,
        "width": stack.width,
        "heads": stack.heads if blocks else None,
        "head_width": stack.head_width if blocks else None,
        "feed_width": stack.feed_forward_width if blocks else None,
        "recurrence": None if blocks else describe_recurrence(shape),
        "vocabulary": stack.vocab_size,
        "positions": describe_positions(stack),
        "norm": f"{stack.norm}, {stack.norm_position} each sub-layer" if blocks else None,
        "activation": f"{stack.activation}, {stack.feed_forward}" if blocks else None,
        "max_length": model.max_length(model.pooling),
        "parameters": model.parameters,
        "memory_bytes": 4 * model.parameters,
        "head": model.head,
        "head_pooling": shape.head_pooling,
        "labels": list(model.labels) if model.has_labels else None,
        "heads_available": list(model.family.heads),
        "tokenizer": repr(model.source_tokenizer) if model.source_tokenizer is not None else None,
        "pooling": {
            "modes": list(model.pooling.modes),
            "dense": [step.outputs for step in model.pooling.dense],
            "normalize": model.pooling.normalize,
            "prompts": dict(model.pooling.prompts),
            "max_length": model.pooling.max_length,
            "said_by": model.pooling.origin,
        },
        "notes": list(model.notes),
        "passport": None,
    }
    if model.passport is not None:
        described["passport"] = {
            "clearhead": model.passport.clearhead,
            "golden_texts": len(model.passport.golden),
            "pruned": model.passport.pruned,
            **training_facts(model.passport),
        }
    return described


def training_facts(passport: Passport) -> dict[str, Any]:
    """What a passport says of training and of eight bits, as plain values."""
    import msgspec

    return {"trained": msgspec.to_builtins(passport.trained), "int8": msgspec.to_builtins(passport.int8)}


def training_rows(passport: Passport) -> list[tuple[str, str]]:
    """The same for people: the task, the rows, the measured quality, and the verdict on eight bits."""
    made: list[tuple[str, str]] = []
    if (trained := passport.trained) is not None:
        made.append(("trained for", f"{to_printable(trained.task, 40)} by {to_printable(trained.method, 40)}"))
        read = [f"{name} ({part})" for part, name in trained.columns.items()] + list(trained.options)
        made.append(("reads", ", ".join(read) or "texts"))
        made += [(f"{part} rows", f"{mark.rows:,} of {mark.name}") for part, mark in trained.data.items()]
        made += [
            (f"{part}: {name}", _format_metric(found))
            for part, every in trained.metrics.items()
            for name, found in every.items()
        ]
    if (verdict := passport.int8) is not None:
        said = "passed" if verdict.passed else "refused"
        change = f"{verdict.metric} {verdict.before:.4f} to {verdict.after:.4f}"
        made.append(("int8", f"{said}: {change} on {verdict.rows:,} rows of {verdict.data}"))
    return made


def _format_metric(found: Mapping[str, float | None]) -> str:
    value, low, high = (found.get(name) for name in ("value", "low", "high"))
    if value is None:
        return "not defined"
    return f"{value:.4f}" + ("" if low is None or high is None else f" ({low:.4f} to {high:.4f})")


def summary_rows(model: Model) -> list[tuple[str, str]]:
    """What people want to see first, as name and value."""
    told = collect_facts(model)
    top = model.shape.head
    shown = [
        ("architecture", told["architecture"]),
        ("parameters", f"{told['parameters']:,} ({told['memory_bytes'] / 1e6:,.0f} MB in float32)"),
        ("positions", told["positions"] + (f", at most {longest} tokens" if (longest := model.max_length()) else "")),
        *([("norm, feed-forward", f"{told['norm']}; {told['activation']}")] if told["norm"] else []),
        ("tokenizer", told["tokenizer"] or "none"),
        ("head", "none" if top is None else f"{model.head}: {top.outputs:,} outputs" + (", tied" if top.tied else "")),
        *([("head reads", HEAD_POOLING_TEXTS[told["head_pooling"]])] if told["head_pooling"] else []),
    ]
    if model.has_labels:
        shown.append(("labels", ", ".join(model.labels[:12]) + (" ..." if len(model.labels) > 12 else "")))
    if model.shape.pooler is not None:
        shown.append(("pooler", f"{model.shape.pooler.activation} of the first token"))
    pooling = model.pooling
    steps = [*pooling.modes, *(f"dense {step.outputs}" for step in pooling.dense)]
    steps += ["unit length"] if pooling.normalize else []
    steps += [f"of the first {pooling.max_length} tokens"] if pooling.max_length else []
    shown.append(("text vector", f"{', '.join(steps)} ({pooling.origin})"))
    passport = told["passport"]
    shown.append(("passport", f"clearhead {passport['clearhead']}, verified" if passport else "none"))
    if model.passport is not None:
        shown += training_rows(model.passport)
    shown += [("note", note) for note in model.notes]
    return shown


def summary(model: Model) -> str:
    """The repr: the same rows as plain text."""
    lines = summary_rows(model)
    width = max(len(name) for name, _ in lines)
    return "\n".join([f"Model {model.reference}".rstrip(), *(f"  {name:<{width}}  {value}" for name, value in lines)])


def summary_html(model: Model) -> str:
    """The same rows for a notebook, escaped."""
    left = "text-align:left"
    lines = (
        write_row([write_cell(escape(name), "row", style=left), write_cell(escape(value), style=left)])
        for name, value in summary_rows(model)
    )
    return write_table(lines, caption=escape(model.reference))


def count_parameters(model: Model) -> dict[str, int]:
    """How many parameters each part has."""
    counted: dict[str, int] = {}
    for name, size in tensors.expected_sizes(model.shape).items():
        part = ".".join(name.split(".")[:2])
        counted[part] = counted.get(part, 0) + tensors.count_values({name: size})
    return counted


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a saved model is: plain values for scripts, and the first of them as tables for people."""

    facts: Mapping[str, Any] = field(repr=False)
    tables: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # a title and its rows of name and value

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(self.facts)

    def __repr__(self) -> str:
        lines = []
        for title, shown_rows in self.tables:
            wide = max((len(name) for name, _ in shown_rows), default=0)
            lines += [title, *(f"  {name:<{wide}}  {value}" for name, value in shown_rows)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return "".join(render_table(title, ("what", "value"), shown_rows) for title, shown_rows in self.tables)


def describe_model(model: Model, disk_bytes: int | None = None) -> Description:
    """A model with a network, and what its files take on disk where that is known."""
    shown_rows = tuple(summary_rows(model) + size_rows(disk_bytes))
    told = collect_facts(model) | {"parts": count_parameters(model), "disk_bytes": disk_bytes}
    return Description(facts=told, tables=((model.reference, shown_rows),))


def size_rows(disk_bytes: int | None) -> list[tuple[str, str]]:
    """The size on disk as a row of a table."""
    return [] if disk_bytes is None else [("size on disk", f"{disk_bytes / 1e6:,.1f} MB (what is needed to predict)")]
