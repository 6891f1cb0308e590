"""BERT and MiniLM: learned positions, norm after each sub-layer, two segments, an embedding norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clearhead.families.family import (
    ACTIVATIONS,
    HEAD_POOLING,
    MAX_FEED_WIDTH,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_VOCAB,
    ConfigKey,
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
    small_presets,
    unchecked,
)
from clearhead.shape import DropoutRates, HeadShape, ModelShape, PoolerShape, Shape

KEYS: dict[str, ConfigKey] = {
    "vocab_size": positive_int(30522, MAX_VOCAB),
    "hidden_size": positive_int(768),
    "num_hidden_layers": positive_int(12, MAX_LAYERS),
    "num_attention_heads": positive_int(12),
    "intermediate_size": positive_int(3072, MAX_FEED_WIDTH),
    "hidden_act": one_of("gelu", *ACTIVATIONS),
    "hidden_dropout_prob": probability(0.1),
    "attention_probs_dropout_prob": probability(0.1),
    "max_position_embeddings": positive_int(512, MAX_POSITIONS),
    "type_vocab_size": non_negative_int(2),
    "initializer_range": finite_float(0.02),
    "layer_norm_eps": finite_float(1e-12),
    "classifier_dropout": probability(None),
    "pad_token_id": optional_token_id(0),
    "tie_word_embeddings": boolean(True),
    "position_embedding_type": one_of("absolute", "absolute"),
    "is_decoder": unchecked(False),
    "add_cross_attention": unchecked(False),
    HEAD_POOLING: one_of(None, "mean"),
}

# theirs, below the prefix -> ours, below `stack.`
EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "embed.token.weight",
    "embeddings.token_type_embeddings.weight": "embed.segment.weight",
    "embeddings.position_embeddings.weight": "positions.table.weight",
    "embeddings.LayerNorm.*": "embed.norm.*",
}
FEED = {
    "encoder.layer.{n}.intermediate.dense.*": "blocks.{n}.feed.inner.up.*",
    "encoder.layer.{n}.output.dense.*": "blocks.{n}.feed.inner.down.*",
    "encoder.layer.{n}.output.LayerNorm.*": "blocks.{n}.feed.norm.*",
}
BLOCKS = {
    "encoder.layer.{n}.attention.self.query.*": "blocks.{n}.attend.inner.q.*",
    "encoder.layer.{n}.attention.self.key.*": "blocks.{n}.attend.inner.k.*",
    "encoder.layer.{n}.attention.self.value.*": "blocks.{n}.attend.inner.v.*",
    "encoder.layer.{n}.attention.output.dense.*": "blocks.{n}.attend.inner.out.*",
    "encoder.layer.{n}.attention.output.LayerNorm.*": "blocks.{n}.attend.norm.*",
} | FEED
POOLER = {"pooler.dense.*": "pooler.dense.*"}
SIZE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")  # keys of presets
IGNORED = ("embeddings.position_ids", "embeddings.token_type_ids")


def stack(v: ConfigValues, **changes: Any) -> Shape:
    """BERT's stack; relatives change a few fields."""
    dropout = v["hidden_dropout_prob"]
    heads = v["num_attention_heads"]
    fields: dict[str, Any] = {
        "vocab_size": v["vocab_size"],
        "width": v["hidden_size"],
        "layers": v["num_hidden_layers"],
        "heads": heads,
        "head_width": v["hidden_size"] // heads,
        "score_scale": (v["hidden_size"] // heads) ** -0.5,
        "feed_forward_width": v["intermediate_size"],
        "max_length": v["max_position_embeddings"],
        "segments": v.get("type_vocab_size", 0),
        "eps": v["layer_norm_eps"],
        "activation": v["hidden_act"],
        "pad_id": v["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=dropout,
            attention_probs=v["attention_probs_dropout_prob"],
            attention_output=dropout,
            feed_forward_output=dropout,
        ),
        "init_std": v["initializer_range"],
    }
    return Shape(**(fields | changes))


def only_encoder(v: ConfigValues) -> str | None:
    """BERT as a decoder is another model; say so instead of giving wrong numbers."""
    if v["is_decoder"] or v["add_cross_attention"]:
        return "is_decoder and add_cross_attention make it a decoder, which is not supported; load it as an encoder"
    return check_divisible("hidden_size", "num_attention_heads")(v)


def head_dropout(v: ConfigValues) -> float:
    """The classifier's own dropout, or the hidden one where it is not set."""
    own = v["classifier_dropout"]
    return float(v["hidden_dropout_prob"] if own is None else own)


def masked(v: ConfigValues, names: Mapping[str, str | TensorTarget], **changes: Any) -> HeadPlan:
    """Dense, activation, norm, word table: the masked-word head of BERT and most relatives."""
    fields: dict[str, Any] = {
        "kind": "masked",
        "pooling": "each",
        "outputs": v["vocab_size"],
        "dense": v["hidden_size"],
        "activation": v["hidden_act"],
        "norm": True,
        "eps": v["layer_norm_eps"],
        "tied": v["tie_word_embeddings"],
    }
    return HeadPlan(head=HeadShape(**(fields | changes)), names=names)


def each(kind: Any, outputs: int, dropout: float, out: str = "classifier.*") -> HeadPlan:
    """One answer per token: tags, or the start and end of a span."""
    return HeadPlan(
        head=HeadShape(kind=kind, pooling="each", outputs=outputs, dropout=dropout), names={out: "head.out.*"}
    )


def pooled(kind: Any, outputs: int, dropout: float, out: str = "classifier.*") -> HeadPlan:
    """One answer per text from the pooler's vector."""
    return HeadPlan(
        head=HeadShape(kind=kind, pooling="pooled", outputs=outputs, dropout=dropout),
        pooler=PoolerShape(),
        names={out: "head.out.*"},
    )


MASKED_NAMES = {
    "cls.predictions.transform.dense.*": "head.dense.*",
    "cls.predictions.transform.LayerNorm.*": "head.norm.*",
    "cls.predictions.decoder.weight": "head.out.weight",
    "cls.predictions.decoder.bias": "head.out.bias",
    "cls.predictions.bias": "head.out.bias",
}
NEXT = HeadShape(kind="next", pooling="pooled", outputs=2)


def pretrain(v: ConfigValues, _labels: int) -> HeadPlan:
    """BERT's joint pre-training: masked words and next sentence."""
    return HeadPlan(
        head=masked(v, {}).head,
        second=NEXT,
        pooler=PoolerShape(),
        names=MASKED_NAMES | {"cls.seq_relationship.*": "second.out.*"},
    )


def names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Theirs to ours."""
    return name_table(EMBEDDINGS | BLOCKS, "stack.") | name_table(POOLER)


def architectures(title: str, **more: str) -> dict[str, str]:
    """The class names of a family that has BERT's usual heads."""
    return {
        f"{title}ForMaskedLM": "masked",
        f"{title}ForSequenceClassification": "classify",
        f"{title}ForTokenClassification": "tag",
        f"{title}ForQuestionAnswering": "span",
        f"{title}ForMultipleChoice": "choice",
    } | more


FAMILY = Family(
    model_type="bert",
    title="BERT",
    prefix="bert.",
    config_keys=KEYS,
    check=only_encoder,
    build_stack=stack,
    build_names=names,
    ignored=IGNORED,
    base_pooler=PoolerShape(),
    heads={
        "pretrain": pretrain,
        "masked": lambda v, n: masked(v, MASKED_NAMES),
        "next": lambda v, n: HeadPlan(head=NEXT, pooler=PoolerShape(), names={"cls.seq_relationship.*": "head.out.*"}),
        "classify": lambda v, n: pooled("classify", n, head_dropout(v)),
        "tag": lambda v, n: each("tag", n, head_dropout(v)),
        "span": lambda v, n: each("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda v, n: pooled("choice", 1, head_dropout(v)),
    },
    architectures=architectures("Bert", BertForPreTraining="pretrain", BertForNextSentencePrediction="next"),
    presets=small_presets(*SIZE)
    | {
        "base": {},
        "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    },
)
