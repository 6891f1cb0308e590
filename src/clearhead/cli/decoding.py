"""The options of decoding that `translate` and `generate` share; what each verb sets by default is its own."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cyclopts import Parameter

from clearhead.cli.screen import say
from clearhead.errors import ClearheadError, InputError
from clearhead.files import discard, named, read_json, write_json, writing

STANDARD_OUTPUT = Path("-")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How the words are chosen, beyond the beam and the longest length.

    Parameters
    ----------
    best
        How many answers to each text, the best first; at most --beam, or that many samples.
    min_length
        Tokens of an answer at least.
    length_penalty
        Above 0 longer answers are preferred, below 0 shorter ones.
    sample
        Draw every word by its probability; --beam is then 1.
    temperature
        Sampling temperature: lower is more deterministic, higher is more random.
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
        What every answer begins with.
    forbid
        A word that no answer may have; may be given several times.
    stop
        A text at which an answer ends; may be given several times.
    """

    best: int = 1
    min_length: int | None = None
    length_penalty: float = 1.0
    sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0
    no_repeat_ngram: int = 0
    repetition_penalty: float | None = None
    prefix: str = ""
    forbid: list[str] | None = None
    stop: list[str] | None = None

    def choices(self, *, beam: int, max_length: int) -> dict[str, Any]:
        """Fields of `Decoding`, as `Model.generate` takes them."""
        made = {name: value for name, value in vars(self).items() if name not in ("forbid", "stop")}
        made |= {"forbidden": tuple(self.forbid or ()), "stop": tuple(self.stop or ())}
        return made | {"beam": 1 if self.sample else beam, "max_length": max_length}


@contextmanager
def answers_file(
    output: Path | None, job: object, *, as_json: bool, quiet: bool, ranked: bool = False
) -> Iterator[tuple[IO[str], int]]:
    """Where the answers go, and how many of them a stopped job left there; `ranked` ones take several lines each.

    They are gathered in a partial file, which the same `job` continues, and which gets its name when it is complete. A
    file that exists is never touched.
    """
    from clearhead.predict.files import partial_files
    from clearhead.translate.stream import lines_done, ranked_done

    if output is None:
        yield sys.stdout, 0
        return
    if output.is_file() or output.is_symlink():
        raise InputError(f"Output file {named(output)} already exists; remove it, or name another one.")
    with writing(output):
        if output.exists():  # a device or a pipe
            with output.open("a", encoding="utf-8") as into:
                yield into, 0
            return
        partial, mark = partial_files(output)
        key = hashlib.sha256(repr(job).encode("utf-8", "surrogatepass")).hexdigest()
        if _job_of(mark) != key:  # of another job, or of none
            discard(mark)
            discard(partial)
        done = ranked_done(partial) if ranked else lines_done(partial, as_json=as_json)
        if done:
            say(f"{done:,} lines of {output} are there already; going on after them", quiet=quiet)
        write_json(mark, {"job": key})
        with partial.open("a", encoding="utf-8") as into:
            yield into, done
            into.flush()
            os.fsync(into.fileno())
        discard(mark)
        partial.replace(output)


def _job_of(mark: Path) -> object:
    """Which job a partial file belongs to; None where nothing says it."""
    try:
        return read_json(mark).get("job")
    except ClearheadError:
        return None


def texts_given(
    text: str,
    column: str | None,
    *,
    format: str | None = None,  # noqa: A002
    expected: Sequence[str] = (),
) -> Iterable[str]:
    """The lines of a file or a pipe, or the one text itself."""
    from clearhead.cli.texts import read_texts

    if comes_in_lines(text):
        return read_texts(text, column, format=format, expected=expected)
    if format is not None:
        raise InputError(f"--input-format is for files and standard input, and {text[:60]!r} is a text.")
    if column is not None:
        raise InputError(f"--column is for files, and {text[:60]!r} is none.")
    return [text]


def comes_in_lines(text: str) -> bool:
    """Whether this names a file or standard input, and is no text itself."""
    try:
        return text == "-" or Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or no name at all
        return False
