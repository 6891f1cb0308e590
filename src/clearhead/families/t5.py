"""T5, v1.0 and v1.1: text to text; distances in buckets, root-mean-square norms before, no biases anywhere."""

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
    boolean,
    finite_float,
    name_table,
    non_negative_int,
    optional_token_id,
    positive_int,
    probability,
    small_presets,
    unchecked,
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
    "feed_forward_proj": unchecked("relu"),
    "pad_token_id": optional_token_id(0),
    "decoder_start_token_id": optional_token_id(None),
    "tie_word_embeddings": boolean(None),
    "scale_decoder_outputs": boolean(None),
}


def activation(v: ConfigValues) -> tuple[str, bool]:
    """The activation and whether it is a gate; T5 writes gated-gelu and means the tanh form."""
    *gate, name = v["feed_forward_proj"].split("-")
    if v["feed_forward_proj"] == "gated-gelu":
        name = "gelu_new"
    return name, bool(gate)


def check(v: ConfigValues) -> str | None:
    """The feed-forward word, and room for the buckets."""
    proj = v["feed_forward_proj"]
    allowed = {*ACTIVATIONS, *(f"gated-{name}" for name in ACTIVATIONS)}
    if not isinstance(proj, str) or proj not in allowed:
        return f"feed_forward_proj is {str(proj)[:40]!r}, expected an activation, gated- or not"
    exact = v["relative_attention_num_buckets"] // 4
    if exact < 1 or v["relative_attention_max_distance"] <= v["relative_attention_num_buckets"] // 2:
        return "relative_attention_num_buckets and relative_attention_max_distance leave no room for distances"
    return None


def stack(v: ConfigValues, **changes: Any) -> Shape:
    """The encoder; the decoder is the same, causal and with cross attention."""
    name, gated = activation(v)
    rate = v["dropout_rate"]
    fields: dict[str, Any] = {
        "vocab_size": v["vocab_size"],
        "width": v["d_model"],
        "layers": v["num_layers"],
        "heads": v["num_heads"],
        "head_width": v["d_kv"],
        "score_scale": 1.0,  # folded into the initial W_Q instead
        "feed_forward_width": v["d_ff"],
        "max_length": None,
        "positions": "none",
        "relative": "buckets",
        "buckets": v["relative_attention_num_buckets"],
        "bucket_max_distance": v["relative_attention_max_distance"],
        "norm": "rms",
        "eps": v["layer_norm_epsilon"],
        "norm_position": "before",
        "embed_norm": False,
        "final_norm": True,
        "attention_bias": False,
        "feed_forward_bias": False,
        "feed_forward": "gated" if gated else "plain",
        "activation": name,
        "pad_id": v["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=rate,
            attention_probs=rate,
            attention_output=rate,
            feed_forward_output=rate,
            feed_forward_hidden=rate,
            final_norm=rate,
        ),
        "init": "t5",
        "init_std": v["initializer_factor"],
    }
    return Shape(**(fields | changes))


def decoder(v: ConfigValues) -> Shape:
    """As deep as the encoder unless it says otherwise."""
    return stack(v, layers=v["num_decoder_layers"] or v["num_layers"], causal=True, cross=True)


def seq2seq(v: ConfigValues, _labels: int) -> HeadPlan:
    """v1.0 shares the word table with the output and scales by 1/sqrt(width); v1.1 does neither."""
    scaled = v["tie_word_embeddings"] is not False if v["scale_decoder_outputs"] is None else v["scale_decoder_outputs"]
    return HeadPlan(
        head=HeadShape(
            kind="seq2seq",
            pooling="each",
            outputs=v["vocab_size"],
            out_bias=False,
            tied=True,  # a file with an output matrix of its own unties it
            scale=v["d_model"] ** -0.5 if scaled else 1.0,
        ),
        names={"lm_head.weight": "head.out.weight"},
    )


def side(theirs: str, cross: bool) -> dict[str, str]:
    """The rows of one stack; the feed-forward part comes after one or two attentions."""
    block = f"{theirs}.block.{{n}}.layer."
    rows = {
        f"{theirs}.final_layer_norm.*": "norm.*",
        f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias.weight": "relative.table.weight",
    }
    parts = [("attend", "SelfAttention"), ("cross", "EncDecAttention")][: 2 if cross else 1]
    for number, (ours, name) in enumerate(parts):
        for a, b in zip("qkvo", ("q", "k", "v", "out"), strict=True):
            rows[f"{block}{number}.{name}.{a}.*"] = f"blocks.{{n}}.{ours}.inner.{b}.*"
        rows[f"{block}{number}.layer_norm.*"] = f"blocks.{{n}}.{ours}.norm.*"
    feed = f"{block}{len(parts)}."
    return rows | {
        feed + "layer_norm.*": "blocks.{n}.feed.norm.*",
        feed + "DenseReluDense.wi.*": "blocks.{n}.feed.inner.up.*",
        feed + "DenseReluDense.wi_0.*": "blocks.{n}.feed.inner.gate.*",
        feed + "DenseReluDense.wi_1.*": "blocks.{n}.feed.inner.up.*",
        feed + "DenseReluDense.wo.*": "blocks.{n}.feed.inner.down.*",
    }


def names(model: ModelShape) -> dict[str, TensorTarget]:
    """Both sides; a gated feed-forward part has two matrices in, a plain one has one."""
    unused = "DenseReluDense.wi." if model.stack.feed_forward == "gated" else "DenseReluDense.wi_"
    rows = name_table({"shared.weight": "embed.token.weight"} | side("encoder", cross=False), "stack.")
    if model.decoder is not None:
        rows |= name_table(side("decoder", cross=True), "decoder.")
    return {theirs: row for theirs, row in rows.items() if unused not in theirs}


FAMILY = Family(
    model_type="t5",
    title="T5",
    prefix="",
    config_keys=KEYS,
    check=check,
    build_stack=stack,
    build_decoder=decoder,
    build_names=names,
    aliases={"encoder.embed_tokens.weight": "shared.weight", "decoder.embed_tokens.weight": "shared.weight"},
    ignored=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    heads={"seq2seq": seq2seq, "encode": lambda v, n: HeadPlan(head=None, uses_decoder=False)},
    architectures={
        "T5ForConditionalGeneration": "seq2seq",
        "T5WithLMHeadModel": "seq2seq",
        "T5EncoderModel": "encode",
    },
    start_token=lambda v: v["pad_token_id"] if v["decoder_start_token_id"] is None else v["decoder_start_token_id"],
    presets=small_presets("d_model", "num_layers", "num_heads", "d_ff")
    | {"small": {}, "base": {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}},
)
