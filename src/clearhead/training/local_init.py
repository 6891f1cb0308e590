"""Local-attention initialization: heads of a new model start by attending to the words beside each word.

A masked word is guessed from its neighbors, but fresh heads attend everywhere alike, and until some of them have found
the neighbors a model knows little more than how frequent words are: BERT spends its first millions of words on that.
Waves make it simple to begin there. Position i is written as (sin wi, cos wi) for many w; turned by an angle wd it is
position i + d, so that

    q_i = turn(d) p_i,  k_j = p_j:    q_i . k_j = sum over w of cos(w (i + d - j)),    which is large only for j = i + d

Only the start is chosen: every number is learned from there, and the model is as any other of its family.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from clearhead.shape import Shape

PEAK_SCORE = 6.0  # the score of the place that a head looks at; those of others are about 0
WAVE_SCALES = 2.0, 0.5  # beside words: the waves that heads look by, and the others
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


def head_offsets(heads: int) -> list[int]:
    """Where each head looks: the word before, the word after, the second before, ..."""
    return [(-1) ** (head + 1) * (head // 2 + 1) for head in range(heads)]


def can_init_locally(shape: Shape) -> bool:
    """Whether positions are learned, normed with the words, and read by a first block of its own.

    Other families know distances by themselves (T5, DeBERTa, ModernBERT), share their blocks (ALBERT), or guess the
    word after the one that they stand on (GPT): loud positions in what a GPT adds up to its answer only disturb it.
    """
    whole = shape.recurrent is None and shape.layers > 0 and not shape.block_order and shape.head_width % 2 == 0
    learned = shape.positions == "learned" and shape.relative == "none"
    return whole and shape.embed_norm and not shape.causal and learned and shape.head_width <= shape.token_width


@torch.no_grad()
def init_local_attention(network: Any) -> bool:
    """Write positions as waves, and turn the first block's heads to the words around; False: the family has no need."""
    shape: Shape = network.shape.stack
    if not can_init_locally(shape):
        return False
    words, count = shape.token_width, shape.head_width // 2
    numbers = torch.arange(count, dtype=torch.float64)
    sharp = math.pi * (numbers + (numbers + 1) * GOLDEN_RATIO % 1) / count  # their cosines cancel out but at distance 0
    rest = words // 2 - count
    slow = 10_000.0 ** -(torch.arange(rest, dtype=torch.float64) / max(rest, 1))  # 2017: for what is far
    table = network.stack.positions.table.weight
    angles = torch.arange(len(table), dtype=torch.float64)[:, None] * torch.cat([sharp, slow])
    waves = torch.stack([angles.sin(), angles.cos()], 2).flatten(1) * math.sqrt(2) * WAVE_SCALES[1]
    waves[:, : 2 * count] *= WAVE_SCALES[0] / WAVE_SCALES[1]
    table[:, : waves.shape[1]] = (waves * float(network.stack.embed.token.weight.std())).to(table)
    attend = network.stack.blocks[0].attend.inner
    heard = (
        1 + WAVE_SCALES[1] ** 2 + (WAVE_SCALES[0] ** 2 - WAVE_SCALES[1] ** 2) * 2 * count / words
    )  # by the norm that comes between
    gain = math.sqrt(PEAK_SCORE * heard / (2 * count * shape.score_scale)) / WAVE_SCALES[0]
    reading = _word_projection(network)
    for head, offset in enumerate(head_offsets(shape.heads)):
        rows = slice(head * shape.head_width, (head + 1) * shape.head_width)
        attend.q.weight[rows] += gain * (_rotation_matrix(sharp * offset) @ reading[: 2 * count]).to(table)
        attend.k.weight[rows] += gain * reading[: 2 * count].to(table)
    for matrix in (attend.v.weight, attend.out.weight):  # and what is seen there is heard
        matrix *= shape.width**-0.5 / matrix.std()
    return True


def _rotation_matrix(angles: Tensor) -> Tensor:
    """A matrix that turns each pair (sin a, cos a) by an angle."""
    made = torch.zeros(2 * len(angles), 2 * len(angles), dtype=angles.dtype)
    even = torch.arange(len(angles)) * 2
    made[even, even] = made[even + 1, even + 1] = angles.cos()
    made[even, even + 1], made[even + 1, even] = angles.sin(), -angles.sin()
    return made


def _word_projection(network: Any) -> Tensor:
    """From what the first block reads back to a word vector: ELECTRA's have another width, and are projected."""
    shape: Shape = network.shape.stack
    if shape.project == "none":
        return torch.eye(shape.width, dtype=torch.float64)
    back: Tensor = torch.linalg.pinv(network.stack.embed.project.weight.double().cpu())
    return back * max(1.0, shape.token_width / shape.width)  # a narrow door lets a part of each wave in
