"""clearhead word2vec: train word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.cli.options import OUTPUT, TRAINING, Encoding, Json, Quiet, StreamArgument, TextColumns
from clearhead.cli.screen import print_facts, print_json, print_note, stages
from clearhead.cli.streams import open_text_files

OF_TRAINING = Parameter(group=TRAINING)


def word2vec(
    *files: StreamArgument,
    output: Annotated[Path, Parameter(name=("--output", "-o"), group=OUTPUT)],
    text: TextColumns = None,
    encoding: Encoding = None,
    mode: Annotated[Literal["skipgram", "cbow"], OF_TRAINING] = "skipgram",
    width: Annotated[int, OF_TRAINING] = 100,
    window: Annotated[int, OF_TRAINING] = 5,
    negative: Annotated[int, OF_TRAINING] = 5,
    min_count: Annotated[int, OF_TRAINING] = 5,
    epochs: Annotated[int, OF_TRAINING] = 5,
    learning_rate: Annotated[float, OF_TRAINING] = 0.025,
    sample: Annotated[float, OF_TRAINING] = 1e-3,
    seed: Annotated[int, OF_TRAINING] = 0,
    threads: Annotated[int, OF_TRAINING] = 1,
    json: Json = False,
    quiet: Annotated[Quiet, Parameter(help="Print nothing but errors.")] = False,
) -> None:
    """Train word vectors on text: word2vec with negative sampling.

    Parameters
    ----------
    files
        Plain text (one sentence or paragraph per line), .csv, .tsv, .jsonl or .parquet, optionally gzipped; - for
        standard input.
    output
        A new folder, or a word2vec file: .txt, .vec or .bin.
    mode
        skipgram (default) predicts the neighbors of a word; cbow predicts a word from its neighbors, which is faster
        but weaker on rare words.
    width
        Dimension of the vectors (default: 100).
    window
        Maximum distance of neighbors (default: 5).
    negative
        Negative samples per prediction (default: 5).
    min_count
        Ignore words that occur less often (default: 5).
    epochs
        Passes over the text (default: 5).
    learning_rate
        Initial learning rate, which decays linearly (default: 0.025).
    sample
        Downsample words that are more frequent than this (default: 0.001; 0: off).
    seed
        Random seed (default: 0); with one thread, the same seed gives the same vectors.
    threads
        Number of threads (default: 1).
    """
    from clearhead import api

    sources = open_text_files(files)
    with stages(quiet=quiet or json) as bar:
        learned = api.word2vec(
            sources,
            output,
            mode=mode,
            width=width,
            window=window,
            negative=negative,
            min_count=min_count,
            epochs=epochs,
            learning_rate=learning_rate,
            sample=sample,
            seed=seed,
            threads=threads,
            text=text,
            encoding=encoding,
            progress=bar,
        )
    if json:
        print_json(learned.to_json() | {"output": str(output)})
        return
    for note in learned.vectors.notes:
        print_note(note, quiet=quiet)
    if quiet:
        return
    rare = learned.distinct_words - len(learned.vectors)
    facts = [
        ("words", f"{len(learned.vectors):,} of width {learned.vectors.width}; {rare:,} rare words ignored"),
        ("text", f"{learned.words_read:,} words in {learned.sentences:,} lines, {epochs} epochs"),
        ("time", f"{learned.seconds:.1f} s, {learned.to_json()['words_per_second']:,} words/s"),
    ]
    print_facts(facts, title=str(output))
