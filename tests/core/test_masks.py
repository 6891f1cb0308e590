"""What a word must not see changes nothing: the future, the padding, the words beyond a window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clearhead.core.attention import Recorder
from clearhead.errors import InputError
from tests.core.networks import DECODERS, EVERY, batch_of, close, network_of, real, tensors_of
from tests.family_configs import SEQ2SEQ_FAMILIES
from tests.parity_models import TokenBatch

IDS = torch.randint(5, 40, (2, 9), generator=torch.Generator().manual_seed(0))


def last(network: Any, ids: torch.Tensor, source: torch.Tensor | None = None, **how: Any) -> list[torch.Tensor]:
    with torch.no_grad():
        if source is None:
            said = network(ids, **how)
            return [*said.hidden, said.logits]
        said = network(source, target_ids=ids, **how)
        return [*said.target_hidden, said.logits]


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("place", [1, 4, 8])
@pytest.mark.parametrize("family", DECODERS)
def test_a_future_word_changes_nothing_before_it(family: str, place: int, explicit: bool) -> None:
    network = network_of(family)
    source = IDS[:, :5] if family in SEQ2SEQ_FAMILIES else None
    other = IDS.clone()
    other[:, place] = (other[:, place] + 3) % 40
    how = [{"kernel": Recorder()} if explicit else {} for _ in range(2)]
    before = last(network, IDS, source, **how[0])
    after = last(network, other, source, **how[1])
    for a, b in zip(before, after, strict=True):
        assert torch.equal(a[:, :place], b[:, :place])
        assert (a[:, place:] - b[:, place:]).abs().max() > 1e-4


@pytest.mark.parametrize("family", DECODERS)
def test_probabilities_of_the_future_are_exactly_zero(family: str) -> None:
    network = network_of(family)
    recorder = Recorder()
    last(network, IDS, IDS[:, :5] if family in SEQ2SEQ_FAMILIES else None, kernel=recorder)
    part = "decoder" if family in SEQ2SEQ_FAMILIES else "encoder"
    found = [step for step in recorder.steps if step.part == part]
    assert found
    for step in found:
        assert (step.probs.triu(1) == 0).all()
        assert (step.probs.tril()[..., 0] > 0).all()


COUNTED = ("roberta", "xlm-roberta", "mpnet")  # these know padding by its id as well, and number the places by it


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("family", [family for family in EVERY if family not in COUNTED])
def test_padding_says_nothing(family: str, left: bool) -> None:
    """Other ids under the mask, the same numbers at every real token, to the last bit."""
    network, given = network_of(family), batch_of(family, left=left)
    ids = np.where(given.mask, given.ids, 17)
    targets = None
    if given.target_ids is not None and given.target_mask is not None:
        targets = np.where(given.target_mask, given.target_ids, 17)
    other = TokenBatch(
        ids=ids,
        mask=given.mask,
        segments=given.segments,
        target_ids=targets,
        target_mask=given.target_mask,
    )
    with torch.no_grad():
        a, b = real(network(**tensors_of(given)), given), real(network(**tensors_of(other)), other)
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("family", EVERY)
def test_each_text_as_if_alone(family: str) -> None:
    network, given = network_of(family), batch_of(family)
    with torch.no_grad():
        together = network(**tensors_of(given))
        for row in range(len(given.ids)):
            length = int(given.mask[row].sum())
            parts = {"ids": torch.tensor(given.ids[row : row + 1, :length])}
            if given.segments is not None:
                parts["segments"] = torch.tensor(given.segments[row : row + 1, :length])
            if given.target_ids is not None and given.target_mask is not None:
                parts["target_ids"] = torch.tensor(given.target_ids[row : row + 1, : int(given.target_mask[row].sum())])
            alone = network(**parts)
            close([alone.last[0]], [together.last[row, :length]])
            close([alone.logits[0]], [together.logits[row, : alone.logits.shape[1]]])


@pytest.mark.parametrize("family", EVERY)
def test_padding_has_exactly_no_probability(family: str) -> None:
    network, given = network_of(family), batch_of(family)
    recorder = Recorder()
    with torch.no_grad():
        network(**tensors_of(given), kernel=recorder)
    for step in recorder.steps:
        hidden = ~torch.tensor(given.mask if step.part in ("encoder", "cross") else given.target_mask)
        real_rows = ~torch.tensor(given.mask if step.part == "encoder" else given.target_mask)
        probs = step.probs.masked_fill(real_rows[:, None, :, None], 0)
        assert (probs.transpose(-1, -2)[hidden[:, None].expand(-1, probs.shape[1], -1)] == 0).all()


@pytest.mark.parametrize("family", EVERY)
def test_a_row_of_nothing_but_padding(family: str) -> None:
    """Never NaN, and the other rows do not notice."""
    network, given = network_of(family), batch_of(family)
    parts = tensors_of(given)
    parts["mask"][1] = False
    with torch.no_grad():
        said, alone = network(**parts), network(**tensors_of(given))
    for state in (*said.hidden, said.logits):
        assert state.isfinite().all()
    torch.testing.assert_close(said.last[0], alone.last[0], rtol=0, atol=1e-5)


class TestWindow:
    """ModernBERT's narrow layers see half a window to each side."""

    def test_beyond_the_window_is_exactly_zero(self) -> None:
        network = network_of("modernbert", local_attention=4)
        assert network.shape.stack.local_layers == (False, True, True)
        recorder = Recorder()
        last(network, IDS, kernel=recorder)
        gap = (torch.arange(9)[:, None] - torch.arange(9)).abs()
        wide, *narrow = recorder.steps
        assert (wide.probs > 0).all()
        for step in narrow:
            assert (step.probs[..., gap > 2] == 0).all()
            assert (step.probs[..., gap <= 2] > 0).all()

    def test_how_far_a_change_is_heard(self) -> None:
        """With narrow layers only, a word reaches two places further in each layer, and not a bit more."""
        network = network_of("modernbert", local_attention=4, layer_types=["sliding_attention"] * 3)
        other = IDS.clone()
        other[:, 0] = (other[:, 0] + 3) % 40
        before, after = last(network, IDS), last(network, other)
        for layer in (1, 2):  # the third reaches the end of the text
            edge = 2 * layer + 1
            assert torch.equal(before[layer][:, edge:], after[layer][:, edge:])
            assert not torch.equal(before[layer][:, edge - 1], after[layer][:, edge - 1])

    def test_a_window_wider_than_the_text_is_no_window(self) -> None:
        narrow = network_of("modernbert", local_attention=128, local_rope_theta=160_000.0)
        wide = network_of("modernbert", layer_types=["full_attention"] * 3)
        close(last(narrow, IDS), last(wide, IDS), 1e-6)


def test_target_ids_need_a_decoder() -> None:
    network: Any = network_of("bert")
    with pytest.raises(InputError, match="no decoder"):
        network.decode(IDS, None, None, None)
