"""The context of a pre-training run, its weight initialization and its evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.jobs.events import RunEvents
from clearhead.model import Model
from clearhead.pretrain.data import BatchSampler, PretrainTexts, take_tokens
from clearhead.pretrain.held_out import HeldOutScores, sample_predictions, score_held_out
from clearhead.pretrain.plan import PretrainPlan
from clearhead.pretraining import baselines
from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.objective import PretrainObjective

if TYPE_CHECKING:
    from clearhead.training.objectives.pretraining import ElectraPair


@dataclass(kw_only=True)
class PretrainRun:
    """Model, data and plan of a pre-training run."""

    model: Model
    network: Any  # the network, or the `ElectraPair`
    objective: PretrainObjective
    sampler: BatchSampler
    texts: PretrainTexts
    held_out_batches: list[PretrainBatch]  # targets in held-out text
    plan: PretrainPlan
    events: RunEvents
    counts: baselines.TokenCounts | None = None

    @property
    def device(self) -> str:
        return str(self.model.core.device)

    def count_tokens(self) -> baselines.TokenCounts:
        """Count the tokens of the training text, once."""
        if self.counts is None:
            self.events.progress("counting tokens", 0, None)
            self.counts = baselines.count_tokens(self.texts.train, self.model.shape.stack.vocab_size)
        return self.counts

    def evaluate(self, step: int, max_tokens: int) -> HeldOutScores:
        """Score the held-out text, and predict the blanks of an example sentence."""
        batches = take_tokens(self.held_out_batches, max_tokens)
        scores = score_held_out(
            self.network, batches, self.count_tokens(), self.sampler.vocab.is_special, step=step, device=self.device
        )
        if not math.isfinite(scores.loss):  # a diverged network predicts nothing
            return scores
        return replace(scores, samples=sample_predictions(self.language_model(), self.objective.name))

    def language_model(self) -> Model:
        """Return the model that predicts tokens: the model itself, or ELECTRA's generator."""
        if self.objective.name != "rtd":
            return self.model
        return generator_model(self.model, self.network)


def generator_model(model: Model, pair: ElectraPair) -> Model:
    """Return ELECTRA's generator as a separate model."""
    from clearhead.core.runner import CoreRunner

    runner = CoreRunner(pair.generator, str(model.core.device))
    return replace(model, runner=runner, make_core=None, config=pair.config, head="masked")


def init_new_weights(run: PretrainRun) -> None:
    """Initialize new weights from token frequencies and local attention; weights of a checkpoint stay unchanged."""
    from clearhead.training.pretrain_loop import init_new_network, init_output_bias

    use_local_attention = run.plan.attention_init == "local"
    if run.plan.model is None:
        init_new_network(run.network, run.count_tokens().probs, local_attention=use_local_attention)
    elif run.objective.name == "rtd" and run.network.fresh:
        init_new_network(run.network.generator, run.count_tokens().probs, local_attention=use_local_attention)
    elif "head.out.bias" in run.model.fresh and len(run.model.fresh) > 1:  # a missing bias alone was zero
        init_output_bias(run.network, run.count_tokens().probs)
