"""ELECTRA, discriminator and generator: BERT with a smaller embedding width."""

from __future__ import annotations

from clearhead.families import bert, roberta
from clearhead.families.family import (
    ACTIVATIONS,
    ConfigValues,
    Family,
    HeadPlan,
    boolean,
    name_table,
    one_of,
    positive_int,
    probability,
    small_presets,
)
from clearhead.shape import HeadShape, Shape

KEYS = bert.KEYS | {
    "embedding_size": positive_int(128),
    "hidden_size": positive_int(256),
    "num_attention_heads": positive_int(4),
    "intermediate_size": positive_int(1024, 1 << 20),
    "summary_type": one_of("first", "first"),
    "summary_use_proj": boolean(True),
    "summary_activation": one_of("gelu", *ACTIVATIONS),
    "summary_last_dropout": probability(0.1),
    "summary_first_dropout": probability(0.0),
}


def build_stack(config: ConfigValues) -> Shape:
    """Return the encoder; embeddings are projected to the hidden width if the two widths differ."""
    needs_projection = config["embedding_size"] != config["hidden_size"]
    return bert.build_stack(
        config, embed_width=config["embedding_size"], project="after" if needs_projection else "none"
    )


def masked_head(config: ConfigValues) -> HeadPlan:
    """Return the generator's head, which projects to the embedding width."""
    return bert.masked_head(
        config,
        {
            "generator_predictions.dense.*": "head.dense.*",
            "generator_predictions.LayerNorm.*": "head.norm.*",
            "generator_lm_head.*": "head.out.*",
        },
        dense=config["embedding_size"],
        activation="gelu",
    )


def replaced_token_head(config: ConfigValues) -> HeadPlan:
    """Return the discriminator's head: one logit per token for whether it was replaced."""
    return HeadPlan(
        head=HeadShape(
            kind="replaced", pooling="each", outputs=1, dense=config["hidden_size"], activation=config["hidden_act"]
        ),
        names={
            "discriminator_predictions.dense.*": "head.dense.*",
            "discriminator_predictions.dense_prediction.*": "head.out.*",
        },
    )


def choice_head(config: ConfigValues) -> HeadPlan:
    """Return the multiple-choice head: a summary of the sequence, then one score."""
    dense = config["hidden_size"] if config["summary_use_proj"] else None
    return HeadPlan(
        head=HeadShape(
            kind="choice",
            pooling="first",
            outputs=1,
            dense=dense,
            activation=config["summary_activation"],
            dropout_first=config["summary_first_dropout"],
            dropout=config["summary_last_dropout"],
        ),
        names={"sequence_summary.summary.*": "head.dense.*", "classifier.*": "head.out.*"},
    )


NAMES = bert.EMBEDDING_NAMES | bert.BLOCK_NAMES | {"embeddings_project.*": "embed.project.*"}

FAMILY = Family(
    model_type="electra",
    title="ELECTRA",
    prefix="electra.",
    config_keys=KEYS,
    check=bert.check_encoder,
    build_stack=build_stack,
    build_names=lambda model: name_table(NAMES, "stack."),
    ignored=bert.IGNORED_NAMES,
    heads={
        "masked": lambda config, num_labels: masked_head(config),
        "replaced": lambda config, num_labels: replaced_token_head(config),
        "classify": lambda config, num_labels: roberta.classification_head(
            config, num_labels, bert.classifier_dropout(config), activation="gelu"
        ),
        "tag": lambda config, num_labels: bert.token_head("tag", num_labels, bert.classifier_dropout(config)),
        "span": lambda config, num_labels: bert.token_head("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda config, num_labels: choice_head(config),
    },
    architectures=bert.name_architectures("Electra", ElectraForPreTraining="replaced"),
    # the paper's small model has 12 layers, three times as many as BERT small
    presets=small_presets(*bert.SIZE_KEYS, {"embedding_size": 128})
    | {
        "small": {},
        "base": {"embedding_size": 768, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    },
)
