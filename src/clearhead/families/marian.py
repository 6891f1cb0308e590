"""Marian: the 2017 Transformer as the OPUS translators use it, sines and cosines in halves, a bias on the logits."""

from __future__ import annotations

import math
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
    TensorLookup,
    TensorTarget,
    boolean,
    finite_float,
    name_table,
    non_negative_int,
    one_of,
    optional_token_id,
    positive_int,
    probability,
    small_presets,
    unchecked,
)
from clearhead.shape import DropoutRates, HeadShape, ModelShape, Shape

# of presets
LAYERS, HEADS = ("encoder_layers", "decoder_layers"), ("encoder_attention_heads", "decoder_attention_heads")
FEEDS = ("encoder_ffn_dim", "decoder_ffn_dim")
LOOKS = {"activation_function": "swish", "scale_embedding": True}

KEYS = {
    "vocab_size": positive_int(58101, MAX_VOCAB),
    "decoder_vocab_size": non_negative_int(None, MAX_VOCAB),
    "max_position_embeddings": positive_int(1024, MAX_POSITIONS),
    "encoder_layers": positive_int(12, MAX_LAYERS, "num_hidden_layers"),
    "encoder_ffn_dim": positive_int(4096, MAX_FEED_WIDTH),
    "encoder_attention_heads": positive_int(16, 1 << 16, "num_attention_heads"),
    "decoder_layers": positive_int(12, MAX_LAYERS),
    "decoder_ffn_dim": positive_int(4096, MAX_FEED_WIDTH),
    "decoder_attention_heads": positive_int(16),
    "activation_function": one_of("gelu", *ACTIVATIONS),
    "d_model": positive_int(1024, 1 << 16, "hidden_size"),
    "dropout": probability(0.1),
    "attention_dropout": probability(0.0),
    "activation_dropout": probability(0.0),
    "init_std": finite_float(0.02),
    "decoder_start_token_id": optional_token_id(58100),
    "scale_embedding": boolean(False),
    "pad_token_id": optional_token_id(58100),
    "share_encoder_decoder_embeddings": boolean(True),
    "tie_word_embeddings": boolean(True),
    "normalize_before": unchecked(False),
    "normalize_embedding": unchecked(False),
    "add_final_layer_norm": unchecked(False),
}


def check(v: ConfigValues) -> str | None:
    """Both sides' heads share the width; early exports could ask for norms that no Marian has."""
    for heads in ("encoder_attention_heads", "decoder_attention_heads"):
        if v["d_model"] % v[heads]:
            return f"d_model {v['d_model']} is not a multiple of {heads} {v[heads]}"
    if v["normalize_before"] or v["normalize_embedding"] or v["add_final_layer_norm"]:
        return "normalize_before, normalize_embedding and add_final_layer_norm are not supported"
    if v["share_encoder_decoder_embeddings"] and v["decoder_vocab_size"] not in (None, 0, v["vocab_size"]):
        return "decoder_vocab_size differs from vocab_size although the two sides share their word table"
    return None


