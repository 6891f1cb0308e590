"""ModernBERT: rotary positions, gated feed-forward, norm before, and windows in two layers of three."""

from __future__ import annotations

from typing import Any

from clearhead.families.family import (
    ACTIVATIONS,
    MOST_FEED,
    MOST_LAYERS,
    MOST_POSITIONS,
    MOST_VOCAB,
    Family,
    HeadPlan,
    Row,
    Values,
    anything,
    divides,
    flag,
    rate,
    real,
    size,
    sized,
    table,
    token,
    word,
)
from clearhead.shape import DropoutRates, HeadShape, Shape

KEYS = {
    "vocab_size": size(50368, MOST_VOCAB),
    "hidden_size": size(768),
    "intermediate_size": size(1152, MOST_FEED),
    "num_hidden_layers": size(22, MOST_LAYERS),
    "num_attention_heads": size(12),
    "hidden_activation": word("gelu", *ACTIVATIONS),
    "max_position_embeddings": size(8192, MOST_POSITIONS),
    "initializer_range": real(0.02),
    "norm_eps": real(1e-5),
    "norm_bias": flag(False),
    "pad_token_id": token(50283),
    "attention_bias": flag(False),
    "attention_dropout": rate(0.0),
    "layer_types": anything(None),
    "global_attn_every_n_layers": size(3, MOST_LAYERS),
    "rope_parameters": anything(None),
    "rope_scaling": anything(None),
    "global_rope_theta": anything(160_000.0),
    "local_rope_theta": anything(10_000.0),
    "local_attention": size(128, MOST_POSITIONS),
    "embedding_dropout": rate(0.0),
    "mlp_bias": flag(False),
    "mlp_dropout": rate(0.0),
    "decoder_bias": flag(True),
    "classifier_pooling": word("cls", "cls", "mean"),
    "classifier_dropout": rate(0.0),
    "classifier_bias": flag(False),
    "classifier_activation": word("gelu", *ACTIVATIONS),
    "tie_word_embeddings": flag(True),
}

WIDE, NARROW = "full_attention", "sliding_attention"


def thetas(v: Values) -> tuple[Any, Any]:
    """The rotary bases of wide and narrow layers, from the new keys or the old."""
    given = v["rope_parameters"] if isinstance(v["rope_parameters"], dict) else {}
    wide, narrow = (given.get(kind) or {} for kind in (WIDE, NARROW))
    wide_theta = wide.get("rope_theta", v["global_rope_theta"])
    narrow_theta = narrow.get("rope_theta", v["local_rope_theta"])
    return wide_theta, wide_theta if narrow_theta is None else narrow_theta


