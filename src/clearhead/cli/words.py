"""clearhead words: ask word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, print_table, progress, say

if TYPE_CHECKING:
    from clearhead.api.support import Analogies, WordAnswers, WordVectors


def words(
    reference: str,
    /,
    *terms: Annotated[str, Parameter(allow_leading_hyphen=True)],  # the - of king - man + woman
    top: int = 10,
    similar: Annotated[tuple[str, str] | None, Parameter(allow_leading_hyphen=True)] = None,
    wordsim: Path | None = None,
    simlex: Path | None = None,
    analogies: Path | None = None,
    limit: int | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Ask word vectors: the neighbours of a word, sums of words, and how good the vectors are.

    Parameters
    ----------
    reference
        A GloVe or word2vec file (text or binary, also .gz), a folder of clearhead word2vec, or a Transformer: then its
        word table is asked.
    terms
        A word for its neighbours, or words with + and - between them: king - man + woman.
    top
        How many words are answered.
    similar
        Two words, for the cosine of their vectors.
    wordsim
        A file of two words and a score a line, as WordSim-353: Spearman's correlation.
    simlex
        The same for SimLex-999.
    analogies
        A file of four words a line, as questions-words.txt: accuracy by section.
    limit
        Read only the first words of a file.
    json
        Print one JSON object.
    quiet
        Print the answers alone, one a line.
    """
    from clearhead import api
    from clearhead.api.support import to_printable
    from clearhead.errors import InputError

    if not terms and similar is None and wordsim is None and simlex is None and analogies is None:
        raise InputError("Say a word, words with + and - between them, or --similar, --wordsim, --simlex, --analogies.")
    vectors = load_vectors(reference, limit=limit, quiet=quiet or json)
    with progress("analogies", quiet=quiet or json or analogies is None) as bar:
        made = api.words(
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
        print_json({**made.to_json(), "model": reference})
        return
    if quiet:
        for line in (*(to_printable(one.word) for one in made.neighbours), *_figures(made)):
            print(line)
        return
    if made.neighbours:
        rows = [(one.word, f"{one.cosine:.4f}") for one in made.neighbours]
        print_table(("word", "cosine"), rows, title=" ".join(terms))
    if made.similar is not None:
        print_table(("words", "cosine"), [(" and ".join(made.similar), f"{made.cosine:.4f}")])
    if made.likeness:
        ranks = [(one.name, f"{one.known:,} of {one.rows:,}", str(one.spearman)) for one in made.likeness.values()]
        print_table(("file", "rows known", "Spearman (95 % interval)"), ranks)
    if made.analogies is not None:
        _print_analogies(made.analogies)


def load_vectors(reference: str, *, limit: int | None, quiet: bool) -> WordVectors:
    """Vectors with a bar while they are read; what is odd about their file goes to stderr."""
    from clearhead.api import load_words
    from clearhead.api.support import has_vectors

    if not has_vectors(reference):
        with model_notes(quiet=quiet), downloads(quiet=quiet):
            vectors = load_words(reference, limit=limit)
    else:
        with progress("words", quiet=quiet) as bar:
            vectors = load_words(reference, limit=limit, progress=bar)
    for note in vectors.notes:
        say(note, quiet=quiet)
    return vectors


def _figures(made: WordAnswers) -> list[str]:
    """The numbers alone."""
    cosine = [] if made.cosine is None else [f"{made.cosine:.4f}"]
    ranks = [f"{one.spearman.value:.4f}" for one in made.likeness.values()]
    solved = made.analogies
    share = [] if solved is None or solved.whole.accuracy is None else [f"{solved.whole.accuracy.value:.4f}"]
    return [*cosine, *ranks, *share]


def _print_analogies(solved: Analogies) -> None:
    rows = [
        (one.name, f"{one.known:,} of {one.rows:,}", "not known" if one.accuracy is None else str(one.accuracy))
        for one in (*solved.sections, solved.whole)
    ]
    print_table(("section", "rows known", "accuracy (95 % interval)"), rows, title=solved.name)
