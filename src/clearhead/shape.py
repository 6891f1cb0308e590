"""Shape, HeadShape and their kin: every architecture is one frozen value, without torch.

A family file turns a `config.json` into these values; `core` builds modules from them and never asks which family it
is building. A field is here because a parity test against `transformers` needs it.
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
    """How often a value is dropped in training, at each place where some family drops."""

    embedding: float = 0.0  # after the embedding norm
    attention_probs: float = 0.0  # attention probabilities
    attention_output: float = 0.0  # what an attention sub-layer adds
    feed_forward_output: float = 0.0  # what a feed-forward sub-layer adds
    feed_forward_hidden: float = 0.0  # between the two feed-forward matrices
    final_norm: float = 0.0  # after the last norm (T5)
    relative_positions: float = 0.0  # the relative-position vectors (DeBERTa)
    between_layers: float = 0.0  # from one recurrent layer to the next


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """Layers that read one word after the other and keep a state between them, where a Transformer has blocks."""

    cell: CellKind = "gru"
    bidirectional: bool = False  # an encoder that reads from the end as well; each direction has half the width
    independent_directions: bool = False  # two directions that never see each other (ELMo)
    residual: bool = False  # what a layer above the first reads is added to what it says (ELMo)
    score: AttentionScore = "none"  # how a decoder's state is compared with each encoder state; none: no attention
    score_width: int = 0  # the hidden width of additive and concat scores
    input_feeding: bool = False  # what attention made of a step is read again with the next word


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One stack of blocks: an encoder, a GPT, or the decoder of a pair."""

    vocab_size: int
    width: int
    layers: int
    heads: int
    feed_forward_width: int
    head_width: int  # width / heads nearly everywhere; free in T5
    max_length: int | None = 512  # the longest text the positions can number; None: no limit

    # words
    embed_width: int | None = None  # narrower word vectors (ELECTRA, ALBERT); None: width
    project: Literal["none", "after", "before"] = "none"  # to width, after or before the embedding norm
    project_bias: bool = True
    embed_norm: bool = True
    embed_scale: float = 1.0  # sqrt(width) in the 2017 Transformer and Marian
    segments: int = 0
    pad_id: int | None = 0
    pad_learned: bool = True  # Marian's decoder starts with padding, whose vector stays as it is

    # positions
    positions: PositionScheme = "learned"  # added to the word vectors
    position_offset: int = 0  # RoBERTa counts from pad + 1 and skips padding
    relative: RelativeScheme = "none"  # acting on queries, keys or scores
    buckets: int = 32
    bucket_max_distance: int = 128
    bucket_rows: int | None = None  # rows of the table when it is larger than `buckets` (MPNet)
    rope_theta: float = 10_000.0  # rotary base of layers that see everything
    local_rope_theta: float = 10_000.0  # rotary base of layers that see a window
    relative_terms: tuple[str, ...] = ()  # DeBERTa: "c2p", "p2c"
    relative_span: int = 0  # DeBERTa: half the rows of its relative table
    relative_max_distance: int = 0  # DeBERTa: the largest distance, for log buckets
    log_buckets: bool = False
    relative_norm: bool = False
    share_projections: bool = False  # DeBERTa: positions go through the words' own W_Q and W_K

    # blocks
    norm: Literal["layer", "rms"] = "layer"
    norm_bias: bool = True
    eps: float = 1e-12
    norm_position: Literal["after", "before"] = "after"
    first_norm: bool = True  # ModernBERT has none before its first attention
    final_norm: bool = False
    attention_bias: bool = True
    feed_forward_bias: bool = True
    feed_forward: Literal["plain", "gated"] = "plain"
    activation: str = "gelu"
    score_scale: float = 0.125  # 1/sqrt(head_width); 1 in T5; 1/sqrt(3 head_width) in DeBERTa
    scale_by_layer: bool = False  # GPT-2 option: divide by the layer's number as well
    causal: bool = False
    cross: bool = False
    block_order: tuple[int, ...] = ()  # which block each layer uses (ALBERT shares); empty: its own
    group_size: int = 1  # blocks in a row that are shared together (ALBERT's inner groups)
    window: int | None = None
    local_layers: tuple[bool, ...] = ()  # which layers see only the window
    conv_kernel: int = 0  # DeBERTa's convolution beside the first block
    conv_groups: int = 1
    conv_activation: str = "tanh"
    dropouts: DropoutRates = DropoutRates()
    recurrent: Recurrence | None = None  # the layers are recurrent, not blocks

    # fresh weights
    init: Literal["normal", "truncated", "gpt2", "t5", "xavier", "recurrent"] = "normal"
    init_std: float = 0.02

    @property
    def block_of_layer(self) -> tuple[int, ...]:
        """The block that each layer runs."""
        return self.block_order or tuple(range(self.layers))

    @property
    def blocks(self) -> int:
        """How many different blocks there are."""
        return max(self.block_of_layer) + 1 if self.layers else 0

    @property
    def token_width(self) -> int:
        """The width of a word vector as it lies in the table."""
        return self.embed_width or self.width

    def is_local(self, layer: int) -> bool:
        """Whether this layer sees only a window."""
        return bool(self.local_layers) and self.local_layers[layer]