def check(v: Values) -> str | None:
    """Layer kinds and rotary settings."""
    types = v["layer_types"]
    if types is not None and (
        not isinstance(types, list)
        or len(types) != v["num_hidden_layers"]
        or any(kind not in (WIDE, NARROW) for kind in types)
    ):
        return f"layer_types must name {WIDE} or {NARROW} for each of the {v['num_hidden_layers']} layers"
    rope = v["rope_parameters"]
    if rope is not None and not (
        isinstance(rope, dict) and all(part is None or isinstance(part, dict) for part in rope.values())
    ):
        return "rope_parameters must hold one group per layer kind"
    kinds = {str((part or {}).get("rope_type", "default")) for part in (rope or {}).values()}
    if v["rope_scaling"] is not None or kinds - {"default"}:
        return "scaled rotary positions are not supported"
    for theta in thetas(v):
        if not isinstance(theta, int | float) or isinstance(theta, bool) or not 0 < theta <= 1e12:
            return f"a rotary base is {str(theta)[:40]!r}, expected a positive number"
    if (v["hidden_size"] // v["num_attention_heads"]) % 2:
        return "rotary positions need an even width per head"
    return divides("hidden_size", "num_attention_heads")(v)


def stack(v: Values) -> Shape:
    """Wide and narrow layers, each kind with its own rotary base."""
    layers, head_width = v["num_hidden_layers"], v["hidden_size"] // v["num_attention_heads"]
    types = v["layer_types"] or [NARROW if i % v["global_attn_every_n_layers"] else WIDE for i in range(layers)]
    theta, local_theta = thetas(v)
    return Shape(
        vocab_size=v["vocab_size"],
        width=v["hidden_size"],
        layers=layers,
        heads=v["num_attention_heads"],
        head_width=head_width,
        score_scale=head_width**-0.5,
        feed_forward_width=v["intermediate_size"],
        max_length=None,
        positions="none",
        relative="rotary",
        rope_theta=float(theta),
        local_rope_theta=float(local_theta),
        window=v["local_attention"],
        local_layers=tuple(kind == NARROW for kind in types),
        eps=v["norm_eps"],
        norm_bias=v["norm_bias"],
        norm_position="before",
        first_norm=False,
        final_norm=True,
        attention_bias=v["attention_bias"],
        feed_forward_bias=v["mlp_bias"],
        feed_forward="gated",
        activation=v["hidden_activation"],
        pad_id=v["pad_token_id"],
        dropouts=DropoutRates(
            embedding=v["embedding_dropout"],
            attention_probs=v["attention_dropout"],
            attention_output=v["attention_dropout"],
            feed_forward_hidden=v["mlp_dropout"],
        ),
        init="truncated",
        init_std=v["initializer_range"],
    )


NAMES: dict[str, str | Row] = {
    "embeddings.tok_embeddings.weight": "embed.token.weight",
    "embeddings.norm.*": "embed.norm.*",
    "final_norm.*": "norm.*",
    "layers.{n}.attn_norm.*": "blocks.{n}.attend.norm.*",
    "layers.{n}.attn.Wqkv.*": Row(tuple(f"blocks.{{n}}.attend.inner.{part}.*" for part in "qkv")),
    "layers.{n}.attn.Wo.*": "blocks.{n}.attend.inner.out.*",
    "layers.{n}.mlp_norm.*": "blocks.{n}.feed.norm.*",
    "layers.{n}.mlp.Wi.*": Row(("blocks.{n}.feed.inner.gate.*", "blocks.{n}.feed.inner.up.*")),
    "layers.{n}.mlp.Wo.*": "blocks.{n}.feed.inner.down.*",
}


def head(kind: Any, outputs: int, v: Values, **changes: Any) -> HeadPlan:
    """Every ModernBERT head is dense, activation, norm, out."""
    pick = "first" if v["classifier_pooling"] == "cls" else "mean"
    fields: dict[str, Any] = {
        "kind": kind,
        "pooling": pick if kind in ("classify", "choice") else "each",
        "outputs": outputs,
        "dense": v["hidden_size"],
        "dense_bias": v["classifier_bias"],
        "activation": v["classifier_activation"],
        "norm": True,
        "norm_bias": v["norm_bias"],
        "eps": v["norm_eps"],
        "dropout": v["classifier_dropout"],
    }
    out = "decoder.*" if kind == "masked" else "classifier.*"
    return HeadPlan(
        head=HeadShape(**(fields | changes)),
        names={"head.dense.*": "head.dense.*", "head.norm.*": "head.norm.*", out: "head.out.*"},
    )


FAMILY = Family(
    model_type="modernbert",
    title="ModernBERT",
    prefix="model.",
    keys=KEYS,
    check=check,
    stack=stack,
    names=lambda model: table(NAMES, "stack."),
    heads={
        "masked": lambda v, n: head(
            "masked", v["vocab_size"], v, dropout=0.0, out_bias=v["decoder_bias"], tied=v["tie_word_embeddings"]
        ),
        "classify": lambda v, n: head("classify", n, v),
        "tag": lambda v, n: head("tag", n, v),
        "span": lambda v, n: head("span", 2, v),
        "choice": lambda v, n: head("choice", 1, v),
    },
    architectures={
        "ModernBertForMaskedLM": "masked",
        "ModernBertForSequenceClassification": "classify",
        "ModernBertForTokenClassification": "tag",
        "ModernBertForQuestionAnswering": "span",
        "ModernBertForMultipleChoice": "choice",
    },
    own_poolings={"first": {"classifier_pooling": "cls"}, "mean": {"classifier_pooling": "mean"}},
    presets=sized("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size") | {"base": {}},
)
