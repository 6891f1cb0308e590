"""word2vec: learn a vector for each word by guessing its neighbours; skip-gram and CBOW with negative samples.

The words of a stretch of text share their negative samples, so that the work is products of small matrices instead of
one pair of words after the other (Ji et al. 2016). What is learned is the same in expectation: a pair that would draw
`negative` samples sees all samples of its stretch, each with the weight `negative` / samples.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clearhead.errors import InputError
from clearhead.files import scratch_folder
from clearhead.html import short_repr
from clearhead.machine.threads import limit_blas
from clearhead.metrics.checks import Array
from clearhead.progress import Progress, no_progress
from clearhead.words.corpus import Corpus, read_corpus
from clearhead.words.steps import Cbow, Skipgram, Tables, WordSettings
from clearhead.words.vectors import WordVectors

STRETCHES = {"skipgram": 32, "cbow": 128}  # words that are learned from together, at most: fewer take longer
STEADY = 2.5  # shared samples for each unit of rate x pairs x negative; with half of it, vectors can grow without end
CALM = 0.5  # rate x neighbours x occurrences of the most frequent word, in one stretch


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedWords:
    """Vectors that were learned, and from how much text."""

    vectors: WordVectors
    settings: WordSettings
    read: int  # words
    different: int  # words, rare ones too
    sentences: int
    seconds: float  # of learning, without reading

    def __repr__(self) -> str:
        return short_repr("LearnedWords", repr(self.vectors), f"from {self.read:,} words", f"{self.seconds:.1f} s")

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        speed = round(self.read * self.settings.epochs / max(self.seconds, 1e-9))
        return self.facts() | {"seconds": round(self.seconds, 2), "words_per_second": speed}

    def facts(self) -> dict[str, Any]:
        """The same without times, as a folder keeps it: a command that is run again writes the same bytes."""
        made = asdict(self.settings) | {"words": len(self.vectors), "read": self.read, "different": self.different}
        return made | {"sentences": self.sentences, "notes": list(self.vectors.notes)}


def learn_words(
    sentences: Iterable[Sequence[str]], settings: WordSettings | None = None, *, progress: Progress | None = None
) -> LearnedWords:
    """Learn word vectors from sentences, each a list of words; they are read once."""
    settings = settings or WordSettings()
    settings.check()
    progress = progress or no_progress
    with scratch_folder() as folder:
        corpus = read_corpus(sentences, folder / "ids", min_count=settings.min_count, progress=progress)
        tables = first_tables(corpus, settings)
        begun = time.perf_counter()
        with limit_blas(1):  # products of small matrices; `threads` learn beside each other
            learn_tables(corpus, tables, settings, progress)
    if not np.isfinite(tables.inputs).all():
        raise InputError(f"The vectors grew without end at rate {settings.learning_rate}; use a lower learning rate.")
    return LearnedWords(
        vectors=WordVectors(words=corpus.words, matrix=tables.inputs, counts=corpus.counts, name="word2vec"),
        settings=settings,
        read=corpus.read,
        different=corpus.different,
        sentences=corpus.sentences,
        seconds=time.perf_counter() - begun,
    )


def first_tables(corpus: Corpus, settings: WordSettings) -> Tables:
    """Small random inputs, outputs of zero, and the two distributions that words are drawn by."""
    rng = np.random.default_rng([settings.seed, 0])
    size = (len(corpus.words), settings.width)
    share = corpus.counts / corpus.counts.sum()
    keep = np.ones(size[0])
    if settings.sample:
        # p(keep) = (sqrt(f / sample) + 1) sample / f
        keep = np.minimum((np.sqrt(share / settings.sample) + 1) * settings.sample / share, 1.0)
    powers = np.cumsum(corpus.counts.astype(np.float64) ** 0.75)  # frequent words less, rare ones more than they come
    return Tables(
        inputs=(rng.random(size, np.float32) - np.float32(0.5)) / np.float32(settings.width),
        outputs=np.zeros(size, np.float32),
        keep=keep.astype(np.float32),
        drawn=powers / powers[-1],
        often=float((share * keep).max() / (share * keep).sum()),
    )


def learn_tables(corpus: Corpus, tables: Tables, settings: WordSettings, progress: Progress = no_progress) -> None:
    """All epochs, a piece of the text at a time; what is drawn depends on the seed and the piece alone."""
    from concurrent.futures import ThreadPoolExecutor

    chunks = corpus.chunks
    jobs = [(epoch, chunk) for epoch in range(settings.epochs) for chunk in range(chunks)]
    fall = settings.learning_rate - settings.min_learning_rate

    def work(number: int) -> int:
        epoch, chunk = jobs[number]
        rates = (
            settings.learning_rate - fall * number / len(jobs),
            settings.learning_rate - fall * (number + 1) / len(jobs),
        )
        return _learn_chunk(corpus, tables, settings, epoch, chunk, rates)

    done, total = 0, corpus.read * settings.epochs
    with ThreadPoolExecutor(settings.threads, thread_name_prefix="clearhead-words") as pool:
        for count in map(work, range(len(jobs))) if settings.threads == 1 else pool.map(work, range(len(jobs))):
            done += count
            progress("learning", done, total)


def _learn_chunk(
    corpus: Corpus, tables: Tables, settings: WordSettings, epoch: int, chunk: int, rates: tuple[float, float]
) -> int:
    words, sentence, count = corpus.chunk(chunk)
    rng = np.random.default_rng([settings.seed, 1, epoch, chunk])
    kept = rng.random(len(words), np.float32) < tables.keep[words]
    words, sentence = words[kept], sentence[kept]
    length, edge = stretch(tables, settings), settings.window
    blocks = -(-len(words) // length)
    around = np.zeros(blocks * length + 2 * edge, np.int64)  # what is past the ends is near nothing
    around[edge : edge + len(words)] = words
    weights = _neighbours(sentence, edge, blocks * length, rng)
    samples = np.searchsorted(tables.drawn, rng.random((blocks, shared_samples(length, settings))))
    samples = samples.clip(max=len(tables.drawn) - 1)
    step = (Skipgram if settings.mode == "skipgram" else Cbow)(tables, settings, length)
    with np.errstate(over="ignore"):  # of exp, where a sigmoid is 0
        for block in range(blocks):
            start = block * length
            step.learn(
                around[start : start + length + 2 * edge],
                samples[block],
                weights[start : start + length],
                rates[0] + (rates[1] - rates[0]) * block / blocks,
            )
    return count


def stretch(tables: Tables, settings: WordSettings) -> int:
    """How many words are learned from at once: fewer where one word comes so often that its changes would add up."""
    most = CALM / (settings.learning_rate * (settings.window + 1) * tables.often)
    return int(np.clip(most // 4 * 4, 4, STRETCHES[settings.mode]))


def shared_samples(length: int, settings: WordSettings) -> int:
    """How many negative samples a stretch shares: so many that none is moved too far by all of it at once."""
    pairs = (settings.window + 1) if settings.mode == "skipgram" else 1  # of each word, on average
    least = STEADY * settings.learning_rate * length * pairs * settings.negative
    return int(np.clip(-(-least // 16) * 16, 32, 2048))


def _neighbours(sentence: Array, window: int, rows: int, rng: np.random.Generator) -> Array:
    """(rows, 2 x window + 1) 1 where a word is learned from together with the word so far to its left or right."""
    reach = rng.integers(1, window + 1, len(sentence), np.int8)
    apart = np.abs(np.arange(-window, window + 1)).astype(np.int8)
    apart[window] = 127  # a word is no neighbour of itself
    owner = np.full(len(sentence) + 2 * window, -1, np.int32)
    owner[window : window + len(sentence)] = sentence
    beside = np.lib.stride_tricks.sliding_window_view(owner, 2 * window + 1)
    made = np.zeros((rows, 2 * window + 1), np.float32)
    made[: len(sentence)] = (apart <= reach[:, None]) & (beside == sentence[:, None])
    return made
