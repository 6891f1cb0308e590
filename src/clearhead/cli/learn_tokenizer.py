"""clearhead learn-tokenizer: a vocabulary of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.screen import print_json, print_table, say, stages
from clearhead.cli.streams import input_bytes


def learn_tokenizer(
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    kind: str | None = None,
    size: int = 8000,
    use: Annotated[str | None, Parameter(name="--for")] = None,
    text: str | None = None,
    special: list[str] | None = None,
    normalize: str | None = None,
    split: str | None = None,
    min_count: int | None = None,
    characters: int | None = None,
    byte_fallback: bool = False,
    limit: int | None = None,
    encoding: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Learn a tokenizer from text: byte-pair encoding, unigram or WordPiece, in files that transformers reads.

    Parameters
    ----------
    files
        Plain text, .csv, .tsv, .jsonl, .parquet, also with .gz; - is standard input.
    output
        A new folder for the tokenizer.
    kind
        bpe, unigram or wordpiece; without it, what --for usually has.
    size
        How many tokens the vocabulary has at most, special ones among them.
    use
        bert, roberta, gpt, transformer, marian, t5 or plain: special tokens, and what stands around a text.
    text
        The columns of a table that hold text, commas between them; all share the vocabulary.
    special
        One more special token, or another name for one, as in mask=<mask>; can be said again.
    normalize
        none, nfc, nfkc, lowercase, strip-accents, bert, bert-cased; several with commas.
    split
        byte-level, metaspace, blanks, whitespace or bert.
    min_count
        How often a piece must occur to be learned.
    characters
        Keep only so many characters, the most frequent; others are unknown.
    byte_fallback
        Spell unknown characters in bytes (with --split metaspace).
    limit
        Read only so many lines.
    encoding
        The encoding of the files; detected without it.
    json
        Print one JSON object.
    quiet
        Say nothing but the answer.
    """
    from clearhead import api
    from clearhead.errors import InputError

    if not files:
        raise InputError("Name at least one file of text, or - for standard input.")
    if files.count("-") > 1:
        raise InputError("Standard input can be read once.")
    given = [input_bytes() if name == "-" else Path(name) for name in files]
    with stages(quiet=quiet or json) as bar:
        made = api.learn_tokenizer(
            given,
            output,
            kind=kind,
            size=size,
            use=use,
            text=text,
            special=special or (),
            normalize=normalize,
            split=split,
            min_count=min_count,
            characters=characters,
            byte_fallback=byte_fallback,
            limit=limit,
            encoding=encoding,
            progress=bar,
        )
    if json:
        print_json(made.to_json())
        return
    for note in made.notes:
        say(note, quiet=quiet)
    if not quiet:
        print_table(("what", "value"), made.facts(), title=str(output))
