"""ELECTRA, discriminator and generator: BERT with narrower word vectors."""

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


def stack(v: ConfigValues) -> Shape:
    """Word vectors of their own width are projected to the stack's, where the two differ."""
    narrow = v["embedding_size"] != v["hidden_size"]
    return bert.stack(v, embed_width=v["embedding_size"], project="after" if narrow else "none")


def masked(v: ConfigValues) -> HeadPlan:
    """The generator's head goes down to the word vectors' width."""
    return bert.masked(
        v,
        {
            "generator_predictions.dense.*": "head.dense.*",
            "generator_predictions.LayerNorm.*": "head.norm.*",
            "generator_lm_head.*": "head.out.*",
        },
        dense=v["embedding_size"],
        activation="gelu",
    )


def replaced(v: ConfigValues) -> HeadPlan:
    """Was this token replaced? One number per token."""
    return HeadPlan(
        head=HeadShape(kind="replaced", pooling="each", outputs=1, dense=v["hidden_size"], activation=v["hidden_act"]),
        names={
            "discriminator_predictions.dense.*": "head.dense.*",
            "discriminator_predictions.dense_prediction.*": "head.out.*",
        },
    )


def choice(v: ConfigValues) -> HeadPlan:
    """A summary of the sequence, then one score."""
    dense = v["hidden_size"] if v["summary_use_proj"] else None
    return HeadPlan(
        head=HeadShape(
            kind="choice",
            pooling="first",
            outputs=1,
            dense=dense,
            activation=v["summary_activation"],
            dropout_first=v["summary_first_dropout"],
            dropout=v["summary_last_dropout"],
        ),
        names={"sequence_summary.summary.*": "head.dense.*", "classifier.*": "head.out.*"},
    )


NAMES = bert.EMBEDDINGS | bert.BLOCKS | {"embeddings_project.*": "embed.project.*"}

FAMILY = Family(
    model_type="electra",
    title="ELECTRA",
    prefix="electra.",
    config_keys=KEYS,
    check=bert.only_encoder,
    build_stack=stack,
    build_names=lambda model: name_table(NAMES, "stack."),
    ignored=bert.IGNORED,
    heads={
        "masked": lambda v, n: masked(v),
        "replaced": lambda v, n: replaced(v),
        "classify": lambda v, n: roberta.classify(v, n, bert.head_dropout(v), activation="gelu"),
        "tag": lambda v, n: bert.each("tag", n, bert.head_dropout(v)),
        "span": lambda v, n: bert.each("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda v, n: choice(v),
    },
    architectures=bert.architectures("Electra", ElectraForPreTraining="replaced"),
    # the paper's small one is four times as deep as BERT's
    presets=small_presets(*bert.SIZE, {"embedding_size": 128})
    | {
        "small": {},
        "base": {"embedding_size": 768, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    },
)
