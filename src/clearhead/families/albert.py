"""ALBERT: parameters shared across layers, factorized embeddings, sentence-order prediction."""

from __future__ import annotations

from dataclasses import replace

from clearhead.families import bert
from clearhead.families.family import (
    ACTIVATIONS,
    MAX_LAYERS,
    ConfigValues,
    Family,
    HeadPlan,
    TensorTarget,
    name_table,
    one_of,
    positive_int,
    probability,
    small_presets,
)
from clearhead.shape import DropoutRates, HeadShape, ModelShape, PoolerShape, Shape

KEYS = {key: value for key, value in bert.KEYS.items() if key != "classifier_dropout"} | {
    "vocab_size": positive_int(30000, 1 << 24),
    "embedding_size": positive_int(128),
    "hidden_size": positive_int(4096),
    "num_hidden_groups": positive_int(1, 1024),
    "inner_group_num": positive_int(1, 1024),
    "num_attention_heads": positive_int(64),
    "intermediate_size": positive_int(16384, 1 << 20),
    "hidden_act": one_of("gelu_new", *ACTIVATIONS),
    "hidden_dropout_prob": probability(0.0),
    "attention_probs_dropout_prob": probability(0.0),
    "classifier_dropout_prob": probability(0.1),
}


def check_config(config: ConfigValues) -> str | None:
    """Check the layer groups: each group needs a layer."""
    if config["num_hidden_groups"] > config["num_hidden_layers"]:
        return "num_hidden_groups is larger than num_hidden_layers"
    if config["num_hidden_layers"] * config["inner_group_num"] > MAX_LAYERS:
        return f"num_hidden_layers times inner_group_num is more than {MAX_LAYERS}"
    return bert.check_encoder(config)


def build_stack(config: ConfigValues) -> Shape:
    """Return the encoder: layer i runs the blocks of group i * groups / layers one after the other."""
    layers, groups, group_size = config["num_hidden_layers"], config["num_hidden_groups"], config["inner_group_num"]
    order = tuple(int(i / (layers / groups)) * group_size + j for i in range(layers) for j in range(group_size))
    dropout = config["hidden_dropout_prob"]
    return bert.build_stack(
        config,
        layers=layers * group_size,
        block_order=order,
        group_size=group_size,
        embed_width=config["embedding_size"],
        project="after",
        # unlike BERT, ALBERT has no dropout after the feed-forward sub-layer
        dropouts=DropoutRates(
            embedding=dropout, attention_probs=config["attention_probs_dropout_prob"], attention_output=dropout
        ),
    )


def build_names(model: ModelShape) -> dict[str, TensorTarget]:
    """Return the tensor names; they contain the group and the block within it."""
    names = bert.EMBEDDING_NAMES | {"encoder.embedding_hidden_mapping_in.*": "embed.project.*"}
    group_size = model.stack.group_size
    for block in range(model.stack.blocks):
        stored_prefix = f"encoder.albert_layer_groups.{block // group_size}.albert_layers.{block % group_size}."
        prefix = f"blocks.{block}."
        names |= {
            stored_prefix + "attention.query.*": prefix + "attend.inner.q.*",
            stored_prefix + "attention.key.*": prefix + "attend.inner.k.*",
            stored_prefix + "attention.value.*": prefix + "attend.inner.v.*",
            stored_prefix + "attention.dense.*": prefix + "attend.inner.out.*",
            stored_prefix + "attention.LayerNorm.*": prefix + "attend.norm.*",
            stored_prefix + "ffn.*": prefix + "feed.inner.up.*",
            stored_prefix + "ffn_output.*": prefix + "feed.inner.down.*",
            stored_prefix + "full_layer_layer_norm.*": prefix + "feed.norm.*",
        }
    return name_table(names, "stack.") | name_table({"pooler.*": "pooler.dense.*"})


MASKED_NAMES = {
    "predictions.dense.*": "head.dense.*",
    "predictions.LayerNorm.*": "head.norm.*",
    "predictions.decoder.weight": "head.out.weight",
    "predictions.decoder.bias": "head.out.bias",
    "predictions.bias": "head.out.bias",
}


def masked_head(config: ConfigValues) -> HeadPlan:
    """Return the masked-language-model head, which projects to the embedding width."""
    return bert.masked_head(config, MASKED_NAMES, dense=config["embedding_size"])


def pretraining_heads(config: ConfigValues, num_labels: int) -> HeadPlan:
    """Return the heads for masked language modeling and sentence-order prediction."""
    order = HeadShape(kind="next", pooling="pooled", outputs=num_labels, dropout=config["classifier_dropout_prob"])
    return replace(
        masked_head(config),
        second_head=order,
        pooler=PoolerShape(),
        names=MASKED_NAMES | {"sop_classifier.classifier.*": "second.out.*"},
    )


FAMILY = Family(
    model_type="albert",
    title="ALBERT",
    prefix="albert.",
    config_keys=KEYS,
    check=check_config,
    build_stack=build_stack,
    build_names=build_names,
    ignored=bert.IGNORED_NAMES,
    base_pooler=PoolerShape(),
    heads={
        "pretrain": pretraining_heads,
        "masked": lambda config, num_labels: masked_head(config),
        "classify": lambda config, num_labels: bert.pooled_head(
            "classify", num_labels, config["classifier_dropout_prob"]
        ),
        "tag": lambda config, num_labels: bert.token_head("tag", num_labels, config["classifier_dropout_prob"]),
        "span": lambda config, num_labels: bert.token_head("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda config, num_labels: bert.pooled_head("choice", 1, config["classifier_dropout_prob"]),
    },
    architectures=bert.name_architectures("Albert", AlbertForPreTraining="pretrain"),
    presets=small_presets(*bert.SIZE_KEYS)
    | {"base": {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}},
)
