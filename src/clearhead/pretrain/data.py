"""The data of a run: tokenized text in shards, the held-out split, and the batch of every step."""

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

CORPUS_FOLDER, HELD_OUT_FOLDER = "corpus", "held"  # folders with shards inside a run folder
EVALUATION_TOKENS = 50_000  # held-out tokens that are scored at each evaluation, ...
FINAL_EVALUATION_TOKENS = 200_000  # ... and at the end
HELD_OUT_SEED = 20_170_612  # a fixed seed: the evaluation does not depend on the seed of the run


@dataclass(frozen=True, kw_only=True)
class PretrainTexts:
    """Training text and held-out text."""

    train: CorpusSubset
    held_out: CorpusSubset
    messages: tuple[str, ...]
    source: str  # a hash of the text and the tokenizer

    @cached_property
    def tokens(self) -> int:
        """Number of training tokens."""
        return self.train.count_tokens()


def check_files(plan: PretrainPlan) -> None:
    """Refuse missing text, and text that is both trained and evaluated on."""
    train_files = {path.resolve() for path in find_corpus_files(plan.files)}
    held_out_files = {path.resolve() for path in find_corpus_files(plan.dev)} if plan.dev else set()
    if shared_files := train_files & held_out_files:
        raise InputError(
            f"{min(shared_files).name} is used for both training and evaluation; set {setting('dev')} to other text."
        )


def read_texts(
    plan: PretrainPlan, tokenizer: Tokenizer, folder: Path, events: RunEvents, min_sentences: int = 1
) -> PretrainTexts:
    """Tokenize the text once, and hold out documents of at least `min_sentences` sentences."""
    files = find_corpus_files(plan.files)
    corpus = _build_corpus(plan, files, tokenizer, folder / CORPUS_FOLDER, events)
    messages = [*corpus.index.notes]
    if plan.dev:
        try:
            dev_corpus = _build_corpus(plan, find_corpus_files(plan.dev), tokenizer, folder / HELD_OUT_FOLDER, events)
        except InputError as error:
            raise InputError(f"Held-out text (dev): {error}") from None
        train = CorpusSubset(corpus=corpus, documents=np.arange(corpus.documents))
        held_out = CorpusSubset(corpus=dev_corpus, documents=np.arange(dev_corpus.documents))
        messages.append(f"held-out text: {dev_corpus.tokens:,} tokens in {dev_corpus.documents:,} documents")
    else:
        train, held_out, split_note = split_held_out(corpus, plan.settings.seed, min_sentences)
        messages.append(split_note)
    return PretrainTexts(train=train, held_out=held_out, messages=tuple(messages), source=corpus.index.source)


def read_plain_texts(plan: PretrainPlan, notes: list[str] | None = None) -> Iterator[Chunk]:
    """Iterate over the text of the files, chunk by chunk."""
    return read_chunks(
        find_corpus_files(plan.files), columns=plan.text, encoding=plan.encoding, documents=plan.documents, notes=notes
    )


def _build_corpus(
    plan: PretrainPlan, files: list[Path], tokenizer: Tokenizer, folder: Path, events: RunEvents
) -> Corpus:
    settings = {"text": plan.text, "documents": plan.documents, "encoding": plan.encoding, "language": plan.language}

    def read_sentences(notes: list[str]) -> Iterator[Chunk]:
        chunks = read_chunks(files, columns=plan.text, encoding=plan.encoding, documents=plan.documents, notes=notes)
        return split_sentences(chunks, plan.language)

    return make_corpus(
        folder,
        hash_source(files, tokenizer, **settings),
        tokenizer,
        read_sentences,
        progress=events.progress,
    )


