"""Everything that a run of pre-training is made of, how it begins, and how it is judged on the way."""

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
    """Everything that a run is made of, and the judgements so far."""

    model: Model
    network: Any  # the network, or ELECTRA's two
    objective: PretrainObjective
    sampler: BatchSampler
    texts: PretrainTexts
    held_out_batches: list[PretrainBatch]  # questions about held-out text
    plan: PretrainPlan
    events: RunEvents
    counts: baselines.TokenCounts | None = None

    @property
    def device(self) -> str:
        return str(self.model.core.device)

    def count_tokens(self) -> baselines.TokenCounts:
        """How often words occur, counted once."""
        if self.counts is None:
            self.events.progress("counting words", 0, None)
            self.counts = baselines.count_tokens(self.texts.train, self.model.shape.stack.vocab_size)
        return self.counts

    def evaluate(self, step: int, most: int) -> HeldOutScores:
        """Measure, and let the model say a few words."""
        lessons = take_tokens(self.held_out_batches, most)
        made = score_held_out(
            self.network, lessons, self.count_tokens(), self.sampler.vocab.is_special, step=step, device=self.device
        )
        if not math.isfinite(made.loss):  # there is nothing to ask a network without numbers
            return made
        return replace(made, samples=sample_predictions(self.language_model(), self.objective.name))

    def language_model(self) -> Model:
        """What can be asked for words: the model, or ELECTRA's generator."""
        if self.objective.name != "rtd":
            return self.model
        return generator_model(self.model, self.network)


def generator_model(model: Model, game: ElectraPair) -> Model:
    """ELECTRA's generator as a model of its own."""
    from clearhead.core.runner import CoreRunner

    runner = CoreRunner(game.generator, str(model.core.device))
    return replace(model, runner=runner, make_core=None, config=game.config, head="masked")


def init_new_weights(exam: PretrainRun) -> None:
    """Spare what is new what is slow to find out; what a checkpoint has learned stays as it is."""
    from clearhead.training.pretrain_loop import init_new_network, init_output_bias

    around = exam.plan.attention_init == "local"
    if exam.plan.model is None:
        init_new_network(exam.network, exam.count_tokens().probs, local_attention=around)
    elif exam.objective.name == "rtd" and exam.network.fresh:
        init_new_network(exam.network.generator, exam.count_tokens().probs, local_attention=around)
    elif "head.out.bias" in exam.model.fresh and len(exam.model.fresh) > 1:  # a bias alone is one of zeros, left out
        init_output_bias(exam.network, exam.count_tokens().probs)
