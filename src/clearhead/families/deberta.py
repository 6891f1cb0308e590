"""DeBERTa v2 and v3: disentangled attention over content and relative positions, optionally with a convolution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clearhead.families import bert
from clearhead.families.family import (
    ACTIVATIONS,
    ConfigValues,
    Family,
    HeadPlan,
    TensorLookup,
    TensorTarget,
    any_value,
    boolean,
    finite_float,
    name_table,
    non_negative_int,
    one_of,
    positive_int,
    probability,
    small_presets,
)
from clearhead.shape import DropoutRates, ModelShape, PoolerShape, Shape

PRESET_SETTINGS = {  # of DeBERTa v3; shared by all presets
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "legacy": False,
}
KEYS = {key: value for key, value in bert.KEYS.items() if key != "classifier_dropout"} | {
    "vocab_size": positive_int(128100, 1 << 24),
    "hidden_size": positive_int(1536),
    "num_hidden_layers": positive_int(24, 1024),
    "num_attention_heads": positive_int(24),
    "intermediate_size": positive_int(6144, 1 << 20),
    "type_vocab_size": non_negative_int(0),
    "layer_norm_eps": finite_float(1e-7),
    "embedding_size": non_negative_int(None),
    "attention_head_size": non_negative_int(None),
    "relative_attention": boolean(False),
    "max_relative_positions": any_value(-1),
    "position_buckets": any_value(-1),
    "position_biased_input": boolean(True),
    "pos_att_type": any_value(None),
    "norm_rel_ebd": any_value("none"),
    "share_att_key": boolean(False),
    "conv_kernel_size": non_negative_int(0, 255),
    "conv_groups": positive_int(1),
    "conv_act": one_of("tanh", *ACTIVATIONS),
    "pooler_dropout": probability(0.0),
    "pooler_hidden_act": one_of("gelu", *ACTIVATIONS),
    "cls_dropout": probability(None),
    "legacy": boolean(True),
}


def position_terms(config: ConfigValues) -> tuple[str, ...]:
    """Return the position terms of the attention scores; config.json has a list or a string separated by bars."""
    value = config["pos_att_type"] or ()
    terms = value.lower().split("|") if isinstance(value, str) else value
    return tuple(str(term).strip() for term in terms if str(term).strip())


def check_config(config: ConfigValues) -> str | None:
    """Check the position keys together."""
    if config["pos_att_type"] is not None and not isinstance(config["pos_att_type"], str | list):
        return "pos_att_type must be a list or a string such as 'c2p|p2c'"
    if unknown := [term for term in position_terms(config) if term not in ("c2p", "p2c")]:
        return f"pos_att_type contains {unknown[0][:40]!r}, expected only c2p and p2c"
    for key in ("max_relative_positions", "position_buckets"):
        if not isinstance(config[key], int) or isinstance(config[key], bool) or config[key] > 1 << 20:
            return f"{key} is {str(config[key])[:40]!r}, expected an integer <= {1 << 20}"
    if config["position_buckets"] == 1:
        return "position_buckets is 1, expected at least 2"
    if not isinstance(config["norm_rel_ebd"], str):
        return "norm_rel_ebd must be a string"
    if config["conv_kernel_size"] and (
        config["conv_kernel_size"] % 2 == 0 or config["hidden_size"] % config["conv_groups"]
    ):
        return "conv_kernel_size must be odd and conv_groups must divide hidden_size"
    return bert.check_encoder(config)


def _max_distance(config: ConfigValues) -> int:
    return (
        int(config["max_relative_positions"])
        if config["max_relative_positions"] >= 1
        else int(config["max_position_embeddings"])
    )


def build_stack(config: ConfigValues) -> Shape:
    """Return BERT's encoder with disentangled attention."""
    embed_width = config["embedding_size"] or config["hidden_size"]
    head_width = config["attention_head_size"] or config["hidden_size"] // config["num_attention_heads"]
    dropout = config["hidden_dropout_prob"]
    buckets = config["position_buckets"]
    return bert.build_stack(
        config,
        head_width=head_width,
        # a score is a sum of 1 + len(terms) products, so its scale is 1 / sqrt((1 + terms) d): 1 / sqrt(3 d) with both
        score_scale=(head_width * (1 + len(set(position_terms(config))))) ** -0.5,
        embed_width=embed_width,
        project="before" if embed_width != config["hidden_size"] else "none",
        project_bias=False,
        positions="learned" if config["position_biased_input"] else "none",
        max_length=config["max_position_embeddings"] if config["position_biased_input"] else None,
        relative="disentangled" if config["relative_attention"] else "none",
        relative_terms=position_terms(config) if config["relative_attention"] else (),
        relative_span=buckets if buckets > 0 else _max_distance(config),
        relative_max_distance=_max_distance(config),
        log_buckets=buckets > 0,
        relative_norm=config["relative_attention"] and "layer_norm" in config["norm_rel_ebd"].lower(),
        share_projections=config["share_att_key"],
        conv_kernel=config["conv_kernel_size"],
        conv_groups=config["conv_groups"],
        conv_activation=config["conv_act"],
        dropouts=DropoutRates(
            embedding=dropout,
            attention_probs=config["attention_probs_dropout_prob"],
            attention_output=dropout,
            feed_forward_output=dropout,
            relative_positions=dropout,
        ),
    )


