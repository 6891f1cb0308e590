"""OpenAI GPT and GPT-2: decoder-only models with queries, keys and values fused in one transposed matrix."""

from __future__ import annotations

from typing import Any

from clearhead.families.family import (
    ACTIVATIONS,
    MAX_FEED_WIDTH,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_VOCAB,
    ConfigValues,
    Family,
    HeadPlan,
    TensorTarget,
    any_value,
    boolean,
    check_divisible,
    finite_float,
    name_table,
    non_negative_int,
    one_of,
    optional_token_id,
    positive_int,
    probability,
    small_presets,
)
from clearhead.shape import DropoutRates, HeadShape, Shape

KEYS = {
    "vocab_size": positive_int(50257, MAX_VOCAB),
    "n_positions": positive_int(1024, MAX_POSITIONS, "max_position_embeddings"),
    "n_embd": positive_int(768, 1 << 16, "hidden_size"),
    "n_layer": positive_int(12, MAX_LAYERS, "num_hidden_layers"),
    "n_head": positive_int(12, 1 << 16, "num_attention_heads"),
    "resid_pdrop": probability(0.1),
    "embd_pdrop": probability(0.1),
    "attn_pdrop": probability(0.1),
    "layer_norm_epsilon": finite_float(1e-5),
    "initializer_range": finite_float(0.02),
    "pad_token_id": optional_token_id(None),
    "bos_token_id": any_value(None),
    "eos_token_id": any_value(None),
    "summary_first_dropout": probability(0.1),
    "tie_word_embeddings": boolean(True),
}
GPT2_KEYS = KEYS | {
    "n_inner": non_negative_int(None, MAX_FEED_WIDTH),
    "activation_function": one_of("gelu_new", *ACTIVATIONS),
    "scale_attn_weights": boolean(True),
    "scale_attn_by_inverse_layer_idx": boolean(False),
    "classifier_dropout": probability(None),
    "hidden_dropout": probability(None),
    "add_cross_attention": boolean(False),
}
SMALL_PRESETS = small_presets("n_embd", "n_layer", "n_head", "n_inner")
GPT1_KEYS = KEYS | {
    "vocab_size": positive_int(40478, MAX_VOCAB),
    "n_positions": positive_int(512, MAX_POSITIONS, "max_position_embeddings"),
    "afn": one_of("gelu", "gelu", "relu", "silu", "swish"),
}

BLOCK_NAMES: dict[str, str | TensorTarget] = {
    "h.{n}.ln_1.*": "blocks.{n}.attend.norm.*",
    "h.{n}.ln_2.*": "blocks.{n}.feed.norm.*",
    "h.{n}.attn.c_attn.*": TensorTarget(
        tuple(f"blocks.{{n}}.attend.inner.{part}.*" for part in "qkv"), transposed=True
    ),
    "h.{n}.attn.c_proj.*": TensorTarget(("blocks.{n}.attend.inner.out.*",), transposed=True),
    "h.{n}.mlp.c_fc.*": TensorTarget(("blocks.{n}.feed.inner.up.*",), transposed=True),
    "h.{n}.mlp.c_proj.*": TensorTarget(("blocks.{n}.feed.inner.down.*",), transposed=True),
}
GPT2_NAMES = BLOCK_NAMES | {
    "wte.weight": "embed.token.weight",
    "wpe.weight": "positions.table.weight",
    "ln_f.*": "norm.*",
}
GPT1_NAMES = BLOCK_NAMES | {
    "tokens_embed.weight": "embed.token.weight",
    "positions_embed.weight": "positions.table.weight",
}
# the causal triangle was once saved with the weights
IGNORED_NAMES = (
    "h.{n}.attn.bias",
    "h.{n}.attn.masked_bias",
    "position_ids",
    "multiple_choice_head.summary.*",  # of a model with two heads that is loaded for the other one
)


def build_stack(config: ConfigValues, **changes: Any) -> Shape:
    """Return the decoder that both families share: causal, learned positions, no embedding norm."""
    head_width = config["n_embd"] // config["n_head"]
    fields: dict[str, Any] = {
        "vocab_size": config["vocab_size"],
        "width": config["n_embd"],
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "head_width": head_width,
        "score_scale": head_width**-0.5,
        "feed_forward_width": 4 * config["n_embd"],
        "max_length": config["n_positions"],
        "embed_norm": False,
        "eps": config["layer_norm_epsilon"],
        "causal": True,
        "pad_id": config["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=config["embd_pdrop"],
            attention_probs=config["attn_pdrop"],
            attention_output=config["resid_pdrop"],
            feed_forward_output=config["resid_pdrop"],
        ),
        "init_std": config["initializer_range"],
    }
    return Shape(**(fields | changes))


