"""ELECTRA, discriminator and generator: BERT with narrower word vectors."""

from __future__ import annotations

from clearhead.families import bert, roberta
from clearhead.families.family import ACTIVATIONS, Family, HeadPlan, Values, flag, rate, size, sized, table, word
from clearhead.shape import HeadShape, Shape

KEYS = bert.KEYS | {
    "embedding_size": size(128),
    "hidden_size": size(256),
    "num_attention_heads": size(4),
    "intermediate_size": size(1024, 1 << 20),
    "summary_type": word("first", "first"),
    "summary_use_proj": flag(True),
    "summary_activation": word("gelu", *ACTIVATIONS),
    "summary_last_dropout": rate(0.1),
    "summary_first_dropout": rate(0.0),
}


def stack(v: Values) -> Shape:
    """Word vectors of their own width are projected to the stack's, where the two differ."""
    narrow = v["embedding_size"] != v["hidden_size"]
    return bert.stack(v, embed_width=v["embedding_size"], project="after" if narrow else "none")


def masked(v: Values) -> HeadPlan:
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


def replaced(v: Values) -> HeadPlan:
    """Was this token replaced? One number per token."""
    return HeadPlan(
        head=HeadShape(kind="replaced", pooling="each", outputs=1, dense=v["hidden_size"], activation=v["hidden_act"]),
        names={
            "discriminator_predictions.dense.*": "head.dense.*",
            "discriminator_predictions.dense_prediction.*": "head.out.*",
        },
    )


def choice(v: Values) -> HeadPlan:
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
    keys=KEYS,
    check=bert.only_encoder,
    stack=stack,
    names=lambda model: table(NAMES, "stack."),
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
    presets=sized(*bert.SIZE, {"embedding_size": 128})
    | {
        "small": {},
        "base": {"embedding_size": 768, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    },
)
