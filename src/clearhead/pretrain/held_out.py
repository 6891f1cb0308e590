"""Judging a model on text that was held out, beside what words alone would tell."""

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

STUCK_RATIO = 0.98  # of the unigram's loss: what is not clearly below it has not learned to read
SENTENCE = "The man went to the {mask} to buy a {mask} of milk."
PROMPT = "The man went to the"
TOP_PREDICTIONS = 3


@dataclass(frozen=True, kw_only=True)
class HeldOutScores:
    """What was measured on held-out text at a step."""

    step: int
    loss: float  # of a word that is asked about
    perplexity: float
    accuracy: float
    low: float  # 95 % interval of the accuracy
    high: float
    loss_low: float
    loss_high: float
    questions: int
    unigram: Baseline
    bigram: Baseline
    pair_accuracy: float | None = None  # next sentence, or sentence order
    pair_majority: float | None = None
    replaced_accuracy: float | None = None  # of ELECTRA's model
    replaced_majority: float | None = None
    replaced_loss: float | None = None
    samples: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def check(self, name: str) -> None:
        """One sentence where a file holds what cannot have been measured."""
        values = (self.loss, self.accuracy, self.low, self.high, self.unigram.loss, self.bigram.loss)
        if self.step < 1 or self.questions < 0 or not all(map(math.isfinite, values)):
            raise CheckpointError(f"{name} is damaged: expected finite numbers at each step, got {to_printable(self)}.")

    def summary(self) -> str:
        """One line for people."""
        beside = f"(unigram {self.unigram.loss:.3f}, bigram {self.bigram.loss:.3f})"
        made = f"held-out loss {self.loss:.3f} {beside}, words right {self.accuracy:.1%}"
        if self.pair_accuracy is not None:
            made += f", pairs right {self.pair_accuracy:.1%}"
        if self.replaced_accuracy is not None and self.replaced_majority is not None:
            made += f", replaced words told {self.replaced_accuracy:.1%} (majority {self.replaced_majority:.1%})"
        return made

    @property
    def score(self) -> float:
        """What weights are compared by, higher is better; of ELECTRA the last are best.

        What its model is asked gets harder as the generator learns, so that its losses cannot be compared over time.
        """
        if self.replaced_loss is None:
            return -self.loss
        return float(self.step) if math.isfinite(self.loss + self.replaced_loss) else math.nan

    @property
    def is_stuck(self) -> bool:
        """Whether words are guessed no better than by their frequency."""
        return self.loss >= STUCK_RATIO * self.unigram.loss


def score_held_out(
    network: Any, lessons: Sequence[PretrainBatch], counts: TokenCounts, special: Array, *, step: int, device: str
) -> HeldOutScores:
    """Ask every question of the lessons; those about special tokens, such as sentinels, are not counted."""
    from clearhead.training.objectives.pretraining import score_targets

    network.eval()
    found: dict[str, list[TargetScores]] = {}
    for number, lesson in enumerate(lessons):
        for name, answers in score_targets(network, lesson, device, seed=number).items():
            found.setdefault(name, []).append(answers)
    words, real = found["words"], [~special[lesson.labels] for lesson in lessons]
    owners = [one.text_indices[some] for one, some in zip(words, real, strict=True)]
    losses, low, high = estimate_clustered_mean(
        [one.losses[some] for one, some in zip(words, real, strict=True)], owners
    )
    right, right_low, right_high = estimate_clustered_mean(
        [one.correct[some] for one, some in zip(words, real, strict=True)], owners
    )
    asked = np.concatenate([lesson.labels[some] for lesson, some in zip(lessons, real, strict=True)])
    before = np.concatenate([lesson.previous_ids[some] for lesson, some in zip(lessons, real, strict=True)])
    more: dict[str, Any] = {}
    if "pairs" in found:
        labels = [lesson.pair_labels for lesson in lessons if lesson.pair_labels is not None]
        more["pair_accuracy"] = float(np.concatenate([one.correct for one in found["pairs"]]).mean())
        more["pair_majority"] = baselines.majority_share(labels)
    if "replaced" in found:
        more["replaced_accuracy"] = float(np.concatenate([one.correct for one in found["replaced"]]).mean())
        more["replaced_loss"] = float(np.concatenate([one.losses for one in found["replaced"]]).mean())
        more["replaced_majority"] = 1 - float(np.concatenate([one.labels for one in found["replaced"]]).mean())
    return HeldOutScores(
        step=step,
        loss=losses,
        perplexity=math.exp(min(losses, 700)),
        accuracy=right,
        low=max(right_low, 0.0),
        high=min(right_high, 1.0),
        loss_low=low,
        loss_high=high,
        questions=len(asked),
        unigram=baselines.score_unigram(counts, asked),
        bigram=baselines.score_bigram(counts, asked, before),
        **more,
    )


def estimate_clustered_mean(values: Sequence[Array], owners: Sequence[Array]) -> tuple[float, float, float]:
    """A mean over questions with its 95 % interval; the questions of one text are not independent of each other."""
    sums, sizes = [], []
    for some, own in zip(values, owners, strict=True):
        count = int(own.max()) + 1 if len(own) else 0
        sums.append(np.bincount(own, some, count))
        sizes.append(np.bincount(own, minlength=count))
    total, size = np.concatenate(sums), np.concatenate(sizes)
    mean = float(total.sum() / size.sum())
    residual = total - mean * size
    texts = len(size)
    spread = 1.96 * math.sqrt(float((residual**2).sum()) * texts / max(texts - 1, 1)) / float(size.sum())
    return mean, mean - spread, mean + spread


def sample_predictions(model: Model, objective: str, sentence: str | None = None) -> list[str]:
    """What the model says at a few blanks, in words for people; nothing where it cannot read so much."""
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
    guesses = model.fill((sentence or SENTENCE).format(mask=mask), top=TOP_PREDICTIONS)
    return [" · ".join(f"{one.token} {one.probability:.0%}" for one in blank) for blank in guesses]


def _predict_next_tokens(model: Model, prompt: str) -> str:
    """What the forward network expects after a text."""
    ids = model.tokenizer.encode(prompt)
    last = max(place for place, inserted in enumerate(ids.special) if not inserted)
    logits = np.asarray(model.run([ids.ids]).logits)[0, last, 0]
    probs = np.exp(logits - logits.max())
    best = np.argsort(-logits)[:TOP_PREDICTIONS]
    words = zip(model.tokenizer.tokens(int(one) for one in best), probs[best] / probs.sum(), strict=True)
    return " · ".join(f"{word} {prob:.0%}" for word, prob in words)


def _corrupt_sentence() -> str:
    parts = SENTENCE.split("{mask}")
    return parts[0] + "".join(f"<extra_id_{number}>{part}" for number, part in enumerate(parts[1:]))


def explain_stuck_loss(judged: HeldOutScores, steps: int, rate: float) -> str:
    """One sentence about a loss that stands at the unigram's, with the likely causes."""
    causes = []
    if steps < 2000:
        causes.append(f"there were too few steps ({steps:,})")
    if rate > 2e-3:
        causes.append(f"the rate {rate:g} is too high (try 5e-4)")
    elif rate < 1e-4:
        causes.append(f"the rate {rate:g} is too low for a new model (try 1e-3)")
    causes.append("the words of the text stand in no order, or the tokenizer does not fit it")
    return (
        f"The held-out loss is {judged.loss:.3f}, and guessing by frequency alone costs {judged.unigram.loss:.3f}: the "
        f"model has not learned to use what stands around a word. Likely reasons: {'; '.join(causes)}."
    )