def build_gpt1_stack(config: ConfigValues) -> Shape:
    """Return the decoder of GPT: layer norm after each sub-layer; its GELU is the tanh approximation."""
    return build_stack(config, activation="gelu_new" if config["afn"] == "gelu" else config["afn"])


def build_gpt2_stack(config: ConfigValues) -> Shape:
    """Return the decoder of GPT-2: layer norm before each sub-layer and after the last block."""
    width = config["n_embd"] // config["n_head"]
    return build_stack(
        config,
        feed_forward_width=config["n_inner"] or 4 * config["n_embd"],
        norm_position="before",
        final_norm=True,
        activation=config["activation_function"],
        score_scale=width**-0.5 if config["scale_attn_weights"] else 1.0,
        scale_by_layer=config["scale_attn_by_inverse_layer_idx"],
        init="gpt2",
    )


def check_gpt2(config: ConfigValues) -> str | None:
    """Refuse GPT-2 as the decoder of an encoder-decoder model."""
    if config["add_cross_attention"]:
        return "add_cross_attention describes the decoder of an encoder-decoder model, which is not supported"
    return check_divisible("n_embd", "n_head")(config)


def tag_dropout(config: ConfigValues) -> float:
    """Return the first of the two dropouts that is set, or 0.1."""
    for key in ("classifier_dropout", "hidden_dropout"):
        if config[key] is not None:
            return float(config[key])
    return 0.1


def causal_head(config: ConfigValues, _num_labels: int) -> HeadPlan:
    """Return the language-model head, whose matrix is usually tied to the embeddings."""
    return HeadPlan(
        head=HeadShape(
            kind="causal",
            pooling="each",
            outputs=config["vocab_size"],
            out_bias=False,
            tied=config["tie_word_embeddings"],
        ),
        names={"lm_head.weight": "head.out.weight"},
    )


def classification_head(_config: ConfigValues, num_labels: int) -> HeadPlan:
    """Return the classification head; it reads the last token, the only one that attends to the entire text."""
    return HeadPlan(
        head=HeadShape(kind="classify", pooling="last", outputs=num_labels, out_bias=False),
        names={"score.weight": "head.out.weight"},
    )


def choice_head(config: ConfigValues, _num_labels: int) -> HeadPlan:
    """Return the multiple-choice head: a score from the last token, with the tensor names of the double-heads class."""
    return HeadPlan(
        head=HeadShape(kind="choice", pooling="last", outputs=1, dropout=config["summary_first_dropout"]),
        names={"multiple_choice_head.summary.*": "head.out.*"},
    )


GPT2 = Family(
    model_type="gpt2",
    title="GPT-2",
    prefix="transformer.",
    config_keys=GPT2_KEYS,
    check=check_gpt2,
    build_stack=build_gpt2_stack,
    build_names=lambda model: name_table(GPT2_NAMES, "stack."),
    ignored=IGNORED_NAMES,
    heads={
        "causal": causal_head,
        "classify": classification_head,
        "choice": choice_head,
        "tag": lambda config, num_labels: HeadPlan(
            head=HeadShape(kind="tag", pooling="each", outputs=num_labels, dropout=tag_dropout(config)),
            names={"classifier.*": "head.out.*"},
        ),
        "span": lambda config, num_labels: HeadPlan(
            head=HeadShape(kind="span", pooling="each", outputs=2), names={"qa_outputs.*": "head.out.*"}
        ),
    },
    architectures={
        "GPT2LMHeadModel": "causal",
        "GPT2DoubleHeadsModel": "causal",
        "GPT2ForSequenceClassification": "classify",
        "GPT2ForTokenClassification": "tag",
        "GPT2ForQuestionAnswering": "span",
        "GPT2ForMultipleChoice": "choice",  # not in transformers; GPT2DoubleHeadsModel loads such a folder
    },
    presets=SMALL_PRESETS | {"base": {}, "xl": {"n_embd": 1600, "n_layer": 48, "n_head": 25}},
)

GPT1 = Family(
    model_type="openai-gpt",
    title="OpenAI GPT",
    prefix="transformer.",
    config_keys=GPT1_KEYS,
    check=check_divisible("n_embd", "n_head"),
    build_stack=build_gpt1_stack,
    build_names=lambda model: name_table(GPT1_NAMES, "stack."),
    ignored=IGNORED_NAMES,
    heads={"causal": causal_head, "classify": classification_head, "choice": choice_head},
    architectures={
        "OpenAIGPTLMHeadModel": "causal",
        "OpenAIGPTDoubleHeadsModel": "causal",
        "OpenAIGPTForSequenceClassification": "classify",
        "OpenAIGPTForMultipleChoice": "choice",
    },
    presets={
        name: {key: value for key, value in keys.items() if key != "n_inner"} for name, keys in SMALL_PRESETS.items()
    }
    | {"base": {}},
)
