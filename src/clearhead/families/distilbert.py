"""DistilBERT: BERT with half the layers, no segments, no pooler."""

from __future__ import annotations

from clearhead.families.family import (
    ACTIVATIONS,
    HEAD_POOLING,
    MAX_FEED_WIDTH,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_VOCAB,
    ConfigValues,
    Family,
    HeadPlan,
    boolean,
    check_divisible,
    finite_float,
    name_table,
    one_of,
    optional_token_id,
    positive_int,
    probability,
    small_presets,
)
from clearhead.shape import DropoutRates, HeadShape, Shape

NAMES = {
    "embeddings.word_embeddings.weight": "embed.token.weight",
    "embeddings.position_embeddings.weight": "positions.table.weight",
    "embeddings.LayerNorm.*": "embed.norm.*",
    "transformer.layer.{n}.attention.q_lin.*": "blocks.{n}.attend.inner.q.*",
    "transformer.layer.{n}.attention.k_lin.*": "blocks.{n}.attend.inner.k.*",
    "transformer.layer.{n}.attention.v_lin.*": "blocks.{n}.attend.inner.v.*",
    "transformer.layer.{n}.attention.out_lin.*": "blocks.{n}.attend.inner.out.*",
    "transformer.layer.{n}.sa_layer_norm.*": "blocks.{n}.attend.norm.*",
    "transformer.layer.{n}.ffn.lin1.*": "blocks.{n}.feed.inner.up.*",
    "transformer.layer.{n}.ffn.lin2.*": "blocks.{n}.feed.inner.down.*",
    "transformer.layer.{n}.output_layer_norm.*": "blocks.{n}.feed.norm.*",
}


def stack(v: ConfigValues) -> Shape:
    """Its config uses words of its own: dim, n_layers, n_heads."""
    return Shape(
        vocab_size=v["vocab_size"],
        width=v["dim"],
        layers=v["n_layers"],
        heads=v["n_heads"],
        head_width=v["dim"] // v["n_heads"],
        score_scale=(v["dim"] // v["n_heads"]) ** -0.5,
        feed_forward_width=v["hidden_dim"],
        max_length=v["max_position_embeddings"],
        activation=v["activation"],
        pad_id=v["pad_token_id"],
        # nothing is dropped after the attention's output matrix, unlike in BERT
        dropouts=DropoutRates(
            embedding=v["dropout"], attention_probs=v["attention_dropout"], feed_forward_output=v["dropout"]
        ),
        init_std=v["initializer_range"],
    )


def first(kind: str, outputs: int, v: ConfigValues) -> HeadPlan:
    """First token, dense, relu, dropout, out."""
    return HeadPlan(
        head=HeadShape(
            kind=kind,  # type: ignore[arg-type]
            pooling="first",
            outputs=outputs,
            dense=v["dim"],
            activation="relu",
            dropout=v["seq_classif_dropout"],
        ),
        names={"pre_classifier.*": "head.dense.*", "classifier.*": "head.out.*"},
    )


def masked(v: ConfigValues) -> HeadPlan:
    """The masked-word head, with names of its own."""
    return HeadPlan(
        head=HeadShape(
            kind="masked",
            pooling="each",
            outputs=v["vocab_size"],
            dense=v["dim"],
            activation=v["activation"],
            norm=True,
            tied=v["tie_word_embeddings"],
        ),
        names={
            "vocab_transform.*": "head.dense.*",
            "vocab_layer_norm.*": "head.norm.*",
            "vocab_projector.*": "head.out.*",
        },
    )


FAMILY = Family(
    model_type="distilbert",
    title="DistilBERT",
    prefix="distilbert.",
    config_keys={
        "vocab_size": positive_int(30522, MAX_VOCAB),
        "max_position_embeddings": positive_int(512, MAX_POSITIONS),
        "n_layers": positive_int(6, MAX_LAYERS, "num_hidden_layers"),
        "n_heads": positive_int(12, 1 << 16, "num_attention_heads"),
        "dim": positive_int(768, 1 << 16, "hidden_size"),
        "hidden_dim": positive_int(3072, MAX_FEED_WIDTH),
        "dropout": probability(0.1),
        "attention_dropout": probability(0.1),
        "activation": one_of("gelu", *ACTIVATIONS),
        "initializer_range": finite_float(0.02),
        "qa_dropout": probability(0.1),
        "seq_classif_dropout": probability(0.2),
        HEAD_POOLING: one_of(None, "mean"),
        "pad_token_id": optional_token_id(0),
        "tie_word_embeddings": boolean(True),
    },
    check=check_divisible("dim", "n_heads"),
    build_stack=stack,
    build_names=lambda model: name_table(NAMES, "stack."),
    ignored=("embeddings.position_ids",),
    heads={
        "masked": lambda v, n: masked(v),
        "classify": lambda v, n: first("classify", n, v),
        "tag": lambda v, n: HeadPlan(
            head=HeadShape(kind="tag", pooling="each", outputs=n, dropout=v["dropout"]),
            names={"classifier.*": "head.out.*"},
        ),
        "span": lambda v, n: HeadPlan(
            head=HeadShape(kind="span", pooling="each", outputs=2, dropout=v["qa_dropout"]),
            names={"qa_outputs.*": "head.out.*"},
        ),
        "choice": lambda v, n: first("choice", 1, v),
    },
    architectures={
        "DistilBertForMaskedLM": "masked",
        "DistilBertForSequenceClassification": "classify",
        "DistilBertForTokenClassification": "tag",
        "DistilBertForQuestionAnswering": "span",
        "DistilBertForMultipleChoice": "choice",
    },
    presets=small_presets("dim", "n_layers", "n_heads", "hidden_dim") | {"base": {}},
)
