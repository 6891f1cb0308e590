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
from clearhead.pretraining.documents import Chunk, corpus_files, read_chunks
from clearhead.pretraining.example_spans import ExampleSpans, make_table, shuffle_positions
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.sentences import split_sentences
from clearhead.pretraining.shards import Corpus, make_corpus, source_of
from clearhead.pretraining.vocab_info import VocabInfo

if TYPE_CHECKING:
    from clearhead.jobs.events import RunEvents
    from clearhead.text import Tokenizer

Array = np.ndarray[Any, Any]

CORPUS, HELD = "corpus", "held"  # folders of shards in a run
JUDGED = 50_000  # tokens that are held out and measured at each evaluation, ...
AT_LAST = 200_000  # ... and at the end
FIXED = 20_170_612  # a seed of its own: what is measured does not change with the run's


@dataclass(frozen=True, kw_only=True)
class Texts:
    """What is learned from and what is measured on."""

    train: CorpusSubset
    held: CorpusSubset
    said: tuple[str, ...]
    source: str  # a hash of the text and the tokenizer

    @cached_property
    def tokens(self) -> int:
        """Tokens to learn from."""
        return self.train.tokens()


def check_files(plan: PretrainPlan) -> None:
    """One sentence where text is missing, or where it would be learned from and measured on."""
    learned = {path.resolve() for path in corpus_files(plan.files)}
    held = {path.resolve() for path in corpus_files(plan.dev)} if plan.dev else set()
    if both := learned & held:
        raise InputError(f"{min(both).name} would be learned from and measured on; give {setting('dev')} other text.")


def read_texts(plan: PretrainPlan, tokenizer: Tokenizer, folder: Path, events: RunEvents, least: int = 1) -> Texts:
    """Cut the text into tokens, once; what is held out are documents of at least so many sentences."""
    files = corpus_files(plan.files)
    corpus = _corpus(plan, files, tokenizer, folder / CORPUS, events)
    said = [*corpus.index.notes]
    if plan.dev:
        try:
            held = _corpus(plan, corpus_files(plan.dev), tokenizer, folder / HELD, events)
        except InputError as error:
            raise InputError(f"Text to measure on (dev): {error}") from None
        train = CorpusSubset(corpus=corpus, documents=np.arange(corpus.documents))
        part = CorpusSubset(corpus=held, documents=np.arange(held.documents))
        said.append(f"measured on {held.tokens:,} tokens of {held.documents:,} documents")
    else:
        train, part, about = split_held_out(corpus, plan.settings.seed, least)
        said.append(about)
    return Texts(train=train, held=part, said=tuple(said), source=corpus.index.source)


def plain_texts(plan: PretrainPlan, notes: list[str] | None = None) -> Iterator[Chunk]:
    """The documents of the files, a stretch at a time."""
    return read_chunks(
        corpus_files(plan.files), columns=plan.text, encoding=plan.encoding, documents=plan.documents, notes=notes
    )


def _corpus(plan: PretrainPlan, files: list[Path], tokenizer: Tokenizer, folder: Path, events: RunEvents) -> Corpus:
    settings = {"text": plan.text, "documents": plan.documents, "encoding": plan.encoding, "language": plan.language}

    def read(notes: list[str]) -> Iterator[Chunk]:
        made = read_chunks(files, columns=plan.text, encoding=plan.encoding, documents=plan.documents, notes=notes)
        return split_sentences(made, plan.language)

    return make_corpus(
        folder,
        source_of(files, tokenizer, **settings),
        tokenizer,
        read,
        progress=events.progress,
    )


