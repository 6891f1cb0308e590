"""A tokenizer of one's own: texts are counted, a vocabulary is learned and measured, a folder is written."""

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

REPORT_INTERVAL = 20_000  # lines between two reports of progress
CHUNK_BATCH = 20_000  # stretches measured at a time
FEW_WORDS = 1000  # words; below, a vocabulary is little more than the text itself


@dataclass(frozen=True, kw_only=True)
class LearnedTokenizer:
    """A tokenizer that was learned, and how well it fits the text it was learned from."""

    tokenizer: Tokenizer = field(repr=False)
    folder: Path | None = None
    kind: str
    use: str
    size: int  # asked for
    vocabulary: int  # reached
    special: tuple[str, ...]
    lines: int
    words: int
    characters: int  # different ones that are kept
    covered: float  # the share of the text that they make
    tokens_per_word: float
    unknown: float  # share of tokens that stand for the unknown
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        names = ("kind", "use", "size", "vocabulary", "lines", "words", "characters", "covered", "tokens_per_word")
        made: dict[str, Any] = {name: getattr(self, name) for name in (*names, "unknown")}
        folder = None if self.folder is None else str(self.folder)
        return made | {"special": list(self.special), "notes": list(self.notes), "folder": folder}

    def facts(self) -> list[tuple[str, str]]:
        """What there is to tell, line by line."""
        return [
            ("kind", f"{self.kind}, for {self.use}"),
            ("vocabulary", f"{self.vocabulary:,} tokens, {len(self.special):,} of them special"),
            ("read", f"{self.lines:,} lines, {self.words:,} words"),
            ("characters", f"{self.characters:,} kept, {self.covered:.4%} of the text"),
            ("tokens per word", f"{self.tokens_per_word:.3f}"),
            ("unknown", f"{self.unknown:.4%} of the tokens"),
        ]

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the tokenizer into a new folder."""
        with atomic_folder(Path(folder)) as made:
            self.tokenizer.save(made)
        return Path(folder)

    def __repr__(self) -> str:
        facts = [value for name, value in self.facts() if name in ("kind", "vocabulary")]
        per_word = f"{self.tokens_per_word:.3f} tokens per word"
        return short_repr(
            "LearnedTokenizer", *facts, per_word, None if self.folder is None else f"folder {self.folder}"
        )

    def _repr_html_(self) -> str:
        return render_table("tokenizer", ("what", "value"), self.facts())


@renamed_parameters(size="vocab_size")
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

    A name, a path, a list of names of files and an open file are read; any other iterable of strings is texts. `text`
    names columns of a table, several for one vocabulary over all of them. `use` says what the tokenizer is for (bert,
    roberta, gpt, transformer, marian, t5, plain) and brings the special tokens and what stands around a text.
    """

    choices = resolve_vocabulary_plan(
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
        raise InputError(f"limit is a number of lines from 1 on, and it is {limit}.")
    if output is not None:
        check_output_folder(Path(output))
    notes: list[str] = []
    bag = ChunkCounter(MAX_CHARACTERS_UNIGRAM if choices.kind == "unigram" else MAX_CHARACTERS)
    _count_chunks(files, bag, text, limit, encoding, notes, progress)
    made = train_tokenizer(bag, choices, notes, progress)
    if output is not None:
        made.save(output)
    return made if output is None else replace(made, folder=Path(output))


def train_tokenizer(
    bag: ChunkCounter, choices: VocabularyPlan, notes: Iterable[str] = (), progress: Progress | None = None
) -> LearnedTokenizer:
    """Learn from a text that is counted already."""

    progress = progress or no_progress
    progress("counting words", 0, None)
    words = count_words(bag.counts, build_preprocessor(choices))
    if not words:
        raise InputError("The text holds no words to learn from.")
    letters = Alphabet(words, choices)
    progress("learning", 0, None)
    pipeline = train_vocabulary(words, letters, choices)
    with scratch_folder() as folder:
        write_atomic(folder / "tokenizer.json", pipeline.to_str(pretty=True).encode())
        write_json(folder / "tokenizer_config.json", build_tokenizer_config(choices))
        tokenizer = load_tokenizer(folder, "", {}).source
    tokens, unknown = _count_tokens(bag.counts, pipeline, choices, progress)
    counted, said = bag.count_words(), [*notes, *_list_notes(bag, tokenizer.vocab_size, choices)]
    return LearnedTokenizer(
        tokenizer=tokenizer,
        kind=choices.kind,
        use=choices.use,
        size=choices.size,
        vocabulary=tokenizer.vocab_size,
        special=choices.special_tokens,
        lines=bag.line_count,
        words=counted,
        characters=len(letters.characters),
        covered=letters.coverage,
        tokens_per_word=tokens / max(counted, 1),
        unknown=unknown / max(tokens, 1),
        notes=tuple(said),
    )


def build_tokenizer_config(choices: VocabularyPlan) -> dict[str, Any]:
    """tokenizer_config.json: tokenizer.json is its own recipe, and these are the names of its special tokens."""
    named = {f"{name}_token": token for name, token in choices.named_tokens.items()}
    extra = [token for token in choices.special_tokens if token not in named.values()]
    made: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    return made | named | ({"extra_special_tokens": extra} if extra else {})


def _count_chunks(
    given: Any,
    bag: ChunkCounter,
    text: str | Sequence[str] | None,
    limit: int | None,
    encoding: str | None,
    notes: list[str],
    progress: Progress | None,
) -> None:
    files = _resolve_files(given)
    if files is None and (text is not None or encoding is not None):
        raise InputError("text and encoding are for files, and texts were given.")
    texts = _check_texts(given) if files is None else read_line_texts(files, text, encoding, notes)
    for number, line in enumerate(texts if limit is None else islice(texts, limit), start=1):
        bag.add(line)
        if progress is not None and number % REPORT_INTERVAL == 0:
            progress("reading", number, None)
    if not bag.line_count:
        raise InputError("There is no text to learn from.")


def _resolve_files(given: Any) -> list[Any] | None:
    """What is to be opened; None if texts were given."""
    if isinstance(given, str | os.PathLike) or callable(getattr(given, "read", None)):
        return [given]
    if isinstance(given, Mapping | bytes):
        raise InputError(f"Give names of files or an iterable of texts, not a {type(given).__name__}.")
    if not isinstance(given, list | tuple) or not given:
        return None
    if all(isinstance(one, os.PathLike) or callable(getattr(one, "read", None)) for one in given):
        return list(given)
    if not all(isinstance(one, str | os.PathLike) for one in given):
        return None
    there = [_is_file(one) for one in given[:1000]]
    if any(there) and not all(there) and len(given) <= len(there):
        missing = given[there.index(False)]
        raise InputError(f"{to_printable(missing)} is not there, and other names in the list are files.")
    return list(given) if all(there) and len(given) <= len(there) else None


def _is_file(name: Any) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # a text is often no name of a file
        return False


def _check_texts(texts: Iterable[Any]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"Text {number} is of type {type(text).__name__}, expected a string.")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"Text {number} holds half a surrogate pair, which is not text.") from None
        yield text


