"""Scores of a model on held-out text, compared with the unigram and bigram baselines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.errors import CheckpointError, InputError
from clearhead.files import to_printable
from clearhead.model import Model
from clearhead.pretraining import baselines
from clearhead.pretraining.baselines import Baseline, TokenCounts
from clearhead.pretraining.batch import PretrainBatch

if TYPE_CHECKING:
    from clearhead.training.objectives.pretraining import TargetScores

Array = np.ndarray[Any, Any]

STUCK_RATIO = 0.98  # of the unigram loss: a model that is not clearly below it has learned only token frequencies
SENTENCE = "The man went to the {mask} to buy a {mask} of milk."
PROMPT = "The man went to the"
TOP_PREDICTIONS = 3


@dataclass(frozen=True, kw_only=True)
class HeldOutScores:
    """Scores on held-out text at a step."""

    step: int
    loss: float  # mean cross-entropy per predicted token
    perplexity: float
    accuracy: float
    low: float  # 95 % interval of the accuracy
    high: float
    loss_low: float
    loss_high: float
    questions: int
    unigram: Baseline
    bigram: Baseline
    pair_accuracy: float | None = None  # of next sentence or sentence order
    pair_majority: float | None = None
    replaced_accuracy: float | None = None  # of ELECTRA's discriminator
    replaced_majority: float | None = None
    replaced_loss: float | None = None
    samples: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    def check(self, file_name: str) -> None:
        """Refuse stored values that cannot be scores."""
        values = (self.loss, self.accuracy, self.low, self.high, self.unigram.loss, self.bigram.loss)
        if self.step < 1 or self.questions < 0 or not all(map(math.isfinite, values)):
            raise CheckpointError(
                f"{file_name} is damaged: expected finite numbers at each step, got {to_printable(self)}."
            )

    def summary(self) -> str:
        """Return a one-line summary for the log."""
        baseline_losses = f"(unigram {self.unigram.loss:.3f}, bigram {self.bigram.loss:.3f})"
        summary = f"held-out loss {self.loss:.3f} {baseline_losses}, accuracy {self.accuracy:.1%}"
        if self.pair_accuracy is not None:
            summary += f", pair accuracy {self.pair_accuracy:.1%}"
        if self.replaced_accuracy is not None and self.replaced_majority is not None:
            summary += f", replaced-token accuracy {self.replaced_accuracy:.1%} (majority {self.replaced_majority:.1%})"
        return summary

    @property
    def score(self) -> float:
        """The score that selects the best weights, higher is better; for ELECTRA, the last weights.

        The task of its discriminator gets harder as the generator improves, so losses of different steps are not
        comparable.
        """
        if self.replaced_loss is None:
            return -self.loss
        return float(self.step) if math.isfinite(self.loss + self.replaced_loss) else math.nan

    @property
    def is_stuck(self) -> bool:
        """Whether the model predicts tokens no better than by their frequency."""
        return self.loss >= STUCK_RATIO * self.unigram.loss


def score_held_out(
    network: Any, batches: Sequence[PretrainBatch], counts: TokenCounts, is_special: Array, *, step: int, device: str
) -> HeldOutScores:
    """Score the targets of all batches; special tokens, such as sentinels, do not count."""
    from clearhead.training.objectives.pretraining import score_targets

    network.eval()
    scores: dict[str, list[TargetScores]] = {}
    for index, batch in enumerate(batches):
        for name, target_scores in score_targets(network, batch, device, seed=index).items():
            scores.setdefault(name, []).append(target_scores)
    token_scores, is_scored = scores["words"], [~is_special[batch.labels] for batch in batches]
    text_indices = [
        target_scores.text_indices[keep] for target_scores, keep in zip(token_scores, is_scored, strict=True)
    ]
    loss, loss_low, loss_high = estimate_clustered_mean(
        [target_scores.losses[keep] for target_scores, keep in zip(token_scores, is_scored, strict=True)], text_indices
    )
    accuracy, accuracy_low, accuracy_high = estimate_clustered_mean(
        [target_scores.correct[keep] for target_scores, keep in zip(token_scores, is_scored, strict=True)], text_indices
    )
    labels = np.concatenate([batch.labels[keep] for batch, keep in zip(batches, is_scored, strict=True)])
    previous_ids = np.concatenate([batch.previous_ids[keep] for batch, keep in zip(batches, is_scored, strict=True)])
    optional: dict[str, Any] = {}
    if "pairs" in scores:
        pair_labels = [batch.pair_labels for batch in batches if batch.pair_labels is not None]
        optional["pair_accuracy"] = float(
            np.concatenate([target_scores.correct for target_scores in scores["pairs"]]).mean()
        )
        optional["pair_majority"] = baselines.majority_share(pair_labels)
    if "replaced" in scores:
        optional["replaced_accuracy"] = float(
            np.concatenate([target_scores.correct for target_scores in scores["replaced"]]).mean()
        )
        optional["replaced_loss"] = float(
            np.concatenate([target_scores.losses for target_scores in scores["replaced"]]).mean()
        )
        optional["replaced_majority"] = 1 - float(
            np.concatenate([target_scores.labels for target_scores in scores["replaced"]]).mean()
        )
    return HeldOutScores(
        step=step,
        loss=loss,
        perplexity=math.exp(min(loss, 700)),
        accuracy=accuracy,
        low=max(accuracy_low, 0.0),
        high=min(accuracy_high, 1.0),
        loss_low=loss_low,
        loss_high=loss_high,
        questions=len(labels),
        unigram=baselines.score_unigram(counts, labels),
        bigram=baselines.score_bigram(counts, labels, previous_ids),
        **optional,
    )


def estimate_clustered_mean(values: Sequence[Array], text_indices: Sequence[Array]) -> tuple[float, float, float]:
    """Return a mean over targets with its 95 % interval, clustered by text: targets of one text are not independent."""
    sums, sizes = [], []
    for batch_values, batch_texts in zip(values, text_indices, strict=True):
        count = int(batch_texts.max()) + 1 if len(batch_texts) else 0
        sums.append(np.bincount(batch_texts, batch_values, count))
        sizes.append(np.bincount(batch_texts, minlength=count))
    text_sums, text_sizes = np.concatenate(sums), np.concatenate(sizes)
    mean = float(text_sums.sum() / text_sizes.sum())
    residual = text_sums - mean * text_sizes
    text_count = len(text_sizes)
    margin = (
        1.96 * math.sqrt(float((residual**2).sum()) * text_count / max(text_count - 1, 1)) / float(text_sizes.sum())
    )
    return mean, mean - margin, mean + margin


def sample_predictions(model: Model, objective: str, sentence: str | None = None) -> list[str]:
    """Return readable predictions for an example sentence; none if the sentence is too long for the model."""
    try:
        return _predict_sample(model, objective, sentence)
    except InputError:
        return []


def _predict_sample(model: Model, objective: str, sentence: str | None) -> list[str]:
    if model.head == "causal":
        return [model.generate([sentence or PROMPT], max_length=20)[0].text]
    if objective == "span-corruption":
        return [f"{SENTENCE.format(mask='...')} {model.generate([_corrupt_sentence()], max_length=20)[0].text}"]
    if objective == "bilm":
        return [_predict_next_tokens(model, sentence or PROMPT)]
    mask = model.tokenizer.mask_token or "[MASK]"
    blanks = model.fill((sentence or SENTENCE).format(mask=mask), top=TOP_PREDICTIONS)
    return [" · ".join(f"{guess.token} {guess.probability:.0%}" for guess in blank) for blank in blanks]


def _predict_next_tokens(model: Model, prompt: str) -> str:
    """Return the most likely tokens after a text according to the forward network."""
    encoding = model.tokenizer.encode(prompt)
    last = max(index for index, is_special in enumerate(encoding.special) if not is_special)
    logits = np.asarray(model.run([encoding.ids]).logits)[0, last, 0]
    probs = np.exp(logits - logits.max())
    best = np.argsort(-logits)[:TOP_PREDICTIONS]
    tokens = zip(model.tokenizer.tokens(int(token_id) for token_id in best), probs[best] / probs.sum(), strict=True)
    return " · ".join(f"{token} {prob:.0%}" for token, prob in tokens)


def _corrupt_sentence() -> str:
    parts = SENTENCE.split("{mask}")
    return parts[0] + "".join(f"<extra_id_{number}>{part}" for number, part in enumerate(parts[1:]))


def explain_stuck_loss(scores: HeldOutScores, steps: int, learning_rate: float) -> str:
    """Explain a loss that has not improved on the unigram baseline, with the likely causes."""
    causes = []
    if steps < 2000:
        causes.append(f"too few steps ({steps:,})")
    if learning_rate > 2e-3:
        causes.append(f"the learning rate {learning_rate:g} is too high (try 5e-4)")
    elif learning_rate < 1e-4:
        causes.append(f"the learning rate {learning_rate:g} is too low for a new model (try 1e-3)")
    causes.append("the word order of the text is random, or the tokenizer does not fit the text")
    return (
        f"The held-out loss is {scores.loss:.3f}, no better than the unigram baseline ({scores.unigram.loss:.3f}): the "
        f"model has not learned to use context. Likely causes: {'; '.join(causes)}."
    )
