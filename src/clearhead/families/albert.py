"""ALBERT: one block used by every layer, narrow word vectors, sentence order instead of next sentence."""

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


def check(v: ConfigValues) -> str | None:
    """Every group needs a layer."""
    if v["num_hidden_groups"] > v["num_hidden_layers"]:
        return "num_hidden_groups is larger than num_hidden_layers"
    if v["num_hidden_layers"] * v["inner_group_num"] > MAX_LAYERS:
        return f"num_hidden_layers times inner_group_num is more than {MAX_LAYERS}"
    return bert.only_encoder(v)


def stack(v: ConfigValues) -> Shape:
    """Layer i runs the block of group i * groups / layers; a group may hold several blocks in a row."""
    layers, groups, inner = v["num_hidden_layers"], v["num_hidden_groups"], v["inner_group_num"]
    order = tuple(int(i / (layers / groups)) * inner + j for i in range(layers) for j in range(inner))
    dropout = v["hidden_dropout_prob"]
    return bert.stack(
        v,
        layers=layers * inner,
        block_order=order,
        group_size=inner,
        embed_width=v["embedding_size"],
        project="after",
        # nothing is dropped after the feed-forward part, unlike in BERT
        dropouts=DropoutRates(
            embedding=dropout, attention_probs=v["attention_probs_dropout_prob"], attention_output=dropout
        ),
    )


def names(model: ModelShape) -> dict[str, TensorTarget]:
    """Two numbers in a name, group and block: each block gets its own rows."""
    rows = bert.EMBEDDINGS | {"encoder.embedding_hidden_mapping_in.*": "embed.project.*"}
    inner = model.stack.group_size
    for block in range(model.stack.blocks):
        theirs = f"encoder.albert_layer_groups.{block // inner}.albert_layers.{block % inner}."
        ours = f"blocks.{block}."
        rows |= {
            theirs + "attention.query.*": ours + "attend.inner.q.*",
            theirs + "attention.key.*": ours + "attend.inner.k.*",
            theirs + "attention.value.*": ours + "attend.inner.v.*",
            theirs + "attention.dense.*": ours + "attend.inner.out.*",
            theirs + "attention.LayerNorm.*": ours + "attend.norm.*",
            theirs + "ffn.*": ours + "feed.inner.up.*",
            theirs + "ffn_output.*": ours + "feed.inner.down.*",
            theirs + "full_layer_layer_norm.*": ours + "feed.norm.*",
        }
    return name_table(rows, "stack.") | name_table({"pooler.*": "pooler.dense.*"})


MASKED_NAMES = {
    "predictions.dense.*": "head.dense.*",
    "predictions.LayerNorm.*": "head.norm.*",
    "predictions.decoder.weight": "head.out.weight",
    "predictions.decoder.bias": "head.out.bias",
    "predictions.bias": "head.out.bias",
}


def masked(v: ConfigValues) -> HeadPlan:
    """The masked-word head goes down to the word vectors' width."""
    return bert.masked(v, MASKED_NAMES, dense=v["embedding_size"])


def pretrain(v: ConfigValues, labels: int) -> HeadPlan:
    """Masked words and sentence order."""
    order = HeadShape(kind="next", pooling="pooled", outputs=labels, dropout=v["classifier_dropout_prob"])
    return replace(
        masked(v),
        second=order,
        pooler=PoolerShape(),
        names=MASKED_NAMES | {"sop_classifier.classifier.*": "second.out.*"},
    )


FAMILY = Family(
    model_type="albert",
    title="ALBERT",
    prefix="albert.",
    config_keys=KEYS,
    check=check,
    build_stack=stack,
    build_names=names,
    ignored=bert.IGNORED,
    base_pooler=PoolerShape(),
    heads={
        "pretrain": pretrain,
        "masked": lambda v, n: masked(v),
        "classify": lambda v, n: bert.pooled("classify", n, v["classifier_dropout_prob"]),
        "tag": lambda v, n: bert.each("tag", n, v["classifier_dropout_prob"]),
        "span": lambda v, n: bert.each("span", 2, 0.0, "qa_outputs.*"),
        "choice": lambda v, n: bert.pooled("choice", 1, v["classifier_dropout_prob"]),
    },
    architectures=bert.architectures("Albert", AlbertForPreTraining="pretrain"),
    presets=small_presets(*bert.SIZE)
    | {"base": {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}},
)
