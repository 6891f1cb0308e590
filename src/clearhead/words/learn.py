"""word2vec: skip-gram and CBOW with negative sampling.

The words of a block share their negative samples, so that the computation is products of small matrices instead of
single word pairs (Ji et al. 2016). The expected update is the same: a pair that would draw `negative` samples gets all
samples of its block, each with the weight `negative` / samples.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.files import scratch_folder
from clearhead.html import short_repr
from clearhead.machine.threads import limit_blas
from clearhead.metrics.checks import Array
from clearhead.progress import Progress, no_progress
from clearhead.words.corpus import WordCorpus, read_corpus
from clearhead.words.steps import Cbow, EmbeddingTables, Skipgram, WordSettings
from clearhead.words.vectors import WordVectors

MAX_BLOCK_WORDS = {"skipgram": 32, "cbow": 128}  # words per block, at most: smaller blocks are slower
SAMPLES_PER_UPDATE = (
    2.5  # shared samples per unit of learning rate x pairs x negative; training diverges with half of it
)
MAX_WORD_UPDATE = 0.5  # learning rate x context words x occurrences of the most frequent word in one block


@renamed_fields(read="words_read", different="distinct_words")
@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedWords:
    """Trained word vectors, with statistics of the text."""

    vectors: WordVectors
    settings: WordSettings
    words_read: int
    distinct_words: int  # including rare words
    sentences: int
    seconds: float  # of training, without reading the text

    def __repr__(self) -> str:
        return short_repr(
            "LearnedWords", repr(self.vectors), f"from {self.words_read:,} words", f"{self.seconds:.1f} s"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as printed by `--json`."""
        speed = round(self.words_read * self.settings.epochs / max(self.seconds, 1e-9))
        return self.facts() | {"seconds": round(self.seconds, 2), "words_per_second": speed}

    def facts(self) -> dict[str, Any]:
        """Return the values without times, as stored in the folder: the same command writes the same bytes."""
        facts = asdict(self.settings) | {
            "words": len(self.vectors),
            "read": self.words_read,
            "different": self.distinct_words,
        }
        return facts | {"sentences": self.sentences, "notes": list(self.vectors.notes)}


def learn_words(
    sentences: Iterable[Sequence[str]], settings: WordSettings | None = None, *, progress: Progress | None = None
) -> LearnedWords:
    """Train word vectors on sentences, each a list of words; they are read once."""
    settings = settings or WordSettings()
    settings.check()
    progress = progress or no_progress
    with scratch_folder() as folder:
        corpus = read_corpus(sentences, folder / "ids", min_count=settings.min_count, progress=progress)
        tables = init_tables(corpus, settings)
        started_at = time.perf_counter()
        with limit_blas(1):  # the matrices are small; `threads` train in parallel
            train_tables(corpus, tables, settings, progress)
    if not np.isfinite(tables.inputs).all():
        raise InputError(f"Training diverged at learning rate {settings.learning_rate}; use a lower learning rate.")
    return LearnedWords(
        vectors=WordVectors(words=corpus.words, matrix=tables.inputs, counts=corpus.counts, name="word2vec"),
        settings=settings,
        words_read=corpus.words_read,
        distinct_words=corpus.distinct_words,
        sentences=corpus.sentences,
        seconds=time.perf_counter() - started_at,
    )


def init_tables(corpus: WordCorpus, settings: WordSettings) -> EmbeddingTables:
    """Initialize random inputs, zero outputs, and the distributions for subsampling and negative samples."""
    rng = np.random.default_rng([settings.seed, 0])
    size = (len(corpus.words), settings.width)
    word_shares = corpus.counts / corpus.counts.sum()
    keep_probs = np.ones(size[0])
    if settings.sample:
        # p(keep) = (sqrt(f / sample) + 1) sample / f
        keep_probs = np.minimum((np.sqrt(word_shares / settings.sample) + 1) * settings.sample / word_shares, 1.0)
    cumulative = np.cumsum(
        corpus.counts.astype(np.float64) ** 0.75
    )  # the unigram distribution, flattened by the exponent 0.75
    return EmbeddingTables(
        inputs=(rng.random(size, np.float32) - np.float32(0.5)) / np.float32(settings.width),
        outputs=np.zeros(size, np.float32),
        keep_probs=keep_probs.astype(np.float32),
        negative_cdf=cumulative / cumulative[-1],
        top_share=float((word_shares * keep_probs).max() / (word_shares * keep_probs).sum()),
    )


