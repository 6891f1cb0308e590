"""clearhead learn-tokenizer: train a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.options import DATA, MODEL, OUTPUT, Encoding, Json, Quiet, StreamArgument, TextColumns
from clearhead.cli.screen import print_facts, print_json, print_note, stages
from clearhead.cli.streams import open_text_files

OF_DATA, OF_MODEL = (Parameter(group=group) for group in (DATA, MODEL))


def learn_tokenizer(
    *files: StreamArgument,
    output: Annotated[Path, Parameter(name=("--output", "-o"), group=OUTPUT)],
    text: TextColumns = None,
    encoding: Encoding = None,
    limit: Annotated[int | None, OF_DATA] = None,
    kind: Annotated[str | None, OF_MODEL] = None,
    vocab_size: Annotated[int, OF_MODEL] = 8000,
    use: Annotated[str | None, Parameter(name="--for", group=MODEL)] = None,
    special: Annotated[list[str] | None, OF_MODEL] = None,
    normalize: Annotated[str | None, OF_MODEL] = None,
    split: Annotated[str | None, OF_MODEL] = None,
    min_count: Annotated[int | None, OF_MODEL] = None,
    characters: Annotated[int | None, OF_MODEL] = None,
    byte_fallback: Annotated[bool, OF_MODEL] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a byte-pair encoding (BPE), unigram or WordPiece tokenizer, and save it in the format of transformers.

    Parameters
    ----------
    files
        Plain text, .csv, .tsv, .jsonl or .parquet, optionally gzipped; - for standard input.
    output
        Output folder: new or empty.
    limit
        Read only this many lines.
    kind
        bpe, unigram or wordpiece (default: the usual one of --for).
    vocab_size
        Maximum size of the vocabulary, special tokens included (default: 8000).
    use
        Model family that special tokens and their positions follow: bert, roberta, gpt, transformer, marian, t5 or
        plain.
    special
        An additional special token, or another name for one, as in mask=<mask>; repeatable.
    normalize
        none, nfc, nfkc, lowercase, strip-accents, bert, bert-cased; several separated by commas.
    split
        Pre-tokenizer: byte-level, metaspace, blanks, whitespace or bert.
    min_count
        Minimum frequency of a token.
    characters
        Keep only the most frequent characters, at most this many; others are unknown.
    byte_fallback
        Encode unknown characters as bytes (with --split metaspace).
    """
    from clearhead import api

    sources = open_text_files(files)
    with stages(quiet=quiet or json) as bar:
        tokenizer = api.learn_tokenizer(
            sources,
            output,
            kind=kind,
            vocab_size=vocab_size,
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
        print_json(tokenizer.to_json())
        return
    for note in tokenizer.notes:
        print_note(note, quiet=quiet)
    if not quiet:
        print_facts(tokenizer.facts(), title=str(output))
