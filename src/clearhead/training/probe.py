"""Linear probing before fine-tuning: a new head starts as the best linear model on what the encoder knows already.

A random head sends random gradients into the encoder until it has learned something itself, and with few rows the
encoder forgets more than it gains. Kumar et al. (2022, LP-FT) fit the head first, on frozen features, then train all.
The fit is a logistic or ridge regression on the activations before the output matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from clearhead.data import LabelSpace
from clearhead.tasks.encoded import Encoded
from clearhead.training.loop import compute_logits, split_micro_batches
from clearhead.training.objectives import Objective
from clearhead.training.precision import use_precision
from clearhead.training.settings import TrainSettings

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.models import Network

    Array = np.ndarray[Any, Any]

MAX_ROWS = 10_000  # training rows, or words that have a tag, that a head is fitted on
MAX_TUNING_ROWS = 4_000  # of them that the regularization is chosen on
UNSEEN_GAP = 10.0  # so far below the others is the logit of a class that no training row has


def can_probe(network: Network, objective: Objective) -> bool:
    """Whether the head ends in a linear layer that a linear model can take the place of."""
    has_linear = objective.linear_examples is not None
    return network.head is not None and has_linear and network.head.out.bias is not None


def probe_head(
    network: Network, data: Encoded, space: LabelSpace, settings: TrainSettings, *, objective: Objective, device: str
) -> None:
    """Fit the output layer of a new head on the training rows, with everything below it as it is."""
    import numpy as np

    from clearhead.classic import fit_probe

    features, targets = compute_head_features(network, data, settings, objective, device)
    if space.kind != "multilabel":  # rows, or the words of a text, one label each
        space = LabelSpace(names=space.names, kind="classes")
    linear = fit_probe(
        features, targets, space, tried=MAX_TUNING_ROWS, class_weight=settings.class_weight, seed=settings.seed
    )
    weight, bias = linear.weight, linear.bias
    if space.kind == "classes":
        seen = np.isin(np.arange(len(bias)), targets)
        bias = np.where(seen, bias, bias[seen].min() - UNSEEN_GAP)
    assert network.head is not None
    out = network.head.out
    with torch.no_grad():
        out.weight.copy_(torch.as_tensor(weight))
        out.bias.copy_(torch.as_tensor(bias))


def compute_head_features(
    network: Network, data: Encoded, settings: TrainSettings, objective: Objective, device: str
) -> tuple[Array, Any]:
    """The activations before the output layer, without dropout, and the targets: of rows, or of words with a tag."""
    import numpy as np

    rows = np.random.default_rng(settings.seed).permutation(len(data))[:MAX_ROWS]
    head, was_training = network.head, network.training
    examples = objective.linear_examples
    assert head is not None
    assert examples is not None
    out = head.out
    made: list[Array] = []
    targets: list[Any] = []
    count = 0
    network.eval()
    head.out = torch.nn.Identity()  # type: ignore[assignment]
    try:
        with torch.no_grad():
            for places in split_micro_batches(data.row_tokens[rows], settings.micro_tokens):
                part = data.take(rows[places])
                with use_precision(settings.precision, device):
                    outputs = compute_logits(network, part, device).float()
                found, known = examples(outputs, part)
                made.append(found.cpu().numpy())
                targets.append(known)
                count += len(known)
                if count >= MAX_ROWS:
                    break
    finally:
        head.out = out
        network.train(was_training)
    return np.concatenate(made), np.concatenate(targets)
