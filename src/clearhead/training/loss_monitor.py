"""Diagnosis of a run from its training loss: whether it learned more than the frequency of each label."""

from __future__ import annotations

from collections import deque

from clearhead.caller import setting
from clearhead.training.settings import TrainSettings

STUCK_RATIO = 0.98  # fraction of the constant loss above which a run counts as not learning
WINDOW = 200  # number of recent losses that are kept
MAX_RATE_RATIO, MIN_RATE_RATIO = 3, 10  # factors above and below the default rate that are reported as the reason


class LossMonitor:
    """Collects the losses of a run and detects that it does not learn.

    `constant_loss` is the loss of always predicting the most frequent answer; `default_rate` is the learning rate that
    suits the model and the task.
    """

    def __init__(
        self,
        constant_loss: float,
        settings: TrainSettings,
        *,
        generates_text: bool = False,
        default_rate: float | None = None,
    ) -> None:
        self._constant_loss, self._settings, self._generates_text = constant_loss, settings, generates_text
        self._default_rate = settings.learning_rate if default_rate is None else default_rate
        self._losses: deque[float] = deque(maxlen=WINDOW)

    def add(self, loss: float) -> None:
        """Record the loss of a step."""
        self._losses.append(loss)

    def diagnose(self) -> str | None:
        """A message if the recent loss is no better than always predicting the most frequent answer, otherwise None."""
        if not self._losses or self._constant_loss <= 0:
            return None
        recent_losses = list(self._losses)[-max(len(self._losses) // 2, 1) :]
        mean_loss = sum(recent_losses) / len(recent_losses)
        if mean_loss < STUCK_RATIO * self._constant_loss:
            return None
        return (
            f"The training loss is {mean_loss:.3f}, no better than always predicting the most frequent answer "
            f"({self._constant_loss:.3f}); the model learned nothing from the texts. "
            f"Likely reasons: {'; '.join(self._list_reasons())}."
        )

    def _list_reasons(self) -> list[str]:
        settings, rate = self._settings, f"the learning rate {self._settings.learning_rate:g}"
        reasons = []
        if self._generates_text and settings.learning_rate > 5e-3:
            reasons.append(f"{rate} is too high (try 1e-3 for a new model, 5e-5 for a trained one)")
        elif (
            settings.learning_rate > MAX_RATE_RATIO * self._default_rate
            and not settings.freeze_encoder
            and not self._generates_text
        ):
            reasons.append(f"{rate} is too high for this model (try {self._default_rate:g})")
        elif settings.learning_rate < self._default_rate / MIN_RATE_RATIO and not self._generates_text:
            reasons.append(f"{rate} is too low (try {self._default_rate:g})")
        if len(self._losses) < WINDOW:
            reasons.append(f"too few steps ({len(self._losses)}; use more epochs or smaller batches)")
        if settings.freeze_encoder:
            remedy = f"try {setting('method', 'finetune')}, or a higher {setting('head_learning_rate')}"
            reasons.append(f"only the head is trained ({remedy})")
        pair = ("targets", "sources") if self._generates_text else ("labels", "texts of this column")
        return [*reasons, f"the {pair[0]} are unrelated to the {pair[1]}, or are assigned to the wrong rows"]
