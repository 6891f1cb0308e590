"""The recurrent ancestor: GRU or LSTM as encoder and decoder, with Bahdanau's or Luong's attention, or with none.

Its folders carry the tensor names of `torch.nn.GRU` and `torch.nn.LSTM`, so that each side loads there as it is:
`embedding.weight`, `encoder.weight_ih_l0`, `encoder.weight_ih_l0_reverse`, `decoder.weight_hh_l1`, ..., `output.bias`.
"""

from __future__ import annotations

from typing import Any

from clearhead.families.family import (
    MAX_LAYERS,
    MAX_VOCAB,
    ConfigValues,
    Family,
    HeadPlan,
    TensorTarget,
    boolean,
    name_table,
    non_negative_int,
    one_of,
    optional_token_id,
    positive_int,
    probability,
)
from clearhead.shape import DropoutRates, HeadShape, ModelShape, Recurrence, Shape

KEYS = {
    "vocab_size": positive_int(37000, MAX_VOCAB),
    "target_vocab_size": non_negative_int(None, MAX_VOCAB),  # null: both languages share one vocabulary and table
    "cell": one_of("gru", "gru", "lstm"),
    "width": positive_int(512),  # of a state; an encoder that reads both ways has half of it for each
    "embed_width": non_negative_int(None),  # of a word vector; null: width
    "encoder_layers": positive_int(2, MAX_LAYERS),
    "decoder_layers": positive_int(2, MAX_LAYERS),
    "bidirectional": boolean(True),
    "attention": one_of("general", "none", "additive", "dot", "general", "concat"),
    "attention_width": non_negative_int(None),  # inside additive and concat; null: width
    "input_feeding": boolean(False),
    "dropout": probability(0.2),  # between layers, and before the output
    "embed_dropout": probability(None),  # null: the same
    "tie_word_embeddings": boolean(True),
    "output_bias": boolean(False),
    "pad_token_id": optional_token_id(0),
    "decoder_start_token_id": optional_token_id(None),
    "eos_token_id": optional_token_id(None),  # what ends a text that is decoded
}


def check(v: ConfigValues) -> str | None:
    """Two directions share the width; what attention says can be fed only where there is attention."""
    if v["bidirectional"] and v["width"] % 2:
        return f"width {v['width']} is odd, and two directions share it evenly (or set bidirectional to false)"
    if v["input_feeding"] and v["attention"] == "none":
        return "input_feeding feeds what attention says, and attention is none"
    words = v["target_vocab_size"] or v["vocab_size"]
    if (first := start(v)) is not None and first >= words:
        return f"a decoder would start with token {first}, and its vocabulary has {words}"
    return None


def start(v: ConfigValues) -> int | None:
    """The token that a decoder begins with; padding where nothing is said."""
    first: int | None = v["pad_token_id"] if v["decoder_start_token_id"] is None else v["decoder_start_token_id"]
    return first


def side(v: ConfigValues, layers: str, how: Recurrence, **changes: Any) -> Shape:
    """One side of the pair."""
    width = v["width"]
    fields: dict[str, Any] = {
        "vocab_size": v["vocab_size"],
        "width": width,
        "embed_width": v["embed_width"],
        "layers": v[layers],
        "heads": 1,
        "head_width": width,
        "score_scale": 1.0,
        "feed_forward_width": 0,
        "max_length": None,
        "positions": "none",
        "embed_norm": False,
        "pad_id": v["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=v["dropout"] if v["embed_dropout"] is None else v["embed_dropout"], between_layers=v["dropout"]
        ),
        "recurrent": how,
        "init": "recurrent",
    }
    return Shape(**(fields | changes))


def encoder(v: ConfigValues) -> Shape:
    """Perhaps reading from both ends."""
    return side(v, "encoder_layers", Recurrence(cell=v["cell"], bidirectional=v["bidirectional"]))


def decoder(v: ConfigValues) -> Shape:
    """Reading forward, and looking back at the encoder where there is attention."""
    score = v["attention"]
    inner = (v["attention_width"] or v["width"]) if score in ("additive", "concat") else 0
    how = Recurrence(cell=v["cell"], score=score, score_width=inner, input_feeding=v["input_feeding"])
    words = v["target_vocab_size"] or v["vocab_size"]
    return side(v, "decoder_layers", how, vocab_size=words, causal=True, cross=score != "none")


def seq2seq(v: ConfigValues, _labels: int) -> HeadPlan:
    """The linear layer to the vocabulary; where word vectors are narrower and tied, a step to their width before it."""
    own = decoder(v)
    narrow = v["tie_word_embeddings"] and own.token_width != own.width
    return HeadPlan(
        head=HeadShape(
            kind="seq2seq",
            pooling="each",
            outputs=own.vocab_size,
            dense=own.token_width if narrow else None,
            dense_bias=False,
            out_bias=v["output_bias"],
            tied=v["tie_word_embeddings"],
            dropout_first=v["dropout"],
        ),
        names={"output.*": "head.out.*", "narrow.weight": "head.dense.weight"},
    )


def rows(theirs: str, ours: str) -> dict[str, str]:
    """torch writes a layer's number into the name of its matrices."""
    leaves = [f"{kind}_{part}" for kind in ("weight", "bias") for part in ("ih", "hh")]
    return {
        f"{theirs}.{leaf}_l{{n}}{way}": f"{ours}.layers.{{n}}.{leaf}_l0{way}"
        for leaf in leaves
        for way in ("", "_reverse")
    }


def names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Word tables, bridge and attention beside torch's own names."""
    words = {"embedding.weight": "stack.embed.token.weight", "target_embedding.weight": "decoder.embed.token.weight"}
    own = {
        "bridge.{n}.*": "decoder.bridge.{n}.*",
        "bridge_cell.{n}.*": "decoder.bridge_cell.{n}.*",
        "attention.query.weight": "decoder.align.score.query.weight",
        "attention.key.*": "decoder.align.score.key.*",
        "attention.both.weight": "decoder.align.score.both.weight",
        "attention.out.weight": "decoder.align.score.out.weight",
        "attention.mix.weight": "decoder.align.mix.weight",
    }
    return name_table(words | rows("encoder", "stack") | rows("decoder", "decoder") | own)


FAMILY = Family(
    model_type="rnn",
    title="recurrent encoder-decoder",
    prefix="",
    config_keys=KEYS,
    check=check,
    build_stack=encoder,
    build_decoder=decoder,
    shares_embeddings=lambda v: not v["target_vocab_size"],
    build_names=names,
    heads={"seq2seq": seq2seq},
    architectures={"RecurrentForTranslation": "seq2seq"},
    start_token=start,
    preset_exclusions={"input_feeding": ("attention", "none")},
    presets={
        "tiny": {"width": 128, "encoder_layers": 1, "decoder_layers": 1},
        "mini": {"width": 192, "encoder_layers": 1, "decoder_layers": 1, "input_feeding": True},
        "small": {"width": 256, "encoder_layers": 1, "decoder_layers": 1, "input_feeding": True},
        "base": {},
        # Luong, Pham and Manning (2015)
        "big": {
            "cell": "lstm",
            "width": 1000,
            "encoder_layers": 4,
            "decoder_layers": 4,
            "bidirectional": False,
            "input_feeding": True,
            "tie_word_embeddings": False,
        },
    },
)
