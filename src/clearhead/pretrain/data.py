"""The lessons of a run: text as shards, what is held out, and the lesson of every step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.pretrain.plan import PretrainPlan
from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.corpus_subset import CorpusSubset, split_held_out
from clearhead.pretraining.documents import Chunk, find_corpus_files, read_chunks
from clearhead.pretraining.example_spans import ExampleSpans, make_span_table, shuffle_positions
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.sentences import split_sentences
from clearhead.pretraining.shards import Corpus, hash_source, make_corpus
from clearhead.pretraining.vocab_info import VocabInfo

if TYPE_CHECKING:
    from clearhead.jobs.events import RunEvents
    from clearhead.text import Tokenizer

Array = np.ndarray[Any, Any]

CORPUS_FOLDER, HELD_OUT_FOLDER = "corpus", "held"  # folders of shards in a run
EVALUATION_TOKENS = 50_000  # tokens that are held out and measured at each evaluation, ...
FINAL_EVALUATION_TOKENS = 200_000  # ... and at the end
HELD_OUT_SEED = 20_170_612  # a seed of its own: what is measured does not change with the run's


@dataclass(frozen=True, kw_only=True)
class PretrainTexts:
    """What is learned from and what is measured on."""

    train: CorpusSubset
    held_out: CorpusSubset
    notes: tuple[str, ...]
    source: str  # a hash of the text and the tokenizer

    @cached_property
    def tokens(self) -> int:
        """Tokens to learn from."""
        return self.train.tokens()


def check_files(plan: PretrainPlan) -> None:
    """One sentence where text is missing, or where it would be learned from and measured on."""
    learned = {path.resolve() for path in find_corpus_files(plan.files)}
    held = {path.resolve() for path in find_corpus_files(plan.dev)} if plan.dev else set()
    if both := learned & held:
        raise InputError(f"{min(both).name} would be learned from and measured on; give {setting('dev')} other text.")


def read_texts(
    plan: PretrainPlan, tokenizer: Tokenizer, folder: Path, events: RunEvents, least: int = 1
) -> PretrainTexts:
    """Cut the text into tokens, once; what is held out are documents of at least so many sentences."""
    files = find_corpus_files(plan.files)
    corpus = _build_corpus(plan, files, tokenizer, folder / CORPUS_FOLDER, events)
    said = [*corpus.index.notes]
    if plan.dev:
        try:
            held = _build_corpus(plan, find_corpus_files(plan.dev), tokenizer, folder / HELD_OUT_FOLDER, events)
        except InputError as error:
            raise InputError(f"Text to measure on (dev): {error}") from None
        train = CorpusSubset(corpus=corpus, documents=np.arange(corpus.documents))
        part = CorpusSubset(corpus=held, documents=np.arange(held.documents))
        said.append(f"measured on {held.tokens:,} tokens of {held.documents:,} documents")
    else:
        train, part, about = split_held_out(corpus, plan.settings.seed, least)
        said.append(about)
    return PretrainTexts(train=train, held_out=part, notes=tuple(said), source=corpus.index.source)


def read_plain_texts(plan: PretrainPlan, notes: list[str] | None = None) -> Iterator[Chunk]:
    """The documents of the files, a stretch at a time."""
    return read_chunks(
        find_corpus_files(plan.files), columns=plan.text, encoding=plan.encoding, documents=plan.documents, notes=notes
    )


def _build_corpus(
    plan: PretrainPlan, files: list[Path], tokenizer: Tokenizer, folder: Path, events: RunEvents
) -> Corpus:
    settings = {"text": plan.text, "documents": plan.documents, "encoding": plan.encoding, "language": plan.language}

    def read(notes: list[str]) -> Iterator[Chunk]:
        made = read_chunks(files, columns=plan.text, encoding=plan.encoding, documents=plan.documents, notes=notes)
        return split_sentences(made, plan.language)

    return make_corpus(
        folder,
        hash_source(files, tokenizer, **settings),
        tokenizer,
        read,
        progress=events.progress,
    )


@dataclass
class BatchSampler:
    """Gives the lesson of any step, a pure function of (seed, step)."""

    subset: CorpusSubset
    objective: PretrainObjective
    vocab: VocabInfo
    max_length: int
    seed: int
    folder: Path
    batch_tokens: int | None = None
    batch_size: int | None = None
    table_name: str = "cuts"
    texts_per_step: int = 0  # texts a step
    steps_per_epoch: int = 0  # steps
    text_name: str = "The text"  # for people
    _epoch: int = -1
    _table: Array = field(default_factory=lambda: np.zeros((0, 5), np.int64))

    def __post_init__(self) -> None:
        if said := self.objective.find_problem(self.vocab):
            raise InputError(said)
        table = self._read_table(0)
        if not len(table):
            raise InputError(self._explain_empty_table())
        mean = float((table[:, 1] + table[:, 3]).mean()) + self.max_length - self._max_text_tokens
        self.texts_per_step = self.batch_size or max(1, round((self.batch_tokens or 4096) / mean))
        self.texts_per_step = min(self.texts_per_step, len(table))
        self.steps_per_epoch = max(1, len(table) // self.texts_per_step)

    @property
    def _max_text_tokens(self) -> int:
        room = self.objective.max_text_tokens(self.max_length, self.vocab)
        if room < 4:
            raise InputError(f"max_length {self.max_length} leaves no room for text beside the special tokens.")
        return room

    def _explain_empty_table(self) -> str:
        if self.objective.losses == ("words", "pairs"):
            lacks = f"{self.text_name} has no documents of two sentences, which {self.objective.title} need"
            return f"{lacks}; put blank lines between documents only, or use {setting('objective', 'mlm')}."
        return f"{self.text_name} is too little."

    def describe_skipped_documents(self) -> list[str]:
        """A sentence about documents that give no pair of texts."""
        if "pairs" not in self.objective.losses:
            return []
        alone = sum(self.subset.count_sentences(place) < 2 for place in range(len(self.subset)))
        said = f"{alone:,} of {len(self.subset):,} documents have one sentence alone, and are not learned from"
        return [f"{said}; {setting('objective', 'mlm')} learns from them too."] if alone else []

    def _read_table(self, epoch: int) -> Array:
        if epoch != self._epoch:
            path = self.folder / f"{self.table_name}.bin"
            self._table = make_span_table(
                path, self._sample_spans, self.subset, self._max_text_tokens, self.seed, epoch
            )
            self._epoch = epoch
        return self._table

    def _sample_spans(self, portion: CorpusSubset, room: int, rng: np.random.Generator) -> Iterator[ExampleSpans]:
        least = self.objective.min_text_tokens(self.vocab)
        return (cut for cut in self.objective.sample_spans(portion, room, rng) if cut[1] + cut[3] >= least)

    def __call__(self, step: int) -> PretrainBatch:
        epoch, place = divmod(step, self.steps_per_epoch)
        table = self._read_table(epoch)
        wanted = (np.arange(self.texts_per_step) + place * self.texts_per_step) % len(table)
        return self.make_batch(table[shuffle_positions(wanted, len(table), self.seed, epoch)], (self.seed, step, 3))

    def first_epoch(self) -> Iterator[PretrainBatch]:
        """The first epoch, with the texts at its end that are too few for a step."""
        table = self._read_table(0)
        for step, begin in enumerate(range(0, len(table), self.texts_per_step)):
            wanted = np.arange(begin, min(begin + self.texts_per_step, len(table)))
            yield self.make_batch(table[shuffle_positions(wanted, len(table), self.seed, 0)], (self.seed, step, 3))

    def make_batch(self, cuts: Array, key: tuple[int, ...]) -> PretrainBatch:
        """The lesson of some cuts."""
        corpus = self.subset.corpus
        texts = [
            (corpus.ids(int(a), int(a_length)), corpus.ids(int(b), int(b_length)) if b_length else None, int(label))
            for a, a_length, b, b_length, label in cuts
        ]
        return self.objective.make_batch(texts, self.vocab, np.random.default_rng(key))


def make_held_out_batches(teacher: BatchSampler, portion: CorpusSubset, most: int) -> list[PretrainBatch]:
    """Lessons of what was held out: always the same texts with the same questions, each text once."""
    other = BatchSampler(
        subset=portion,
        objective=teacher.objective,
        vocab=teacher.vocab,
        max_length=teacher.max_length,
        seed=HELD_OUT_SEED,
        folder=teacher.folder,
        batch_tokens=4096,
        table_name="held",
        text_name="The held-out text",
    )
    # what asks about no word is left out, so that every part of these has something to measure
    lessons = take_tokens((one for one in other.first_epoch() if (~teacher.vocab.is_special[one.labels]).any()), most)
    if not lessons:
        raise InputError("The tokenizer knows no word of the held-out text.")
    return lessons


def take_tokens(lessons: Iterable[PretrainBatch], most: int) -> list[PretrainBatch]:
    """The first lessons, until they have so many tokens."""
    made: list[PretrainBatch] = []
    tokens = 0
    for lesson in lessons:
        made.append(lesson)
        tokens += lesson.tokens
        if tokens >= most:
            break
    return made
