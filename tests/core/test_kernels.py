"""The fused kernel and explicit attention have equal outputs and gradients in every family."""

from __future__ import annotations

import pytest
import torch

from clearhead.core.activations import ACTIVATIONS
from clearhead.core.attention import Recorder
from clearhead.families.family import ACTIVATIONS as NAMES
from tests.core.networks import FAMILY_NAMES, assert_close, batch_of, network_of, real_outputs, tensors_of
from tests.family_configs import SEQ2SEQ_FAMILIES
from tests.parity_models import import_transformers


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_fused_is_explicit(family: str, left: bool) -> None:
    network, batch = network_of(family), batch_of(family, pad_left=left)
    recorder = Recorder()
    with torch.no_grad():
        fused, explicit = network(**tensors_of(batch)), network(**tensors_of(batch), kernel=recorder)
    assert_close(real_outputs(fused, batch), real_outputs(explicit, batch))
    layers = network.shape.stack.layers
    assert [step.layer for step in recorder.steps if step.part == "encoder"] == list(range(layers))
    if family in SEQ2SEQ_FAMILIES:
        assert [step.layer for step in recorder.steps if step.part == "cross"] == [0, 1, 2][: network.shape.top.layers]


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_same_gradients(family: str) -> None:
    network, batch = network_of(family), batch_of(family)
    grads = []
    for options in ({}, {"kernel": Recorder()}):
        network.zero_grad()
        torch.stack(
            [(output**2).mean() for output in real_outputs(network(**tensors_of(batch), **options), batch)]
        ).sum().backward()
        grads.append({name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None})
    assert grads[0].keys() == grads[1].keys()
    for name, grad in grads[0].items():
        torch.testing.assert_close(grad, grads[1][name], rtol=1e-4, atol=1e-5)
    unused = {name for name, _ in network.named_parameters()} - grads[0].keys()
    assert not unused


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_recorded_steps_fit_together(family: str) -> None:
    """Each row of probabilities sums to one, and contexts are probabilities times values."""
    network, batch = network_of(family), batch_of(family)
    recorder = Recorder()
    with torch.no_grad():
        network(**tensors_of(batch), kernel=recorder)
    for step in recorder.steps:
        torch.testing.assert_close(step.probs.sum(-1), torch.ones(step.probs.shape[:-1]))
        torch.testing.assert_close(step.probs, step.scores.softmax(-1))
        torch.testing.assert_close(step.context, step.probs @ step.values)


def test_control_one_wrong_number_in_a_kernel() -> None:
    network, batch = network_of("bert"), batch_of("bert")

    class OffsetRecorder(Recorder):
        def __call__(self, *args: object) -> torch.Tensor:
            context = super().__call__(*args)  # type: ignore[arg-type]
            context[0, 0, 0, 0] += 0.05
            return context

    with torch.no_grad():
        expected, changed = network(**tensors_of(batch)), network(**tensors_of(batch), kernel=OffsetRecorder())
    with pytest.raises(AssertionError):
        assert_close(real_outputs(expected, batch), real_outputs(changed, batch))


@pytest.mark.parametrize("name", NAMES)
def test_activations(name: str) -> None:
    """Activations equal those of transformers under the same names, including gradients."""
    library_activations = import_transformers().activations.ACT2FN
    if name == "elu":
        theirs = torch.nn.ELU()  # which transformers has no name for
        assert name not in library_activations
    else:
        theirs = library_activations[name]
    a = torch.linspace(-14, 14, 401, requires_grad=True)
    b = a.detach().clone().requires_grad_()
    ours, expected = ACTIVATIONS[name](a), theirs(b)
    torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)
    ours.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-5)


def test_every_activation_name_is_built() -> None:
    assert set(NAMES) == set(ACTIVATIONS)
