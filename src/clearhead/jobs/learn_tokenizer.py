"""Learning a tokenizer: count the words of texts, learn a vocabulary, measure it, and write a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.data.sources.lines import read_line_texts
from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.files import atomic_folder, check_output_folder, scratch_folder, to_printable
from clearhead.html import render_table, short_repr
from clearhead.progress import Progress, no_progress
from clearhead.text import load_tokenizer
from clearhead.text.files import write_atomic, write_json
from clearhead.text.vocabulary.options import VocabularyOptions, VocabularyPlan, resolve_vocabulary_plan
from clearhead.text.vocabulary.trainer import Alphabet, build_preprocessor, count_words, train_vocabulary
from clearhead.text.vocabulary.word_counts import MAX_CHARACTERS, MAX_CHARACTERS_UNIGRAM, ChunkCounter

if TYPE_CHECKING:
    from clearhead.text import Tokenizer

REPORT_INTERVAL = 20_000  # lines between progress reports
CHUNK_BATCH = 20_000  # chunks encoded at a time
FEW_WORDS = 1000  # with fewer words, the vocabulary memorizes the text


@dataclass(frozen=True, kw_only=True)
class LearnedTokenizer:
    """A learned tokenizer with statistics on its training text."""

    tokenizer: Tokenizer = field(repr=False)
    folder: Path | None = None
    kind: str
    use: str
    size: int  # requested
    vocabulary: int  # learned
    special: tuple[str, ...]
    lines: int
    words: int
    characters: int  # distinct characters in the alphabet
    covered: float  # their share of the text
    tokens_per_word: float
    unknown: float  # share of unknown tokens
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values, as `--json` prints them."""
        names = ("kind", "use", "size", "vocabulary", "lines", "words", "characters", "covered", "tokens_per_word")
        values: dict[str, Any] = {name: getattr(self, name) for name in (*names, "unknown")}
        folder = None if self.folder is None else str(self.folder)
        return values | {"special": list(self.special), "notes": list(self.notes), "folder": folder}

    def facts(self) -> list[tuple[str, str]]:
        """Format the statistics as rows of a table."""
        return [
            ("kind", f"{self.kind}, for {self.use}"),
            ("vocabulary", f"{self.vocabulary:,} tokens, {len(self.special):,} of them special"),
            ("read", f"{self.lines:,} lines, {self.words:,} words"),
            ("characters", f"{self.characters:,} kept, {self.covered:.4%} of the text"),
            ("tokens per word", f"{self.tokens_per_word:.3f}"),
            ("unknown", f"{self.unknown:.4%} of the tokens"),
        ]

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the tokenizer to a new folder."""
        with atomic_folder(Path(folder)) as temporary:
            self.tokenizer.save(temporary)
        return Path(folder)

    def __repr__(self) -> str:
        facts = [value for name, value in self.facts() if name in ("kind", "vocabulary")]
        per_word = f"{self.tokens_per_word:.3f} tokens per word"
        return short_repr(
            "LearnedTokenizer", *facts, per_word, None if self.folder is None else f"folder {self.folder}"
        )

    def _repr_html_(self) -> str:
        return render_table("tokenizer", ("what", "value"), self.facts())


@renamed_parameters(size="vocab_size", given="files")
def learn_tokenizer(
    files: str | os.PathLike[str] | Iterable[Any],
    output: str | os.PathLike[str] | None = None,
    *,
    kind: str | None = None,
    vocab_size: int = 8000,
    use: str | None = None,
    text: str | Sequence[str] | None = None,
    special: Sequence[str] = (),
    normalize: str | Sequence[str] | None = None,
    split: str | None = None,
    min_count: int | None = None,
    characters: int | None = None,
    byte_fallback: bool = False,
    limit: int | None = None,
    encoding: str | None = None,
    progress: Progress | None = None,
) -> LearnedTokenizer:
    """Learn a BPE, unigram or WordPiece tokenizer from files or texts; `output` is a new folder for it.

    `files` is a path, a list of paths, an open file, or any other iterable of texts. `text` names columns of a table;
    several columns share one vocabulary. `use` names the model family (bert, roberta, gpt, transformer, marian, t5,
    plain), which determines the special tokens and the template around a text.
    """

    vocabulary_plan = resolve_vocabulary_plan(
        VocabularyOptions(
            kind=kind,
            use=use,
            size=vocab_size,
            special=special,
            normalize=normalize,
            split=split,
            min_count=min_count,
            characters=characters,
            byte_fallback=byte_fallback,
        )
    )
    if limit is not None and limit < 1:
        raise InputError(f"limit must be an integer >= 1, got {limit}.")
    if output is not None:
        check_output_folder(Path(output))
    notes: list[str] = []
    counter = ChunkCounter(MAX_CHARACTERS_UNIGRAM if vocabulary_plan.kind == "unigram" else MAX_CHARACTERS)
    _count_chunks(files, counter, text, limit, encoding, notes, progress)
    learned = train_tokenizer(counter, vocabulary_plan, notes, progress)
    if output is not None:
        learned.save(output)
    return learned if output is None else replace(learned, folder=Path(output))


def train_tokenizer(
    counter: ChunkCounter, vocabulary_plan: VocabularyPlan, notes: Iterable[str] = (), progress: Progress | None = None
) -> LearnedTokenizer:
    """Learn a tokenizer from counted text."""

    progress = progress or no_progress
    progress("counting words", 0, None)
    word_counts = count_words(counter.counts, build_preprocessor(vocabulary_plan))
    if not word_counts:
        raise InputError("The text has no words to learn from.")
    alphabet = Alphabet(word_counts, vocabulary_plan)
    progress("learning", 0, None)
    pipeline = train_vocabulary(word_counts, alphabet, vocabulary_plan)
    with scratch_folder() as folder:
        write_atomic(folder / "tokenizer.json", pipeline.to_str(pretty=True).encode())
        write_json(folder / "tokenizer_config.json", build_tokenizer_config(vocabulary_plan))
        tokenizer = load_tokenizer(folder, "", {}).source
    tokens, unknown = _count_tokens(counter.counts, pipeline, vocabulary_plan, progress)
    word_total, all_notes = (
        counter.count_words(),
        [*notes, *_list_notes(counter, tokenizer.vocab_size, vocabulary_plan)],
    )
    return LearnedTokenizer(
        tokenizer=tokenizer,
        kind=vocabulary_plan.kind,
        use=vocabulary_plan.use,
        size=vocabulary_plan.size,
        vocabulary=tokenizer.vocab_size,
        special=vocabulary_plan.special_tokens,
        lines=counter.line_count,
        words=word_total,
        characters=len(alphabet.characters),
        covered=alphabet.coverage,
        tokens_per_word=tokens / max(word_total, 1),
        unknown=unknown / max(tokens, 1),
        notes=tuple(all_notes),
    )


def build_tokenizer_config(vocabulary_plan: VocabularyPlan) -> dict[str, Any]:
    """Build tokenizer_config.json, which names the special tokens of tokenizer.json."""
    special_tokens = {f"{name}_token": token for name, token in vocabulary_plan.named_tokens.items()}
    extra_tokens = [token for token in vocabulary_plan.special_tokens if token not in special_tokens.values()]
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    return config | special_tokens | ({"extra_special_tokens": extra_tokens} if extra_tokens else {})


def _count_chunks(
    source: Any,
    counter: ChunkCounter,
    text: str | Sequence[str] | None,
    limit: int | None,
    encoding: str | None,
    notes: list[str],
    progress: Progress | None,
) -> None:
    files = _resolve_files(source)
    if files is None and (text is not None or encoding is not None):
        raise InputError("text and encoding apply only to files, got texts.")
    texts = _check_texts(source) if files is None else read_line_texts(files, text, encoding, notes)
    for number, line in enumerate(texts if limit is None else islice(texts, limit), start=1):
        counter.add(line)
        if progress is not None and number % REPORT_INTERVAL == 0:
            progress("reading", number, None)
    if not counter.line_count:
        raise InputError("The source has no text to learn from.")


def _resolve_files(source: Any) -> list[Any] | None:
    """Return the files to read; None if the source is an iterable of texts."""
    if isinstance(source, str | os.PathLike) or callable(getattr(source, "read", None)):
        return [source]
    if isinstance(source, Mapping | bytes):
        raise InputError(f"Expected file names or an iterable of texts, got a {type(source).__name__}.")
    if not isinstance(source, list | tuple) or not source:
        return None
    if all(isinstance(entry, os.PathLike) or callable(getattr(entry, "read", None)) for entry in source):
        return list(source)
    if not all(isinstance(entry, str | os.PathLike) for entry in source):
        return None
    exists = [_is_file(entry) for entry in source[:1000]]
    if any(exists) and not all(exists) and len(source) <= len(exists):
        missing = source[exists.index(False)]
        raise InputError(f"{to_printable(missing)} does not exist, but other entries of the list are files.")
    return list(source) if all(exists) and len(source) <= len(exists) else None


def _is_file(name: Any) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # a text is often not a valid file name
        return False


def _check_texts(texts: Iterable[Any]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"Text {number} has type {type(text).__name__}, expected a string.")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"Text {number} contains an unpaired surrogate, which is not valid Unicode.") from None
        yield text


def _count_tokens(
    counts: Mapping[str, int], pipeline: Any, vocabulary_plan: VocabularyPlan, progress: Progress
) -> tuple[int, int]:
    """Count the tokens of the text, and the unknown ones."""
    unknown_id = (
        None if vocabulary_plan.split == "byte-level" else pipeline.token_to_id(vocabulary_plan.named_tokens["unk"])
    )
    tokens = unknown_tokens = processed = 0
    remaining = iter(counts)
    while chunks := list(islice(remaining, CHUNK_BATCH)):
        progress("measuring", processed, len(counts))
        for chunk, encoding in zip(chunks, pipeline.encode_batch_fast(chunks, add_special_tokens=False), strict=True):
            tokens += counts[chunk] * len(encoding.ids)
            if unknown_id is not None:
                unknown_tokens += counts[chunk] * encoding.ids.count(unknown_id)
        processed += len(chunks)
    return tokens, unknown_tokens


def _list_notes(counter: ChunkCounter, vocab_size: int, vocabulary_plan: VocabularyPlan) -> Iterator[str]:
    if counter.sampling_interval > 1:
        yield (
            "The text has more distinct words than fit into memory; one line in "
            f"{counter.sampling_interval:,} was used."
        )
    if vocab_size < vocabulary_plan.size:
        yield f"The text yields {vocab_size:,} tokens, fewer than the requested {vocabulary_plan.size:,}."
    if counter.count_words() < FEW_WORDS:
        yield f"The text has only {counter.count_words():,} words; learn from more text."
    occurrences = {
        token: sum(chunk_count for chunk, chunk_count in counter.counts.items() if token in chunk)
        for token in vocabulary_plan.special_tokens[:50]
    }
    for token, count in occurrences.items():
        if count:
            yield (
                f"The special token {to_printable(token)!r} occurs in {count:,} words of the text, and is treated as "
                "special there, too."
            )


__all__ = ["LearnedTokenizer", "learn_tokenizer", "train_tokenizer"]
