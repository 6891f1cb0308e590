"""Public functions for word vectors: word2vec, words, and contrast with vectors in context."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.deprecation import renamed_parameters
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
    """Load word vectors from a GloVe or word2vec file, a folder of `word2vec`, or a Transformer's embedding table.

    `limit` reads only the first words of a file; published files are sorted by frequency.
    """
    from clearhead.jobs.kinds import has_vectors
    from clearhead.words import load_vectors
    from clearhead.words.contrast import extract_word_table
    from clearhead.words.files import check_limit

    if has_vectors(reference) or Path(reference).expanduser().is_file():  # reports why a file is not one of vectors
        return load_vectors(reference, limit=limit, progress=from_counts(progress))
    check_limit(limit)
    vectors = extract_word_table(load(reference, head=None, progress=download))
    return vectors if limit is None or limit >= len(vectors) else vectors.select(range(limit))


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
    """Neighbors of a word or of a sum such as "king", "-", "man", "+", "woman", and scores on benchmarks.

    `similar` are two words for their cosine; `wordsim`, `simlex` and `analogies` are benchmark files. `vectors` are
    loaded vectors, or anything that `load_words` takes.
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
    """Compare the vectors of a word in two sentences, layer by layer; `also` are further sentences with it."""
    from clearhead.jobs.kinds import has_vectors
    from clearhead.words import WordVectors, load_vectors
    from clearhead.words.contrast import contrast_model, contrast_vectors

    sentences = [first, second, *([also] if isinstance(also, str) else also)]
    if isinstance(model, str | os.PathLike):
        is_vector_file = has_vectors(model) or Path(model).expanduser().is_file()
        model = load_vectors(model) if is_vector_file else load(model, head=None)
    if isinstance(model, WordVectors):
        return contrast_vectors(model, sentences, word)
    return contrast_model(model, sentences, word)


@renamed_parameters(rate="learning_rate")
def word2vec(
    texts: str | os.PathLike[str] | Iterable[Any],
    output: str | os.PathLike[str] | None = None,
    *,
    text: str | Sequence[str] | None = None,
    encoding: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> LearnedWords:
    """Train word vectors on text files, or on sentences that are lists of words.

    `settings` are the fields of `WordSettings`: mode (skipgram or cbow), width, window, negative, min_count, epochs,
    learning_rate, seed, threads, ... `output` is a new folder, or a word2vec file (.txt, .vec, .bin); `text` names the
    columns with text.
    """
    from clearhead.files import check_output_folder, to_printable
    from clearhead.words.corpus import read_file_sentences
    from clearhead.words.files import is_file_name, save_vectors
    from clearhead.words.learn import learn_words
    from clearhead.words.steps import WordSettings

    try:
        word_settings = WordSettings(**settings)
    except TypeError as error:
        raise InputError(f"Invalid word2vec settings: {to_printable(error, 120)}.") from None
    word_settings.check()
    if output is not None and is_file_name(Path(output)) and Path(output).exists():
        raise InputError(f"Output file {output} already exists.")
    if output is not None:
        check_output_folder(Path(output))
    notes: list[str] = []
    files = _list_files(texts)
    sentences = texts if files is None else read_file_sentences(files, text, encoding, notes)
    learned = learn_words(sentences, word_settings, progress=progress)  # type: ignore[arg-type]
    learned = replace(learned, vectors=replace(learned.vectors, notes=tuple(notes)))
    if output is not None:
        save_vectors(output, learned.vectors, learned=learned.facts())
    return learned


def _list_files(texts: Any) -> list[Any] | None:
    """Paths and open files; None for sentences."""
    if _is_file(texts):
        return [texts]
    files = list(texts) if isinstance(texts, list | tuple) else []
    return files if files and all(map(_is_file, files)) else None


def _is_file(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) or callable(getattr(value, "read", None))


__all__ = ["contrast", "load_words", "word2vec", "words"]
