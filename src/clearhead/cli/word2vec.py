"""clearhead word2vec: a vector for each word of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.cli.screen import print_json, print_table, say, stages
from clearhead.cli.streams import input_bytes


def word2vec(
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    mode: Literal["skipgram", "cbow"] = "skipgram",
    width: int = 100,
    window: int = 5,
    negative: int = 5,
    min_count: int = 5,
    epochs: int = 5,
    rate: float = 0.025,
    sample: float = 1e-3,
    seed: int = 0,
    threads: int = 1,
    text: str | None = None,
    encoding: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Learn a vector for each word of a text by guessing its neighbours: word2vec with negative sampling.

    Parameters
    ----------
    files
        Plain text, a line or a paragraph a line, .csv, .tsv, .jsonl, .parquet, also with .gz; - is standard input.
    output
        A new folder, or a word2vec file by its ending: .txt, .vec or .bin.
    mode
        skipgram guesses the neighbours of a word, cbow a word from its neighbours: faster, and weaker on rare words.
    width
        How many numbers a word has.
    window
        How many neighbours on each side count at most.
    negative
        How many words that are no neighbours each guess is compared with.
    min_count
        Words that come less often are left out.
    epochs
        How often the text is read.
    rate
        The first learning rate; it falls evenly.
    sample
        Words that make up more than this share of the text are often passed over; 0: none is.
    seed
        What chance begins with; with one thread, the same seed gives the same vectors.
    threads
        How many threads learn at once.
    text
        The columns of a table that hold text, commas between them.
    encoding
        The encoding of the files; detected without it.
    json
        Print one JSON object.
    quiet
        Say nothing.
    """
    from clearhead import api
    from clearhead.errors import InputError

    if not files:
        raise InputError("Name at least one file of text, or - for standard input.")
    if files.count("-") > 1:
        raise InputError("Standard input can be read once.")
    given = [input_bytes() if name == "-" else Path(name) for name in files]
    with stages(quiet=quiet or json) as bar:
        made = api.word2vec(
            given,
            output,
            mode=mode,
            width=width,
            window=window,
            negative=negative,
            min_count=min_count,
            epochs=epochs,
            rate=rate,
            sample=sample,
            seed=seed,
            threads=threads,
            text=text,
            encoding=encoding,
            progress=bar,
        )
    if json:
        print_json(made.to_json() | {"output": str(output)})
        return
    for note in made.vectors.notes:
        say(note, quiet=quiet)
    if quiet:
        return
    rare = made.different - len(made.vectors)
    rows = [
        ("words", f"{len(made.vectors):,} of width {made.vectors.width}; {rare:,} rarer ones left out"),
        ("read", f"{made.read:,} words in {made.sentences:,} lines, {epochs} times"),
        ("learned in", f"{made.seconds:.1f} s, {made.to_json()['words_per_second']:,} words a second"),
    ]
    print_table(("what", "value"), rows, title=str(output))
