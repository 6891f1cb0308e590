"""ELMo: a forward and a backward LSTM language model over the same words (Peters et al. 2018).

The paper builds word vectors from characters; here a word is what the tokenizer makes of it, as in every other family,
so that its features stand beside theirs. `transformers` has no ELMo: the names of its folders are our own,
`embedding.weight`, `forward.weight_ih_l0`, `backward.weight_hh_l1`, ..., `output.bias`, one LSTM for each direction.
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
    "width": positive_int(1024),  # of a hidden state; each direction has half of it, and so has a word vector
    "layers": positive_int(2, MAX_LAYERS),
    "residual": boolean(True),  # what a layer above the first reads is added to what it says
    "dropout": probability(0.1),  # of words, between layers, and before the output
    "classifier_dropout": probability(0.1),
    "tie_word_embeddings": boolean(True),
    "output_bias": boolean(True),
    "pad_token_id": optional_token_id(0),
}


def check(v: ConfigValues) -> str | None:
    """Two directions share the width."""
    return f"width {v['width']} is odd, and two directions share it evenly" if v["width"] % 2 else None


def stack(v: ConfigValues) -> Shape:
    """Layers of cells in both directions, which never see each other."""
    return Shape(
        vocab_size=v["vocab_size"],
        width=v["width"],
        embed_width=v["width"] // 2,
        layers=v["layers"],
        heads=1,
        head_width=v["width"],
        score_scale=1.0,
        feed_forward_width=0,
        max_length=None,
        positions="none",
        embed_norm=False,
        pad_id=v["pad_token_id"],
        dropouts=DropoutRates(embedding=v["dropout"], between_layers=v["dropout"]),
        recurrent=Recurrence(cell="lstm", bidirectional=True, independent_directions=True, residual=v["residual"]),
        init="recurrent",
    )


def bilm(v: ConfigValues, _labels: int) -> HeadPlan:
    """The word after and the word before, by one matrix for both directions."""
    return HeadPlan(
        head=HeadShape(
            kind="bilm",
            pooling="each",
            outputs=v["vocab_size"],
            out_bias=v["output_bias"],
            tied=v["tie_word_embeddings"],
            dropout_first=v["dropout"],
        ),
        names={"output.*": "head.out.*"},
    )


def names(_model: ModelShape) -> dict[str, TensorTarget]:
    """Each direction under the names that torch gives an LSTM of several layers."""
    rows = {"embedding.weight": "stack.embed.token.weight"}
    for theirs, ours in (("forward", "forth"), ("backward", "back")):
        for leaf in (f"{kind}_{part}" for kind in ("weight", "bias") for part in ("ih", "hh")):
            rows[f"{theirs}.{leaf}_l{{n}}"] = f"stack.layers.{{n}}.{ours}.{leaf}_l0"
    return name_table(rows)


FAMILY = Family(
    model_type="elmo",
    title="ELMo",
    prefix="",
    config_keys=KEYS,
    check=check,
    build_stack=stack,
    build_names=names,
    heads={
        "bilm": bilm,
        "classify": lambda v, n: HeadPlan(
            head=HeadShape(kind="classify", pooling="mean", outputs=n, dropout=v["classifier_dropout"]),
            names={"classifier.*": "head.out.*"},
        ),
        "tag": lambda v, n: HeadPlan(
            head=HeadShape(kind="tag", pooling="each", outputs=n, dropout=v["classifier_dropout"]),
            names={"classifier.*": "head.out.*"},
        ),
        "span": lambda v, n: HeadPlan(
            head=HeadShape(kind="span", pooling="each", outputs=2), names={"qa_outputs.*": "head.out.*"}
        ),
        "choice": lambda v, n: HeadPlan(
            head=HeadShape(kind="choice", pooling="mean", outputs=1, dropout=v["classifier_dropout"]),
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
