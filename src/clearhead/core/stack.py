"""A stack: embedding, positions, blocks, final norm. Its Shape makes it an encoder, a GPT or a decoder."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from clearhead.core.attention import MASKED_SCORE, AttentionInputs, Cache, Kernel, NoCache, fused_attention
from clearhead.core.block import Block, build_norm
from clearhead.core.layers import EmbeddingTable, Linear
from clearhead.core.layout import Layout, PaddedLayout
from clearhead.core.positions import NoPositions, build_positions, build_relative_scheme
from clearhead.shape import Shape


class Embedding(nn.Module):
    """Maps tokens and segments to vectors, with positions, norm, and a projection if the embeddings are narrower."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, project_first = shape.token_width, shape.project == "before"
        self.scale = shape.embed_scale
        is_pad_fixed = not shape.pad_learned and shape.pad_id is not None and shape.pad_id < shape.vocab_size
        self.token = EmbeddingTable(shape.vocab_size, width, padding_idx=shape.pad_id if is_pad_fixed else None)
        self.segment = EmbeddingTable(shape.segments, width) if shape.segments else None
        projection = Linear(width, shape.width, shape.project_bias) if shape.project != "none" else nn.Identity()
        self.project = projection
        self.norm = build_norm(shape, shape.width if project_first else width) if shape.embed_norm else nn.Identity()
        self.dropout = nn.Dropout(shape.dropouts.embedding)
        # DeBERTa projects first and normalizes the wide vectors; ELECTRA and ALBERT normalize the narrow ones
        self.steps = ("project", "norm", "dropout") if project_first else ("norm", "dropout", "project")

    def forward(
        self, ids: Tensor, segments: Tensor | None, positions: Tensor, layout: Layout, position_scheme: NoPositions
    ) -> Tensor:
        x = self.token(ids) * self.scale
        if self.segment is not None:
            x = x + self.segment(torch.zeros_like(ids) if segments is None else segments)
        x = position_scheme(x, ids, positions, layout)
        for step in self.steps:
            x = getattr(self, step)(x)
        return x


class Stack(nn.Module):
    """Embedding, positions and blocks."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = Embedding(shape)
        self.positions = build_positions(shape)
        self.relative = build_relative_scheme(shape)
        self.blocks = nn.ModuleList(Block(shape, index) for index in range(shape.blocks))
        self.norm = build_norm(shape, shape.width) if shape.final_norm else nn.Identity()
        self.dropout = nn.Dropout(shape.dropouts.final_norm)

    def visible_keys(self, present: Tensor | None, queries: Tensor, keys: Tensor, *, local: bool) -> Tensor | None:
        """Which keys each query may attend to, (1|batch, 1, 1|q, k); None: all."""
        rules = []
        if present is not None:
            rules.append(present[:, None, None, :].bool())
        if self.shape.causal:  # causal mask: a token attends only to itself and earlier tokens
            rules.append(keys[:, None, None, :] <= queries[:, None, :, None])
        if local and self.shape.window is not None:
            gap = (keys[:, None, None, :] - queries[:, None, :, None]).abs()
            rules.append(gap <= self.shape.window // 2)
        if not rules:
            return None
        visible = rules[0]
        for rule in rules[1:]:
            visible = visible & rule
        return visible

    def attention_bias(self, present: Tensor | None, queries: Tensor, keys: Tensor, *, local: bool) -> Tensor | None:
        """Combine the mask and the shared position bias into one bias to add to the scores."""
        visible = self.visible_keys(present, queries, keys, local=local)
        bias = self.relative.shared_bias(queries, keys)
        return apply_mask(visible, bias, self.embed.token.weight.dtype)

    def forward(
        self,
        ids: Tensor,
        layout: Layout,
        segments: Tensor | None = None,
        *,
        kernel: Kernel = fused_attention,
        part: str = "encoder",
        head_scale: Tensor | None = None,
        cross_scale: Tensor | None = None,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        cache: Cache | None = None,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        present: Tensor | None = None,
        query_index: Tensor | None = None,
    ) -> list[Tensor]:
        """Compute all hidden states, embeddings first; the last layer computes only `query_index` if given."""
        queries = layout.positions if positions is None else positions
        keys = queries if key_positions is None else key_positions
        present = layout.present if present is None else present
        x = self.embed(
            ids, segments, layout.token_positions if positions is None else positions, layout, self.positions
        )
        inputs = AttentionInputs(
            query_layout=layout,
            query_positions=queries,
            input_layout=layout,
            input_positions=queries,
            key_positions=keys,
            global_bias=self.attention_bias(present, queries, keys, local=False),
            local_bias=self.attention_bias(present, queries, keys, local=True)
            if any(self.shape.local_layers)
            else None,
            relative=self.relative,
            kernel=kernel,
            cache=NoCache() if cache is None else cache,
            part=part,
            head_scale=head_scale,
            cross_scale=cross_scale,
            memory=memory,
            memory_layout=memory_layout,
            memory_bias=None if memory_layout is None else build_memory_bias(memory_layout, x.dtype),
        )
        hidden = [x]
        for layer, block in enumerate(self.shape.block_of_layer):
            if query_index is not None and layer == len(self.shape.block_of_layer) - 1:
                inputs = self.restrict_queries(inputs, query_index, present, layer)
            hidden.append(self.blocks[block](hidden[-1], inputs, layer))
        hidden[-1] = self.dropout(self.norm(hidden[-1]))
        return hidden

    def restrict_queries(
        self, inputs: AttentionInputs, query_index: Tensor, present: Tensor | None, layer: int
    ) -> AttentionInputs:
        """Restrict the queries of the last layer to the tokens that the head reads."""
        bias = self.attention_bias(present, query_index, inputs.key_positions, local=self.shape.is_local(layer))
        return replace(
            inputs,
            query_layout=PaddedLayout(query_index, None),
            query_positions=query_index,
            global_bias=bias,
            local_bias=bias,
            query_index=query_index,
        )


def apply_mask(visible: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Add a mask to a bias: masked scores become so low that their probability is exactly zero."""
    if visible is None:
        return None if bias is None else bias.to(dtype)
    masked_score = max(MASKED_SCORE, torch.finfo(dtype).min / 2)
    if bias is None:
        return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, masked_score)
    return torch.where(visible, bias.to(dtype), masked_score)


def build_memory_bias(layout: Layout, dtype: torch.dtype) -> Tensor | None:
    """Build the bias that masks the encoder's padding, the same for every query."""
    visible = None if layout.present is None else layout.present[:, None, None, :].bool()
    return apply_mask(visible, None, dtype)
