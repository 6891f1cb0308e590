"""clearhead ask: answer a question from a passage."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from clearhead.cli.loading import download_bars
from clearhead.cli.options import DATA, OUTPUT, AbstainBelow, Json, Precision, Quiet
from clearhead.cli.screen import UNSAFE_CHARACTERS, model_notes, print_json, print_note
from clearhead.cli.streams import input_bytes
from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.api.support import FoundSpan, Prediction

CONTEXT = 60  # characters of the passage shown on each side of the answer
MAX_PASSAGE = 8 << 20  # bytes


def ask(
    model: str,
    question: str,
    passage: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # - is standard input
    /,
    *,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True, group=DATA)] = None,
    top: Annotated[int | None, Parameter(group=OUTPUT)] = None,
    abstain_below: AbstainBelow = None,
    precision: Precision = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Answer a question from a passage. A long passage is read in overlapping windows.

    Parameters
    ----------
    model
        A question answering model: a folder of `clearhead train --task span`, or a checkpoint trained on SQuAD.
    question
        The question.
    passage
        The passage, or - for standard input.
    file
        A file with the passage, or - for standard input.
    top
        Number of answers to list, most probable first (default: 1; 5 with --json).
    """
    from clearhead import api

    text = _read_passage(passage, file)
    with model_notes(quiet=quiet), download_bars(quiet=quiet or json) as bars:
        predictor = api.load_predictor(model, abstain_below=abstain_below, precision=precision, progress=bars)
        answer = api.ask(predictor, question, text, **({} if top is None else {"top": top}))
    if json:
        start, end = answer.place or (None, None)
        print_json({"question": question, **answer.to_json(), "answer": answer.answer, "start": start, "end": end})
        return
    if answer.truncated:
        from clearhead.api.support import pluralize

        tokens = pluralize(answer.truncated, "token", ("was", "were"))
        print_note(f"The passage is too long for the model; {tokens} truncated.", quiet=quiet)
    threshold = predictor.calibration.abstain_below
    lines = [answer.answer or ""] if quiet else _format_answer(answer, text, top or 1, threshold)
    sys.stdout.write("".join(f"{UNSAFE_CHARACTERS.sub(' ', line)}\n" for line in lines))


def _read_passage(passage: str | None, file: str | None) -> str:
    """The passage itself, or the content of a file or of standard input."""
    from clearhead.api.support import describe_os_error, format_path, is_text

    if (passage is None) == (file is None):
        problem = "No passage given" if passage is None else "Two passages given"
        raise InputError(f"{problem}; write it after the question, or name a file with --file (- for standard input).")
    name = file if file is not None else passage
    if name != "-" and file is None:
        if not is_text(str(name)):
            problem = "is a file" if Path(str(name)).exists() else "looks like a file name, but does not exist"
            raise InputError(f"{format_path(name)} {problem}; read the passage from a file with --file.")
        return str(name)
    try:
        data = input_bytes().read(MAX_PASSAGE + 1) if name == "-" else _read_bytes(Path(str(name)))
    except (OSError, ValueError) as error:
        raise InputError(f"{format_path(name)} cannot be read: {describe_os_error(error)}.") from None
    title = "Standard input" if name == "-" else format_path(name)
    if len(data) > MAX_PASSAGE:
        raise InputError(f"{title} is larger than {MAX_PASSAGE >> 20} MB, the maximum for a passage.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{title} is not UTF-8 text (byte {error.start:,}).") from None
    if not text.strip():
        raise InputError(f"{title} contains no text.")
    return text


def _read_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_PASSAGE + 1)


def _format_answer(answer: Prediction, passage: str, top: int, threshold: float | None) -> list[str]:
    """The answer with its probability and context, and the next best ones."""
    probability = f"probability {answer.probability:.3f}"
    if answer.abstained:
        lines = [f"no answer ({probability}{'' if threshold is None else f', below {threshold:g}'})"]
    elif not answer.answer:
        lines = [f"The passage does not answer this question ({probability})."]
    else:
        start, end = answer.place or (0, 0)
        lines = [
            f"{answer.answer}  ({probability}, characters {start:,} to {end:,})",
            f"  {_mark_in_context(passage, start, end)}",
        ]
    return [*lines, *_format_candidates(answer.nbest, top)] if top > 1 else lines


def _format_candidates(spans: tuple[FoundSpan, ...], top: int) -> list[str]:
    """One line for each of the best answers."""
    width = min(max((len(span.text) for span in spans[:top]), default=0), CONTEXT)
    return [
        f"{rank:>3}. {span.probability:.3f}  {span.text:<{width}}  characters {span.start:,} to {span.end:,}"
        for rank, span in enumerate(spans[:top], start=1)
    ]


def _mark_in_context(passage: str, start: int, end: int) -> str:
    """The answer in brackets with the words around it, on one line."""
    before, after = passage[max(0, start - CONTEXT) : start], passage[end : end + CONTEXT]
    if start > CONTEXT:
        before = f"...{before[before.find(' ') :] if ' ' in before else before}"
    if end + CONTEXT < len(passage):
        after = f"{after[: after.rfind(' ')] if ' ' in after else after} ..."
    return " ".join(f"{before}[{passage[start:end]}]{after}".split())
