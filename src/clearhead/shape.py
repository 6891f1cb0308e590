"""Architectures as frozen values: Shape, HeadShape, ModelShape, Pooling. Needs no torch.

`families` converts a config.json to these values, and `core` builds modules from them without knowing the family. Every
field is needed by a parity test against `transformers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PositionScheme = Literal["none", "learned", "sinusoidal", "sinusoidal_halves"]
RelativeScheme = Literal["none", "buckets", "rotary", "disentangled"]
HeadPooling = Literal["pooled", "first", "last", "mean", "each"]
CellKind = Literal["gru", "lstm"]
AttentionScore = Literal["none", "additive", "dot", "general", "concat"]
HeadKind = Literal["classify", "tag", "span", "choice", "masked", "next", "replaced", "causal", "seq2seq", "bilm"]


@dataclass(frozen=True, kw_only=True)
class DropoutRates:
    """Dropout probabilities at all positions where some family has dropout."""

    embedding: float = 0.0  # after the embedding norm
    attention_probs: float = 0.0  # after the softmax
    attention_output: float = 0.0  # output of an attention sub-layer
    feed_forward_output: float = 0.0  # output of a feed-forward sub-layer
    feed_forward_hidden: float = 0.0  # between the two feed-forward matrices
    final_norm: float = 0.0  # after the last norm (T5)
    relative_positions: float = 0.0  # relative position embeddings (DeBERTa)
    between_layers: float = 0.0  # between recurrent layers


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """Recurrent layers (GRU or LSTM) in place of Transformer blocks."""

    cell: CellKind = "gru"
    bidirectional: bool = False  # an encoder with two directions, each with half the width
    independent_directions: bool = False  # two separate stacks, one per direction (ELMo)
    residual: bool = False  # layers above the first add their input to their output (ELMo)
    score: AttentionScore = "none"  # score function of the decoder's attention; none: no attention
    score_width: int = 0  # hidden width of additive and concat scores
    input_feeding: bool = False  # the attention output is an input of the next step


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A stack of layers: an encoder, a decoder-only model, or the decoder of an encoder-decoder model."""

    vocab_size: int
    width: int
    layers: int
    heads: int
    feed_forward_width: int
    head_width: int  # usually width / heads; independent in T5
    max_length: int | None = 512  # size of the position table; None: no limit

    # token embeddings
    embed_width: int | None = None  # of narrower embeddings (ELECTRA, ALBERT); None: width
    project: Literal["none", "after", "before"] = "none"  # projection to width, after or before the embedding norm
    project_bias: bool = True
    embed_norm: bool = True
    embed_scale: float = 1.0  # sqrt(width) in the 2017 Transformer and Marian
    segments: int = 0
    pad_id: int | None = 0
    pad_learned: bool = True  # Marian's decoder starts with the padding token, whose embedding is fixed

    # positions
    positions: PositionScheme = "learned"  # added to the token embeddings
    position_offset: int = 0  # RoBERTa's position ids start at pad_id + 1 and skip padding
    relative: RelativeScheme = "none"  # applied to queries, keys or scores
    buckets: int = 32
    bucket_max_distance: int = 128
    bucket_rows: int | None = None  # rows of the table if larger than `buckets` (MPNet)
    rope_theta: float = 10_000.0  # rotary base of global layers
    local_rope_theta: float = 10_000.0  # rotary base of local layers
    relative_terms: tuple[str, ...] = ()  # DeBERTa: "c2p", "p2c"
    relative_span: int = 0  # DeBERTa: half the rows of the relative position table
    relative_max_distance: int = 0  # DeBERTa: maximum distance for log buckets
    log_buckets: bool = False
    relative_norm: bool = False
    share_projections: bool = False  # DeBERTa: W_Q and W_K of the content also project positions

    # blocks
    norm: Literal["layer", "rms"] = "layer"
    norm_bias: bool = True
    eps: float = 1e-12
    norm_position: Literal["after", "before"] = "after"
    first_norm: bool = True  # False in ModernBERT: no norm before the first attention
    final_norm: bool = False
    attention_bias: bool = True
    feed_forward_bias: bool = True
    feed_forward: Literal["plain", "gated"] = "plain"
    activation: str = "gelu"
    score_scale: float = 0.125  # 1/sqrt(head_width); 1 in T5, 1/sqrt(3 head_width) in DeBERTa
    scale_by_layer: bool = False  # GPT-2 option: also divide scores by the layer number
    causal: bool = False
    cross: bool = False
    block_order: tuple[int, ...] = ()  # the block of each layer (ALBERT shares blocks); empty: one block per layer
    group_size: int = 1  # consecutive blocks that are shared together (ALBERT's inner groups)
    window: int | None = None
    local_layers: tuple[bool, ...] = ()  # whether each layer only attends to the window
    conv_kernel: int = 0  # kernel size of DeBERTa's convolution, parallel to the first block
    conv_groups: int = 1
    conv_activation: str = "tanh"
    dropouts: DropoutRates = DropoutRates()
    recurrent: Recurrence | None = None  # None: Transformer blocks

    # initialization
    init: Literal["normal", "truncated", "gpt2", "t5", "xavier", "recurrent"] = "normal"
    init_std: float = 0.02

    @property
    def block_of_layer(self) -> tuple[int, ...]:
        """The index of the block that each layer runs."""
        return self.block_order or tuple(range(self.layers))

    @property
    def blocks(self) -> int:
        """The number of distinct blocks."""
        return max(self.block_of_layer) + 1 if self.layers else 0

    @property
    def token_width(self) -> int:
        """The width of the token embeddings."""
        return self.embed_width or self.width

    def is_local(self, layer: int) -> bool:
        """Whether this layer only attends to a window."""
        return bool(self.local_layers) and self.local_layers[layer]


