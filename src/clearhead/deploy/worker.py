"""Worker process of benchmarks: embeds texts on request and reports how long it took.

    python -m clearhead.deploy.worker JOB.json

The job file contains a runtime of `clearhead.deploy.runtimes`, a model folder, threads and texts. Nothing heavy is
imported here, so that the load time of a runtime includes its own imports and no others.
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
    """Input of a worker: a runtime, a model folder, texts, and a folder for reusable intermediate files."""

    runtime: str
    folder: str
    threads: int
    texts: tuple[str, ...]
    work: str


@dataclass(frozen=True, kw_only=True)
class LoadedRuntime:
    """A loaded model: functions that embed texts and count tokens, and details for the first answer."""

    embed: Callable[[list[str]], Any]
    count_tokens: Callable[[list[str]], list[int]] | None = None
    apply_setting: Callable[[Any], None] | None = None  # changes a setting of the loaded model
    details: Mapping[str, Any] | None = None


def redirect_stdout() -> IO[str]:
    """Return a stream to the parent process, and send everything that libraries print to stderr."""
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return pipe


def serve_requests(
    load: Callable[[], LoadedRuntime], texts: Sequence[str], requests: Iterable[str], answers: IO[str]
) -> None:
    """Load a runtime, embed the first text, then answer one request per line until the input ends."""

    def send(compute: Callable[[], dict[str, Any]]) -> bool:
        try:
            answer = compute()
        except Exception as error:  # any error of a runtime is reported as an answer
            is_own_error = type(error).__module__.startswith("clearhead.")
            answer = {"error": str(error) if is_own_error else f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        return "error" not in answer

    loaded: list[LoadedRuntime] = []

    def load_runtime() -> dict[str, Any]:
        loaded.append(load())
        loaded[0].embed([texts[0]])
        return {"ready": True, **(loaded[0].details or {})}

    if not send(load_runtime):
        return
    handlers = {
        "alone": _time_single_texts,
        "together": _time_batch,
        "vectors": _embed_texts,
        "tokens": _count_tokens,
        "memory": _report_memory,
    }
    for line in requests:
        request = json.loads(line)
        if request["do"] == "set":
            send(lambda: _apply_setting(loaded[0], request["setting"]))  # noqa: B023
            continue
        positions = range(request.get("first", 0), request.get("first", 0) + request.get("count", 1))
        selected = [texts[position % len(texts)] for position in positions]
        send(lambda: handlers[request["do"]](loaded[0], selected))  # noqa: B023


def _apply_setting(model: LoadedRuntime, setting: Any) -> dict[str, Any]:
    if model.apply_setting is not None:
        model.apply_setting(setting)
    return {"setting": setting}


def _time_single_texts(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:
    """Embed texts one at a time; return milliseconds per text."""
    milliseconds = []
    for text in texts:
        start = time.perf_counter()
        model.embed([text])
        milliseconds.append(1000 * (time.perf_counter() - start))
    return {"ms": milliseconds}


def _time_batch(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:
    """Embed all texts in one call; return seconds."""
    start = time.perf_counter()
    model.embed(texts)
    return {"seconds": time.perf_counter() - start}


def _embed_texts(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:
    return {"vectors": [[float(f"{number:.7g}") for number in vector] for vector in model.embed(texts)]}


def _count_tokens(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:
    return {"tokens": None if model.count_tokens is None else model.count_tokens(texts)}


def _report_memory(model: LoadedRuntime, texts: list[str]) -> dict[str, Any]:  # noqa: ARG001
    return measure_memory()


def measure_memory() -> dict[str, float | None]:
    """Return current and peak resident memory of this process in MB; None where /proc is not available."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        megabytes = {
            name: int(value.split()[0]) / 1024
            for name, _, value in (line.partition(":") for line in lines)
            if name in ("VmRSS", "VmHWM")
        }
        return {"resident_mb": megabytes.get("VmRSS"), "peak_mb": megabytes.get("VmHWM")}
    except (OSError, ValueError):
        return {"resident_mb": None, "peak_mb": None}


def main(arguments: Sequence[str]) -> None:
    """Run the job of a file."""
    answers = redirect_stdout()
    job_fields = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    job = BenchJob(**{**job_fields, "texts": tuple(job_fields["texts"])})
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(job.threads)) | {"HF_HUB_OFFLINE": "1"})

    def load() -> LoadedRuntime:
        from clearhead.deploy.runtimes import RUNTIMES

        return RUNTIMES[job.runtime].load(job)

    serve_requests(load, job.texts, sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
