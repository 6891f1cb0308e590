"""What the loss says about a run: whether it learned anything beyond how frequent each label is."""

from __future__ import annotations

from collections import deque

from clearhead.caller import setting
from clearhead.training.settings import TrainSettings

STUCK_RATIO = 0.98  # of the baseline's loss: what is not clearly below it is not learning
WINDOW = 200  # steps whose mean loss is looked at
MAX_RATE_RATIO, MIN_RATE_RATIO = 3, 10  # times more or less than the usual rate is said to be too much or too little


class LossMonitor:
    """Follows the loss of a run, and says when it stands still."""

    def __init__(
        self, baseline: float, settings: TrainSettings, *, words: bool = False, usual_rate: float | None = None
    ) -> None:
        self._baseline, self._settings, self._words = baseline, settings, words  # words: answers are texts
        self._usual_rate = (
            settings.learning_rate if usual_rate is None else usual_rate
        )  # that suits the model and the task
        self._losses: deque[float] = deque(maxlen=WINDOW)

    def add(self, loss: float) -> None:
        """The loss of one more step."""
        self._losses.append(loss)

    def diagnose(self) -> str | None:
        """A sentence when the last steps are no better than always giving the most frequent answer."""
        if not self._losses or self._baseline <= 0:
            return None
        recent = list(self._losses)[-max(len(self._losses) // 2, 1) :]
        mean = sum(recent) / len(recent)
        if mean < STUCK_RATIO * self._baseline:
            return None
        return (
            f"The loss stands at {mean:.3f}, and always giving the most frequent answer costs {self._baseline:.3f}: "
            f"nothing was learned from the texts. Likely reasons: {'; '.join(self._list_reasons())}."
        )

    def _list_reasons(self) -> list[str]:
        settings = self._settings
        reasons = []
        if self._words and settings.learning_rate > 5e-3:
            reasons.append(
                f"the rate {settings.learning_rate:g} is too high (try 1e-3 for a new model, 5e-5 for a taught one)"
            )
        elif (
            settings.learning_rate > MAX_RATE_RATIO * self._usual_rate
            and not settings.freeze_encoder
            and not self._words
        ):
            reasons.append(f"the rate {settings.learning_rate:g} is too high for this model (try {self._usual_rate:g})")
        elif settings.learning_rate < self._usual_rate / MIN_RATE_RATIO and not self._words:
            reasons.append(f"the rate {settings.learning_rate:g} is too low (try {self._usual_rate:g})")
        if len(self._losses) < WINDOW:
            reasons.append(f"there were too few steps ({len(self._losses)}; more epochs or smaller batches give more)")
        if settings.freeze_encoder:
            remedy = f"try {setting('method', 'finetune')}, or a higher {setting('head_learning_rate')}"
            reasons.append(f"only the head learns ({remedy})")
        what = "targets do not depend on the sources" if self._words else "labels do not depend on this text column"
        return [*reasons, f"the {what}, or are mixed up"]