@dataclass
class Teacher:
    """Gives the lesson of any step, a pure function of (seed, step)."""

    portion: CorpusSubset
    objective: PretrainObjective
    kit: VocabInfo
    length: int
    seed: int
    folder: Path
    batch_tokens: int | None = None
    batch_rows: int | None = None
    name: str = "cuts"
    rows: int = 0  # texts a step
    per_epoch: int = 0  # steps
    what: str = "The text"  # for people
    _epoch: int = -1
    _table: Array = field(default_factory=lambda: np.zeros((0, 5), np.int64))

    def __post_init__(self) -> None:
        if said := self.objective.lacks(self.kit):
            raise InputError(said)
        table = self._of(0)
        if not len(table):
            raise InputError(self._nothing())
        mean = float((table[:, 1] + table[:, 3]).mean()) + self.length - self._room
        self.rows = self.batch_rows or max(1, round((self.batch_tokens or 4096) / mean))
        self.rows = min(self.rows, len(table))
        self.per_epoch = max(1, len(table) // self.rows)

    @property
    def _room(self) -> int:
        room = self.objective.room(self.length, self.kit)
        if room < 4:
            raise InputError(f"max_length {self.length} leaves no room for text beside the special tokens.")
        return room

    def _nothing(self) -> str:
        if self.objective.losses == ("words", "pairs"):
            lacks = f"{self.what} has no documents of two sentences, which {self.objective.about} need"
            return f"{lacks}; put blank lines between documents only, or use {setting('objective', 'mlm')}."
        return f"{self.what} is too little."

    def left_out(self) -> list[str]:
        """A sentence about documents that give no pair of texts."""
        if "pairs" not in self.objective.losses:
            return []
        alone = sum(self.portion.sentences(place) < 2 for place in range(len(self.portion)))
        said = f"{alone:,} of {len(self.portion):,} documents have one sentence alone, and are not learned from"
        return [f"{said}; {setting('objective', 'mlm')} learns from them too."] if alone else []

    def _of(self, epoch: int) -> Array:
        if epoch != self._epoch:
            path = self.folder / f"{self.name}.bin"
            self._table = make_table(path, self._cut, self.portion, self._room, self.seed, epoch)
            self._epoch = epoch
        return self._table

    def _cut(self, portion: CorpusSubset, room: int, rng: np.random.Generator) -> Iterator[ExampleSpans]:
        least = self.objective.least(self.kit)
        return (cut for cut in self.objective.cut(portion, room, rng) if cut[1] + cut[3] >= least)

    def __call__(self, step: int) -> PretrainBatch:
        epoch, place = divmod(step, self.per_epoch)
        table = self._of(epoch)
        wanted = (np.arange(self.rows) + place * self.rows) % len(table)
        return self.made(table[shuffle_positions(wanted, len(table), self.seed, epoch)], (self.seed, step, 3))

    def once(self) -> Iterator[PretrainBatch]:
        """The first epoch, with the texts at its end that are too few for a step."""
        table = self._of(0)
        for step, begin in enumerate(range(0, len(table), self.rows)):
            wanted = np.arange(begin, min(begin + self.rows, len(table)))
            yield self.made(table[shuffle_positions(wanted, len(table), self.seed, 0)], (self.seed, step, 3))

    def made(self, cuts: Array, key: tuple[int, ...]) -> PretrainBatch:
        """The lesson of some cuts."""
        corpus = self.portion.corpus
        texts = [
            (corpus.ids(int(a), int(a_length)), corpus.ids(int(b), int(b_length)) if b_length else None, int(label))
            for a, a_length, b, b_length, label in cuts
        ]
        return self.objective.make(texts, self.kit, np.random.default_rng(key))


def held_lessons(teacher: Teacher, portion: CorpusSubset, most: int) -> list[PretrainBatch]:
    """Lessons of what was held out: always the same texts with the same questions, each text once."""
    other = Teacher(
        portion=portion,
        objective=teacher.objective,
        kit=teacher.kit,
        length=teacher.length,
        seed=FIXED,
        folder=teacher.folder,
        batch_tokens=4096,
        name="held",
        what="The held-out text",
    )
    # what asks about no word is left out, so that every part of these has something to measure
    lessons = some_of((one for one in other.once() if (~teacher.kit.special[one.words]).any()), most)
    if not lessons:
        raise InputError("The tokenizer knows no word of the held-out text.")
    return lessons


def some_of(lessons: Iterable[PretrainBatch], most: int) -> list[PretrainBatch]:
    """The first lessons, until they have so many tokens."""
    made: list[PretrainBatch] = []
    tokens = 0
    for lesson in lessons:
        made.append(lesson)
        tokens += lesson.tokens
        if tokens >= most:
            break
    return made
