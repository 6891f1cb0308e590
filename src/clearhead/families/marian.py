"""Marian: the 2017 Transformer of the OPUS translation models, with sines and cosines in halves and a logit bias."""

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
    any_value,
    boolean,
    finite_float,
    name_table,
    non_negative_int,
    one_of,
    optional_token_id,
    positive_int,
    probability,
    small_presets,
)
from clearhead.shape import DropoutRates, HeadShape, ModelShape, Shape

# keys of presets
LAYER_KEYS, HEAD_KEYS = ("encoder_layers", "decoder_layers"), ("encoder_attention_heads", "decoder_attention_heads")
FEED_FORWARD_KEYS = ("encoder_ffn_dim", "decoder_ffn_dim")
PRESET_SETTINGS = {"activation_function": "swish", "scale_embedding": True}

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
    "normalize_before": any_value(False),
    "normalize_embedding": any_value(False),
    "add_final_layer_norm": any_value(False),
}


def check_config(config: ConfigValues) -> str | None:
    """Check that the heads share the width, and refuse layer norms that no Marian model has."""
    for heads in ("encoder_attention_heads", "decoder_attention_heads"):
        if config["d_model"] % config[heads]:
            return f"d_model {config['d_model']} is not a multiple of {heads} {config[heads]}"
    if config["normalize_before"] or config["normalize_embedding"] or config["add_final_layer_norm"]:
        return "normalize_before, normalize_embedding and add_final_layer_norm are not supported"
    if config["share_encoder_decoder_embeddings"] and config["decoder_vocab_size"] not in (
        None,
        0,
        config["vocab_size"],
    ):
        return "decoder_vocab_size must equal vocab_size when encoder and decoder share their embeddings"
    return None