def train_tables(
    corpus: WordCorpus, tables: EmbeddingTables, settings: WordSettings, progress: Progress = no_progress
) -> None:
    """Train all epochs chunk by chunk; random numbers depend only on the seed, the epoch and the chunk."""
    from concurrent.futures import ThreadPoolExecutor

    chunks = corpus.chunk_count
    jobs = [(epoch, chunk) for epoch in range(settings.epochs) for chunk in range(chunks)]
    decay = settings.learning_rate - settings.min_learning_rate

    def train_job(number: int) -> int:
        epoch, chunk = jobs[number]
        rates = (
            settings.learning_rate - decay * number / len(jobs),
            settings.learning_rate - decay * (number + 1) / len(jobs),
        )
        return _train_chunk(corpus, tables, settings, epoch, chunk, rates)

    words_done, total = 0, corpus.words_read * settings.epochs
    with ThreadPoolExecutor(settings.threads, thread_name_prefix="clearhead-words") as pool:
        for count in (
            map(train_job, range(len(jobs))) if settings.threads == 1 else pool.map(train_job, range(len(jobs)))
        ):
            words_done += count
            progress("learning", words_done, total)


def _train_chunk(
    corpus: WordCorpus,
    tables: EmbeddingTables,
    settings: WordSettings,
    epoch: int,
    chunk: int,
    rates: tuple[float, float],
) -> int:
    words, sentence_index, count = corpus.read_chunk(chunk)
    rng = np.random.default_rng([settings.seed, 1, epoch, chunk])
    is_kept = rng.random(len(words), np.float32) < tables.keep_probs[words]
    words, sentence_index = words[is_kept], sentence_index[is_kept]
    length, window = choose_block_length(tables, settings), settings.window
    blocks = -(-len(words) // length)
    padded_words = np.zeros(blocks * length + 2 * window, np.int64)  # the padding has weight 0
    padded_words[window : window + len(words)] = words
    weights = _context_weights(sentence_index, window, blocks * length, rng)
    samples = np.searchsorted(tables.negative_cdf, rng.random((blocks, count_shared_samples(length, settings))))
    samples = samples.clip(max=len(tables.negative_cdf) - 1)
    model = (Skipgram if settings.mode == "skipgram" else Cbow)(tables, settings, length)
    with np.errstate(over="ignore"):  # exp overflows where the sigmoid is 0
        for block in range(blocks):
            start = block * length
            model.train_block(
                padded_words[start : start + length + 2 * window],
                samples[block],
                weights[start : start + length],
                rates[0] + (rates[1] - rates[0]) * block / blocks,
            )
    return count


def choose_block_length(tables: EmbeddingTables, settings: WordSettings) -> int:
    """Choose the number of words per block: fewer if one word is so frequent that its updates would add up."""
    max_length = MAX_WORD_UPDATE / (settings.learning_rate * (settings.window + 1) * tables.top_share)
    return int(np.clip(max_length // 4 * 4, 4, MAX_BLOCK_WORDS[settings.mode]))


def count_shared_samples(length: int, settings: WordSettings) -> int:
    """Choose the number of negative samples per block, so that the update of each sample stays small."""
    pairs = (settings.window + 1) if settings.mode == "skipgram" else 1  # of each word, on average
    min_samples = SAMPLES_PER_UPDATE * settings.learning_rate * length * pairs * settings.negative
    return int(np.clip(-(-min_samples // 16) * 16, 32, 2048))


def _context_weights(sentence_index: Array, window: int, rows: int, rng: np.random.Generator) -> Array:
    """Return (rows, 2 x window + 1) weights: 1 where the word at this distance is in the context."""
    window_sizes = rng.integers(1, window + 1, len(sentence_index), np.int8)
    distances = np.abs(np.arange(-window, window + 1)).astype(np.int8)
    distances[window] = 127  # a word is not its own context
    padded = np.full(len(sentence_index) + 2 * window, -1, np.int32)
    padded[window : window + len(sentence_index)] = sentence_index
    context_sentences = np.lib.stride_tricks.sliding_window_view(padded, 2 * window + 1)
    weights = np.zeros((rows, 2 * window + 1), np.float32)
    weights[: len(sentence_index)] = (distances <= window_sizes[:, None]) & (
        context_sentences == sentence_index[:, None]
    )
    return weights
