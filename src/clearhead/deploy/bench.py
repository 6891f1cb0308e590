"""Measure the speed and memory of a model in each installed runtime: same texts, interleaved rounds, medians."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from clearhead.checkpoint.hub import locate
from clearhead.deploy.runtimes import RUNTIMES
from clearhead.deploy.scheduler import TIMEOUT, Contender, Scheduler
from clearhead.deploy.sentences import SENTENCES
from clearhead.errors import InputError
from clearhead.files import scratch_folder, to_printable
from clearhead.html import render_table, short_repr
from clearhead.machine.threads import get_max_threads
from clearhead.progress import Progress, no_progress

ROUNDS = 5
MAX_TEXTS = 512  # sampled evenly from a longer input
REFERENCE_RUNTIMES = ("sentence-transformers", "core")  # ratios are relative to the first of these that was measured
TABLE_FIGURES = {  # row label of the table -> (field of RuntimeSpeed, number format)
    "one text, p50 ms": ("p50_ms", ",.2f"),
    "p99 ms": ("p99_ms", ",.2f"),
    "texts/s": ("texts_per_second", ",.0f"),
    "tokens/s": ("tokens_per_second", ",.0f"),
    "texts/s, ratio": ("ratio", ".2f"),
    "load s": ("load_seconds", ".2f"),
    "memory MB": ("resident_mb", ",.0f"),
    "peak MB": ("peak_mb", ",.0f"),
    "cosine, mean": ("cosine", ".4f"),
    "cosine, worst": ("worst_cosine", ".4f"),
}


@dataclass(frozen=True, kw_only=True)
class RuntimeSpeed:
    """Latency, throughput, load time and memory of one runtime; unknown figures are None."""

    name: str
    title: str
    left_out: str | None = None  # reason if it was not measured
    p50_ms: float | None = None
    p99_ms: float | None = None
    texts_per_second: float | None = None
    tokens_per_second: float | None = None
    ratio: float | None = None  # texts per second relative to the reference runtime, median over rounds
    load_seconds: float | None = None  # from process start to the first answer, including imports
    resident_mb: float | None = None
    peak_mb: float | None = None
    cosine: float | None = None  # mean cosine similarity with the float vectors
    worst_cosine: float | None = None


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The speed of a model on this machine, runtime by runtime."""

    model: str
    texts: int
    tokens: float | None  # mean tokens per text
    threads: int
    rounds: int
    against: str | None  # reference runtime of the ratios
    runtimes: tuple[RuntimeSpeed, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `bench --json` prints."""
        return {**asdict(self), "runtimes": [asdict(speed) for speed in self.runtimes]}

    @property
    def title(self) -> str:
        """Model, number of texts and threads in one line."""
        length = "" if self.tokens is None else f" of {self.tokens:.0f} tokens"
        return f"{to_printable(self.model)}: {self.texts:,} texts{length}, threads: {self.threads}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Runtimes that were not measured, with reasons."""
        return tuple(
            f"omitted: {speed.title}: {speed.left_out}" for speed in self.runtimes if speed.left_out is not None
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return column names and rows, with one column per measured runtime."""
        measured = [speed for speed in self.runtimes if speed.left_out is None]
        rows = [
            [label, *(_format_figure(getattr(speed, field), number_format) for speed in measured)]
            for label, (field, number_format) in TABLE_FIGURES.items()
        ]
        return ["", *(speed.title for speed in measured)], rows

    def svg(self) -> str:
        """Draw the figures as a bar chart in SVG."""
        from clearhead.report.bench_picture import speeds_picture

        return speeds_picture(self.title, [asdict(speed) for speed in self.runtimes if speed.left_out is None])

    def __repr__(self) -> str:
        timed = [speed for speed in self.runtimes if speed.left_out is None and speed.texts_per_second is not None]
        return short_repr(
            "Bench", self.title, *(f"{speed.name} {speed.texts_per_second:,.0f} texts/s" for speed in timed[:6])
        )

    def _repr_html_(self) -> str:
        return render_table(self.title, *self.table(), self.notes)


def run_bench(
    reference: str,
    texts: Iterable[str] | None = None,
    *,
    runtimes: Sequence[str] | None = None,
    threads: int | None = None,
    seconds: float = 10.0,
    rounds: int = ROUNDS,
    timeout: float = TIMEOUT,
    progress: Progress = no_progress,
    download: Progress | None = None,
) -> Bench:
    """Benchmark each runtime in its own process on the same texts, in interleaved rounds.

    `seconds` is the approximate measuring time of the first runtime; the others process as many texts and may take
    longer.
    """

    names = _resolve_runtimes(runtimes)
    if threads is not None and threads < 1:
        raise InputError(f"threads must be >= 1, got {threads}.")
    if not 0 < seconds <= 86_400:
        raise InputError(f"seconds must be > 0 and <= 86400, got {seconds:g}.")
    sample = sample_texts(texts)
    thread_count = threads or get_max_threads()
    folder = locate(reference, progress=download).folder
    contenders = [Contender(name=name) for name in names]
    with scratch_folder() as work_folder, ExitStack() as stack:
        scheduler = Scheduler(contenders=contenders, timeout=timeout, rounds=rounds, progress=progress)
        for index, contender in enumerate(contenders):
            if not RUNTIMES[contender.name].is_installed:
                contender.left_out = f"{RUNTIMES[contender.name].package} is not installed."
            job = {
                "runtime": contender.name,
                "folder": str(folder),
                "threads": thread_count,
                "texts": sample,
                "work": str(work_folder),
            }
            (work_folder / f"{index}.json").write_text(json.dumps(job), encoding="utf-8")
        scheduler.start([work_folder / f"{index}.json" for index in range(len(contenders))], stack)
        tokens = scheduler.measure(len(sample), seconds / rounds / 2)
    return _summarize(reference, contenders, len(sample), tokens, thread_count, rounds)


def _resolve_runtimes(requested: Sequence[str] | None) -> list[str]:
    if requested is None:
        return list(RUNTIMES)
    if unknown := [name for name in requested if name not in RUNTIMES]:
        raise InputError(f"Unknown runtime {unknown[0]!r}; choose from {', '.join(RUNTIMES)}.")
    if not requested:
        raise InputError(f"runtimes is empty; choose at least one of {', '.join(RUNTIMES)}.")
    return list(dict.fromkeys(requested))


def sample_texts(texts: Iterable[str] | None) -> list[str]:
    """Sample at most MAX_TEXTS texts evenly, without holding a long stream in memory."""
    if texts is None:
        return list(SENTENCES)
    if isinstance(texts, str):
        raise InputError("bench expects a list of texts, got a single text; put it in a list.")
    sample: list[str] = []
    step = 1  # one of `step` texts is sampled
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"texts[{index}] is {type(text).__name__}, expected a text.")
        if index % step == 0:
            sample.append(text)
        if len(sample) > MAX_TEXTS:
            sample, step = sample[::2], 2 * step
    if not sample:
        raise InputError("There are no texts to measure with.")
    return sample


def _summarize(
    reference: str, contenders: Sequence[Contender], texts: int, tokens: float | None, threads: int, rounds: int
) -> Bench:
    measured = {contender.name: contender for contender in contenders if contender.left_out is None}
    peer_name = next((name for name in REFERENCE_RUNTIMES if name in measured and len(measured) > 1), None)
    reference_vectors = next(
        (measured[name].vectors for name in ("core", "engine", *measured) if name in measured), None
    )
    return Bench(
        model=reference,
        texts=texts,
        tokens=tokens,
        threads=threads,
        rounds=rounds,
        against=peer_name,
        runtimes=tuple(
            _summarize_contender(contender, tokens, measured.get(peer_name or ""), reference_vectors)
            for contender in contenders
        ),
    )


def _summarize_contender(
    contender: Contender, tokens: float | None, peer: Contender | None, reference_vectors: Any
) -> RuntimeSpeed:
    import numpy as np

    title = RUNTIMES[contender.name].title
    if contender.left_out is not None:
        return RuntimeSpeed(name=contender.name, title=title, left_out=contender.left_out)
    p50, p99 = np.percentile(contender.latencies, (50, 99))
    speed = statistics.median(contender.throughputs)
    ratio = None
    if peer is not None:
        ratio = statistics.median(
            own / theirs for own, theirs in zip(contender.throughputs, peer.throughputs, strict=True)
        )
    mean, worst = _compare_vectors(contender.vectors, reference_vectors)
    return RuntimeSpeed(
        name=contender.name,
        title=title,
        p50_ms=float(p50),
        p99_ms=float(p99),
        texts_per_second=speed,
        tokens_per_second=None if tokens is None else speed * tokens,
        ratio=ratio,
        load_seconds=min(contender.load_seconds),
        resident_mb=contender.memory.get("resident_mb"),
        peak_mb=contender.memory.get("peak_mb"),
        cosine=mean,
        worst_cosine=worst,
    )


def _compare_vectors(vectors: Any, reference_vectors: Any) -> tuple[float | None, float | None]:
    """Return the mean and lowest cosine similarity of two sets of vectors; None if their shapes differ."""
    import numpy as np

    actual, expected = np.asarray(vectors, float), np.asarray(reference_vectors, float)
    if actual.ndim != 2 or actual.shape != expected.shape:
        return None, None
    norms = np.linalg.norm(actual, axis=1) * np.linalg.norm(expected, axis=1)
    cosines = (actual * expected).sum(1)[norms > 0] / norms[norms > 0]
    return (float(cosines.mean()), float(cosines.min())) if len(cosines) else (None, None)


def _format_figure(value: float | None, number_format: str) -> str:
    return "–" if value is None else f"{value:{number_format}}"
