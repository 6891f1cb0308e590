"""How fast a model runs on this machine, in every way that is installed: the same texts, in turns, medians."""

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
MAX_TEXTS = 512  # of a file, taken evenly
REFERENCE_RUNTIMES = ("sentence-transformers", "core")  # the first that was measured is what speed is told against
TABLE_FIGURES = {  # of the table: what it is called, its form
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
    """What one runtime needs: time for one text, texts in a second, time to load, memory. None: not known."""

    name: str
    title: str
    left_out: str | None = None  # why it was not measured
    p50_ms: float | None = None
    p99_ms: float | None = None
    texts_per_second: float | None = None
    tokens_per_second: float | None = None
    ratio: float | None = None  # texts per second against the peer's, round by round
    load_seconds: float | None = None  # from the start of a process to its first answer, imports included
    resident_mb: float | None = None
    peak_mb: float | None = None
    cosine: float | None = None  # mean, with the float vectors
    worst_cosine: float | None = None


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The speed of a model on this machine, runtime by runtime."""

    model: str
    texts: int
    tokens: float | None  # of a text, on average
    threads: int
    rounds: int
    against: str | None  # the runtime that ratios are told against
    runtimes: tuple[RuntimeSpeed, ...]

    def to_json(self) -> dict[str, Any]:
        """What `bench --json` prints."""
        return {**asdict(self), "runtimes": [asdict(one) for one in self.runtimes]}

    @property
    def title(self) -> str:
        """What was measured, in one line."""
        length = "" if self.tokens is None else f" of {self.tokens:.0f} tokens"
        return f"{to_printable(self.model)}: {self.texts:,} texts{length}, threads: {self.threads}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out and why."""
        return tuple(f"left out: {one.title}: {one.left_out}" for one in self.runtimes if one.left_out is not None)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Names of columns and rows: a column for each runtime that was measured."""
        shown_ones = [one for one in self.runtimes if one.left_out is None]
        rows = [
            [name, *(_format_figure(getattr(one, key), form) for one in shown_ones)]
            for name, (key, form) in TABLE_FIGURES.items()
        ]
        return ["", *(one.title for one in shown_ones)], rows

    def svg(self) -> str:
        """The same as a picture of bars."""
        from clearhead.report.bench_picture import speeds_picture

        return speeds_picture(self.title, [asdict(one) for one in self.runtimes if one.left_out is None])

    def __repr__(self) -> str:
        timed = [one for one in self.runtimes if one.left_out is None and one.texts_per_second is not None]
        return short_repr(
            "Bench", self.title, *(f"{one.name} {one.texts_per_second:,.0f} texts/s" for one in timed[:6])
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
    patience: float = TIMEOUT,
    progress: Progress = no_progress,
    download: Progress | None = None,
) -> Bench:
    """Start every runtime in a process of its own and let them take turns at the same texts.

    `seconds` is about how long the first of them works; the others get as many texts, and may take longer.
    """

    names = _resolve_runtimes(runtimes)
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1, and it is {threads}.")
    if not 0 < seconds <= 86_400:
        raise InputError(f"seconds must be above 0 and at most 86400, and it is {seconds:g}.")
    chosen = sample_texts(texts)
    used = threads or get_max_threads()
    folder = locate(reference, progress=download).folder
    sides = [Contender(name=name) for name in names]
    with scratch_folder() as made, ExitStack() as kept:
        race = Scheduler(contenders=sides, timeout=patience, rounds=rounds, progress=progress)
        for place, side in enumerate(sides):
            if not RUNTIMES[side.name].is_installed:
                side.left_out = f"{RUNTIMES[side.name].package} is not installed."
            job = {"runtime": side.name, "folder": str(folder), "threads": used, "texts": chosen, "work": str(made)}
            (made / f"{place}.json").write_text(json.dumps(job), encoding="utf-8")
        race.start([made / f"{place}.json" for place in range(len(sides))], kept)
        tokens = race.measure(len(chosen), seconds / rounds / 2)
    return _summarize(reference, sides, len(chosen), tokens, used, rounds)


def _resolve_runtimes(asked: Sequence[str] | None) -> list[str]:
    if asked is None:
        return list(RUNTIMES)
    if unknown := [name for name in asked if name not in RUNTIMES]:
        raise InputError(f"There is no runtime {unknown[0]!r}; there are {', '.join(RUNTIMES)}.")
    if not asked:
        raise InputError(f"Name at least one runtime: {', '.join(RUNTIMES)}.")
    return list(dict.fromkeys(asked))


def sample_texts(given: Iterable[str] | None) -> list[str]:
    """Not too many of them, taken evenly; a long stream is never held."""
    if given is None:
        return list(SENTENCES)
    if isinstance(given, str):
        raise InputError("bench takes a list of texts, and it was given one text; put it in a list.")
    kept: list[str] = []
    every = 1  # of how many one is kept
    for place, text in enumerate(given):
        if not isinstance(text, str):
            raise InputError(f"texts[{place}] is {type(text).__name__}, expected a text.")
        if place % every == 0:
            kept.append(text)
        if len(kept) > MAX_TEXTS:
            kept, every = kept[::2], 2 * every
    if not kept:
        raise InputError("There is no text to measure with.")
    return kept


def _summarize(
    reference: str, sides: Sequence[Contender], texts: int, tokens: float | None, threads: int, rounds: int
) -> Bench:
    measured = {side.name: side for side in sides if side.left_out is None}
    against = next((name for name in REFERENCE_RUNTIMES if name in measured and len(measured) > 1), None)
    truth = next((measured[name].vectors for name in ("core", "engine", *measured) if name in measured), None)
    return Bench(
        model=reference,
        texts=texts,
        tokens=tokens,
        threads=threads,
        rounds=rounds,
        against=against,
        runtimes=tuple(_summarize_contender(side, tokens, measured.get(against or ""), truth) for side in sides),
    )


def _summarize_contender(side: Contender, tokens: float | None, peer: Contender | None, truth: Any) -> RuntimeSpeed:
    import numpy as np

    title = RUNTIMES[side.name].title
    if side.left_out is not None:
        return RuntimeSpeed(name=side.name, title=title, left_out=side.left_out)
    p50, p99 = np.percentile(side.latencies, (50, 99))
    speed = statistics.median(side.throughputs)
    ratio = None
    if peer is not None:
        ratio = statistics.median(
            mine / theirs for mine, theirs in zip(side.throughputs, peer.throughputs, strict=True)
        )
    mean, worst = _compare_vectors(side.vectors, truth)
    return RuntimeSpeed(
        name=side.name,
        title=title,
        p50_ms=float(p50),
        p99_ms=float(p99),
        texts_per_second=speed,
        tokens_per_second=None if tokens is None else speed * tokens,
        ratio=ratio,
        load_seconds=min(side.load_seconds),
        resident_mb=side.memory.get("resident_mb"),
        peak_mb=side.memory.get("peak_mb"),
        cosine=mean,
        worst_cosine=worst,
    )


def _compare_vectors(vectors: Any, truth: Any) -> tuple[float | None, float | None]:
    """The mean and the worst cosine of some vectors with others; None where they cannot be compared."""
    import numpy as np

    mine, theirs = np.asarray(vectors, float), np.asarray(truth, float)
    if mine.ndim != 2 or mine.shape != theirs.shape:
        return None, None
    sizes = np.linalg.norm(mine, axis=1) * np.linalg.norm(theirs, axis=1)
    found = (mine * theirs).sum(1)[sizes > 0] / sizes[sizes > 0]
    return (float(found.mean()), float(found.min())) if len(found) else (None, None)


def _format_figure(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"
