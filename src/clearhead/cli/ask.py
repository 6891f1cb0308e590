"""clearhead ask: the answer to a question, found in a passage."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from clearhead.cli.loading import downloads
from clearhead.cli.screen import UNSEEN, model_notes, print_json, say
from clearhead.cli.streams import input_bytes
from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.api.support import FoundSpan, Prediction

AROUND = 60  # characters of the passage that are shown on each side of the answer
MOST_PASSAGE = 8 << 20  # bytes


def ask(
    reference: str,
    question: str,
    passage: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # - is standard input
    /,
    *,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    best: int | None = None,
    abstain_below: float | None = None,
    precision: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Find the answer to a question in a passage; a long passage is read in windows.

    Parameters
    ----------
    reference
        A model that finds answers (`clearhead train` with task span, or a checkpoint trained on SQuAD).
    question
        What you want to know.
    passage
        The text that holds the answer; - for standard input.
    file
        A file with the passage, instead of the passage itself; - for standard input.
    best
        List so many answers, the most probable first; without it, the answer alone, and five in `--json`.
    abstain_below
        Give no answer where the model is less sure than this.
    precision
        float or int8; without it, int8 where `clearhead quantize` found it good enough.
    json
        Print one JSON object: answer, probability, start, end, nbest.
    quiet
        Print the answer alone; nothing where the passage does not say.
    """
    from clearhead import api

    text = _passage(passage, file)
    with model_notes(quiet=quiet), downloads(quiet=quiet or json) as bars:
        predictor = api.load_predictor(reference, abstain_below=abstain_below, precision=precision, progress=bars)
        made = api.ask(predictor, question, text, **({} if best is None else {"best": best}))
    if json:
        start, end = made.place or (None, None)
        print_json({"question": question, **made.to_json(), "answer": made.answer, "start": start, "end": end})
        return
    if made.truncated:
        say(f"{made.truncated:,} tokens were cut off: the passage is longer than the model reads", quiet=quiet)
    lines = [made.answer or ""] if quiet else _lines(made, text, best or 1, predictor.calibration.abstain_below)
    sys.stdout.write("".join(f"{UNSEEN.sub(' ', line)}\n" for line in lines))


def _passage(passage: str | None, file: str | None) -> str:
    """The passage itself, or what a file or standard input holds."""
    from clearhead.api.support import describe_os_error, format_path, is_text

    if (passage is None) == (file is None):
        problem = "There is no passage" if passage is None else "There are two passages"
        raise InputError(f"{problem}: give one after the question, or name a file with --file (- for standard input).")
    name = file if file is not None else passage
    if name != "-" and file is None:
        if not is_text(str(name)):
            what = "is a file" if Path(str(name)).exists() else "looks like a file, and is not there"
            raise InputError(f"{format_path(name)} {what}; the passage of a file is read with --file.")
        return str(name)
    try:
        data = input_bytes().read(MOST_PASSAGE + 1) if name == "-" else _read(Path(str(name)))
    except (OSError, ValueError) as error:
        raise InputError(f"{format_path(name)} cannot be read: {describe_os_error(error)}.") from None
    said = "Standard input" if name == "-" else format_path(name)
    if len(data) > MOST_PASSAGE:
        raise InputError(f"{said} is larger than {MOST_PASSAGE >> 20} MB, which is no passage.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{said} is not UTF-8 text (byte {error.start:,}).") from None
    if not text.strip():
        raise InputError(f"{said} holds no text.")
    return text


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_PASSAGE + 1)


def _lines(made: Prediction, passage: str, best: int, limit: float | None) -> list[str]:
    """The answer with its probability, where it stands, and the others that were asked for."""
    sure = f"probability {made.probability:.3f}"
    if made.abstained:
        head = [f"no answer ({sure}{'' if limit is None else f', less than {limit:g}'})"]
    elif not made.answer:
        head = [f"The passage does not answer this question ({sure})."]
    else:
        start, end = made.place or (0, 0)
        head = [f"{made.answer}  ({sure}, characters {start:,} to {end:,})", f"  {_around(passage, start, end)}"]
    return [*head, *_others(made.nbest, best)] if best > 1 else head


def _others(nbest: tuple[FoundSpan, ...], best: int) -> list[str]:
    """A line for each of the best answers."""
    wide = min(max((len(span.text) for span in nbest[:best]), default=0), AROUND)
    places = [f"characters {span.start:,} to {span.end:,}" for span in nbest[:best]]
    return [
        f"{rank:>3}. {span.probability:.3f}  {span.text:<{wide}}  {place}"
        for rank, (span, place) in enumerate(zip(nbest, places, strict=False), start=1)
    ]


def _around(passage: str, start: int, end: int) -> str:
    """The answer in brackets with the words around it, on one line."""
    before, after = passage[max(0, start - AROUND) : start], passage[end : end + AROUND]
    if start > AROUND:
        before = f"...{before[before.find(' ') :] if ' ' in before else before}"
    if end + AROUND < len(passage):
        after = f"{after[: after.rfind(' ')] if ' ' in after else after} ..."
    return " ".join(f"{before}[{passage[start:end]}]{after}".split())
