"""BERT and MiniLM: learned positions, layer norm after each sub-layer, two segments, normalized embeddings."""

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
    any_value,
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
    "is_decoder": any_value(False),
    "add_cross_attention": any_value(False),
    HEAD_POOLING: one_of(None, "mean"),
}

# Hugging Face name without its prefix -> Clearhead name without `stack.`
EMBEDDING_NAMES = {
    "embeddings.word_embeddings.weight": "embed.token.weight",
    "embeddings.token_type_embeddings.weight": "embed.segment.weight",
    "embeddings.position_embeddings.weight": "positions.table.weight",
    "embeddings.LayerNorm.*": "embed.norm.*",
}
FEED_FORWARD_NAMES = {
    "encoder.layer.{n}.intermediate.dense.*": "blocks.{n}.feed.inner.up.*",
    "encoder.layer.{n}.output.dense.*": "blocks.{n}.feed.inner.down.*",
    "encoder.layer.{n}.output.LayerNorm.*": "blocks.{n}.feed.norm.*",
}
BLOCK_NAMES = {
    "encoder.layer.{n}.attention.self.query.*": "blocks.{n}.attend.inner.q.*",
    "encoder.layer.{n}.attention.self.key.*": "blocks.{n}.attend.inner.k.*",
    "encoder.layer.{n}.attention.self.value.*": "blocks.{n}.attend.inner.v.*",
    "encoder.layer.{n}.attention.output.dense.*": "blocks.{n}.attend.inner.out.*",
    "encoder.layer.{n}.attention.output.LayerNorm.*": "blocks.{n}.attend.norm.*",
} | FEED_FORWARD_NAMES
POOLER_NAMES = {"pooler.dense.*": "pooler.dense.*"}
SIZE_KEYS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")  # keys of presets
IGNORED_NAMES = ("embeddings.position_ids", "embeddings.token_type_ids")


def build_stack(config: ConfigValues, **changes: Any) -> Shape:
    """Return BERT's encoder; related families pass `changes`."""
    dropout = config["hidden_dropout_prob"]
    heads = config["num_attention_heads"]
    fields: dict[str, Any] = {
        "vocab_size": config["vocab_size"],
        "width": config["hidden_size"],
        "layers": config["num_hidden_layers"],
        "heads": heads,
        "head_width": config["hidden_size"] // heads,
        "score_scale": (config["hidden_size"] // heads) ** -0.5,
        "feed_forward_width": config["intermediate_size"],
        "max_length": config["max_position_embeddings"],
        "segments": config.get("type_vocab_size", 0),
        "eps": config["layer_norm_eps"],
        "activation": config["hidden_act"],
        "pad_id": config["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=dropout,
            attention_probs=config["attention_probs_dropout_prob"],
            attention_output=dropout,
            feed_forward_output=dropout,
        ),
        "init_std": config["initializer_range"],
    }
    return Shape(**(fields | changes))


def check_encoder(config: ConfigValues) -> str | None:
    """Refuse BERT as a decoder, which would give wrong results."""
    if config["is_decoder"] or config["add_cross_attention"]:
        return "is_decoder and add_cross_attention describe a decoder, but only the encoder is supported"
    return check_divisible("hidden_size", "num_attention_heads")(config)


def classifier_dropout(config: ConfigValues) -> float:
    """Return `classifier_dropout`, or the hidden dropout if it is null."""
    dropout = config["classifier_dropout"]
    return float(config["hidden_dropout_prob"] if dropout is None else dropout)


def masked_head(config: ConfigValues, names: Mapping[str, str | TensorTarget], **changes: Any) -> HeadPlan:
    """Return the masked-language-model head: dense, activation, layer norm, output embeddings."""
    fields: dict[str, Any] = {
        "kind": "masked",
        "pooling": "each",
        "outputs": config["vocab_size"],
        "dense": config["hidden_size"],
        "activation": config["hidden_act"],
        "norm": True,
        "eps": config["layer_norm_eps"],
        "tied": config["tie_word_embeddings"],
    }
    return HeadPlan(head=HeadShape(**(fields | changes)), names=names)


def token_head(kind: Any, outputs: int, dropout: float, output_names: str = "classifier.*") -> HeadPlan:
    """Return a head with one output vector per token, such as tags or span starts and ends."""
    return HeadPlan(
        head=HeadShape(kind=kind, pooling="each", outputs=outputs, dropout=dropout), names={output_names: "head.out.*"}
    )


def pooled_head(kind: Any, outputs: int, dropout: float, output_names: str = "classifier.*") -> HeadPlan:
    """Return a head with one output vector per text, computed from the pooler's output."""
    return HeadPlan(
        head=HeadShape(kind=kind, pooling="pooled", outputs=outputs, dropout=dropout),
        pooler=PoolerShape(),
        names={output_names: "head.out.*"},
    )


MASKED_NAMES = {
    "cls.predictions.transform.dense.*": "head.dense.*",
    "cls.predictions.transform.LayerNorm.*": "head.norm.*",
    "cls.predictions.decoder.weight": "head.out.weight",
    "cls.predictions.decoder.bias": "head.out.bias",
    "cls.predictions.bias": "head.out.bias",
}
NEXT_SENTENCE_HEAD = HeadShape(kind="next", pooling="pooled", outputs=2)


def pretraining_heads(config: ConfigValues, _num_labels: int) -> HeadPlan:
    """Return the heads of BERT's pre-training: masked language modeling and next-sentence prediction."""
    return HeadPlan(
        head=masked_head(config, {}).head,
        second_head=NEXT_SENTENCE_HEAD,
        pooler=PoolerShape(),
        names=MASKED_NAMES | {"cls.seq_relationship.*": "second.out.*"},
    )


def build_names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Return the table of tensor names."""
    return name_table(EMBEDDING_NAMES | BLOCK_NAMES, "stack.") | name_table(POOLER_NAMES)


def name_architectures(title: str, **other_heads: str) -> dict[str, str]:
    """Return the class names of a family with BERT's usual heads."""
    return {
        f"{title}ForMaskedLM": "masked",
        f"{title}ForSequenceClassification": "classify",
        f"{title}ForTokenClassification": "tag",
        f"{title}ForQuestionAnswering": "span",
        f"{title}ForMultipleChoice": "choice",
    } | other_heads


FAMILY = Family(
    model_type="bert",
    title="BERT",
    prefix="bert.",
    config_keys=KEYS,
    check=check_encoder,
    build_stack=build_stack,
    build_names=build_names,
    ignored=IGNORED_NAMES,
    base_pooler=PoolerShape(),
    heads={
        "pretrain": pretraining_heads,
        "masked": lambda config, num_labels: masked_head(config, MASKED_NAMES),
        "next": lambda config, num_labels: HeadPlan(
            head=NEXT_SENTENCE_HEAD, pooler=PoolerShape(), names={"cls.seq_relationship.*": "head.out.*"}
        ),
        "classify": lambda config, num_labels: pooled_head("classify", num_labels, classifier_dropout(config)),
        "tag": lambda config, num_labels: token_head("tag", num_labels, classifier_dropout(config)),
        "span": lambda config, num_labels: token_head("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda config, num_labels: pooled_head("choice", 1, classifier_dropout(config)),
    },
    architectures=name_architectures("Bert", BertForPreTraining="pretrain", BertForNextSentencePrediction="next"),
    presets=small_presets(*SIZE_KEYS)
    | {
        "base": {},
        "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    },
)
