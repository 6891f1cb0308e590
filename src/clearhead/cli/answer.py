"""One answer on the screen: what `clearhead predict MODEL "a text"` prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clearhead.cli.screen import UNSEEN, print_json, say
from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.api.support import Prediction, Predictor

BAR = 24  # characters of a probability of 1
NEW_LINE = "\n"  # in a label or an answer
MOST_LABELS = 10  # that are listed, the most probable ones


def print_answer(predictor: Predictor, made: Prediction, texts: Sequence[str], *, json: bool, quiet: bool) -> None:
    """One JSON object, the bare answer, or the answer with its probabilities; an option is shown by its text."""
    if json:
        print_json(made.to_json())
        return
    if made.option is not None:
        made = made.with_option_names(texts[-len(made.probabilities) :])
    if made.truncated:
        say(f"{made.truncated:,} tokens were cut off: the text is longer than the model reads", quiet=quiet)
    lines = [_plain(made)] if quiet else _lines(predictor, made)
    sys.stdout.write("".join(f"{UNSEEN.sub('?', line.replace(NEW_LINE, ' '))}\n" for line in lines))


def _plain(made: Prediction) -> str:
    """The answer alone; empty when the model abstains."""
    if made.value is not None:
        return f"{made.value:.4f}"
    if made.tags is not None:
        return " ".join(made.tags)
    if made.labels is not None:
        return ", ".join(made.labels)
    return made.label or made.answer or ""


def _lines(predictor: Predictor, made: Prediction) -> list[str]:
    if made.value is not None:
        return [f"{made.value:.4f}"]
    if made.tags is not None:
        return _tagged(made)
    if made.answer is not None:
        return _found(made)
    threshold = predictor.calibration.abstain_below
    sure = "" if made.probability is None else f" {made.probability:.3f}"
    if made.abstained:
        limit = "" if threshold is None else f", less than {threshold:g}"
        return [f"no answer (probability{sure}{limit})", *_bars(made)]
    head = f"{_plain(made)}{sure}" if made.labels is None else (_plain(made) or "no label")
    return [head, *_bars(made)]


def _bars(made: Prediction) -> list[str]:
    """A bar for each label, the most probable first."""
    best = sorted(made.probabilities.items(), key=lambda item: -item[1])
    wide = max((len(name) for name, _ in best[:MOST_LABELS]), default=0)
    sign = _sign()
    lines = [f"  {name:<{wide}}  {sign * round(BAR * prob):<{BAR}}  {prob:.3f}" for name, prob in best[:MOST_LABELS]]
    left = len(best) - MOST_LABELS
    return [*lines, f"  and {left} labels more"] if left > 0 else lines


def _sign() -> str:
    try:
        "█".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#"
    return "█"


def _tagged(made: Prediction) -> list[str]:
    """What was found, with its place in the text; a text without anything says so."""
    if not made.spans:
        tags = " ".join(made.tags or ())
        return ["nothing found" if not tags.replace("O", "").strip() else tags]
    wide = max(len(span.text) for span in made.spans)
    return [f"{span.text:<{wide}}  {span.label}  {span.probability:.3f}" for span in made.spans]


def _found(made: Prediction) -> list[str]:
    """The answer with its probability, and the next ones."""
    sure = "" if made.probability is None else f" {made.probability:.3f}"
    head = f"{made.answer}{sure}" if made.answer else f"no answer in the passage{sure}"
    others = [f"  {span.text}  {span.probability:.3f}" for span in made.nbest if span.text != made.answer]
    return [head, *others]


def refuse_file_options(given: dict[str, Any]) -> None:
    """Options that only rows of a file have, together with a text."""
    for name, value in given.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')} is for files; a text is answered on the screen.")


__all__ = ["print_answer", "refuse_file_options"]
