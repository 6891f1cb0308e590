"""T5 v1.0 and v1.1: text to text, with bucketed relative positions, RMSNorm before each sub-layer and no biases."""

from __future__ import annotations

from typing import Any

from clearhead.families.family import (
    ACTIVATIONS,
    MAX_FEED_WIDTH,
    MAX_LAYERS,
    MAX_VOCAB,
    ConfigValues,
    Family,
    HeadPlan,
    TensorTarget,
    any_value,
    boolean,
    finite_float,
    name_table,
    non_negative_int,
    optional_token_id,
    positive_int,
    probability,
    small_presets,
)
from clearhead.shape import DropoutRates, HeadShape, ModelShape, Shape

KEYS = {
    "vocab_size": positive_int(32128, MAX_VOCAB),
    "d_model": positive_int(512, 1 << 16, "hidden_size"),
    "d_kv": positive_int(64),
    "d_ff": positive_int(2048, MAX_FEED_WIDTH),
    "num_layers": positive_int(6, MAX_LAYERS, "num_hidden_layers"),
    "num_decoder_layers": non_negative_int(None, MAX_LAYERS),
    "num_heads": positive_int(8, 1 << 16, "num_attention_heads"),
    "relative_attention_num_buckets": positive_int(32),
    "relative_attention_max_distance": positive_int(128, 1 << 20),
    "dropout_rate": probability(0.1),
    "layer_norm_epsilon": finite_float(1e-6),
    "initializer_factor": finite_float(1.0),
    "feed_forward_proj": any_value("relu"),
    "pad_token_id": optional_token_id(0),
    "decoder_start_token_id": optional_token_id(None),
    "tie_word_embeddings": boolean(None),
    "scale_decoder_outputs": boolean(None),
}


def parse_activation(config: ConfigValues) -> tuple[str, bool]:
    """Return the activation and whether it is gated; T5's gated-gelu is the tanh approximation."""
    *gate, name = config["feed_forward_proj"].split("-")
    if config["feed_forward_proj"] == "gated-gelu":
        name = "gelu_new"
    return name, bool(gate)


def check_config(config: ConfigValues) -> str | None:
    """Check the feed-forward projection and the number of position buckets."""
    proj = config["feed_forward_proj"]
    allowed = {*ACTIVATIONS, *(f"gated-{name}" for name in ACTIVATIONS)}
    if not isinstance(proj, str) or proj not in allowed:
        return f"feed_forward_proj is {str(proj)[:40]!r}, expected an activation, optionally after 'gated-'"
    exact_buckets = config["relative_attention_num_buckets"] // 4
    if exact_buckets < 1 or config["relative_attention_max_distance"] <= config["relative_attention_num_buckets"] // 2:
        return "relative_attention_num_buckets must be at least 4 and below twice relative_attention_max_distance"
    return None


def build_stack(config: ConfigValues, **changes: Any) -> Shape:
    """Return the encoder; the decoder differs by `changes`."""
    name, gated = parse_activation(config)
    rate = config["dropout_rate"]
    fields: dict[str, Any] = {
        "vocab_size": config["vocab_size"],
        "width": config["d_model"],
        "layers": config["num_layers"],
        "heads": config["num_heads"],
        "head_width": config["d_kv"],
        "score_scale": 1.0,  # the initialization of W_Q contains the usual factor
        "feed_forward_width": config["d_ff"],
        "max_length": None,
        "positions": "none",
        "relative": "buckets",
        "buckets": config["relative_attention_num_buckets"],
        "bucket_max_distance": config["relative_attention_max_distance"],
        "norm": "rms",
        "eps": config["layer_norm_epsilon"],
        "norm_position": "before",
        "embed_norm": False,
        "final_norm": True,
        "attention_bias": False,
        "feed_forward_bias": False,
        "feed_forward": "gated" if gated else "plain",
        "activation": name,
        "pad_id": config["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=rate,
            attention_probs=rate,
            attention_output=rate,
            feed_forward_output=rate,
            feed_forward_hidden=rate,
            final_norm=rate,
        ),
        "init": "t5",
        "init_std": config["initializer_factor"],
    }
    return Shape(**(fields | changes))


