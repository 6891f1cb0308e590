"""OpenAI GPT and GPT-2: decoders without an encoder; queries, keys and values fused in one transposed matrix."""

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
    unchecked,
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
    "bos_token_id": unchecked(None),
    "eos_token_id": unchecked(None),
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
SIZED = small_presets("n_embd", "n_layer", "n_head", "n_inner")
GPT1_KEYS = KEYS | {
    "vocab_size": positive_int(40478, MAX_VOCAB),
    "n_positions": positive_int(512, MAX_POSITIONS, "max_position_embeddings"),
    "afn": one_of("gelu", "gelu", "relu", "silu", "swish"),
}

BLOCKS: dict[str, str | TensorTarget] = {
    "h.{n}.ln_1.*": "blocks.{n}.attend.norm.*",
    "h.{n}.ln_2.*": "blocks.{n}.feed.norm.*",
    "h.{n}.attn.c_attn.*": TensorTarget(
        tuple(f"blocks.{{n}}.attend.inner.{part}.*" for part in "qkv"), transposed=True
    ),
    "h.{n}.attn.c_proj.*": TensorTarget(("blocks.{n}.attend.inner.out.*",), transposed=True),
    "h.{n}.mlp.c_fc.*": TensorTarget(("blocks.{n}.feed.inner.up.*",), transposed=True),
    "h.{n}.mlp.c_proj.*": TensorTarget(("blocks.{n}.feed.inner.down.*",), transposed=True),
}
GPT2_NAMES = BLOCKS | {
    "wte.weight": "embed.token.weight",
    "wpe.weight": "positions.table.weight",
    "ln_f.*": "norm.*",
}
GPT1_NAMES = BLOCKS | {"tokens_embed.weight": "embed.token.weight", "positions_embed.weight": "positions.table.weight"}
# the causal triangle was once saved with the weights
IGNORED = (
    "h.{n}.attn.bias",
    "h.{n}.attn.masked_bias",
    "position_ids",
    "multiple_choice_head.summary.*",  # of a model with two heads that is loaded for the other one
)


def stack(v: ConfigValues, **changes: Any) -> Shape:
    """What both have in common: causal, learned positions, no embedding norm."""
    head_width = v["n_embd"] // v["n_head"]
    fields: dict[str, Any] = {
        "vocab_size": v["vocab_size"],
        "width": v["n_embd"],
        "layers": v["n_layer"],
        "heads": v["n_head"],
        "head_width": head_width,
        "score_scale": head_width**-0.5,
        "feed_forward_width": 4 * v["n_embd"],
        "max_length": v["n_positions"],
        "embed_norm": False,
        "eps": v["layer_norm_epsilon"],
        "causal": True,
        "pad_id": v["pad_token_id"],
        "dropouts": DropoutRates(
            embedding=v["embd_pdrop"],
            attention_probs=v["attn_pdrop"],
            attention_output=v["resid_pdrop"],
            feed_forward_output=v["resid_pdrop"],
        ),
        "init_std": v["initializer_range"],
    }
    return Shape(**(fields | changes))


def gpt1_stack(v: ConfigValues) -> Shape:
    """Norm after, as in the 2017 decoder; its gelu is the tanh form."""
    return stack(v, activation="gelu_new" if v["afn"] == "gelu" else v["afn"])


def gpt2_stack(v: ConfigValues) -> Shape:
    """Norm before, and one more at the end."""
    width = v["n_embd"] // v["n_head"]
    return stack(
        v,
        feed_forward_width=v["n_inner"] or 4 * v["n_embd"],
        norm_position="before",
        final_norm=True,
        activation=v["activation_function"],
        score_scale=width**-0.5 if v["scale_attn_weights"] else 1.0,
        scale_by_layer=v["scale_attn_by_inverse_layer_idx"],
        init="gpt2",
    )


def gpt2_check(v: ConfigValues) -> str | None:
    """GPT-2 as the decoder of a pair is another model."""
    if v["add_cross_attention"]:
        return "add_cross_attention makes it the decoder of a pair, which is not supported"
    return check_divisible("n_embd", "n_head")(v)


def tag_dropout(v: ConfigValues) -> float:
    """The first of the two dropouts that is set, or a tenth."""
    for key in ("classifier_dropout", "hidden_dropout"):
        if v[key] is not None:
            return float(v[key])
    return 0.1


def causal(v: ConfigValues, _labels: int) -> HeadPlan:
    """The next word, from the word table."""
    return HeadPlan(
        head=HeadShape(
            kind="causal", pooling="each", outputs=v["vocab_size"], out_bias=False, tied=v["tie_word_embeddings"]
        ),
        names={"lm_head.weight": "head.out.weight"},
    )


def classify(_v: ConfigValues, labels: int) -> HeadPlan:
    """Only the last token has seen the whole text."""
    return HeadPlan(
        head=HeadShape(kind="classify", pooling="last", outputs=labels, out_bias=False),
        names={"score.weight": "head.out.weight"},
    )


def choice(v: ConfigValues, _labels: int) -> HeadPlan:
    """A score for each option, from the last token; the tensors are those of the class with two heads."""
    return HeadPlan(
        head=HeadShape(kind="choice", pooling="last", outputs=1, dropout=v["summary_first_dropout"]),
        names={"multiple_choice_head.summary.*": "head.out.*"},
    )


GPT2 = Family(
    model_type="gpt2",
    title="GPT-2",
    prefix="transformer.",
    config_keys=GPT2_KEYS,
    check=gpt2_check,
    build_stack=gpt2_stack,
    build_names=lambda model: name_table(GPT2_NAMES, "stack."),
    ignored=IGNORED,
    heads={
        "causal": causal,
        "classify": classify,
        "choice": choice,
        "tag": lambda v, n: HeadPlan(
            head=HeadShape(kind="tag", pooling="each", outputs=n, dropout=tag_dropout(v)),
            names={"classifier.*": "head.out.*"},
        ),
        "span": lambda v, n: HeadPlan(
            head=HeadShape(kind="span", pooling="each", outputs=2), names={"qa_outputs.*": "head.out.*"}
        ),
    },
    architectures={
        "GPT2LMHeadModel": "causal",
        "GPT2DoubleHeadsModel": "causal",
        "GPT2ForSequenceClassification": "classify",
        "GPT2ForTokenClassification": "tag",
        "GPT2ForQuestionAnswering": "span",
        "GPT2ForMultipleChoice": "choice",  # no class of transformers: GPT2DoubleHeadsModel reads such a folder
    },
    presets=SIZED | {"base": {}, "xl": {"n_embd": 1600, "n_layer": 48, "n_head": 25}},
)

GPT1 = Family(
    model_type="openai-gpt",
    title="OpenAI GPT",
    prefix="transformer.",
    config_keys=GPT1_KEYS,
    check=check_divisible("n_embd", "n_head"),
    build_stack=gpt1_stack,
    build_names=lambda model: name_table(GPT1_NAMES, "stack."),
    ignored=IGNORED,
    heads={"causal": causal, "classify": classify, "choice": choice},
    architectures={
        "OpenAIGPTLMHeadModel": "causal",
        "OpenAIGPTDoubleHeadsModel": "causal",
        "OpenAIGPTForSequenceClassification": "classify",
        "OpenAIGPTForMultipleChoice": "choice",
    },
    presets={name: {key: value for key, value in keys.items() if key != "n_inner"} for name, keys in SIZED.items()}
    | {"base": {}},
)