@dataclass
class BatchSampler:
    """Returns the batch of any step, a pure function of (seed, step)."""

    subset: CorpusSubset
    objective: PretrainObjective
    vocab: VocabInfo
    max_length: int
    seed: int
    folder: Path
    batch_tokens: int | None = None
    batch_size: int | None = None
    table_name: str = "cuts"
    texts_per_step: int = 0  # resolved from `batch_tokens` or `batch_size`
    steps_per_epoch: int = 0
    text_name: str = "The text"  # for messages
    _epoch: int = -1
    _table: Array = field(default_factory=lambda: np.zeros((0, 5), np.int64))

    def __post_init__(self) -> None:
        if problem := self.objective.find_problem(self.vocab):
            raise InputError(problem)
        table = self._read_table(0)
        if not len(table):
            raise InputError(self._explain_empty_table())
        mean_tokens = float((table[:, 1] + table[:, 3]).mean()) + self.max_length - self._max_text_tokens
        self.texts_per_step = self.batch_size or max(1, round((self.batch_tokens or 4096) / mean_tokens))
        self.texts_per_step = min(self.texts_per_step, len(table))
        self.steps_per_epoch = max(1, len(table) // self.texts_per_step)

    @property
    def _max_text_tokens(self) -> int:
        max_text_tokens = self.objective.max_text_tokens(self.max_length, self.vocab)
        if max_text_tokens < 4:
            raise InputError(f"max_length {self.max_length} is too short: the special tokens leave no room for text.")
        return max_text_tokens

    def _explain_empty_table(self) -> str:
        if self.objective.losses == ("words", "pairs"):
            problem = (
                f"{self.text_name} has no documents with two or more sentences, which {self.objective.title} require"
            )
            return f"{problem}; put blank lines only between documents, or use {setting('objective', 'mlm')}."
        return f"{self.text_name} is too short."

    def describe_skipped_documents(self) -> list[str]:
        """Describe the documents that are too short for a pair of texts."""
        if "pairs" not in self.objective.losses:
            return []
        skipped = sum(self.subset.count_sentences(index) < 2 for index in range(len(self.subset)))
        note = f"{skipped:,} of {len(self.subset):,} documents have only one sentence and are skipped"
        return [f"{note}; {setting('objective', 'mlm')} uses them, too."] if skipped else []

    def _read_table(self, epoch: int) -> Array:
        if epoch != self._epoch:
            path = self.folder / f"{self.table_name}.bin"
            self._table = make_span_table(
                path, self._sample_spans, self.subset, self._max_text_tokens, self.seed, epoch
            )
            self._epoch = epoch
        return self._table

    def _sample_spans(self, subset: CorpusSubset, max_tokens: int, rng: np.random.Generator) -> Iterator[ExampleSpans]:
        min_tokens = self.objective.min_text_tokens(self.vocab)
        return (
            spans for spans in self.objective.sample_spans(subset, max_tokens, rng) if spans[1] + spans[3] >= min_tokens
        )

    def __call__(self, step: int) -> PretrainBatch:
        epoch, step_in_epoch = divmod(step, self.steps_per_epoch)
        table = self._read_table(epoch)
        positions = (np.arange(self.texts_per_step) + step_in_epoch * self.texts_per_step) % len(table)
        return self.make_batch(table[shuffle_positions(positions, len(table), self.seed, epoch)], (self.seed, step, 3))

    def first_epoch(self) -> Iterator[PretrainBatch]:
        """Iterate over the first epoch, including the incomplete batch at its end."""
        table = self._read_table(0)
        for step, start in enumerate(range(0, len(table), self.texts_per_step)):
            positions = np.arange(start, min(start + self.texts_per_step, len(table)))
            yield self.make_batch(table[shuffle_positions(positions, len(table), self.seed, 0)], (self.seed, step, 3))

    def make_batch(self, spans: Array, seed: tuple[int, ...]) -> PretrainBatch:
        """Build the batch of some rows of the span table."""
        corpus = self.subset.corpus
        texts = [
            (
                corpus.ids(int(first), int(first_length)),
                corpus.ids(int(second), int(second_length)) if second_length else None,
                int(label),
            )
            for first, first_length, second, second_length, label in spans
        ]
        return self.objective.make_batch(texts, self.vocab, np.random.default_rng(seed))


def make_held_out_batches(sampler: BatchSampler, subset: CorpusSubset, max_tokens: int) -> list[PretrainBatch]:
    """Build the batches of the held-out text: fixed texts and targets, each text once."""
    held_out_sampler = BatchSampler(
        subset=subset,
        objective=sampler.objective,
        vocab=sampler.vocab,
        max_length=sampler.max_length,
        seed=HELD_OUT_SEED,
        folder=sampler.folder,
        batch_tokens=4096,
        table_name="held",
        text_name="The held-out text",
    )
    # batches without a target are skipped, so that every prefix of the list can be scored
    batches = take_tokens(
        (batch for batch in held_out_sampler.first_epoch() if (~sampler.vocab.is_special[batch.labels]).any()),
        max_tokens,
    )
    if not batches:
        raise InputError("The tokenizer knows none of the tokens in the held-out text.")
    return batches


def take_tokens(batches: Iterable[PretrainBatch], max_tokens: int) -> list[PretrainBatch]:
    """Return the first batches, until they contain `max_tokens` tokens."""
    taken_batches: list[PretrainBatch] = []
    tokens = 0
    for batch in batches:
        taken_batches.append(batch)
        tokens += batch.tokens
        if tokens >= max_tokens:
            break
    return taken_batches