def build_decoder(config: ConfigValues) -> Shape:
    """Return the decoder; by default it is as deep as the encoder."""
    return build_stack(config, layers=config["num_decoder_layers"] or config["num_layers"], causal=True, cross=True)


def seq2seq_head(config: ConfigValues, _num_labels: int) -> HeadPlan:
    """Return the output head; v1.0 ties it to the embeddings and scales by 1/sqrt(width), v1.1 does neither."""
    is_scaled = (
        config["tie_word_embeddings"] is not False
        if config["scale_decoder_outputs"] is None
        else config["scale_decoder_outputs"]
    )
    return HeadPlan(
        head=HeadShape(
            kind="seq2seq",
            pooling="each",
            outputs=config["vocab_size"],
            out_bias=False,
            tied=True,  # a file with a separate output matrix unties it
            scale=config["d_model"] ** -0.5 if is_scaled else 1.0,
        ),
        names={"lm_head.weight": "head.out.weight"},
    )


def list_names(stack: str, cross: bool) -> dict[str, str]:
    """Return the tensor names of one stack; the feed-forward sub-layer follows one or two attention sub-layers."""
    block = f"{stack}.block.{{n}}.layer."
    names = {
        f"{stack}.final_layer_norm.*": "norm.*",
        f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight": "relative.table.weight",
    }
    parts = [("attend", "SelfAttention"), ("cross", "EncDecAttention")][: 2 if cross else 1]
    for number, (sublayer, stored_sublayer) in enumerate(parts):
        for stored_part, part in zip("qkvo", ("q", "k", "v", "out"), strict=True):
            names[f"{block}{number}.{stored_sublayer}.{stored_part}.*"] = f"blocks.{{n}}.{sublayer}.inner.{part}.*"
        names[f"{block}{number}.layer_norm.*"] = f"blocks.{{n}}.{sublayer}.norm.*"
    feed_prefix = f"{block}{len(parts)}."
    return names | {
        feed_prefix + "layer_norm.*": "blocks.{n}.feed.norm.*",
        feed_prefix + "DenseReluDense.wi.*": "blocks.{n}.feed.inner.up.*",
        feed_prefix + "DenseReluDense.wi_0.*": "blocks.{n}.feed.inner.gate.*",
        feed_prefix + "DenseReluDense.wi_1.*": "blocks.{n}.feed.inner.up.*",
        feed_prefix + "DenseReluDense.wo.*": "blocks.{n}.feed.inner.down.*",
    }


def build_names(model: ModelShape) -> dict[str, TensorTarget]:
    """Return the table of tensor names; a gated feed-forward layer has two input matrices, a plain one has one."""
    absent_name = "DenseReluDense.wi." if model.stack.feed_forward == "gated" else "DenseReluDense.wi_"
    names = name_table({"shared.weight": "embed.token.weight"} | list_names("encoder", cross=False), "stack.")
    if model.decoder is not None:
        names |= name_table(list_names("decoder", cross=True), "decoder.")
    return {stored_name: target for stored_name, target in names.items() if absent_name not in stored_name}


FAMILY = Family(
    model_type="t5",
    title="T5",
    prefix="",
    config_keys=KEYS,
    check=check_config,
    build_stack=build_stack,
    build_decoder=build_decoder,
    build_names=build_names,
    aliases={"encoder.embed_tokens.weight": "shared.weight", "decoder.embed_tokens.weight": "shared.weight"},
    ignored=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    heads={"seq2seq": seq2seq_head, "encode": lambda config, num_labels: HeadPlan(head=None, uses_decoder=False)},
    architectures={
        "T5ForConditionalGeneration": "seq2seq",
        "T5WithLMHeadModel": "seq2seq",
        "T5EncoderModel": "encode",
    },
    decoder_start_id=lambda config: (
        config["pad_token_id"] if config["decoder_start_token_id"] is None else config["decoder_start_token_id"]
    ),
    presets=small_presets("d_model", "num_layers", "num_heads", "d_ff")
    | {"small": {}, "base": {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}},
)
