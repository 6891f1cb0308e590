"""Recurrent encoder-decoder: GRU or LSTM, with Bahdanau's or Luong's attention or without attention.

Tensors have the names of `torch.nn.GRU` and `torch.nn.LSTM`, so encoder and decoder load there unchanged:
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
    "target_vocab_size": non_negative_int(
        None, MAX_VOCAB
    ),  # null: both languages share one vocabulary and its embeddings
    "cell": one_of("gru", "gru", "lstm"),
    "width": positive_int(512),  # of a hidden state; each direction of a bidirectional encoder has half of it
    "embed_width": non_negative_int(None),  # null: same as width
    "encoder_layers": positive_int(2, MAX_LAYERS),
    "decoder_layers": positive_int(2, MAX_LAYERS),
    "bidirectional": boolean(True),
    "attention": one_of("general", "none", "additive", "dot", "general", "concat"),
    "attention_width": non_negative_int(None),  # of additive and concat attention; null: same as width
    "input_feeding": boolean(False),
    "dropout": probability(0.2),  # between layers, and before the output
    "embed_dropout": probability(None),  # null: same as dropout
    "tie_word_embeddings": boolean(True),
    "output_bias": boolean(False),
    "pad_token_id": optional_token_id(0),
    "decoder_start_token_id": optional_token_id(None),
    "eos_token_id": optional_token_id(None),  # ends a generated text
}


def check_config(config: ConfigValues) -> str | None:
    """Check that two directions can share the width, and that input feeding has an attention to feed."""
    if config["bidirectional"] and config["width"] % 2:
        width = config["width"]
        return f"width must be even because two directions share it, got {width} (or set bidirectional to false)"
    if config["input_feeding"] and config["attention"] == "none":
        return "input_feeding needs attention, but attention is none"
    vocab_size = config["target_vocab_size"] or config["vocab_size"]
    if (start_id := decoder_start_id(config)) is not None and start_id >= vocab_size:
        return f"decoder_start_token_id is {start_id}, but the decoder's vocabulary has {vocab_size} tokens"
    return None


def decoder_start_id(config: ConfigValues) -> int | None:
    """Return the token that decoding starts with: `decoder_start_token_id`, or the padding token."""
    start_id: int | None = (
        config["pad_token_id"] if config["decoder_start_token_id"] is None else config["decoder_start_token_id"]
    )
    return start_id


def build_stack(config: ConfigValues, layers: str, recurrence: Recurrence, **changes: Any) -> Shape:
    """Return the encoder or the decoder; `layers` is the config key of its depth."""
    width = config["width"]
    fields: dict[str, Any] = {
        "vocab_size": config["vocab_size"],
        "width": width,
        "embed_width": config["embed_width"],
        "layers": config[layers],
        "heads": 1,
        "head_width": width,
        "score_scale": 1.0,
        "feed_forward_width": 0,
        "max_length": None,
        "positions": "none",
        "embed_norm": False,
        "pad_id": config["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=config["dropout"] if config["embed_dropout"] is None else config["embed_dropout"],
            between_layers=config["dropout"],
        ),
        "recurrent": recurrence,
        "init": "recurrent",
    }
    return Shape(**(fields | changes))


def build_encoder(config: ConfigValues) -> Shape:
    """Return the encoder, which may be bidirectional."""
    return build_stack(config, "encoder_layers", Recurrence(cell=config["cell"], bidirectional=config["bidirectional"]))


def build_decoder(config: ConfigValues) -> Shape:
    """Return the decoder, which attends to the encoder unless attention is none."""
    score = config["attention"]
    score_width = (config["attention_width"] or config["width"]) if score in ("additive", "concat") else 0
    recurrence = Recurrence(
        cell=config["cell"], score=score, score_width=score_width, input_feeding=config["input_feeding"]
    )
    vocab_size = config["target_vocab_size"] or config["vocab_size"]
    return build_stack(config, "decoder_layers", recurrence, vocab_size=vocab_size, causal=True, cross=score != "none")


def seq2seq_head(config: ConfigValues, _num_labels: int) -> HeadPlan:
    """Return the output layer; tied embeddings of another width need a projection before it."""
    target = build_decoder(config)
    needs_projection = config["tie_word_embeddings"] and target.token_width != target.width
    return HeadPlan(
        head=HeadShape(
            kind="seq2seq",
            pooling="each",
            outputs=target.vocab_size,
            dense=target.token_width if needs_projection else None,
            dense_bias=False,
            out_bias=config["output_bias"],
            tied=config["tie_word_embeddings"],
            dropout_first=config["dropout"],
        ),
        names={"output.*": "head.out.*", "narrow.weight": "head.dense.weight"},
    )


def list_names(stored_side: str, side: str) -> dict[str, str]:
    """Return the tensor names of one side; torch writes the layer number into the name of each matrix."""
    leaves = [f"{kind}_{part}" for kind in ("weight", "bias") for part in ("ih", "hh")]
    return {
        f"{stored_side}.{leaf}_l{{n}}{direction}": f"{side}.layers.{{n}}.{leaf}_l0{direction}"
        for leaf in leaves
        for direction in ("", "_reverse")
    }


def build_names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Return the table of tensor names: embeddings, bridge and attention in addition to torch's names."""
    embedding_names = {
        "embedding.weight": "stack.embed.token.weight",
        "target_embedding.weight": "decoder.embed.token.weight",
    }
    other_names = {
        "bridge.{n}.*": "decoder.bridge.{n}.*",
        "bridge_cell.{n}.*": "decoder.bridge_cell.{n}.*",
        "attention.query.weight": "decoder.align.score.query.weight",
        "attention.key.*": "decoder.align.score.key.*",
        "attention.both.weight": "decoder.align.score.both.weight",
        "attention.out.weight": "decoder.align.score.out.weight",
        "attention.mix.weight": "decoder.align.mix.weight",
    }
    return name_table(embedding_names | list_names("encoder", "stack") | list_names("decoder", "decoder") | other_names)


FAMILY = Family(
    model_type="rnn",
    title="recurrent encoder-decoder",
    prefix="",
    config_keys=KEYS,
    check=check_config,
    build_stack=build_encoder,
    build_decoder=build_decoder,
    shares_embeddings=lambda config: not config["target_vocab_size"],
    build_names=build_names,
    heads={"seq2seq": seq2seq_head},
    architectures={"RecurrentForTranslation": "seq2seq"},
    decoder_start_id=decoder_start_id,
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
