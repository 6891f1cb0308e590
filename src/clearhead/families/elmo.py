"""ELMo: a forward and a backward LSTM language model over the same text (Peters et al. 2018).

The paper computes token embeddings from characters. Here tokens come from the tokenizer as in every other family, so
that features are comparable. `transformers` has no ELMo, so the tensor names are Clearhead's own, with one LSTM per
direction: `embedding.weight`, `forward.weight_ih_l0`, `backward.weight_hh_l1`, ..., `output.bias`.
"""

from __future__ import annotations

from clearhead.families.family import (
    MAX_LAYERS,
    MAX_VOCAB,
    ConfigValues,
    Family,
    HeadPlan,
    TensorTarget,
    boolean,
    name_table,
    optional_token_id,
    positive_int,
    probability,
)
from clearhead.shape import DropoutRates, HeadShape, ModelShape, Recurrence, Shape

KEYS = {
    "vocab_size": positive_int(30522, MAX_VOCAB),
    "width": positive_int(1024),  # of a hidden state; embeddings and each direction have half of it
    "layers": positive_int(2, MAX_LAYERS),
    "residual": boolean(True),  # layers above the first add their input to their output
    "dropout": probability(0.1),  # of embeddings, between layers, and before the output
    "classifier_dropout": probability(0.1),
    "tie_word_embeddings": boolean(True),
    "output_bias": boolean(True),
    "pad_token_id": optional_token_id(0),
}


def check_config(config: ConfigValues) -> str | None:
    """Check that the two directions can share the width."""
    return f"width must be even because two directions share it, got {config['width']}" if config["width"] % 2 else None


def build_stack(config: ConfigValues) -> Shape:
    """Return two independent stacks of LSTM layers, one per direction."""
    return Shape(
        vocab_size=config["vocab_size"],
        width=config["width"],
        embed_width=config["width"] // 2,
        layers=config["layers"],
        heads=1,
        head_width=config["width"],
        score_scale=1.0,
        feed_forward_width=0,
        max_length=None,
        positions="none",
        embed_norm=False,
        pad_id=config["pad_token_id"],
        dropouts=DropoutRates(embedding=config["dropout"], between_layers=config["dropout"]),
        recurrent=Recurrence(cell="lstm", bidirectional=True, independent_directions=True, residual=config["residual"]),
        init="recurrent",
    )


def bilm_head(config: ConfigValues, _num_labels: int) -> HeadPlan:
    """Return the language-model head: one output matrix predicts the next and the previous token."""
    return HeadPlan(
        head=HeadShape(
            kind="bilm",
            pooling="each",
            outputs=config["vocab_size"],
            out_bias=config["output_bias"],
            tied=config["tie_word_embeddings"],
            dropout_first=config["dropout"],
        ),
        names={"output.*": "head.out.*"},
    )


def build_names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Return the tensor names; each direction has those of a multi-layer `torch.nn.LSTM`."""
    names = {"embedding.weight": "stack.embed.token.weight"}
    for stored_direction, direction in (("forward", "forth"), ("backward", "back")):
        for leaf in (f"{kind}_{part}" for kind in ("weight", "bias") for part in ("ih", "hh")):
            names[f"{stored_direction}.{leaf}_l{{n}}"] = f"stack.layers.{{n}}.{direction}.{leaf}_l0"
    return name_table(names)


FAMILY = Family(
    model_type="elmo",
    title="ELMo",
    prefix="",
    config_keys=KEYS,
    check=check_config,
    build_stack=build_stack,
    build_names=build_names,
    heads={
        "bilm": bilm_head,
        "classify": lambda config, num_labels: HeadPlan(
            head=HeadShape(kind="classify", pooling="mean", outputs=num_labels, dropout=config["classifier_dropout"]),
            names={"classifier.*": "head.out.*"},
        ),
        "tag": lambda config, num_labels: HeadPlan(
            head=HeadShape(kind="tag", pooling="each", outputs=num_labels, dropout=config["classifier_dropout"]),
            names={"classifier.*": "head.out.*"},
        ),
        "span": lambda config, num_labels: HeadPlan(
            head=HeadShape(kind="span", pooling="each", outputs=2), names={"qa_outputs.*": "head.out.*"}
        ),
        "choice": lambda config, num_labels: HeadPlan(
            head=HeadShape(kind="choice", pooling="mean", outputs=1, dropout=config["classifier_dropout"]),
            names={"classifier.*": "head.out.*"},
        ),
    },
    own_poolings={"mean": {}},
    architectures={
        "ElmoForLanguageModel": "bilm",
        "ElmoForSequenceClassification": "classify",
        "ElmoForTokenClassification": "tag",
        "ElmoForQuestionAnswering": "span",
        "ElmoForMultipleChoice": "choice",
    },
    presets={"tiny": {"width": 128}, "mini": {"width": 256}, "small": {"width": 512}, "base": {}},
)
