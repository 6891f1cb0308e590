"""The Transformer of Vaswani et al. (2017): base has 6 + 6 layers, width 512, 8 heads, feed-forward width 2048.

Tensors have the names of `torch.nn.Transformer`, so the blocks load there unchanged:
`embedding.weight`, `transformer.encoder.layers.0.self_attn.in_proj_weight`, ..., `output.bias`.
"""

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
    TensorTarget,
    boolean,
    check_divisible,
    finite_float,
    name_table,
    non_negative_int,
    one_of,
    optional_token_id,
    positive_int,
    probability,
)
from clearhead.shape import DropoutRates, HeadShape, ModelShape, Shape

KEYS = {
    "vocab_size": positive_int(37000, MAX_VOCAB),
    "target_vocab_size": non_negative_int(
        None, MAX_VOCAB
    ),  # null: both languages share one vocabulary and its embeddings
    "width": positive_int(512),
    "heads": positive_int(8),
    "feed_width": positive_int(2048, MAX_FEED_WIDTH),
    "encoder_layers": positive_int(6, MAX_LAYERS),
    "decoder_layers": positive_int(6, MAX_LAYERS),
    "max_length": positive_int(5000, MAX_POSITIONS),
    "activation": one_of("relu", *ACTIVATIONS),
    "dropout": probability(0.1),
    "attention_dropout": probability(0.0),
    "activation_dropout": probability(0.0),
    "norm_first": boolean(False),
    "final_norm": boolean(False),  # torch.nn.Transformer has one after each stack, the paper has none
    "eps": finite_float(1e-5),
    "tie_word_embeddings": boolean(True),
    "output_bias": boolean(False),
    "pad_token_id": optional_token_id(0),
    "decoder_start_token_id": optional_token_id(None),
    "eos_token_id": optional_token_id(None),  # null: the tokenizer's
}


def build_stack(config: ConfigValues, layers: str, **changes: Any) -> Shape:
    """Return the encoder or the decoder; `layers` is the config key of its depth."""
    width, heads = config["width"], config["heads"]
    fields: dict[str, Any] = {
        "vocab_size": config["vocab_size"],
        "width": width,
        "layers": config[layers],
        "heads": heads,
        "head_width": width // heads,
        "score_scale": (width // heads) ** -0.5,
        "feed_forward_width": config["feed_width"],
        "max_length": config["max_length"],
        "positions": "sinusoidal",
        "embed_norm": False,
        "embed_scale": math.sqrt(width),
        "norm_position": "before" if config["norm_first"] else "after",
        "final_norm": config["final_norm"] or config["norm_first"],
        "eps": config["eps"],
        "activation": config["activation"],
        "pad_id": config["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=config["dropout"],
            attention_probs=config["attention_dropout"],
            attention_output=config["dropout"],
            feed_forward_output=config["dropout"],
            feed_forward_hidden=config["activation_dropout"],
        ),
        "init": "xavier",
    }
    return Shape(**(fields | changes))


def build_decoder(config: ConfigValues) -> Shape:
    """Return the decoder, which is causal and attends to the encoder."""
    return build_stack(
        config,
        "decoder_layers",
        vocab_size=config["target_vocab_size"] or config["vocab_size"],
        causal=True,
        cross=True,
    )


def seq2seq_head(config: ConfigValues, _num_labels: int) -> HeadPlan:
    """Return the output layer, tied to the target embeddings as in the paper."""
    return HeadPlan(
        head=HeadShape(
            kind="seq2seq",
            pooling="each",
            outputs=build_decoder(config).vocab_size,
            out_bias=config["output_bias"],
            tied=config["tie_word_embeddings"],
        ),
        names={"output.*": "head.out.*"},
    )


def list_names(stack: str, cross: bool) -> dict[str, str | TensorTarget]:
    """Return the tensor names of one stack; torch.nn.Transformer numbers its layer norms in order of use."""
    layer = f"transformer.{stack}.layers.{{n}}."
    sublayers = ("attend", "cross", "feed") if cross else ("attend", "feed")
    names: dict[str, str | TensorTarget] = {f"transformer.{stack}.norm.*": "norm.*"}
    for stored_sublayer, sublayer in (("self_attn", "attend"), ("multihead_attn", "cross"))[: 2 if cross else 1]:
        fused = tuple(f"blocks.{{n}}.{sublayer}.inner.{part}.*" for part in "qkv")
        names[f"{layer}{stored_sublayer}.in_proj_*"] = TensorTarget(fused)
        names[f"{layer}{stored_sublayer}.out_proj.*"] = f"blocks.{{n}}.{sublayer}.inner.out.*"
    for number, sublayer in enumerate(sublayers, start=1):
        names[f"{layer}norm{number}.*"] = f"blocks.{{n}}.{sublayer}.norm.*"
    return names | {
        layer + "linear1.*": "blocks.{n}.feed.inner.up.*",
        layer + "linear2.*": "blocks.{n}.feed.inner.down.*",
    }


def build_names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Return the table of tensor names: embeddings in addition to torch's names."""
    embedding_names = {
        "embedding.weight": "stack.embed.token.weight",
        "target_embedding.weight": "decoder.embed.token.weight",
    }
    return (
        name_table(embedding_names)
        | name_table(list_names("encoder", cross=False), "stack.")
        | name_table(list_names("decoder", cross=True), "decoder.")
    )


FAMILY = Family(
    model_type="transformer",
    title="2017 Transformer",
    prefix="",
    config_keys=KEYS,
    check=check_divisible("width", "heads"),
    build_stack=lambda config: build_stack(config, "encoder_layers"),
    build_decoder=build_decoder,
    shares_embeddings=lambda config: not config["target_vocab_size"],
    build_names=build_names,
    heads={"seq2seq": seq2seq_head},
    architectures={"TransformerForTranslation": "seq2seq"},
    decoder_start_id=lambda config: (
        config["pad_token_id"] if config["decoder_start_token_id"] is None else config["decoder_start_token_id"]
    ),
    presets={
        "tiny": {"width": 128, "heads": 4, "feed_width": 512, "encoder_layers": 2, "decoder_layers": 2},
        "mini": {"width": 192, "heads": 4, "feed_width": 768, "encoder_layers": 3, "decoder_layers": 3},
        "small": {"width": 256, "heads": 4, "feed_width": 1024, "encoder_layers": 3, "decoder_layers": 3},
        "base": {},
        "big": {"width": 1024, "heads": 16, "feed_width": 4096, "dropout": 0.3},
    },
)
