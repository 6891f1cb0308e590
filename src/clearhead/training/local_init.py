"""Local-attention initialization: the heads of a new model start by attending to neighboring tokens.

A masked token is predicted mostly from its neighbors, but the heads of a new model attend uniformly. Until some of them
attend to neighbors, the model predicts little more than token frequencies: BERT spends its first millions of words on
that. With sinusoidal positions such heads can be constructed. Position i is encoded as (sin wi, cos wi) for many
frequencies w; a rotation by the angle wd turns it into position i + d, so that

    q_i = R(d) p_i,  k_j = p_j:    q_i . k_j = sum over w of cos(w (i + d - j)),    which is large only for j = i + d

This only sets initial weights: all of them are trained, and the architecture is unchanged.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from clearhead.shape import Shape

PEAK_SCORE = 6.0  # attention score of the position that a head attends to; others are about 0
SHARP_SCALE, SLOW_SCALE = 2.0, 0.5  # relative to token embeddings: the waves that heads attend by, and the others
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


def list_head_offsets(heads: int) -> list[int]:
    """The relative position that each head attends to: -1, 1, -2, 2, ..."""
    return [(-1) ** (head + 1) * (head // 2 + 1) for head in range(heads)]


def can_init_locally(shape: Shape) -> bool:
    """Whether positions are learned, normalized together with the tokens, and read by an unshared first block.

    Other families have relative positions (T5, DeBERTa, ModernBERT), share their blocks (ALBERT), or predict the next
    token (GPT), where large position embeddings in the residual stream only disturb the output.
    """
    has_own_first_block = shape.recurrent is None and shape.layers > 0 and not shape.block_order
    has_learned_positions = shape.positions == "learned" and shape.relative == "none"
    has_room_for_waves = shape.head_width % 2 == 0 and shape.head_width <= shape.token_width
    is_supported = shape.embed_norm and not shape.causal
    return has_own_first_block and has_learned_positions and has_room_for_waves and is_supported


@torch.no_grad()
def init_local_attention(network: Any) -> bool:
    """Write positions as waves and point the first block's heads at neighbors; False if the family is not supported."""
    shape: Shape = network.shape.stack
    if not can_init_locally(shape):
        return False
    embed_width, sharp_count = shape.token_width, shape.head_width // 2
    wave_index = torch.arange(sharp_count, dtype=torch.float64)
    # spread so that their cosines cancel out except at distance 0
    sharp_frequencies = math.pi * (wave_index + (wave_index + 1) * GOLDEN_RATIO % 1) / sharp_count
    slow_count = embed_width // 2 - sharp_count
    # those of Vaswani et al. (2017), for long distances
    slow_frequencies = 10_000.0 ** -(torch.arange(slow_count, dtype=torch.float64) / max(slow_count, 1))
    position_table = network.stack.positions.table.weight
    frequencies = torch.cat([sharp_frequencies, slow_frequencies])
    angles = torch.arange(len(position_table), dtype=torch.float64)[:, None] * frequencies
    waves = torch.stack([angles.sin(), angles.cos()], 2).flatten(1) * math.sqrt(2) * SLOW_SCALE
    waves[:, : 2 * sharp_count] *= SHARP_SCALE / SLOW_SCALE
    position_table[:, : waves.shape[1]] = (waves * float(network.stack.embed.token.weight.std())).to(position_table)
    attention = network.stack.blocks[0].attend.inner
    # of a token plus its position, which the layer norm divides by
    variance = 1 + SLOW_SCALE**2 + (SHARP_SCALE**2 - SLOW_SCALE**2) * 2 * sharp_count / embed_width
    gain = math.sqrt(PEAK_SCORE * variance / (2 * sharp_count * shape.score_scale)) / SHARP_SCALE
    projection = _compute_token_projection(network)
    for head, offset in enumerate(list_head_offsets(shape.heads)):
        rows = slice(head * shape.head_width, (head + 1) * shape.head_width)
        rotated = _make_rotation_matrix(sharp_frequencies * offset) @ projection[: 2 * sharp_count]
        attention.q.weight[rows] += gain * rotated.to(position_table)
        attention.k.weight[rows] += gain * projection[: 2 * sharp_count].to(position_table)
    for matrix in (attention.v.weight, attention.out.weight):  # so that attended tokens matter from the start
        matrix *= shape.width**-0.5 / matrix.std()
    return True


def _make_rotation_matrix(angles: Tensor) -> Tensor:
    """A matrix that rotates each pair (sin a, cos a) by an angle."""
    matrix = torch.zeros(2 * len(angles), 2 * len(angles), dtype=angles.dtype)
    sine_rows = torch.arange(len(angles)) * 2
    matrix[sine_rows, sine_rows] = matrix[sine_rows + 1, sine_rows + 1] = angles.cos()
    matrix[sine_rows, sine_rows + 1], matrix[sine_rows + 1, sine_rows] = angles.sin(), -angles.sin()
    return matrix


def _compute_token_projection(network: Any) -> Tensor:
    """The map from the input of the first block back to token embeddings, which ELECTRA projects to another width."""
    shape: Shape = network.shape.stack
    if shape.project == "none":
        return torch.eye(shape.width, dtype=torch.float64)
    pseudo_inverse: Tensor = torch.linalg.pinv(network.stack.embed.project.weight.double().cpu())
    # a projection to a smaller width loses a part of each wave
    return pseudo_inverse * max(1.0, shape.token_width / shape.width)
