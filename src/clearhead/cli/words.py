"""clearhead words: query word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from clearhead.cli.loading import download_bars
from clearhead.cli.options import DATA, MEASUREMENT, OUTPUT, Json, Quiet, StreamArgument
from clearhead.cli.screen import model_notes, print_json, print_note, print_table, progress

if TYPE_CHECKING:
    from clearhead.api.support import Analogies, WordAnswers, WordVectors


def words(
    model: str,
    /,
    *terms: StreamArgument,  # the - of king - man + woman
    limit: Annotated[int | None, Parameter(group=DATA)] = None,
    similar: Annotated[
        tuple[str, str] | None, Parameter(allow_leading_hyphen=True, group=MEASUREMENT, metavar="WORD WORD")
    ] = None,
    wordsim: Annotated[Path | None, Parameter(group=MEASUREMENT)] = None,
    simlex: Annotated[Path | None, Parameter(group=MEASUREMENT)] = None,
    analogies: Annotated[Path | None, Parameter(group=MEASUREMENT)] = None,
    top: Annotated[int, Parameter(group=OUTPUT)] = 10,
    json: Json = False,
    quiet: Annotated[Quiet, Parameter(help="Print only the answers, one per line.")] = False,
) -> None:
    """Query word vectors: neighbors of a word, analogies, and scores on similarity benchmarks.

    Parameters
    ----------
    model
        A GloVe or word2vec file (text or binary, optionally gzipped), a folder of `clearhead word2vec`, or a
        Transformer, whose embedding table is used.
    terms
        A word, or words with + and - between them: king - man + woman.
    limit
        Read only the first words of a file, usually the most frequent ones.
    similar
        Two words; prints the cosine of their vectors.
    wordsim
        File with two words and a score per line, as in WordSim-353; prints Spearman's correlation.
    simlex
        The same for SimLex-999.
    analogies
        File with four words per line, as in questions-words.txt; prints accuracy by section.
    top
        Number of neighbors (default: 10).
    """
    from clearhead import api
    from clearhead.api.support import to_printable
    from clearhead.errors import InputError

    if not terms and similar is None and wordsim is None and simlex is None and analogies is None:
        raise InputError(
            "Name a word, words with + and - between them, or --similar, --wordsim, --simlex, --analogies."
        )
    vectors = load_vectors(model, limit=limit, quiet=quiet or json)
    with progress("analogies", quiet=quiet or json or analogies is None) as bar:
        answers = api.words(
            vectors,
            *terms,
            top=top,
            similar=similar,
            wordsim=wordsim,
            simlex=simlex,
            analogies=analogies,
            progress=bar,
        )
    if json:
        print_json({**answers.to_json(), "model": model})
        return
    if quiet:
        neighbors = (to_printable(neighbor.word) for neighbor in answers.neighbors)
        for line in (*neighbors, *_format_scores(answers)):
            print(line)
        return
    if answers.neighbors:
        rows = [(neighbor.word, f"{neighbor.cosine:.4f}") for neighbor in answers.neighbors]
        print_table(("word", "cosine"), rows, title=" ".join(terms))
    if answers.similar is not None:
        print_table(("words", "cosine"), [(" and ".join(answers.similar), f"{answers.cosine:.4f}")])
    if answers.similarities:
        rows_by_file = [
            (score.name, f"{score.known:,} of {score.rows:,}", str(score.spearman))
            for score in answers.similarities.values()
        ]
        print_table(("file", "known rows", "Spearman (95 % interval)"), rows_by_file)
    if answers.analogies is not None:
        _print_analogies(answers.analogies)


def load_vectors(reference: str, *, limit: int | None, quiet: bool) -> WordVectors:
    """Load word vectors with a progress bar, and print notes about their file."""
    from clearhead.api import load_words
    from clearhead.api.support import has_vectors

    if not has_vectors(reference):
        with model_notes(quiet=quiet), download_bars(quiet=quiet):
            vectors = load_words(reference, limit=limit)
    else:
        with progress("words", quiet=quiet) as bar:
            vectors = load_words(reference, limit=limit, progress=bar)
    for note in vectors.notes:
        print_note(note, quiet=quiet)
    return vectors


def _format_scores(answers: WordAnswers) -> list[str]:
    """Cosine, correlations and accuracy as bare numbers."""
    cosine = [] if answers.cosine is None else [f"{answers.cosine:.4f}"]
    correlations = [f"{score.spearman.value:.4f}" for score in answers.similarities.values()]
    accuracy = None if answers.analogies is None else answers.analogies.whole.accuracy
    return [*cosine, *correlations, *([] if accuracy is None else [f"{accuracy.value:.4f}"])]


def _print_analogies(analogies: Analogies) -> None:
    rows = [
        (
            section.name,
            f"{section.known:,} of {section.rows:,}",
            "unknown words" if section.accuracy is None else str(section.accuracy),
        )
        for section in (*analogies.sections, analogies.whole)
    ]
    print_table(("section", "known rows", "accuracy (95 % interval)"), rows, title=analogies.name)
