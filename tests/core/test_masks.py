"""Masked tokens have no influence: future tokens, padding, and tokens outside a window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clearhead.core.attention import Recorder
from clearhead.errors import InputError
from tests.core.networks import DECODERS, FAMILY_NAMES, assert_close, batch_of, network_of, real_outputs, tensors_of
from tests.family_configs import SEQ2SEQ_FAMILIES
from tests.parity_models import TokenBatch

IDS = torch.randint(5, 40, (2, 9), generator=torch.Generator().manual_seed(0))


def run_hidden(
    network: Any, ids: torch.Tensor, source: torch.Tensor | None = None, **options: Any
) -> list[torch.Tensor]:
    with torch.no_grad():
        if source is None:
            output = network(ids, **options)
            return [*output.hidden, output.logits]
        output = network(source, target_ids=ids, **options)
        return [*output.target_hidden, output.logits]


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("position", [1, 4, 8])
@pytest.mark.parametrize("family", DECODERS)
def test_a_future_word_changes_nothing_before_it(family: str, position: int, explicit: bool) -> None:
    network = network_of(family)
    source = IDS[:, :5] if family in SEQ2SEQ_FAMILIES else None
    changed = IDS.clone()
    changed[:, position] = (changed[:, position] + 3) % 40
    options = [{"kernel": Recorder()} if explicit else {} for _ in range(2)]
    before = run_hidden(network, IDS, source, **options[0])
    after = run_hidden(network, changed, source, **options[1])
    for a, b in zip(before, after, strict=True):
        assert torch.equal(a[:, :position], b[:, :position])
        assert (a[:, position:] - b[:, position:]).abs().max() > 1e-4


@pytest.mark.parametrize("family", DECODERS)
def test_probabilities_of_the_future_are_exactly_zero(family: str) -> None:
    network = network_of(family)
    recorder = Recorder()
    run_hidden(network, IDS, IDS[:, :5] if family in SEQ2SEQ_FAMILIES else None, kernel=recorder)
    part = "decoder" if family in SEQ2SEQ_FAMILIES else "encoder"
    decoder_steps = [step for step in recorder.steps if step.part == part]
    assert decoder_steps
    for step in decoder_steps:
        assert (step.probs.triu(1) == 0).all()
        assert (step.probs.tril()[..., 0] > 0).all()


NUMBERED_BY_ID = (
    "roberta",
    "xlm-roberta",
    "mpnet",
)  # these recognize padding by its id and number positions by it


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("family", [family for family in FAMILY_NAMES if family not in NUMBERED_BY_ID])
def test_padding_says_nothing(family: str, left: bool) -> None:
    """Different ids at padding leave the outputs of real tokens bit-identical."""
    network, batch = network_of(family), batch_of(family, pad_left=left)
    ids = np.where(batch.mask, batch.ids, 17)
    targets = None
    if batch.target_ids is not None and batch.target_mask is not None:
        targets = np.where(batch.target_mask, batch.target_ids, 17)
    changed = TokenBatch(
        ids=ids,
        mask=batch.mask,
        segments=batch.segments,
        target_ids=targets,
        target_mask=batch.target_mask,
    )
    with torch.no_grad():
        a, b = real_outputs(network(**tensors_of(batch)), batch), real_outputs(network(**tensors_of(changed)), changed)
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_each_text_as_if_alone(family: str) -> None:
    network, batch = network_of(family), batch_of(family)
    with torch.no_grad():
        together = network(**tensors_of(batch))
        for row in range(len(batch.ids)):
            length = int(batch.mask[row].sum())
            parts = {"ids": torch.tensor(batch.ids[row : row + 1, :length])}
            if batch.segments is not None:
                parts["segments"] = torch.tensor(batch.segments[row : row + 1, :length])
            if batch.target_ids is not None and batch.target_mask is not None:
                parts["target_ids"] = torch.tensor(batch.target_ids[row : row + 1, : int(batch.target_mask[row].sum())])
            alone = network(**parts)
            assert_close([alone.last[0]], [together.last[row, :length]])
            assert_close([alone.logits[0]], [together.logits[row, : alone.logits.shape[1]]])


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_padding_has_exactly_no_probability(family: str) -> None:
    network, batch = network_of(family), batch_of(family)
    recorder = Recorder()
    with torch.no_grad():
        network(**tensors_of(batch), kernel=recorder)
    for step in recorder.steps:
        hidden = ~torch.tensor(batch.mask if step.part in ("encoder", "cross") else batch.target_mask)
        real_rows = ~torch.tensor(batch.mask if step.part == "encoder" else batch.target_mask)
        probs = step.probs.masked_fill(real_rows[:, None, :, None], 0)
        assert (probs.transpose(-1, -2)[hidden[:, None].expand(-1, probs.shape[1], -1)] == 0).all()


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_row_of_nothing_but_padding(family: str) -> None:
    """Never NaN, and the other rows do not change."""
    network, batch = network_of(family), batch_of(family)
    parts = tensors_of(batch)
    parts["mask"][1] = False
    with torch.no_grad():
        output, alone = network(**parts), network(**tensors_of(batch))
    for state in (*output.hidden, output.logits):
        assert state.isfinite().all()
    torch.testing.assert_close(output.last[0], alone.last[0], rtol=0, atol=1e-5)


class TestWindow:
    """ModernBERT's local layers attend to half a window on each side."""

    def test_beyond_the_window_is_exactly_zero(self) -> None:
        network = network_of("modernbert", local_attention=4)
        assert network.shape.stack.local_layers == (False, True, True)
        recorder = Recorder()
        run_hidden(network, IDS, kernel=recorder)
        gap = (torch.arange(9)[:, None] - torch.arange(9)).abs()
        global_steps, *local_steps = recorder.steps
        assert (global_steps.probs > 0).all()
        for step in local_steps:
            assert (step.probs[..., gap > 2] == 0).all()
            assert (step.probs[..., gap <= 2] > 0).all()

    def test_how_far_a_change_is_heard(self) -> None:
        """With only local layers, a change spreads by exactly two positions per layer."""
        network = network_of("modernbert", local_attention=4, layer_types=["sliding_attention"] * 3)
        changed = IDS.clone()
        changed[:, 0] = (changed[:, 0] + 3) % 40
        before, after = run_hidden(network, IDS), run_hidden(network, changed)
        for layer in (1, 2):  # the third reaches the end of the text
            edge = 2 * layer + 1
            assert torch.equal(before[layer][:, edge:], after[layer][:, edge:])
            assert not torch.equal(before[layer][:, edge - 1], after[layer][:, edge - 1])

    def test_a_window_wider_than_the_text_is_no_window(self) -> None:
        windowed = network_of("modernbert", local_attention=128, local_rope_theta=160_000.0)
        unwindowed = network_of("modernbert", layer_types=["full_attention"] * 3)
        assert_close(run_hidden(windowed, IDS), run_hidden(unwindowed, IDS), 1e-6)


def test_target_ids_need_a_decoder() -> None:
    network: Any = network_of("bert")
    with pytest.raises(InputError, match="no decoder"):
        network.decode(IDS, None, None, None)