NAMES = (
    bert.EMBEDDING_NAMES
    | bert.FEED_FORWARD_NAMES
    | {
        "embeddings.embed_proj.weight": "embed.project.weight",
        "encoder.rel_embeddings.weight": "relative.table.weight",
        "encoder.LayerNorm.*": "relative.norm.*",
        "encoder.conv.conv.*": "blocks.0.convolve.conv.*",
        "encoder.conv.LayerNorm.*": "blocks.0.convolve.norm.*",
        "encoder.layer.{n}.attention.self.query_proj.*": "blocks.{n}.attend.inner.q.*",
        "encoder.layer.{n}.attention.self.key_proj.*": "blocks.{n}.attend.inner.k.*",
        "encoder.layer.{n}.attention.self.value_proj.*": "blocks.{n}.attend.inner.v.*",
        "encoder.layer.{n}.attention.self.pos_key_proj.*": "blocks.{n}.attend.inner.position_k.*",
        "encoder.layer.{n}.attention.self.pos_query_proj.*": "blocks.{n}.attend.inner.position_q.*",
        "encoder.layer.{n}.attention.output.dense.*": "blocks.{n}.attend.inner.out.*",
        "encoder.layer.{n}.attention.output.LayerNorm.*": "blocks.{n}.attend.norm.*",
    }
)


def build_names(model: ModelShape) -> dict[str, TensorTarget]:
    """Return the table of tensor names; files of v3 contain a position table that the model does not use."""
    names = dict(NAMES)
    if model.stack.positions == "none":
        del names["embeddings.position_embeddings.weight"]
    return name_table(names, "stack.")


def masked_head(config: ConfigValues) -> HeadPlan:
    """Return the masked-language-model head: BERT's (legacy), or the one DeBERTa was trained with, which is tied."""
    if config["legacy"]:
        return bert.masked_head(config, bert.MASKED_NAMES, dense=config["embedding_size"] or config["hidden_size"])
    return bert.masked_head(
        config,
        {
            "lm_predictions.lm_head.dense.*": "head.dense.*",
            "lm_predictions.lm_head.LayerNorm.*": "head.norm.*",
            "lm_predictions.lm_head.bias": "head.out.bias",
        },
        tied=True,
    )


def pooled_head(kind: str, outputs: int, config: ConfigValues) -> HeadPlan:
    """Return a head on a pooler of its own, which has its own activation and dropout."""
    dropout = config["hidden_dropout_prob"] if config["cls_dropout"] is None else config["cls_dropout"]
    plan = bert.pooled_head(kind, outputs, dropout)
    return replace(
        plan,
        pooler=PoolerShape(activation=config["pooler_hidden_act"], dropout=config["pooler_dropout"]),
        names=dict(plan.names) | {"pooler.dense.*": "pooler.dense.*"},
    )


def infer_config(config: dict[str, Any], stored: TensorLookup) -> dict[str, Any]:
    """Infer from the tensor names which masked-language-model head a file has, unless config.json states it."""
    if "legacy" not in config and "lm_predictions.lm_head.bias" in stored:
        return config | {"legacy": False}
    return config


FAMILY = Family(
    model_type="deberta-v2",
    title="DeBERTa",
    prefix="deberta.",
    config_keys=KEYS,
    check=check_config,
    build_stack=build_stack,
    build_names=build_names,
    infer_config=infer_config,
    ignored=(
        *bert.IGNORED_NAMES,
        "embeddings.position_embeddings.weight",
        "encoder.LayerNorm.*",  # stored even without relative attention, which is the only part that uses it
        "mask_predictions.dense.*",
        "mask_predictions.LayerNorm.*",
        "mask_predictions.classifier.*",
    ),
    heads={
        "masked": lambda config, num_labels: masked_head(config),
        "classify": lambda config, num_labels: pooled_head("classify", num_labels, config),
        "tag": lambda config, num_labels: bert.token_head("tag", num_labels, config["hidden_dropout_prob"]),
        "span": lambda config, num_labels: bert.token_head("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda config, num_labels: pooled_head("choice", 1, config),
    },
    architectures=bert.name_architectures("DebertaV2"),
    presets=small_presets(*bert.SIZE_KEYS, PRESET_SETTINGS)
    | {
        "base": {
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            **PRESET_SETTINGS,
        }
    },
)
