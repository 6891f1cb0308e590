"""Decoding with a cache, in steps of any size and with padding on either side, equals a single pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.batch import Batch
from clearhead.core.models import Network, TransformerState, decode_step, start_decoding
from clearhead.core.runner import CoreRunner
from clearhead.errors import InputError
from tests.core.networks import DECODERS, batch_of, network_of
from tests.family_configs import SEQ2SEQ_FAMILIES

VARIANTS: list[tuple[str, dict[str, Any]]] = [(family, {}) for family in DECODERS] + [
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    ("t5", {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 6}),
    ("t5", {"feed_forward_proj": "gated-gelu", "num_decoder_layers": 1}),
    ("marian", {"scale_embedding": True, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 62}),
    ("transformer", {"norm_first": True}),
]
every_decoder = pytest.mark.parametrize(
    ("family", "changes"), VARIANTS, ids=[f"{family}{'-' if c else ''}{'-'.join(c)}" for family, c in VARIANTS]
)
SOURCE = torch.tensor([[7, 8, 9, 10, 11], [12, 13, 14, 0, 0], [15, 0, 0, 0, 0]])
SOURCE_MASK = SOURCE != 0
WORDS = torch.randint(5, 40, (3, 11), generator=torch.Generator().manual_seed(5))


def start_state(network: Network, rows: slice | list[int] = slice(None)) -> TransformerState:
    """Create the initial state, after encoding the source if there is one."""
    return start_decoding(network, SOURCE[rows], SOURCE_MASK[rows])


def one_pass_logits(network: Network, words: torch.Tensor, row: int | None = None) -> torch.Tensor:
    """Compute all logits in one pass; for one row, without padding of its source."""
    if network.decoder is None:
        return network(words).logits
    if row is None:
        return network(SOURCE, SOURCE_MASK, target_ids=words).logits
    return network(SOURCE[row : row + 1, : int(SOURCE_MASK[row].sum())], target_ids=words).logits


@pytest.fixture(autouse=True)
def no_gradients() -> Any:
    with torch.no_grad():
        yield


def assert_equal_logits(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("portions", [(1,) * 11, (11,), (4, 1, 1, 5), (1, 10), (10, 1), (3, 3, 3, 2)])
@every_decoder
def test_portions(family: str, changes: dict[str, Any], portions: tuple[int, ...]) -> None:
    network = network_of(family, **changes)
    state, position, step_logits = start_state(network), 0, []
    for size in portions:
        logits, state = decode_step(network, state, WORDS[:, position : position + size])
        assert logits.shape[:2] == (3, size)
        step_logits.append(logits)
        position += size
    assert_equal_logits(torch.cat(step_logits, 1), one_pass_logits(network, WORDS))


@every_decoder
def test_control_a_wrong_word_in_the_cache(family: str, changes: dict[str, Any]) -> None:
    network = network_of(family, **changes)
    changed = WORDS.clone()
    changed[:, 2] = (changed[:, 2] + 1) % 40
    logits, state = decode_step(network, start_state(network), changed[:, :6])
    logits, _ = decode_step(network, state, WORDS[:, 6:])
    assert (logits - one_pass_logits(network, WORDS)[:, 6:]).abs().max() > 1e-4


def right(lengths: list[int], most: int) -> torch.Tensor:
    return torch.arange(most)[None] < torch.tensor(lengths)[:, None]


def left(lengths: list[int], most: int) -> torch.Tensor:
    return torch.arange(most)[None] >= most - torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("side", [right, left])
@every_decoder
def test_ragged_prompts(family: str, changes: dict[str, Any], side: Callable[[list[int], int], torch.Tensor]) -> None:
    """Prompts of different lengths in one batch, padded on either side, equal separate runs."""
    network = network_of(family, **changes)
    lengths, extra = [6, 2, 4], 4
    mask = side(lengths, 6)
    prompt = torch.zeros(3, 6, dtype=torch.long)
    for row, length in enumerate(lengths):
        prompt[row, mask[row]] = WORDS[row, :length]
    first, state = decode_step(network, start_state(network), prompt, mask)
    later = []
    for number in range(extra):
        words = torch.stack([WORDS[row, length + number] for row, length in enumerate(lengths)])[:, None]
        logits, state = decode_step(network, state, words)
        later.append(logits)
    for row, length in enumerate(lengths):
        alone = one_pass_logits(network, WORDS[row : row + 1, : length + extra], row)
        assert_equal_logits(first[row, mask[row]], alone[0, :length])
        assert_equal_logits(torch.cat(later, 1)[row], alone[0, length:])


@every_decoder
def test_rows_that_wait(family: str, changes: dict[str, Any]) -> None:
    """A row that is padded in a later step is unaffected by that step."""
    network = network_of(family, **changes)
    _, state = decode_step(network, start_state(network), WORDS[:, :3])
    mask = torch.tensor([[True, True], [False, False], [True, False]])
    _, state = decode_step(network, state, torch.where(mask, WORDS[:, 3:5], 0), mask)
    position = [5, 3, 4]
    words = torch.stack([WORDS[row, length] for row, length in enumerate(position)])[:, None]
    logits, _ = decode_step(network, state, words)
    for row, length in enumerate(position):
        assert_equal_logits(logits[row, 0], one_pass_logits(network, WORDS[row : row + 1, : length + 1], row)[0, -1])


@every_decoder
def test_reorder(family: str, changes: dict[str, Any]) -> None:
    """Beam search keeps some rows, doubles others and drops the rest."""
    network = network_of(family, **changes)
    _, state = decode_step(network, start_state(network), WORDS[:, :5])
    rows = torch.tensor([2, 0, 0, 2])
    logits, after = decode_step(network, state.reorder(rows), WORDS[rows, 5:8])
    logits_two, _ = decode_step(network, after.reorder(torch.tensor([1, 3])), WORDS[[0, 2], 8:])
    for index, row in enumerate(rows.tolist()):
        assert_equal_logits(logits[index], one_pass_logits(network, WORDS[row : row + 1, :8], row)[0, 5:])
    for index, row in enumerate([0, 2]):
        assert_equal_logits(logits_two[index], one_pass_logits(network, WORDS[row : row + 1], row)[0, 8:])


@every_decoder
def test_an_old_state_stays_usable(family: str, changes: dict[str, Any]) -> None:
    network = network_of(family, **changes)
    _, state = decode_step(network, start_state(network), WORDS[:, :4])
    first, _ = decode_step(network, state, WORDS[:, 4:6])
    changed, _ = decode_step(network, state, WORDS[:, 7:9])
    again, _ = decode_step(network, state, WORDS[:, 4:6])
    assert torch.equal(first, again)
    assert not torch.equal(first, changed)
    assert_equal_logits(changed, one_pass_logits(network, torch.cat([WORDS[:, :4], WORDS[:, 7:9]], 1))[:, 4:])


@pytest.mark.parametrize("family", DECODERS)
def test_pruned_heads(family: str) -> None:
    network = network_of(family)
    part = "decoder" if family in SEQ2SEQ_FAMILIES else "encoder"
    network.prune({0: {0}}, part)
    if family in SEQ2SEQ_FAMILIES:
        network.prune({1: {1}}, "cross")
    _, state = decode_step(network, start_state(network), WORDS[:, :4])
    logits, _ = decode_step(network, state, WORDS[:, 4:])
    assert_equal_logits(logits, one_pass_logits(network, WORDS)[:, 4:])


@pytest.mark.parametrize("family", DECODERS)
def test_the_runner_s_protocol(family: str) -> None:
    """Decode with the runner's arrays."""
    network, batch = network_of(family), batch_of(family)
    runner = CoreRunner(network, "cpu")
    target = batch.target_ids if batch.target_ids is not None else batch.ids
    source = Batch(ids=batch.ids, mask=batch.mask)
    state = runner.start(source)
    step_logits = []
    for index in range(target.shape[1]):
        logits, state = runner.step(state, target[:, index : index + 1])
        step_logits.append(logits)
    whole_batch = (
        Batch(ids=batch.ids, mask=batch.mask, target_ids=target) if family in SEQ2SEQ_FAMILIES else Batch(ids=target)
    )
    expected = runner.run(whole_batch).logits
    assert expected is not None
    np.testing.assert_allclose(np.concatenate(step_logits, 1), expected, rtol=0, atol=1e-5)
    logits, _ = runner.step(state.reorder([1, 1]), [[7], [7]])
    np.testing.assert_allclose(logits[0], logits[1], rtol=0, atol=1e-5)


def test_more_words_than_positions() -> None:
    network = network_of("gpt2", n_positions=4)
    runner = CoreRunner(network, "cpu")
    _, state = runner.step(runner.start(Batch(ids=np.array([[5]]))), [[5, 6, 7]])
    _, state = runner.step(state, [[5]])
    with pytest.raises(InputError, match="has 4 positions, and this step needs position 5"):
        runner.step(state, [[5]])


def test_a_model_without_a_word_head() -> None:
    network = network_of("gpt2", head=None)
    with pytest.raises(InputError, match="no language-model head"):
        decode_step(network, start_decoding(network, WORDS), WORDS[:, :1])
