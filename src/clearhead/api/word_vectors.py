"""The verbs of what came before attention: word vectors learned, asked, and contrasted with vectors in context."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.model.loading import load
from clearhead.progress import CountCallback, Progress, from_counts

if TYPE_CHECKING:
    from clearhead.model import Model
    from clearhead.words import WordVectors
    from clearhead.words.answers import WordAnswers
    from clearhead.words.contrast import Contrast
    from clearhead.words.learn import LearnedWords


def load_words(
    reference: str | os.PathLike[str],
    *,
    limit: int | None = None,
    progress: CountCallback | None = None,
    download: Progress | None = None,
) -> WordVectors:
    """Word vectors: of a GloVe or word2vec file, of a folder of ours, or the word table of any Transformer.

    `limit` reads the first words of a file alone, which are the most frequent in files that others share.
    """
    from clearhead.jobs.kinds import has_vectors
    from clearhead.words import load_vectors
    from clearhead.words.contrast import word_table
    from clearhead.words.files import check_limit

    if has_vectors(reference) or Path(reference).expanduser().is_file():  # a file that is none says why
        return load_vectors(reference, limit=limit, progress=from_counts(progress))
    check_limit(limit)
    made = word_table(load(reference, head=None, progress=download))
    return made if limit is None or limit >= len(made) else made.select(range(limit))


def words(
    vectors: str | os.PathLike[str] | WordVectors,
    *terms: str,
    top: int = 10,
    similar: tuple[str, str] | None = None,
    wordsim: str | os.PathLike[str] | None = None,
    simlex: str | os.PathLike[str] | None = None,
    analogies: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    progress: CountCallback | None = None,
) -> WordAnswers:
    """The neighbours of a word or of a sum such as "king", "-", "man", "+", "woman", and how good word vectors are.

    `similar` are two words for their cosine; `wordsim`, `simlex` and `analogies` are files to measure the vectors on.
    The vectors are loaded once, or what `load_words` takes.
    """
    from clearhead.words import WordVectors
    from clearhead.words.answers import answer_words, check_question

    check_question(terms, similar, wordsim, simlex, analogies)
    return answer_words(
        vectors if isinstance(vectors, WordVectors) else load_words(vectors, limit=limit),
        terms,
        top=top,
        similar=similar,
        wordsim=wordsim,
        simlex=simlex,
        analogies=analogies,
        progress=from_counts(progress),
    )


def contrast(
    model: str | os.PathLike[str] | Model | WordVectors, first: str, second: str, word: str, *, also: Sequence[str] = ()
) -> Contrast:
    """One word in two sentences: how alike its vectors are, layer by layer; `also` are further sentences with it."""
    from clearhead.jobs.kinds import has_vectors
    from clearhead.words import WordVectors, load_vectors
    from clearhead.words.contrast import contrast_model, contrast_vectors

    sentences = [first, second, *([also] if isinstance(also, str) else also)]
    if isinstance(model, str | os.PathLike):
        named = has_vectors(model) or Path(model).expanduser().is_file()
        model = load_vectors(model) if named else load(model, head=None)
    if isinstance(model, WordVectors):
        return contrast_vectors(model, sentences, word)
    return contrast_model(model, sentences, word)


def word2vec(
    given: str | os.PathLike[str] | Iterable[Any],
    output: str | os.PathLike[str] | None = None,
    *,
    text: str | Sequence[str] | None = None,
    encoding: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> LearnedWords:
    """Learn word vectors from files of text, or from sentences that are lists of words.

    `settings` are the fields of `WordSettings`: mode (skipgram or cbow), width, window, negative, min_count, epochs,
    rate, seed, threads, ... `output` is a new folder, or a word2vec file by its ending (.txt, .vec, .bin); `text` names
    the columns of a table that hold text.
    """
    from clearhead.files import check_output_folder, to_printable
    from clearhead.words.corpus import file_sentences
    from clearhead.words.files import is_file_name, save_vectors
    from clearhead.words.learn import learn_words
    from clearhead.words.steps import WordSettings

    try:
        chosen = WordSettings(**settings)
    except TypeError as error:
        raise InputError(f"Settings of word2vec: {to_printable(error, 120)}.") from None
    chosen.check()
    if output is not None and is_file_name(Path(output)) and Path(output).exists():
        raise InputError(f"{output} is there already; name a new file.")
    if output is not None:
        check_output_folder(Path(output))
    notes: list[str] = []
    files = _files(given)
    sentences = given if files is None else file_sentences(files, text, encoding, notes)
    learned = learn_words(sentences, chosen, progress=progress)  # type: ignore[arg-type]
    learned = replace(learned, vectors=replace(learned.vectors, notes=tuple(notes)))
    if output is not None:
        save_vectors(output, learned.vectors, learned=learned.facts())
    return learned


def _files(given: Any) -> list[Any] | None:
    """What is to be opened; None where sentences were given."""
    if isinstance(given, str | os.PathLike) or callable(getattr(given, "read", None)):
        return [given]
    some = list(given) if isinstance(given, list | tuple) else []
    opened = some and all(isinstance(one, str | os.PathLike) or callable(getattr(one, "read", None)) for one in some)
    return some if opened else None


__all__ = ["contrast", "load_words", "word2vec", "words"]
