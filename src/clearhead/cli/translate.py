"""clearhead translate: texts, files and pipes through a translator."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from clearhead.cli.decoding import STANDARD_OUTPUT, DecodingOptions, answers_file, comes_in_lines, texts_given
from clearhead.cli.loading import load_model
from clearhead.cli.screen import progress, say
from clearhead.cli.streams import json_text
from clearhead.errors import ClearheadError, InputError

if TYPE_CHECKING:
    from clearhead.model import Model


def translate(
    model: str,
    text: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    /,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"), allow_leading_hyphen=True)] = None,
    column: str | None = None,
    input_format: Annotated[str | None, Parameter(name=("--input-format", "--format"))] = None,
    beam: int = 4,
    max_length: int = 256,
    coverage_penalty: float = 0.0,
    options: DecodingOptions | None = None,
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
        A file for the translations, a line each; without it, or with -, standard output. A job that was stopped goes
        on where it stands. With --best, every translation has a line of its own: the number of its source, its rank,
        its score and the text, with tabs.
    column
        The column of a table that holds the text.
    input_format
        csv, tsv, jsonl or text, where neither a file's name nor a header tells it: standard input is a text a line.
    beam
        How many beginnings are kept while searching; 1 takes the likeliest word each time.
    max_length
        Tokens of a translation at most.
    coverage_penalty
        How much source words that were never looked at count against a translation.
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
    from clearhead.jobs.kinds import local_kind
    from clearhead.model.embedding import TruncationWarning
    from clearhead.translate.evaluate import read_trained
    from clearhead.translate.stream import translate_lines

    choices = (options or DecodingOptions()).choices(beam=beam, max_length=max_length)
    choices["coverage_penalty"] = coverage_penalty
    output = None if output == STANDARD_OUTPUT else output
    if align and not json:
        raise InputError("--align is told by --json: give both, or leave it out.")
    if not text.strip():
        raise InputError("There is no text to translate.")
    known = tuple(read_trained(Path(model)).columns.values())[:1] if local_kind(model) == "translator" else ()
    lines = texts_given(text, column, format=input_format, expected=known)
    loaded = load_model(model, quiet=quiet or json, precision=precision)
    if loaded.shape.decoder is None:
        raise InputError(f"{model} has no decoder, so that it cannot translate.")
    if json and align is not False:
        choices["align"] = _can_align(loaded, asked=align is True, quiet=quiet)
    if replace_unknown:
        choices["replace_unknowns"] = _can_align(loaded, asked=True, quiet=quiet)
    shy = quiet or output is None  # a bar would stand between the translations
    with warnings.catch_warnings(record=True) as caught, progress("translating", quiet=shy) as bar:
        warnings.simplefilter("always", TruncationWarning)
        ranked = choices["best"] > 1 and not json
        job = ("translate", model, text, column, input_format, precision, json, sorted(choices.items()))
        numbered = ranked and (output is not None or comes_in_lines(text))
        with answers_file(output, job, as_json=json, quiet=quiet, ranked=ranked) as (into, done):
            for line in translate_lines(loaded, lines, skip=done, told=bar, **choices):
                if ranked:
                    first = f"{line.number}\t" if numbered else ""
                    into.write("".join(f"{first}{one}\n" for one in line.ranked))
                else:
                    into.write((json_text(line.to_json(), into) if json else line.text) + "\n")
                into.flush()
    for warning in caught:
        say(str(warning.message), quiet=quiet)
    if output is not None:
        say(f"translations: {output}", quiet=quiet)


def _can_align(model: Model, *, asked: bool, quiet: bool) -> bool:
    """Whether words can be aligned; what was asked for and cannot be is an error, the rest is said and left out."""
    from clearhead.model.alignment import Aligner

    try:
        Aligner(model)
    except ClearheadError as error:
        if asked:
            raise
        say(f"no alignments: {error}", quiet=quiet)
        return False
    return True
