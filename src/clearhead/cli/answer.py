"""The output of `clearhead predict MODEL "a text"`: one answer with its probabilities."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clearhead.cli.screen import make_printable, print_json, print_note
from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.api.support import Prediction, Predictor

BAR_WIDTH = 24  # characters of a probability of 1
MAX_LABELS = 10  # listed, most probable first


def print_answer(predictor: Predictor, answer: Prediction, texts: Sequence[str], *, json: bool, quiet: bool) -> None:
    """Print one JSON object, the bare answer, or the answer with its probabilities; an option is shown by its text."""
    if json:
        print_json(answer.to_json())
        return
    if answer.option is not None:
        answer = answer.with_option_names(texts[-len(answer.probabilities) :])
    if answer.truncated:
        from clearhead.api.support import pluralize

        tokens = pluralize(answer.truncated, "token", ("was", "were"))
        print_note(f"The text is too long for the model; {tokens} truncated.", quiet=quiet)
    lines = [_format_bare(answer)] if quiet else _format_lines(predictor, answer)
    sys.stdout.write("".join(f"{make_printable(line)}\n" for line in lines))


def _format_bare(answer: Prediction) -> str:
    """The answer without its probability; empty if the model abstains."""
    if answer.value is not None:
        return f"{answer.value:.4f}"
    if answer.tags is not None:
        return " ".join(answer.tags)
    if answer.labels is not None:
        return ", ".join(answer.labels)
    return answer.label or answer.answer or ""


def _format_lines(predictor: Predictor, answer: Prediction) -> list[str]:
    if answer.value is not None:
        return [f"{answer.value:.4f}"]
    if answer.tags is not None:
        return _format_entities(answer)
    if answer.answer is not None:
        return _format_spans(answer)
    probability = "" if answer.probability is None else f" {answer.probability:.3f}"
    if answer.abstained:
        threshold = predictor.calibration.abstain_below
        limit = "" if threshold is None else f", below {threshold:g}"
        return [f"no answer (probability{probability}{limit})", *_format_bars(answer)]
    bare = _format_bare(answer)
    return [f"{bare}{probability}" if answer.labels is None else (bare or "no label"), *_format_bars(answer)]


def _format_bars(answer: Prediction) -> list[str]:
    """A bar for each label, most probable first."""
    ranked = sorted(answer.probabilities.items(), key=lambda item: -item[1])
    width = max((len(name) for name, _ in ranked[:MAX_LABELS]), default=0)
    block = _bar_character()
    lines = [
        f"  {name:<{width}}  {block * round(BAR_WIDTH * probability):<{BAR_WIDTH}}  {probability:.3f}"
        for name, probability in ranked[:MAX_LABELS]
    ]
    hidden = len(ranked) - MAX_LABELS
    return [*lines, f"  and {hidden} more labels"] if hidden > 0 else lines


def _bar_character() -> str:
    try:
        "█".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#"
    return "█"


def _format_entities(answer: Prediction) -> list[str]:
    """The entities in a text with their probabilities."""
    if not answer.spans:
        tags = " ".join(answer.tags or ())
        return [tags if tags.replace("O", "").strip() else "no entities"]
    width = max(len(span.text) for span in answer.spans)
    return [f"{span.text:<{width}}  {span.label}  {span.probability:.3f}" for span in answer.spans]


def _format_spans(answer: Prediction) -> list[str]:
    """The answer span with its probability, and the next best ones."""
    probability = "" if answer.probability is None else f" {answer.probability:.3f}"
    best = f"{answer.answer}{probability}" if answer.answer else f"no answer in the passage{probability}"
    others = [f"  {span.text}  {span.probability:.3f}" for span in answer.nbest if span.text != answer.answer]
    return [best, *others]


def refuse_file_options(options: Mapping[str, Any]) -> None:
    """Reject options for files if a single text is predicted."""
    for name, value in options.items():
        if value:
            raise InputError(
                f"--{name.replace('_', '-')} is only for files; the prediction of a single text is printed."
            )


__all__ = ["print_answer", "refuse_file_options"]