@dataclass(frozen=True, kw_only=True)
class PoolerShape:
    """The pooler: a dense layer on the first token, which BERT trains with next-sentence prediction."""

    activation: str = "tanh"
    dropout: float = 0.0  # before the dense layer (DeBERTa)


@dataclass(frozen=True, kw_only=True)
class HeadShape:
    """A head on the last hidden states: pooling, dense layer, activation, norm, output layer."""

    kind: HeadKind
    pooling: HeadPooling
    outputs: int
    dense: int | None = None  # width of the dense layer; None: no dense layer
    dense_bias: bool = True
    activation: str | None = None
    norm: bool = False
    norm_bias: bool = True
    eps: float = 1e-12
    out_bias: bool = True
    out_bias_learned: bool = True  # False in Marian, whose bias is constant
    tied: bool = False  # the output matrix is the token embedding matrix
    scale: float = 1.0  # of the hidden states; 1/sqrt(width) in T5 v1.0
    dropout_first: float = 0.0  # before the dense layer
    dropout: float = 0.0  # before the output layer

    @property
    def classifier_pooling(self) -> Literal["first", "last", "mean"] | None:
        """The pooling of a classification head; None for other heads."""
        if self.kind != "classify" or self.pooling == "each":
            return None
        return "first" if self.pooling == "pooled" else self.pooling


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A complete model: encoder, decoder or both, with pooler and heads."""

    family: str
    stack: Shape
    decoder: Shape | None = None
    share_embeddings: bool = True  # the decoder uses the encoder's token embeddings
    pooler: PoolerShape | None = None
    head: HeadShape | None = None
    second_head: HeadShape | None = None  # next-sentence head beside the masked-language-model head
    decoder_start_id: int | None = None  # first token of the decoder's input

    @property
    def head_pooling(self) -> Literal["first", "last", "mean"] | None:
        """The pooling of the classification head: first token, last token or mean; None if there is no such head."""
        return None if self.head is None else self.head.classifier_pooling

    @property
    def top(self) -> Shape:
        """The stack below the head."""
        return self.decoder or self.stack


@dataclass(frozen=True, kw_only=True)
class DenseShape:
    """A dense layer after pooling, as in sentence-transformers."""

    inputs: int
    outputs: int
    bias: bool = True
    activation: str = "tanh"


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """How hidden states become one vector per text: layer, pooling modes, dense layers, normalization."""

    modes: tuple[str, ...] = ("mean",)  # concatenated in this order
    layer: str = "last"
    dense: tuple[DenseShape, ...] = ()
    normalize: bool = False
    include_prompt: bool = True  # False: the tokens of a prompt are not pooled
    prompts: tuple[tuple[str, str], ...] = ()
    default_prompt: str | None = None
    max_length: int | None = None
    lowercase: bool = False
    origin: str = "default"  # source of these settings, for `describe`


POOLING_MODES = ("cls", "pooler", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
POOLING_LAYERS = ("first", "last", "second_to_last", "sum_all", "sum_last_four", "concat_last_four")