def side(v: ConfigValues, prefix: str, **changes: Any) -> Shape:
    """One stack of the two."""
    heads, width = v[f"{prefix}_attention_heads"], v["d_model"]
    fields: dict[str, Any] = {
        "vocab_size": v["vocab_size"],
        "width": width,
        "layers": v[f"{prefix}_layers"],
        "heads": heads,
        "head_width": width // heads,
        "score_scale": (width // heads) ** -0.5,
        "feed_forward_width": v[f"{prefix}_ffn_dim"],
        "max_length": v["max_position_embeddings"],
        "positions": "sinusoidal_halves",
        "embed_norm": False,
        "embed_scale": math.sqrt(width) if v["scale_embedding"] else 1.0,
        "eps": 1e-5,
        "activation": v["activation_function"],
        "pad_id": v["pad_token_id"],
        "pad_learned": False,
        "dropouts": DropoutRates(
            embedding=v["dropout"],
            attention_probs=v["attention_dropout"],
            attention_output=v["dropout"],
            feed_forward_output=v["dropout"],
            feed_forward_hidden=v["activation_dropout"],
        ),
        "init_std": v["init_std"],
    }
    return Shape(**(fields | changes))


def decoder(v: ConfigValues) -> Shape:
    """Its own vocabulary only where the two sides do not share one."""
    own = not v["share_encoder_decoder_embeddings"] and v["decoder_vocab_size"]
    return side(v, "decoder", vocab_size=own or v["vocab_size"], causal=True, cross=True)


def seq2seq(v: ConfigValues, _labels: int) -> HeadPlan:
    """The word table again, plus a bias per word."""
    return HeadPlan(
        head=HeadShape(
            kind="seq2seq",
            pooling="each",
            outputs=decoder(v).vocab_size,
            out_bias_learned=False,
            tied=v["tie_word_embeddings"],
        ),
        names={"lm_head.weight": "head.out.weight", "final_logits_bias": TensorTarget(("head.out.bias",), flat=True)},
    )


def rows(theirs: str) -> dict[str, str]:
    """One side's names."""
    layer = f"{theirs}.layers.{{n}}."
    made = {
        layer + "fc1.*": "blocks.{n}.feed.inner.up.*",
        layer + "fc2.*": "blocks.{n}.feed.inner.down.*",
        layer + "final_layer_norm.*": "blocks.{n}.feed.norm.*",
    }
    for name, ours in (("self_attn", "attend"), ("encoder_attn", "cross"))[: 2 if theirs == "decoder" else 1]:
        for a, b in (("q_proj", "q"), ("k_proj", "k"), ("v_proj", "v"), ("out_proj", "out")):
            made[f"{layer}{name}.{a}.*"] = f"blocks.{{n}}.{ours}.inner.{b}.*"
        made[f"{layer}{name}_layer_norm.*"] = f"blocks.{{n}}.{ours}.norm.*"
    return made


def names(model: ModelShape) -> dict[str, TensorTarget]:
    """A shared word table has one name, two tables have two; beside an untied output a shared one needs all three."""
    both = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    if model.share_embeddings:
        untied = model.head is not None and not model.head.tied
        words = {
            name: TensorTarget(("stack.embed.token.weight",)) for name in ("shared.weight", *(both if untied else ()))
        }
    else:
        sides = ("stack", "decoder")
        words = {name: TensorTarget((f"{ours}.embed.token.weight",)) for name, ours in zip(both, sides, strict=True)}
    return words | name_table(rows("encoder"), "stack.") | name_table(rows("decoder"), "decoder.")


def computed(model: ModelShape) -> dict[str, Any]:
    """The position tables as older exports and the bare class store them: sines, then cosines."""
    import numpy as np

    made = {}
    for name, stack in (("encoder", model.stack), ("decoder", model.decoder)):
        if stack is not None:
            place, even = np.arange(stack.max_length or 0)[:, None], np.arange(0, stack.width, 2)
            angles = place / 10000.0 ** (even / stack.width)
            halves = np.concatenate([np.sin(angles), np.cos(angles)[:, : stack.width // 2]], 1)
            made[f"{name}.embed_positions.weight"] = halves.astype(np.float32)
    return made


def guess(config: dict[str, Any], in_file: TensorLookup) -> dict[str, Any]:
    """An untied model of transformers 5 has three different tables although config.json says that they are shared."""
    for prefix in ("model.", "") if config.get("tie_word_embeddings") is False else ():
        own = [f"{prefix}{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
        shared = f"{prefix}shared.weight"
        if all(name in in_file for name in own):
            one = in_file.are_equal(*own) and (shared not in in_file or in_file.are_equal(own[0], shared))
            if not one:
                words = config.get("decoder_vocab_size") or config.get("vocab_size")
                return config | {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": words}
    return config


FAMILY = Family(
    model_type="marian",
    title="Marian",
    prefix="model.",
    config_keys=KEYS,
    check=check,
    build_stack=lambda v: side(v, "encoder"),
    build_decoder=decoder,
    shares_embeddings=lambda v: bool(v["share_encoder_decoder_embeddings"]),
    build_names=names,
    infer_config=guess,
    computed_tables=computed,
    aliases={"encoder.embed_tokens.weight": "shared.weight", "decoder.embed_tokens.weight": "shared.weight"},
    # the position tables are computed, not learned; a shared word table that is not shared is not used
    ignored=("encoder.embed_positions.weight", "decoder.embed_positions.weight", "shared.weight"),
    heads={"seq2seq": seq2seq},
    architectures={"MarianMTModel": "seq2seq"},
    start_token=lambda v: v["decoder_start_token_id"],
    presets=small_presets("d_model", LAYERS, HEADS, FEEDS, LOOKS)
    | {
        "base": {
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
            **LOOKS,
        }
    },
)
