"""Descriptions of a model for terminals, notebooks and scripts."""

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
    """Describe a model in one line: family, layers, width, heads."""
    stack = shape.stack
    depth = f"{stack.layers}" if shape.decoder is None else f"{stack.layers} + {shape.decoder.layers}"
    if stack.recurrent is not None:
        cell = stack.recurrent.cell.upper()
        return f"{title}: {depth} layers of {cell}, width {stack.width}, {describe_recurrence(shape)}"
    return f"{title}: {depth} layers, width {stack.width}, {stack.heads} heads, feed-forward {stack.feed_forward_width}"


def describe_recurrence(shape: ModelShape) -> str:
    """Describe the directions and the attention of a recurrent model."""
    if shape.stack.recurrent and shape.stack.recurrent.independent_directions:
        return "read forward and backward apart"
    direction = (
        "read from both ends" if shape.stack.recurrent and shape.stack.recurrent.bidirectional else "read forward"
    )
    decoder_recurrence = shape.top.recurrent
    if decoder_recurrence is None or decoder_recurrence.score == "none":
        return f"{direction}, no attention"
    return f"{direction}, {decoder_recurrence.score} attention" + (
        ", input feeding" if decoder_recurrence.input_feeding else ""
    )


def describe_positions(shape: Shape) -> str:
    """Describe the position encoding of a stack."""
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
    """Collect everything that `clearhead describe` prints, as plain values."""
    shape, stack = model.shape, model.shape.stack
    has_blocks = stack.recurrent is None
    facts: dict[str, Any] = {
        "reference": model.reference,
        "family": model.family.title,
        "model_type": model.family.model_type,
        "architecture": describe_architecture(shape, model.family.title),
        "layers": stack.layers,
        "decoder_layers": shape.decoder.layers if shape.decoder else None,
        "width": stack.width,
        "heads": stack.heads if has_blocks else None,
        "head_width": stack.head_width if has_blocks else None,
        "feed_width": stack.feed_forward_width if has_blocks else None,
        "recurrence": None if has_blocks else describe_recurrence(shape),
        "vocabulary": stack.vocab_size,
        "positions": describe_positions(stack),
        "norm": f"{stack.norm}, {stack.norm_position} each sub-layer" if has_blocks else None,
        "activation": f"{stack.activation}, {stack.feed_forward}" if has_blocks else None,
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
        facts["passport"] = {
            "clearhead": model.passport.clearhead,
            "golden_texts": len(model.passport.golden),
            "pruned": model.passport.pruned,
            **training_facts(model.passport),
        }
    return facts


def training_facts(passport: Passport) -> dict[str, Any]:
    """Return the training record and the int8 verdict of a passport as plain values."""
    import msgspec

    return {"trained": msgspec.to_builtins(passport.trained), "int8": msgspec.to_builtins(passport.int8)}


def training_rows(passport: Passport) -> list[tuple[str, str]]:
    """Format a passport as rows: task, data, measured quality, and the int8 verdict."""
    rows: list[tuple[str, str]] = []
    if (trained := passport.trained) is not None:
        rows.append(("trained for", f"{to_printable(trained.task, 40)} by {to_printable(trained.method, 40)}"))
        columns = [f"{name} ({part})" for part, name in trained.columns.items()] + list(trained.options)
        rows.append(("reads", ", ".join(columns) or "texts"))
        rows += [(f"{part} rows", f"{source.rows:,} of {source.name}") for part, source in trained.data.items()]
        rows += [
            (f"{part}: {name}", _format_metric(metric))
            for part, metrics in trained.metrics.items()
            for name, metric in metrics.items()
        ]
    if (verdict := passport.int8) is not None:
        outcome = "passed" if verdict.passed else "refused"
        change = f"{verdict.metric} {verdict.before:.4f} to {verdict.after:.4f}"
        rows.append(("int8", f"{outcome}: {change} on {verdict.rows:,} rows of {verdict.data}"))
    return rows


def _format_metric(metric: Mapping[str, float | None]) -> str:
    value, low, high = (metric.get(name) for name in ("value", "low", "high"))
    if value is None:
        return "not defined"
    return f"{value:.4f}" + ("" if low is None or high is None else f" ({low:.4f} to {high:.4f})")


def summary_rows(model: Model) -> list[tuple[str, str]]:
    """List the most important facts as names and values."""
    facts = collect_facts(model)
    top = model.shape.head
    rows = [
        ("architecture", facts["architecture"]),
        ("parameters", f"{facts['parameters']:,} ({facts['memory_bytes'] / 1e6:,.0f} MB in float32)"),
        ("positions", facts["positions"] + (f", at most {longest} tokens" if (longest := model.max_length()) else "")),
        *([("norm, feed-forward", f"{facts['norm']}; {facts['activation']}")] if facts["norm"] else []),
        ("tokenizer", facts["tokenizer"] or "none"),
        ("head", "none" if top is None else f"{model.head}: {top.outputs:,} outputs" + (", tied" if top.tied else "")),
        *([("head reads", HEAD_POOLING_TEXTS[facts["head_pooling"]])] if facts["head_pooling"] else []),
    ]
    if model.has_labels:
        rows.append(("labels", ", ".join(model.labels[:12]) + (" ..." if len(model.labels) > 12 else "")))
    if model.shape.pooler is not None:
        rows.append(("pooler", f"{model.shape.pooler.activation} of the first token"))
    pooling = model.pooling
    steps = [*pooling.modes, *(f"dense {step.outputs}" for step in pooling.dense)]
    steps += ["unit length"] if pooling.normalize else []
    steps += [f"of the first {pooling.max_length} tokens"] if pooling.max_length else []
    rows.append(("text vector", f"{', '.join(steps)} ({pooling.origin})"))
    passport = facts["passport"]
    rows.append(("passport", f"clearhead {passport['clearhead']}, verified" if passport else "none"))
    if model.passport is not None:
        rows += training_rows(model.passport)
    rows += [("note", note) for note in model.notes]
    return rows


def summary(model: Model) -> str:
    """Format the facts as plain text, for `repr`."""
    lines = summary_rows(model)
    width = max(len(name) for name, _ in lines)
    return "\n".join([f"Model {model.reference}".rstrip(), *(f"  {name:<{width}}  {value}" for name, value in lines)])


def summary_html(model: Model) -> str:
    """Format the facts as an escaped HTML table, for notebooks."""
    left_aligned = "text-align:left"
    lines = (
        write_row([write_cell(escape(name), "row", style=left_aligned), write_cell(escape(value), style=left_aligned)])
        for name, value in summary_rows(model)
    )
    return write_table(lines, caption=escape(model.reference))


def count_parameters(model: Model) -> dict[str, int]:
    """Count the parameters of each part."""
    counts: dict[str, int] = {}
    for name, size in tensors.expected_sizes(model.shape).items():
        part = ".".join(name.split(".")[:2])
        counts[part] = counts.get(part, 0) + tensors.count_values({name: size})
    return counts


@dataclass(frozen=True, kw_only=True)
class Description:
    """Description of a saved model: plain values for scripts, and tables for people."""

    facts: Mapping[str, Any] = field(repr=False)
    tables: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # a title and its rows of name and value

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(self.facts)

    def __repr__(self) -> str:
        lines = []
        for title, table_rows in self.tables:
            width = max((len(name) for name, _ in table_rows), default=0)
            lines += [title, *(f"  {name:<{width}}  {value}" for name, value in table_rows)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return "".join(render_table(title, ("what", "value"), table_rows) for title, table_rows in self.tables)


def describe_model(model: Model, disk_bytes: int | None = None) -> Description:
    """Describe a model with a network, and the size of its files if known."""
    table_rows = tuple(summary_rows(model) + size_rows(disk_bytes))
    facts = collect_facts(model) | {"parts": count_parameters(model), "disk_bytes": disk_bytes}
    return Description(facts=facts, tables=((model.reference, table_rows),))


def size_rows(disk_bytes: int | None) -> list[tuple[str, str]]:
    """Format the size on disk as a row of a table."""
    return [] if disk_bytes is None else [("size on disk", f"{disk_bytes / 1e6:,.1f} MB (files needed to predict)")]
