"""RoBERTa and XLM-R: BERT with position ids from pad_token_id + 1 and different heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clearhead.families import bert
from clearhead.families.family import ConfigValues, Family, HeadPlan, optional_token_id, positive_int, small_presets
from clearhead.shape import HeadShape, PoolerShape, Shape

PRESET_SETTINGS = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
KEYS = bert.KEYS | {"vocab_size": positive_int(50265, 1 << 24), "pad_token_id": optional_token_id(1)}

MASKED_NAMES = {
    "lm_head.dense.*": "head.dense.*",
    "lm_head.layer_norm.*": "head.norm.*",
    "lm_head.decoder.weight": "head.out.weight",
    "lm_head.decoder.bias": "head.out.bias",
    "lm_head.bias": "head.out.bias",
}
CLASSIFICATION_NAMES = {"classifier.dense.*": "head.dense.*", "classifier.out_proj.*": "head.out.*"}


def check_config(config: ConfigValues) -> str | None:
    """Check that position ids, which start after the padding id, fit into the position table."""
    if config["pad_token_id"] is None or config["pad_token_id"] + 1 >= config["max_position_embeddings"]:
        return "pad_token_id must be an integer below max_position_embeddings - 1, because position ids start after it"
    return bert.check_encoder(config)


def build_stack(config: ConfigValues, **changes: Any) -> Shape:
    """Return BERT's encoder with position ids from pad_token_id + 1."""
    offset = config["pad_token_id"] + 1
    return bert.build_stack(
        config, position_offset=offset, max_length=config["max_position_embeddings"] - offset, **changes
    )


def classification_head(config: ConfigValues, num_labels: int, dropout: float, activation: str = "tanh") -> HeadPlan:
    """Return a head that computes first token, dropout, dense, activation, dropout, output."""
    return HeadPlan(
        head=HeadShape(
            kind="classify",
            pooling="first",
            outputs=num_labels,
            dense=config["hidden_size"],
            activation=activation,
            dropout_first=dropout,
            dropout=dropout,
        ),
        names=CLASSIFICATION_NAMES,
    )


FAMILY = Family(
    model_type="roberta",
    title="RoBERTa",
    prefix="roberta.",
    config_keys=KEYS,
    check=check_config,
    build_stack=build_stack,
    build_names=bert.build_names,
    ignored=bert.IGNORED_NAMES,
    base_pooler=PoolerShape(),
    heads={
        "masked": lambda config, num_labels: bert.masked_head(config, MASKED_NAMES, activation="gelu"),
        "classify": lambda config, num_labels: classification_head(config, num_labels, bert.classifier_dropout(config)),
        "tag": lambda config, num_labels: bert.token_head("tag", num_labels, bert.classifier_dropout(config)),
        "span": lambda config, num_labels: bert.token_head("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda config, num_labels: bert.pooled_head("choice", 1, config["hidden_dropout_prob"]),
    },
    architectures=bert.name_architectures("Roberta"),
    presets=small_presets(*bert.SIZE_KEYS, PRESET_SETTINGS) | {"base": PRESET_SETTINGS},
)

XLM_R = replace(
    FAMILY,
    model_type="xlm-roberta",
    title="XLM-R",
    config_keys=KEYS | {"vocab_size": positive_int(30522, 1 << 24)},
    architectures=bert.name_architectures("XLMRoberta"),
    presets=small_presets(*bert.SIZE_KEYS, PRESET_SETTINGS) | {"base": {"vocab_size": 250002, **PRESET_SETTINGS}},
)
