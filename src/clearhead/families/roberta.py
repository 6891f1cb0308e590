"""RoBERTa and XLM-R: BERT with positions counted from pad + 1, and heads of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clearhead.families import bert
from clearhead.families.family import ConfigValues, Family, HeadPlan, optional_token_id, positive_int, small_presets
from clearhead.shape import HeadShape, PoolerShape, Shape

OWN = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
KEYS = bert.KEYS | {"vocab_size": positive_int(50265, 1 << 24), "pad_token_id": optional_token_id(1)}

MASKED_NAMES = {
    "lm_head.dense.*": "head.dense.*",
    "lm_head.layer_norm.*": "head.norm.*",
    "lm_head.decoder.weight": "head.out.weight",
    "lm_head.decoder.bias": "head.out.bias",
    "lm_head.bias": "head.out.bias",
}
CLASSIFY_NAMES = {"classifier.dense.*": "head.dense.*", "classifier.out_proj.*": "head.out.*"}


def check(v: ConfigValues) -> str | None:
    """Positions begin after the padding id, so it must exist and leave room."""
    if v["pad_token_id"] is None or v["pad_token_id"] + 1 >= v["max_position_embeddings"]:
        return "pad_token_id must be a number below max_position_embeddings, for positions are counted from it"
    return bert.only_encoder(v)


def stack(v: ConfigValues, **changes: Any) -> Shape:
    """BERT's stack, counting positions from pad + 1."""
    offset = v["pad_token_id"] + 1
    return bert.stack(v, position_offset=offset, max_length=v["max_position_embeddings"] - offset, **changes)


def classify(v: ConfigValues, labels: int, dropout: float, activation: str = "tanh") -> HeadPlan:
    """First token, dropout, dense, activation, dropout, out."""
    return HeadPlan(
        head=HeadShape(
            kind="classify",
            pooling="first",
            outputs=labels,
            dense=v["hidden_size"],
            activation=activation,
            dropout_first=dropout,
            dropout=dropout,
        ),
        names=CLASSIFY_NAMES,
    )


FAMILY = Family(
    model_type="roberta",
    title="RoBERTa",
    prefix="roberta.",
    config_keys=KEYS,
    check=check,
    build_stack=stack,
    build_names=bert.names,
    ignored=bert.IGNORED,
    base_pooler=PoolerShape(),
    heads={
        "masked": lambda v, n: bert.masked(v, MASKED_NAMES, activation="gelu"),
        "classify": lambda v, n: classify(v, n, bert.head_dropout(v)),
        "tag": lambda v, n: bert.each("tag", n, bert.head_dropout(v)),
        "span": lambda v, n: bert.each("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda v, n: bert.pooled("choice", 1, v["hidden_dropout_prob"]),
    },
    architectures=bert.architectures("Roberta"),
    presets=small_presets(*bert.SIZE, OWN) | {"base": OWN},
)

XLM_R = replace(
    FAMILY,
    model_type="xlm-roberta",
    title="XLM-R",
    config_keys=KEYS | {"vocab_size": positive_int(30522, 1 << 24)},
    architectures=bert.architectures("XLMRoberta"),
    presets=small_presets(*bert.SIZE, OWN) | {"base": {"vocab_size": 250002, **OWN}},
)
