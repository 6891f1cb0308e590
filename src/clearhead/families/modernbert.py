"""ModernBERT: rotary positions, gated feed-forward, norm before, and windows in two layers of three."""

from __future__ import annotations

from typing import Any

from clearhead.families.family import (
    ACTIVATIONS,
    MAX_FEED_WIDTH,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_VOCAB,
    ConfigValues,
    Family,
    HeadPlan,
    TensorTarget,
    boolean,
    check_divisible,
    finite_float,
    name_table,
    one_of,
    optional_token_id,
    positive_int,
    probability,
    small_presets,
    unchecked,
)
from clearhead.shape import DropoutRates, HeadShape, Shape

KEYS = {
    "vocab_size": positive_int(50368, MAX_VOCAB),
    "hidden_size": positive_int(768),
    "intermediate_size": positive_int(1152, MAX_FEED_WIDTH),
    "num_hidden_layers": positive_int(22, MAX_LAYERS),
    "num_attention_heads": positive_int(12),
    "hidden_activation": one_of("gelu", *ACTIVATIONS),
    "max_position_embeddings": positive_int(8192, MAX_POSITIONS),
    "initializer_range": finite_float(0.02),
    "norm_eps": finite_float(1e-5),
    "norm_bias": boolean(False),
    "pad_token_id": optional_token_id(50283),
    "attention_bias": boolean(False),
    "attention_dropout": probability(0.0),
    "layer_types": unchecked(None),
    "global_attn_every_n_layers": positive_int(3, MAX_LAYERS),
    "rope_parameters": unchecked(None),
    "rope_scaling": unchecked(None),
    "global_rope_theta": unchecked(160_000.0),
    "local_rope_theta": unchecked(10_000.0),
    "local_attention": positive_int(128, MAX_POSITIONS),
    "embedding_dropout": probability(0.0),
    "mlp_bias": boolean(False),
    "mlp_dropout": probability(0.0),
    "decoder_bias": boolean(True),
    "classifier_pooling": one_of("cls", "cls", "mean"),
    "classifier_dropout": probability(0.0),
    "classifier_bias": boolean(False),
    "classifier_activation": one_of("gelu", *ACTIVATIONS),
    "tie_word_embeddings": boolean(True),
}

WIDE, NARROW = "full_attention", "sliding_attention"


def thetas(v: ConfigValues) -> tuple[Any, Any]:
    """The rotary bases of wide and narrow layers, from the new keys or the old."""
    given = v["rope_parameters"] if isinstance(v["rope_parameters"], dict) else {}
    wide, narrow = (given.get(kind) or {} for kind in (WIDE, NARROW))
    wide_theta = wide.get("rope_theta", v["global_rope_theta"])
    narrow_theta = narrow.get("rope_theta", v["local_rope_theta"])
    return wide_theta, wide_theta if narrow_theta is None else narrow_theta


def check(v: ConfigValues) -> str | None:
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
    return check_divisible("hidden_size", "num_attention_heads")(v)


def stack(v: ConfigValues) -> Shape:
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


NAMES: dict[str, str | TensorTarget] = {
    "embeddings.tok_embeddings.weight": "embed.token.weight",
    "embeddings.norm.*": "embed.norm.*",
    "final_norm.*": "norm.*",
    "layers.{n}.attn_norm.*": "blocks.{n}.attend.norm.*",
    "layers.{n}.attn.Wqkv.*": TensorTarget(tuple(f"blocks.{{n}}.attend.inner.{part}.*" for part in "qkv")),
    "layers.{n}.attn.Wo.*": "blocks.{n}.attend.inner.out.*",
    "layers.{n}.mlp_norm.*": "blocks.{n}.feed.norm.*",
    "layers.{n}.mlp.Wi.*": TensorTarget(("blocks.{n}.feed.inner.gate.*", "blocks.{n}.feed.inner.up.*")),
    "layers.{n}.mlp.Wo.*": "blocks.{n}.feed.inner.down.*",
}


def head(kind: Any, outputs: int, v: ConfigValues, **changes: Any) -> HeadPlan:
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
    config_keys=KEYS,
    check=check,
    build_stack=stack,
    build_names=lambda model: name_table(NAMES, "stack."),
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
    presets=small_presets("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    | {"base": {}},
)
