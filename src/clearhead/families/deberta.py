"""DeBERTa v2 and v3: scores from content and from relative positions apart, and perhaps a convolution."""

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
    boolean,
    finite_float,
    name_table,
    non_negative_int,
    one_of,
    positive_int,
    probability,
    small_presets,
    unchecked,
)
from clearhead.shape import DropoutRates, ModelShape, PoolerShape, Shape

RELATIVE = {  # DeBERTa-v3's way, of every preset
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
    "max_relative_positions": unchecked(-1),
    "position_buckets": unchecked(-1),
    "position_biased_input": boolean(True),
    "pos_att_type": unchecked(None),
    "norm_rel_ebd": unchecked("none"),
    "share_att_key": boolean(False),
    "conv_kernel_size": non_negative_int(0, 255),
    "conv_groups": positive_int(1),
    "conv_act": one_of("tanh", *ACTIVATIONS),
    "pooler_dropout": probability(0.0),
    "pooler_hidden_act": one_of("gelu", *ACTIVATIONS),
    "cls_dropout": probability(None),
    "legacy": boolean(True),
}


def terms(v: ConfigValues) -> tuple[str, ...]:
    """Which position terms the scores have: a list, or words joined by bars."""
    given = v["pos_att_type"] or ()
    words = given.lower().split("|") if isinstance(given, str) else given
    return tuple(str(word).strip() for word in words if str(word).strip())


def check(v: ConfigValues) -> str | None:
    """What the position keys say together."""
    if v["pos_att_type"] is not None and not isinstance(v["pos_att_type"], str | list):
        return "pos_att_type must be a list or words joined by bars"
    if unknown := [term for term in terms(v) if term not in ("c2p", "p2c")]:
        return f"pos_att_type holds {unknown[0][:40]!r}, expected c2p and p2c"
    for key in ("max_relative_positions", "position_buckets"):
        if not isinstance(v[key], int) or isinstance(v[key], bool) or v[key] > 1 << 20:
            return f"{key} is {str(v[key])[:40]!r}, expected a whole number up to {1 << 20}"
    if v["position_buckets"] == 1:
        return "position_buckets is 1, which leaves no room for distances"
    if not isinstance(v["norm_rel_ebd"], str):
        return "norm_rel_ebd must be a word"
    if v["conv_kernel_size"] and (v["conv_kernel_size"] % 2 == 0 or v["hidden_size"] % v["conv_groups"]):
        return "conv_kernel_size must be odd and conv_groups must divide hidden_size"
    return bert.only_encoder(v)


def _reach(v: ConfigValues) -> int:
    return int(v["max_relative_positions"]) if v["max_relative_positions"] >= 1 else int(v["max_position_embeddings"])


def stack(v: ConfigValues) -> Shape:
    """BERT's stack with disentangled attention."""
    words = v["embedding_size"] or v["hidden_size"]
    head_width = v["attention_head_size"] or v["hidden_size"] // v["num_attention_heads"]
    dropout = v["hidden_dropout_prob"]
    buckets = v["position_buckets"]
    return bert.stack(
        v,
        head_width=head_width,
        # each position term widens the sum of products, so the scale grows with them: 1/sqrt(3 d) with both
        score_scale=(head_width * (1 + len(set(terms(v))))) ** -0.5,
        embed_width=words,
        project="before" if words != v["hidden_size"] else "none",
        project_bias=False,
        positions="learned" if v["position_biased_input"] else "none",
        max_length=v["max_position_embeddings"] if v["position_biased_input"] else None,
        relative="disentangled" if v["relative_attention"] else "none",
        relative_terms=terms(v) if v["relative_attention"] else (),
        relative_span=buckets if buckets > 0 else _reach(v),
        relative_max_distance=_reach(v),
        log_buckets=buckets > 0,
        relative_norm=v["relative_attention"] and "layer_norm" in v["norm_rel_ebd"].lower(),
        share_projections=v["share_att_key"],
        conv_kernel=v["conv_kernel_size"],
        conv_groups=v["conv_groups"],
        conv_activation=v["conv_act"],
        dropouts=DropoutRates(
            embedding=dropout,
            attention_probs=v["attention_probs_dropout_prob"],
            attention_output=dropout,
            feed_forward_output=dropout,
            relative_positions=dropout,
        ),
    )


NAMES = (
    bert.EMBEDDINGS
    | bert.FEED
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


def names(model: ModelShape) -> dict[str, TensorTarget]:
    """Theirs to ours; files of v3 carry a position table that the model does not use."""
    rows = dict(NAMES)
    if model.stack.positions == "none":
        del rows["embeddings.position_embeddings.weight"]
    return name_table(rows, "stack.")


def masked(v: ConfigValues) -> HeadPlan:
    """The older head has names as in BERT; the one that DeBERTa was trained with is always tied."""
    if v["legacy"]:
        return bert.masked(v, bert.MASKED_NAMES, dense=v["embedding_size"] or v["hidden_size"])
    return bert.masked(
        v,
        {
            "lm_predictions.lm_head.dense.*": "head.dense.*",
            "lm_predictions.lm_head.LayerNorm.*": "head.norm.*",
            "lm_predictions.lm_head.bias": "head.out.bias",
        },
        tied=True,
    )


def pooled(kind: str, outputs: int, v: ConfigValues) -> HeadPlan:
    """A pooler that belongs to the head, with its own activation and dropout."""
    dropout = v["hidden_dropout_prob"] if v["cls_dropout"] is None else v["cls_dropout"]
    plan = bert.pooled(kind, outputs, dropout)
    return replace(
        plan,
        pooler=PoolerShape(activation=v["pooler_hidden_act"], dropout=v["pooler_dropout"]),
        names=dict(plan.names) | {"pooler.dense.*": "pooler.dense.*"},
    )


def guess(config: dict[str, Any], in_file: TensorLookup) -> dict[str, Any]:
    """Where config.json does not say which masked-word head it is, the tensors do."""
    if "legacy" not in config and "lm_predictions.lm_head.bias" in in_file:
        return config | {"legacy": False}
    return config


FAMILY = Family(
    model_type="deberta-v2",
    title="DeBERTa",
    prefix="deberta.",
    config_keys=KEYS,
    check=check,
    build_stack=stack,
    build_names=names,
    infer_config=guess,
    ignored=(
        *bert.IGNORED,
        "embeddings.position_embeddings.weight",
        "encoder.LayerNorm.*",  # made even where there is no relative attention to use it
        "mask_predictions.dense.*",
        "mask_predictions.LayerNorm.*",
        "mask_predictions.classifier.*",
    ),
    heads={
        "masked": lambda v, n: masked(v),
        "classify": lambda v, n: pooled("classify", n, v),
        "tag": lambda v, n: bert.each("tag", n, v["hidden_dropout_prob"]),
        "span": lambda v, n: bert.each("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda v, n: pooled("choice", 1, v),
    },
    architectures=bert.architectures("DebertaV2"),
    presets=small_presets(*bert.SIZE, RELATIVE)
    | {
        "base": {
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            **RELATIVE,
        }
    },
)
