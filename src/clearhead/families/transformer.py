"""The 2017 Transformer: base has 6 + 6 layers, width 512, 8 heads, feed-forward 2048; sizes are free.

Its folders carry the tensor names of `torch.nn.Transformer`, so that the blocks load there as they are:
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
    "target_vocab_size": non_negative_int(None, MAX_VOCAB),  # null: both languages share one vocabulary and table
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


def side(v: ConfigValues, layers: str, **changes: Any) -> Shape:
    """One stack of the two."""
    width, heads = v["width"], v["heads"]
    fields: dict[str, Any] = {
        "vocab_size": v["vocab_size"],
        "width": width,
        "layers": v[layers],
        "heads": heads,
        "head_width": width // heads,
        "score_scale": (width // heads) ** -0.5,
        "feed_forward_width": v["feed_width"],
        "max_length": v["max_length"],
        "positions": "sinusoidal",
        "embed_norm": False,
        "embed_scale": math.sqrt(width),
        "norm_position": "before" if v["norm_first"] else "after",
        "final_norm": v["final_norm"] or v["norm_first"],
        "eps": v["eps"],
        "activation": v["activation"],
        "pad_id": v["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=v["dropout"],
            attention_probs=v["attention_dropout"],
            attention_output=v["dropout"],
            feed_forward_output=v["dropout"],
            feed_forward_hidden=v["activation_dropout"],
        ),
        "init": "xavier",
    }
    return Shape(**(fields | changes))


def decoder(v: ConfigValues) -> Shape:
    """Causal, and looking at the encoder."""
    return side(v, "decoder_layers", vocab_size=v["target_vocab_size"] or v["vocab_size"], causal=True, cross=True)


def seq2seq(v: ConfigValues, _labels: int) -> HeadPlan:
    """The linear layer to the vocabulary, tied to the target's word table as in the paper."""
    return HeadPlan(
        head=HeadShape(
            kind="seq2seq",
            pooling="each",
            outputs=decoder(v).vocab_size,
            out_bias=v["output_bias"],
            tied=v["tie_word_embeddings"],
        ),
        names={"output.*": "head.out.*"},
    )


def rows(theirs: str, cross: bool) -> dict[str, str | TensorTarget]:
    """torch.nn.Transformer numbers its norms in order of use."""
    layer = f"transformer.{theirs}.layers.{{n}}."
    norms = ("attend", "cross", "feed") if cross else ("attend", "feed")
    made: dict[str, str | TensorTarget] = {f"transformer.{theirs}.norm.*": "norm.*"}
    for name, ours in (("self_attn", "attend"), ("multihead_attn", "cross"))[: 2 if cross else 1]:
        fused = tuple(f"blocks.{{n}}.{ours}.inner.{part}.*" for part in "qkv")
        made[f"{layer}{name}.in_proj_*"] = TensorTarget(fused)
        made[f"{layer}{name}.out_proj.*"] = f"blocks.{{n}}.{ours}.inner.out.*"
    for number, ours in enumerate(norms, start=1):
        made[f"{layer}norm{number}.*"] = f"blocks.{{n}}.{ours}.norm.*"
    return made | {
        layer + "linear1.*": "blocks.{n}.feed.inner.up.*",
        layer + "linear2.*": "blocks.{n}.feed.inner.down.*",
    }


def names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Word tables beside torch's own names."""
    words = {"embedding.weight": "stack.embed.token.weight", "target_embedding.weight": "decoder.embed.token.weight"}
    return (
        name_table(words)
        | name_table(rows("encoder", cross=False), "stack.")
        | name_table(rows("decoder", cross=True), "decoder.")
    )


FAMILY = Family(
    model_type="transformer",
    title="2017 Transformer",
    prefix="",
    config_keys=KEYS,
    check=check_divisible("width", "heads"),
    build_stack=lambda v: side(v, "encoder_layers"),
    build_decoder=decoder,
    shares_embeddings=lambda v: not v["target_vocab_size"],
    build_names=names,
    heads={"seq2seq": seq2seq},
    architectures={"TransformerForTranslation": "seq2seq"},
    start_token=lambda v: v["pad_token_id"] if v["decoder_start_token_id"] is None else v["decoder_start_token_id"],
    presets={
        "tiny": {"width": 128, "heads": 4, "feed_width": 512, "encoder_layers": 2, "decoder_layers": 2},
        "mini": {"width": 192, "heads": 4, "feed_width": 768, "encoder_layers": 3, "decoder_layers": 3},
        "small": {"width": 256, "heads": 4, "feed_width": 1024, "encoder_layers": 3, "decoder_layers": 3},
        "base": {},
        "big": {"width": 1024, "heads": 16, "feed_width": 4096, "dropout": 0.3},
    },
)
