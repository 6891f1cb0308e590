"""MPNet: RoBERTa's position ids and a bucketed relative position bias shared by all layers."""

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

PAD_ID = 1  # position ids start after this id, regardless of pad_token_id

PRESET_SETTINGS = {"max_position_embeddings": 514, "layer_norm_eps": 1e-5}  # 2 of them unused
KEYS = {
    key: value
    for key, value in bert.KEYS.items()
    if key not in ("type_vocab_size", "classifier_dropout", "is_decoder", "add_cross_attention")
} | {
    "vocab_size": positive_int(30527, 1 << 24),
    "relative_attention_num_buckets": positive_int(32),
    "pad_token_id": optional_token_id(PAD_ID),
}

BLOCK_NAMES = {
    "encoder.layer.{n}.attention.attn.q.*": "blocks.{n}.attend.inner.q.*",
    "encoder.layer.{n}.attention.attn.k.*": "blocks.{n}.attend.inner.k.*",
    "encoder.layer.{n}.attention.attn.v.*": "blocks.{n}.attend.inner.v.*",
    "encoder.layer.{n}.attention.attn.o.*": "blocks.{n}.attend.inner.out.*",
    "encoder.layer.{n}.attention.LayerNorm.*": "blocks.{n}.attend.norm.*",
    "encoder.relative_attention_bias.weight": "relative.table.weight",
} | bert.FEED_FORWARD_NAMES


def check_config(config: ConfigValues) -> str | None:
    """Check the size of the relative position table: buckets are computed for 32 rows."""
    if config["relative_attention_num_buckets"] < 32:
        return f"relative_attention_num_buckets must be at least 32, got {config['relative_attention_num_buckets']}"
    if config["max_position_embeddings"] <= PAD_ID + 1:
        return "max_position_embeddings leaves no room for a token"
    return check_divisible("hidden_size", "num_attention_heads")(config)


def build_stack(config: ConfigValues) -> Shape:
    """Return BERT's encoder with position ids from 2 and bucketed relative distances."""
    return bert.build_stack(
        config,
        segments=0,
        position_offset=PAD_ID + 1,
        max_length=config["max_position_embeddings"] - PAD_ID - 1,
        relative="buckets",
        bucket_rows=config["relative_attention_num_buckets"],
        pad_id=PAD_ID,
    )


def build_names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Return the table of tensor names."""
    return name_table(bert.EMBEDDING_NAMES | BLOCK_NAMES, "stack.") | name_table(bert.POOLER_NAMES)


FAMILY = Family(
    model_type="mpnet",
    title="MPNet",
    prefix="mpnet.",
    config_keys=KEYS,
    check=check_config,
    build_stack=build_stack,
    build_names=build_names,
    ignored=bert.IGNORED_NAMES,
    base_pooler=PoolerShape(),
    heads={
        "masked": lambda config, num_labels: bert.masked_head(config, roberta.MASKED_NAMES, activation="gelu"),
        "classify": lambda config, num_labels: roberta.classification_head(
            config, num_labels, config["hidden_dropout_prob"]
        ),
        "tag": lambda config, num_labels: bert.token_head("tag", num_labels, config["hidden_dropout_prob"]),
        "span": lambda config, num_labels: bert.token_head("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda config, num_labels: bert.pooled_head("choice", 1, config["hidden_dropout_prob"]),
    },
    architectures=bert.name_architectures("MPNet"),
    presets=small_presets(*bert.SIZE_KEYS, PRESET_SETTINGS) | {"base": PRESET_SETTINGS},
)
