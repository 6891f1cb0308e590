"""A child process that embeds texts when it is told to, and says how long that took.

    python -m clearhead.deploy.worker JOB.json

The job names a runtime of `clearhead.deploy.runtimes`, a model folder, threads and texts. Nothing is imported here
before the clock runs, so that each runtime pays for its own imports and for no other's.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True, kw_only=True)
class BenchJob:
    """What a runtime is given: a model folder, texts, and a place for files that may be used again."""

    runtime: str
    folder: str
    threads: int
    texts: tuple[str, ...]
    work: str


@dataclass(frozen=True, kw_only=True)
class LoadedRuntime:
    """A model that is ready: texts to vectors, perhaps texts to numbers of tokens, and what else is to be told."""

    embed: Callable[[list[str]], Any]
    count_tokens: Callable[[list[str]], list[int]] | None = None
    apply_setting: Callable[[Any], None] | None = None  # another setting of the same model
    details: Mapping[str, Any] | None = None


def redirect_stdout() -> IO[str]:
    """The way to the parent; what libraries print goes to stderr from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def serve_requests(
    load: Callable[[], LoadedRuntime], texts: Sequence[str], questions: Iterable[str], answers: IO[str]
) -> None:
    """Load, answer the first text, then do what each line asks until there are no more."""

    def say(made: Callable[[], dict[str, Any]]) -> bool:
        try:
            said = made()
        except Exception as error:  # whatever a runtime throws is told in one line
            plain = type(error).__module__.startswith("clearhead.")
            said = {"error": str(error) if plain else f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(said) + "\n")
        answers.flush()
        return "error" not in said

    ready: list[LoadedRuntime] = []

    def first() -> dict[str, Any]:
        ready.append(load())
        ready[0].embed([texts[0]])
        return {"ready": True, **(ready[0].details or {})}

    if not say(first):
        return
    turns = {
        "alone": _time_single_texts,
        "together": _time_batch,
        "vectors": _embed_texts,
        "tokens": _count_tokens,
        "memory": _report_memory,
    }
    for line in questions:
        question = json.loads(line)
        if question["do"] == "set":
            say(lambda: _apply_setting(ready[0], question["setting"]))  # noqa: B023
            continue
        places = range(question.get("first", 0), question.get("first", 0) + question.get("count", 1))
        chosen = [texts[place % len(texts)] for place in places]
        say(lambda: turns[question["do"]](ready[0], chosen))  # noqa: B023


def _apply_setting(model: LoadedRuntime, setting: Any) -> dict[str, Any]:
    if model.apply_setting is not None:
        model.apply_setting(setting)
    return {"setting": setting}


def _time_single_texts(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:
    """One text at a time, in milliseconds."""
    spent = []
    for text in texts:
        begun = time.perf_counter()
        model.embed([text])
        spent.append(1000 * (time.perf_counter() - begun))
    return {"ms": spent}


def _time_batch(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:
    """All texts in one call, in seconds."""
    begun = time.perf_counter()
    model.embed(texts)
    return {"seconds": time.perf_counter() - begun}


def _embed_texts(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:
    return {"vectors": [[float(f"{number:.7g}") for number in vector] for vector in model.embed(texts)]}


def _count_tokens(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:
    return {"tokens": None if model.count_tokens is None else model.count_tokens(texts)}


def _report_memory(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:  # noqa: ARG001
    return measure_memory()


def measure_memory() -> dict[str, float | None]:
    """Megabytes that this process holds now and held at its peak; None where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        held = {
            name: int(rest.split()[0]) / 1024
            for name, _, rest in (line.partition(":") for line in lines)
            if name in ("VmRSS", "VmHWM")
        }
        return {"resident_mb": held.get("VmRSS"), "peak_mb": held.get("VmHWM")}
    except (OSError, ValueError):
        return {"resident_mb": None, "peak_mb": None}


def main(arguments: Sequence[str]) -> None:
    """Do the job of a file."""
    answers = redirect_stdout()
    told = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    job = BenchJob(**{**told, "texts": tuple(told["texts"])})
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(job.threads)) | {"HF_HUB_OFFLINE": "1"})

    def load() -> LoadedRuntime:
        from clearhead.deploy.runtimes import RUNTIMES

        return RUNTIMES[job.runtime].load(job)

    serve_requests(load, job.texts, sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
