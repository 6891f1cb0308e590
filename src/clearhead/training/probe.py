"""Linear probing before fine-tuning: a new head starts as the best linear model on frozen features of the encoder.

A randomly initialized head sends random gradients into the encoder until it has learned something itself, and with few
rows the encoder loses more than it gains. Kumar et al. (2022, LP-FT) fit the head on frozen features first, then train
all weights. The fit is a logistic or ridge regression on the activations before the output matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from clearhead.data import LabelSpace
from clearhead.tasks.packed import PackedDataset
from clearhead.training.loop import compute_logits, split_micro_batches
from clearhead.training.objectives import Objective
from clearhead.training.precision import use_precision
from clearhead.training.settings import TrainSettings

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.models import Network

    Array = np.ndarray[Any, Any]

MAX_ROWS = 10_000  # training rows, or tagged words, that a head is fitted on
MAX_TUNING_ROWS = 4_000  # of these, rows that the regularization is tuned on
UNSEEN_GAP = 10.0  # how far the bias of a class without training rows is below the lowest other bias


def can_probe(network: Network, objective: Objective) -> bool:
    """Whether the head ends in a linear layer that a linear model can initialize."""
    has_linear_examples = objective.linear_examples is not None
    return network.head is not None and has_linear_examples and network.head.out.bias is not None


def probe_head(
    network: Network,
    data: PackedDataset,
    space: LabelSpace,
    settings: TrainSettings,
    *,
    objective: Objective,
    device: str,
) -> None:
    """Fit the output layer of a new head on the training rows; all other weights stay unchanged."""
    import numpy as np

    from clearhead.classic import fit_probe

    features, targets = compute_head_features(network, data, settings, objective, device)
    if space.kind != "multilabel":  # one label per row, or per word
        space = LabelSpace(names=space.names, kind="classes")
    linear = fit_probe(
        features, targets, space, selection_rows=MAX_TUNING_ROWS, class_weight=settings.class_weight, seed=settings.seed
    )
    weight, bias = linear.weight, linear.bias
    if space.kind == "classes":
        is_seen = np.isin(np.arange(len(bias)), targets)
        bias = np.where(is_seen, bias, bias[is_seen].min() - UNSEEN_GAP)
    assert network.head is not None
    output_layer = network.head.out
    with torch.no_grad():
        output_layer.weight.copy_(torch.as_tensor(weight))
        output_layer.bias.copy_(torch.as_tensor(bias))


def compute_head_features(
    network: Network, data: PackedDataset, settings: TrainSettings, objective: Objective, device: str
) -> tuple[Array, Any]:
    """The activations before the output layer, without dropout, and the targets: of rows, or of tagged words."""
    import numpy as np

    rows = np.random.default_rng(settings.seed).permutation(len(data))[:MAX_ROWS]
    head, was_training = network.head, network.training
    select_examples = objective.linear_examples
    assert head is not None
    assert select_examples is not None
    output_layer = head.out
    features: list[Array] = []
    targets: list[Any] = []
    count = 0
    network.eval()
    head.out = torch.nn.Identity()  # type: ignore[assignment]
    try:
        with torch.no_grad():
            for micro_rows in split_micro_batches(data.row_tokens[rows], settings.micro_tokens):
                batch = data.take(rows[micro_rows])
                with use_precision(settings.precision, device):
                    outputs = compute_logits(network, batch, device).float()
                batch_features, batch_targets = select_examples(outputs, batch)
                features.append(batch_features.cpu().numpy())
                targets.append(batch_targets)
                count += len(batch_targets)
                if count >= MAX_ROWS:
                    break
    finally:
        head.out = output_layer
        network.train(was_training)
    return np.concatenate(features), np.concatenate(targets)
