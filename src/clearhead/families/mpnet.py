"""MPNet: RoBERTa's counting, and a bucketed relative bias that all layers share."""

from __future__ import annotations

from clearhead.families import bert, roberta
from clearhead.families.family import (
    ConfigValues,
    Family,
    TensorTarget,
    check_divisible,
    name_table,
    optional_token_id,
    positive_int,
    small_presets,
)
from clearhead.shape import ModelShape, PoolerShape, Shape

PAD = 1  # the positions are counted from here, whatever pad_token_id says

POSITIONS = {"max_position_embeddings": 514, "layer_norm_eps": 1e-5}  # counted from pad + 1
KEYS = {
    key: value
    for key, value in bert.KEYS.items()
    if key not in ("type_vocab_size", "classifier_dropout", "is_decoder", "add_cross_attention")
} | {
    "vocab_size": positive_int(30527, 1 << 24),
    "relative_attention_num_buckets": positive_int(32),
    "pad_token_id": optional_token_id(PAD),
}

BLOCKS = {
    "encoder.layer.{n}.attention.attn.q.*": "blocks.{n}.attend.inner.q.*",
    "encoder.layer.{n}.attention.attn.k.*": "blocks.{n}.attend.inner.k.*",
    "encoder.layer.{n}.attention.attn.v.*": "blocks.{n}.attend.inner.v.*",
    "encoder.layer.{n}.attention.attn.o.*": "blocks.{n}.attend.inner.out.*",
    "encoder.layer.{n}.attention.LayerNorm.*": "blocks.{n}.attend.norm.*",
    "encoder.relative_attention_bias.weight": "relative.table.weight",
} | bert.FEED


def check(v: ConfigValues) -> str | None:
    """The bias is computed for 32 buckets, so the table must hold them."""
    if v["relative_attention_num_buckets"] < 32:
        return "relative_attention_num_buckets is below the 32 that MPNet's distances need"
    if v["max_position_embeddings"] <= PAD + 1:
        return "max_position_embeddings leaves no room for a token"
    return check_divisible("hidden_size", "num_attention_heads")(v)


def stack(v: ConfigValues) -> Shape:
    """BERT's stack with positions from 2 and distances in buckets."""
    return bert.stack(
        v,
        segments=0,
        position_offset=PAD + 1,
        max_length=v["max_position_embeddings"] - PAD - 1,
        relative="buckets",
        bucket_rows=v["relative_attention_num_buckets"],
        pad_id=PAD,
    )


def names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Theirs to ours."""
    return name_table(bert.EMBEDDINGS | BLOCKS, "stack.") | name_table(bert.POOLER)


FAMILY = Family(
    model_type="mpnet",
    title="MPNet",
    prefix="mpnet.",
    config_keys=KEYS,
    check=check,
    build_stack=stack,
    build_names=names,
    ignored=bert.IGNORED,
    base_pooler=PoolerShape(),
    heads={
        "masked": lambda v, n: bert.masked(v, roberta.MASKED_NAMES, activation="gelu"),
        "classify": lambda v, n: roberta.classify(v, n, v["hidden_dropout_prob"]),
        "tag": lambda v, n: bert.each("tag", n, v["hidden_dropout_prob"]),
        "span": lambda v, n: bert.each("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda v, n: bert.pooled("choice", 1, v["hidden_dropout_prob"]),
    },
    architectures=bert.architectures("MPNet"),
    presets=small_presets(*bert.SIZE, POSITIONS) | {"base": POSITIONS},
)