@dataclass(frozen=True, kw_only=True)
class PoolerShape:
    """The dense step on the first token that BERT trains with next sentence."""

    activation: str = "tanh"
    dropout: float = 0.0  # before the dense step (DeBERTa)


@dataclass(frozen=True, kw_only=True)
class HeadShape:
    """What stands on the last hidden state: pick, dense, activation, norm, out."""

    kind: HeadKind
    pooling: HeadPooling
    outputs: int
    dense: int | None = None  # width of the step before the output; None: no such step
    dense_bias: bool = True
    activation: str | None = None
    norm: bool = False
    norm_bias: bool = True
    eps: float = 1e-12
    out_bias: bool = True
    out_bias_learned: bool = True  # Marian's is a constant, which stays as it is
    tied: bool = False  # the output matrix is the word table
    scale: float = 1.0  # T5 v1.0 multiplies by 1/sqrt(width)
    dropout_first: float = 0.0  # before the dense step
    dropout: float = 0.0  # before the output

    @property
    def classifier_pooling(self) -> Literal["first", "last", "mean"] | None:
        """What a classification head reads; None of other heads."""
        if self.kind != "classify" or self.pooling == "each":
            return None
        return "first" if self.pooling == "pooled" else self.pooling


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A whole model: its stack or pair of stacks, and what stands on top."""

    family: str
    stack: Shape
    decoder: Shape | None = None
    share_embeddings: bool = True  # the decoder uses the encoder's word table
    pooler: PoolerShape | None = None
    head: HeadShape | None = None
    second_head: HeadShape | None = None  # next sentence beside masked words
    decoder_start_id: int | None = None  # the token that a decoder begins with

    @property
    def head_pooling(self) -> Literal["first", "last", "mean"] | None:
        """What a classification head reads: the first token's state, the last, or the mean; None: no such head."""
        return None if self.head is None else self.head.classifier_pooling

    @property
    def top(self) -> Shape:
        """The stack that the head stands on."""
        return self.decoder or self.stack


@dataclass(frozen=True, kw_only=True)
class DenseShape:
    """A dense step after pooling, as sentence-transformers has it."""

    inputs: int
    outputs: int
    bias: bool = True
    activation: str = "tanh"


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """From hidden states to one vector per text: which layer, which tokens, what then."""

    modes: tuple[str, ...] = ("mean",)  # concatenated in this order
    layer: str = "last"
    dense: tuple[DenseShape, ...] = ()
    normalize: bool = False
    include_prompt: bool = True  # False: prompt tokens are left out of the pooled ones
    prompts: tuple[tuple[str, str], ...] = ()
    default_prompt: str | None = None
    max_length: int | None = None
    lowercase: bool = False
    origin: str = "nothing said, so the mean"  # where this choice comes from, for `describe`


POOLING_MODES = ("cls", "pooler", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
POOLING_LAYERS = ("first", "last", "second_to_last", "sum_all", "sum_last_four", "concat_last_four")
