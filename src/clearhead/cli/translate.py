"""clearhead translate: texts, files and pipes through a translator."""

from __future__ import annotations

import json as jsonlib
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import load_model
from clearhead.cli.screen import progress, say
from clearhead.errors import ClearheadError, InputError

if TYPE_CHECKING:
    from clearhead.model import Model


def translate(
    model: str,
    text: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    /,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    column: str | None = None,
    beam: int = 4,
    best: int = 1,
    max_length: int = 256,
    min_length: int | None = None,
    length_penalty: float = 1.0,
    coverage_penalty: float = 0.0,
    sample: bool = False,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    seed: int = 0,
    no_repeat_ngram: int = 0,
    repetition_penalty: float | None = None,
    prefix: str = "",
    forbid: list[str] | None = None,
    stop: list[str] | None = None,
    replace_unknown: bool = False,
    align: bool | None = None,
    precision: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Translate a text, the lines of a file, or what comes through a pipe, in its order.

    Parameters
    ----------
    model
        A translator's folder, or a hub id.
    text
        A text; a file (one text a line, .csv, .tsv, .jsonl); or - for standard input.
    output
        A file for the translations, a line each; a job that was stopped goes on where it stands.
    column
        The column of a table that holds the text.
    beam
        How many beginnings are kept while searching; 1 takes the likeliest word each time.
    best
        How many translations of each text `--json` gives, the best first; at most --beam.
    max_length
        Tokens of a translation at most.
    min_length
        Tokens of a translation at least.
    length_penalty
        Above 0 longer translations are preferred, below 0 shorter ones.
    coverage_penalty
        How much source words that were never looked at count against a translation.
    sample
        Draw every word by its probability; --beam is then 1.
    temperature
        Of samples: below 1 bolder, above 1 wilder.
    top_k
        Of samples: only the so many likeliest words.
    top_p
        Of samples: only the likeliest words that have so much probability together.
    min_p
        Of samples: only words that are so many times as likely as the likeliest.
    seed
        Of samples.
    no_repeat_ngram
        Never so many tokens in a row twice.
    repetition_penalty
        Above 1: words that were said already become less likely.
    prefix
        What every translation begins with.
    forbid
        A word that no translation may have; may be given several times.
    stop
        A text at which a translation ends; may be given several times.
    replace_unknown
        Put the source word that was looked at most where the model says that it does not know a word; needs torch.
    align
        Of `--json`: which source word each word looked at; without it, where the model and torch can tell.
    precision
        float or int8; without it, int8 where `clearhead quantize` found it good enough.
    json
        Print a JSON object for each line: source, translation, score, alignment.
    quiet
        Say nothing but the translations.
    """
    from clearhead.embedding import TruncationWarning
    from clearhead.runs.translating import lines_done, translate_lines

    choices: dict[str, Any] = {
        "beam": 1 if sample else beam, "best": best, "max_length": max_length, "min_length": min_length,
        "length_penalty": length_penalty, "coverage_penalty": coverage_penalty, "sample": sample,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed,
        "no_repeat_ngram": no_repeat_ngram, "repetition_penalty": repetition_penalty, "prefix": prefix,
        "forbidden": tuple(forbid or ()), "stop": tuple(stop or ()),
    }  # fmt: skip
    if align and not json:
        raise InputError("--align is told by --json: give both, or leave it out.")
    lines = _lines(text, column)
    loaded = load_model(model, quiet=quiet or json, precision=precision)
    if loaded.shape.decoder is None:
        raise InputError(f"{model} has no decoder, so that it cannot translate.")
    if json and align is not False:
        choices["align"] = _can_align(loaded, asked=align is True, quiet=quiet)
    if replace_unknown:
        choices["replace_unknowns"] = _can_align(loaded, asked=True, quiet=quiet)
    done = 0 if output is None else lines_done(output, as_json=json)
    if done:
        say(f"{done:,} lines of {output} are there already; going on after them", quiet=quiet)
    try:
        into = sys.stdout if output is None else output.open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error.strerror or error}.") from None
    shy = quiet or output is None  # a bar would stand between the translations
    try:
        with warnings.catch_warnings(record=True) as caught, progress("translating", quiet=shy) as bar:
            warnings.simplefilter("always", TruncationWarning)
            for line in translate_lines(loaded, lines, skip=done, told=bar, **choices):
                into.write((jsonlib.dumps(line.to_json(), ensure_ascii=False) if json else line.text) + "\n")
                into.flush()
    finally:
        if output is not None:
            into.close()
    for warning in caught:
        say(str(warning.message), quiet=quiet)
    if output is not None:
        say(f"translations: {output}", quiet=quiet)


def _can_align(model: Model, *, asked: bool, quiet: bool) -> bool:
    """Whether words can be aligned; what was asked for and cannot be is an error, the rest is said and left out."""
    from clearhead.alignment import Aligner

    try:
        Aligner(model)
    except ClearheadError as error:
        if asked:
            raise
        say(f"no alignments: {error}", quiet=quiet)
        return False
    return True


def _lines(text: str, column: str | None) -> Iterable[str]:
    """The lines of a file or a pipe, or the one text itself."""
    from clearhead.cli.texts import read_texts

    if text == "-" or _is_file(text):
        return read_texts(text, column)
    if column is not None:
        raise InputError(f"--column is for files, and {text[:60]!r} is none.")
    if not text.strip():
        raise InputError("There is no text to translate.")
    return [text]


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or no name at all
        return False
