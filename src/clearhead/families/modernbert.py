"""ModernBERT: rotary positions, gated feed-forward, pre-norm, and local attention in two of three layers."""

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
    any_value,
    boolean,
    check_divisible,
    finite_float,
    name_table,
    one_of,
    optional_token_id,
    positive_int,
    probability,
    small_presets,
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
    "layer_types": any_value(None),
    "global_attn_every_n_layers": positive_int(3, MAX_LAYERS),
    "rope_parameters": any_value(None),
    "rope_scaling": any_value(None),
    "global_rope_theta": any_value(160_000.0),
    "local_rope_theta": any_value(10_000.0),
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

GLOBAL_ATTENTION, LOCAL_ATTENTION = "full_attention", "sliding_attention"


def rope_bases(config: ConfigValues) -> tuple[Any, Any]:
    """Return the rotary bases of global and local layers, from the new or the old config keys."""
    parameters = config["rope_parameters"] if isinstance(config["rope_parameters"], dict) else {}
    global_rope, local_rope = (parameters.get(kind) or {} for kind in (GLOBAL_ATTENTION, LOCAL_ATTENTION))
    global_theta = global_rope.get("rope_theta", config["global_rope_theta"])
    local_theta = local_rope.get("rope_theta", config["local_rope_theta"])
    return global_theta, global_theta if local_theta is None else local_theta


def check_config(config: ConfigValues) -> str | None:
    """Check layer types and rotary settings."""
    types = config["layer_types"]
    if types is not None and (
        not isinstance(types, list)
        or len(types) != config["num_hidden_layers"]
        or any(kind not in (GLOBAL_ATTENTION, LOCAL_ATTENTION) for kind in types)
    ):
        count = config["num_hidden_layers"]
        return f"layer_types must list {GLOBAL_ATTENTION} or {LOCAL_ATTENTION} for each of the {count} layers"
    rope = config["rope_parameters"]
    if rope is not None and not (
        isinstance(rope, dict) and all(part is None or isinstance(part, dict) for part in rope.values())
    ):
        return "rope_parameters must be an object with one entry per layer type"
    kinds = {str((part or {}).get("rope_type", "default")) for part in (rope or {}).values()}
    if config["rope_scaling"] is not None or kinds - {"default"}:
        return "scaled rotary positions (rope_scaling) are not supported"
    for theta in rope_bases(config):
        if not isinstance(theta, int | float) or isinstance(theta, bool) or not 0 < theta <= 1e12:
            return f"a rotary base is {str(theta)[:40]!r}, expected a positive number"
    if (config["hidden_size"] // config["num_attention_heads"]) % 2:
        return "rotary positions need an even head width"
    return check_divisible("hidden_size", "num_attention_heads")(config)


def build_stack(config: ConfigValues) -> Shape:
    """Return the encoder; global and local layers have their own rotary bases."""
    layers, head_width = config["num_hidden_layers"], config["hidden_size"] // config["num_attention_heads"]
    types = config["layer_types"] or [
        LOCAL_ATTENTION if i % config["global_attn_every_n_layers"] else GLOBAL_ATTENTION for i in range(layers)
    ]
    theta, local_theta = rope_bases(config)
    return Shape(
        vocab_size=config["vocab_size"],
        width=config["hidden_size"],
        layers=layers,
        heads=config["num_attention_heads"],
        head_width=head_width,
        score_scale=head_width**-0.5,
        feed_forward_width=config["intermediate_size"],
        max_length=None,
        positions="none",
        relative="rotary",
        rope_theta=float(theta),
        local_rope_theta=float(local_theta),
        window=config["local_attention"],
        local_layers=tuple(kind == LOCAL_ATTENTION for kind in types),
        eps=config["norm_eps"],
        norm_bias=config["norm_bias"],
        norm_position="before",
        first_norm=False,
        final_norm=True,
        attention_bias=config["attention_bias"],
        feed_forward_bias=config["mlp_bias"],
        feed_forward="gated",
        activation=config["hidden_activation"],
        pad_id=config["pad_token_id"],
        dropouts=DropoutRates(
            embedding=config["embedding_dropout"],
            attention_probs=config["attention_dropout"],
            attention_output=config["attention_dropout"],
            feed_forward_hidden=config["mlp_dropout"],
        ),
        init="truncated",
        init_std=config["initializer_range"],
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


def build_head(kind: Any, outputs: int, config: ConfigValues, **changes: Any) -> HeadPlan:
    """Return a head; all ModernBERT heads compute dense, activation, layer norm, output."""
    text_pooling = "first" if config["classifier_pooling"] == "cls" else "mean"
    fields: dict[str, Any] = {
        "kind": kind,
        "pooling": text_pooling if kind in ("classify", "choice") else "each",
        "outputs": outputs,
        "dense": config["hidden_size"],
        "dense_bias": config["classifier_bias"],
        "activation": config["classifier_activation"],
        "norm": True,
        "norm_bias": config["norm_bias"],
        "eps": config["norm_eps"],
        "dropout": config["classifier_dropout"],
    }
    output_names = "decoder.*" if kind == "masked" else "classifier.*"
    return HeadPlan(
        head=HeadShape(**(fields | changes)),
        names={"head.dense.*": "head.dense.*", "head.norm.*": "head.norm.*", output_names: "head.out.*"},
    )


FAMILY = Family(
    model_type="modernbert",
    title="ModernBERT",
    prefix="model.",
    config_keys=KEYS,
    check=check_config,
    build_stack=build_stack,
    build_names=lambda model: name_table(NAMES, "stack."),
    heads={
        "masked": lambda config, num_labels: build_head(
            "masked",
            config["vocab_size"],
            config,
            dropout=0.0,
            out_bias=config["decoder_bias"],
            tied=config["tie_word_embeddings"],
        ),
        "classify": lambda config, num_labels: build_head("classify", num_labels, config),
        "tag": lambda config, num_labels: build_head("tag", num_labels, config),
        "span": lambda config, num_labels: build_head("span", 2, config),
        "choice": lambda config, num_labels: build_head("choice", 1, config),
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
