"""DistilBERT: BERT with half the layers, without segments and pooler."""

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


def build_stack(config: ConfigValues) -> Shape:
    """Return the encoder; the config keys differ from BERT's (dim, n_layers, n_heads)."""
    return Shape(
        vocab_size=config["vocab_size"],
        width=config["dim"],
        layers=config["n_layers"],
        heads=config["n_heads"],
        head_width=config["dim"] // config["n_heads"],
        score_scale=(config["dim"] // config["n_heads"]) ** -0.5,
        feed_forward_width=config["hidden_dim"],
        max_length=config["max_position_embeddings"],
        activation=config["activation"],
        pad_id=config["pad_token_id"],
        # unlike BERT, DistilBERT has no dropout after the attention's output projection
        dropouts=DropoutRates(
            embedding=config["dropout"],
            attention_probs=config["attention_dropout"],
            feed_forward_output=config["dropout"],
        ),
        init_std=config["initializer_range"],
    )


def first_token_head(kind: str, outputs: int, config: ConfigValues) -> HeadPlan:
    """Return a head that computes first token, dense, ReLU, dropout, output."""
    return HeadPlan(
        head=HeadShape(
            kind=kind,  # type: ignore[arg-type]
            pooling="first",
            outputs=outputs,
            dense=config["dim"],
            activation="relu",
            dropout=config["seq_classif_dropout"],
        ),
        names={"pre_classifier.*": "head.dense.*", "classifier.*": "head.out.*"},
    )


def masked_head(config: ConfigValues) -> HeadPlan:
    """Return the masked-language-model head."""
    return HeadPlan(
        head=HeadShape(
            kind="masked",
            pooling="each",
            outputs=config["vocab_size"],
            dense=config["dim"],
            activation=config["activation"],
            norm=True,
            tied=config["tie_word_embeddings"],
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
    build_stack=build_stack,
    build_names=lambda model: name_table(NAMES, "stack."),
    ignored=("embeddings.position_ids",),
    heads={
        "masked": lambda config, num_labels: masked_head(config),
        "classify": lambda config, num_labels: first_token_head("classify", num_labels, config),
        "tag": lambda config, num_labels: HeadPlan(
            head=HeadShape(kind="tag", pooling="each", outputs=num_labels, dropout=config["dropout"]),
            names={"classifier.*": "head.out.*"},
        ),
        "span": lambda config, num_labels: HeadPlan(
            head=HeadShape(kind="span", pooling="each", outputs=2, dropout=config["qa_dropout"]),
            names={"qa_outputs.*": "head.out.*"},
        ),
        "choice": lambda config, num_labels: first_token_head("choice", 1, config),
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