def _count_tokens(
    counts: Mapping[str, int], pipeline: Any, choices: VocabularyPlan, progress: Progress
) -> tuple[int, int]:
    """How many tokens the text becomes, and how many of them are unknown."""
    unknown = None if choices.split == "byte-level" else pipeline.token_to_id(choices.named_tokens["unk"])
    tokens = missed = done = 0
    stretches = iter(counts)
    while some := list(islice(stretches, CHUNK_BATCH)):
        progress("measuring", done, len(counts))
        for stretch, ids in zip(some, pipeline.encode_batch_fast(some, add_special_tokens=False), strict=True):
            tokens += counts[stretch] * len(ids.ids)
            if unknown is not None:
                missed += counts[stretch] * ids.ids.count(unknown)
        done += len(some)
    return tokens, missed


def _list_notes(bag: ChunkCounter, reached: int, choices: VocabularyPlan) -> Iterator[str]:
    if bag.sampling_interval > 1:
        yield (
            "The text has more different words than are learned from at once: one line in "
            f"{bag.sampling_interval:,} was used."
        )
    if reached < choices.size:
        yield f"The text gives {reached:,} tokens, fewer than the {choices.size:,} that were asked for."
    if bag.count_words() < FEW_WORDS:
        yield f"{bag.count_words():,} words are little text to learn from."
    found = {
        token: sum(n for stretch, n in bag.counts.items() if token in stretch) for token in choices.special_tokens[:50]
    }
    for token, count in found.items():
        if count:
            yield (
                f"The special token {to_printable(token)!r} stands in {count:,} words of the text; it is special "
                "there, too."
            )


__all__ = ["LearnedTokenizer", "learn_tokenizer", "train_tokenizer"]
