"""Encoder-decoder models have the same outputs for packed and padded texts."""

from __future__ import annotations

import pytest
import torch

from clearhead.core.build import build_network
from clearhead.errors import InputError
from clearhead.families import FAMILIES
from tests.family_configs import FIXED_CONFIGS

SOURCE, TARGET = (5, 2, 7), (3, 6, 1)
RNN = {"vocab_size": 40, "width": 16, "encoder_layers": 2, "decoder_layers": 2, "attention": "additive"}
CONFIGS = {name: FIXED_CONFIGS[name] for name in ("marian", "t5", "transformer")} | {"rnn": RNN}


@pytest.mark.parametrize("family", CONFIGS)
def test_packed_targets_answer_as_padded_ones(family: str) -> None:
    network = build_network(FAMILIES[family].model_shape(CONFIGS[family], "seq2seq", 0), seed=1).eval()
    vocab = network.shape.top.vocab_size
    torch.manual_seed(0)
    texts = [[torch.randint(3, min(vocab, 30), (length,)) for length in side] for side in (SOURCE, TARGET)]
    ids, target_ids = (torch.nn.utils.rnn.pad_sequence(side, batch_first=True) for side in texts)
    lengths, target_lengths = torch.tensor(SOURCE), torch.tensor(TARGET)
    mask, target_mask = (
        torch.arange(padded_ids.shape[1]) < sizes[:, None]
        for padded_ids, sizes in ((ids, lengths), (target_ids, target_lengths))
    )
    padded = network(ids, mask, None, target_ids, target_mask)
    packed = network(
        torch.cat(texts[0]),
        None,
        None,
        torch.cat(texts[1]),
        lengths=lengths,
        target_lengths=target_lengths,
        all_tokens=False,
    )
    assert packed.logits.shape == (sum(TARGET), vocab)
    torch.testing.assert_close(packed.logits, padded.logits[target_mask], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(packed.target_hidden[-1], padded.target_hidden[-1][target_mask], atol=1e-5, rtol=1e-5)
    with pytest.raises(InputError, match="target_lengths must be"):
        network(ids, mask, None, torch.cat(texts[1]), lengths=None, target_lengths=target_lengths + 1)
