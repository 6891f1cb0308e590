"""One text or two, a number: how similar, how urgent, how many stars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.task import Answers, Reading, Task

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]


def read(logits: Array, space: LabelSpace, reading: Reading) -> Answers:
    """The single output is the answer."""
    import numpy as np

    return Answers(labels=logits.reshape(len(logits), -1)[:, 0].astype(np.float64))


def measure(answers: Answers, targets: Array, space: LabelSpace, n: int) -> dict[str, Interval]:
    """Correlations and errors, with n resamples for the intervals."""
    from clearhead.metrics import measure as measured

    return measured("regress", targets, answers.labels, n=n)


REGRESS = Task(
    name="regress",
    about="one text or two, a number",
    head="classify",
    second=None,
    kinds=("number",),
    outputs=lambda space: ("score",),
    objective=lambda space: "squared",
    read=read,
    fit=lambda logits, targets, space: Reading(),
    measure=measure,
    confidence=lambda answers: None,
    right=lambda answers, targets: None,
    main=lambda space: "r2",  # a correlation does not see the unit: answers that are all but equal can have a high one
)
