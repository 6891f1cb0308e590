"""A stack: words, positions, blocks, final norm. An encoder, a GPT, or the decoder of a pair, as its Shape says."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from clearhead.core import positions
from clearhead.core.attention import LOW, AttentionInputs, Cache, Kernel, NoCache, fused_attention
from clearhead.core.block import Block, build_norm
from clearhead.core.layers import EmbeddingTable, Linear
from clearhead.core.layout import Layout, PaddedLayout
from clearhead.shape import Shape


class Embedding(nn.Module):
    """Words (and segments) to vectors, with positions, norm, and a projection where words are narrower."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        words, before = shape.token_width, shape.project == "before"
        self.scale = shape.embed_scale
        still = None if shape.pad_learned or shape.pad_id is None or shape.pad_id >= shape.vocab_size else shape.pad_id
        self.token = EmbeddingTable(shape.vocab_size, words, padding_idx=still)
        self.segment = EmbeddingTable(shape.segments, words) if shape.segments else None
        project = Linear(words, shape.width, shape.project_bias) if shape.project != "none" else nn.Identity()
        self.project = project
        self.norm = build_norm(shape, shape.width if before else words) if shape.embed_norm else nn.Identity()
        self.dropout = nn.Dropout(shape.dropouts.embedding)
        # DeBERTa projects first and norms the wide vectors; ELECTRA and ALBERT norm the narrow ones
        self.order = ("project", "norm", "dropout") if before else ("norm", "dropout", "project")

    def forward(
        self, ids: Tensor, segments: Tensor | None, places: Tensor, layout: Layout, numbered: positions.NoPositions
    ) -> Tensor:
        x = self.token(ids) * self.scale
        if self.segment is not None:
            x = x + self.segment(torch.zeros_like(ids) if segments is None else segments)
        x = numbered(x, ids, places, layout)
        for step in self.order:
            x = getattr(self, step)(x)
        return x


class Stack(nn.Module):
    """Embedding, positions and blocks."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = Embedding(shape)
        self.positions = positions.build_positions(shape)
        self.relative = positions.build_relative_scheme(shape)
        self.blocks = nn.ModuleList(Block(shape, index) for index in range(shape.blocks))
        self.norm = build_norm(shape, shape.width) if shape.final_norm else nn.Identity()
        self.dropout = nn.Dropout(shape.dropouts.final_norm)

    def visible_keys(self, present: Tensor | None, queries: Tensor, keys: Tensor, *, local: bool) -> Tensor | None:
        """Which key each query may look at, (1|batch, 1, 1|q, k); None: every one."""
        rules = []
        if present is not None:
            rules.append(present[:, None, None, :].bool())
        if self.shape.causal:  # a word never sees those after it
            rules.append(keys[:, None, None, :] <= queries[:, None, :, None])
        if local and self.shape.window is not None:
            gap = (keys[:, None, None, :] - queries[:, None, :, None]).abs()
            rules.append(gap <= self.shape.window // 2)
        if not rules:
            return None
        see = rules[0]
        for rule in rules[1:]:
            see = see & rule
        return see

    def bias(self, present: Tensor | None, queries: Tensor, keys: Tensor, *, local: bool) -> Tensor | None:
        """Mask and shared position bias as one number to add to each score."""
        see = self.visible_keys(present, queries, keys, local=local)
        bias = self.relative.shared_bias(queries, keys)
        return apply_mask(see, bias, self.embed.token.weight.dtype)

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
        places: Tensor | None = None,
        key_places: Tensor | None = None,
        present: Tensor | None = None,
        picked: Tensor | None = None,
    ) -> list[Tensor]:
        """Hidden states: the embeddings first, the last one after the final norm, perhaps of `picked` tokens only."""
        queries = layout.places if places is None else places
        keys = queries if key_places is None else key_places
        present = layout.present if present is None else present
        x = self.embed(ids, segments, layout.token_positions if places is None else places, layout, self.positions)
        given = AttentionInputs(
            layout=layout,
            places=queries,
            new_layout=layout,
            new_places=queries,
            key_places=keys,
            wide=self.bias(present, queries, keys, local=False),
            narrow=self.bias(present, queries, keys, local=True) if any(self.shape.local_layers) else None,
            relative=self.relative,
            kernel=kernel,
            cache=NoCache() if cache is None else cache,
            part=part,
            head_scale=head_scale,
            cross_scale=cross_scale,
            memory=memory,
            memory_layout=memory_layout,
            memory_bias=None if memory_layout is None else memory_bias(memory_layout, x.dtype),
        )
        hidden = [x]
        for layer, block in enumerate(self.shape.block_of_layer):
            if picked is not None and layer == len(self.shape.block_of_layer) - 1:
                given = self.restrict_queries(given, picked, present, layer)
            hidden.append(self.blocks[block](hidden[-1], given, layer))
        hidden[-1] = self.dropout(self.norm(hidden[-1]))
        return hidden

    def restrict_queries(
        self, given: AttentionInputs, picked: Tensor, present: Tensor | None, layer: int
    ) -> AttentionInputs:
        """For the last layer: some tokens of each text ask, for nobody reads what the others would hear."""
        bias = self.bias(present, picked, given.key_places, local=self.shape.is_local(layer))
        return replace(given, layout=PaddedLayout(picked, None), places=picked, wide=bias, narrow=bias, picked=picked)


def apply_mask(see: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Forbidden scores pushed down to where the softmax gives exactly zero."""
    if see is None:
        return None if bias is None else bias.to(dtype)
    low = max(LOW, torch.finfo(dtype).min / 2)
    if bias is None:
        return torch.zeros(see.shape, dtype=dtype, device=see.device).masked_fill(~see, low)
    return torch.where(see, bias.to(dtype), low)


def memory_bias(layout: Layout, dtype: torch.dtype) -> Tensor | None:
    """The encoder's padding, for every query alike."""
    see = None if layout.present is None else layout.present[:, None, None, :].bool()
    return apply_mask(see, None, dtype)