def build_stack(config: ConfigValues, prefix: str, **changes: Any) -> Shape:
    """Return the encoder or the decoder; `prefix` selects its config keys."""
    heads, width = config[f"{prefix}_attention_heads"], config["d_model"]
    fields: dict[str, Any] = {
        "vocab_size": config["vocab_size"],
        "width": width,
        "layers": config[f"{prefix}_layers"],
        "heads": heads,
        "head_width": width // heads,
        "score_scale": (width // heads) ** -0.5,
        "feed_forward_width": config[f"{prefix}_ffn_dim"],
        "max_length": config["max_position_embeddings"],
        "positions": "sinusoidal_halves",
        "embed_norm": False,
        "embed_scale": math.sqrt(width) if config["scale_embedding"] else 1.0,
        "eps": 1e-5,
        "activation": config["activation_function"],
        "pad_id": config["pad_token_id"],
        "pad_learned": False,
        "dropouts": DropoutRates(
            embedding=config["dropout"],
            attention_probs=config["attention_dropout"],
            attention_output=config["dropout"],
            feed_forward_output=config["dropout"],
            feed_forward_hidden=config["activation_dropout"],
        ),
        "init_std": config["init_std"],
    }
    return Shape(**(fields | changes))


def build_decoder(config: ConfigValues) -> Shape:
    """Return the decoder; it has its own vocabulary if encoder and decoder do not share one."""
    own_vocab_size = not config["share_encoder_decoder_embeddings"] and config["decoder_vocab_size"]
    return build_stack(config, "decoder", vocab_size=own_vocab_size or config["vocab_size"], causal=True, cross=True)


def seq2seq_head(config: ConfigValues, _num_labels: int) -> HeadPlan:
    """Return the output head: a matrix that is usually tied to the embeddings, and a bias."""
    return HeadPlan(
        head=HeadShape(
            kind="seq2seq",
            pooling="each",
            outputs=build_decoder(config).vocab_size,
            out_bias_learned=False,
            tied=config["tie_word_embeddings"],
        ),
        names={"lm_head.weight": "head.out.weight", "final_logits_bias": TensorTarget(("head.out.bias",), flat=True)},
    )


def list_names(stack: str) -> dict[str, str]:
    """Return the tensor names of the encoder or the decoder."""
    layer = f"{stack}.layers.{{n}}."
    names = {
        layer + "fc1.*": "blocks.{n}.feed.inner.up.*",
        layer + "fc2.*": "blocks.{n}.feed.inner.down.*",
        layer + "final_layer_norm.*": "blocks.{n}.feed.norm.*",
    }
    for stored_sublayer, sublayer in (("self_attn", "attend"), ("encoder_attn", "cross"))[
        : 2 if stack == "decoder" else 1
    ]:
        for stored_part, part in (("q_proj", "q"), ("k_proj", "k"), ("v_proj", "v"), ("out_proj", "out")):
            names[f"{layer}{stored_sublayer}.{stored_part}.*"] = f"blocks.{{n}}.{sublayer}.inner.{part}.*"
        names[f"{layer}{stored_sublayer}_layer_norm.*"] = f"blocks.{{n}}.{sublayer}.norm.*"
    return names


def build_names(model: ModelShape) -> dict[str, TensorTarget]:
    """Return the table of tensor names.

    A shared embedding table has one stored name, separate tables have two. With an untied output, transformers expects
    a shared table under all three names.
    """
    embedding_names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    if model.share_embeddings:
        is_untied = model.head is not None and not model.head.tied
        stored_names = ("shared.weight", *(embedding_names if is_untied else ()))
        embeddings = {name: TensorTarget(("stack.embed.token.weight",)) for name in stored_names}
    else:
        embeddings = {
            name: TensorTarget((f"{stack}.embed.token.weight",))
            for name, stack in zip(embedding_names, ("stack", "decoder"), strict=True)
        }
    return embeddings | name_table(list_names("encoder"), "stack.") | name_table(list_names("decoder"), "decoder.")


def compute_position_tables(model: ModelShape) -> dict[str, Any]:
    """Return the position tables that older exports and the base class store: sines, then cosines."""
    import numpy as np

    tables = {}
    for name, stack in (("encoder", model.stack), ("decoder", model.decoder)):
        if stack is not None:
            positions, even_dimensions = np.arange(stack.max_length or 0)[:, None], np.arange(0, stack.width, 2)
            angles = positions / 10000.0 ** (even_dimensions / stack.width)
            table = np.concatenate([np.sin(angles), np.cos(angles)[:, : stack.width // 2]], 1)
            tables[f"{name}.embed_positions.weight"] = table.astype(np.float32)
    return tables


def infer_config(config: dict[str, Any], stored: TensorLookup) -> dict[str, Any]:
    """Detect separate embeddings, which transformers 5 stores for untied models contrary to config.json."""
    for prefix in ("model.", "") if config.get("tie_word_embeddings") is False else ():
        side_tables = [f"{prefix}{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
        shared = f"{prefix}shared.weight"
        if all(name in stored for name in side_tables):
            is_shared = stored.are_equal(*side_tables) and (
                shared not in stored or stored.are_equal(side_tables[0], shared)
            )
            if not is_shared:
                vocab_size = config.get("decoder_vocab_size") or config.get("vocab_size")
                return config | {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": vocab_size}
    return config


FAMILY = Family(
    model_type="marian",
    title="Marian",
    prefix="model.",
    config_keys=KEYS,
    check=check_config,
    build_stack=lambda config: build_stack(config, "encoder"),
    build_decoder=build_decoder,
    shares_embeddings=lambda config: bool(config["share_encoder_decoder_embeddings"]),
    build_names=build_names,
    infer_config=infer_config,
    computed_tables=compute_position_tables,
    aliases={"encoder.embed_tokens.weight": "shared.weight", "decoder.embed_tokens.weight": "shared.weight"},
    # the position tables are computed, not learned; `shared.weight` is unused if the embeddings are separate
    ignored=("encoder.embed_positions.weight", "decoder.embed_positions.weight", "shared.weight"),
    heads={"seq2seq": seq2seq_head},
    architectures={"MarianMTModel": "seq2seq"},
    decoder_start_id=lambda config: config["decoder_start_token_id"],
    presets=small_presets("d_model", LAYER_KEYS, HEAD_KEYS, FEED_FORWARD_KEYS, PRESET_SETTINGS)
    | {
        "base": {
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
            **PRESET_SETTINGS,
        }
    },
)
