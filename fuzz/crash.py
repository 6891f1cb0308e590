"""Kill every verb that writes before each of its file operations, run the same command again, and compare the files.

    python fuzz/crash.py                        # every command at 40 points, spread over its file operations
    python fuzz/crash.py --count 0 convert      # one command at all of its points

A command runs in a child process in which every operation that changes a file is counted: open for writing, write,
fsync, truncate, rename, make, link, remove. Before the n-th of them, or in the middle of it where it is a write, the
child gets SIGKILL. The very same command must then end well, with the files of a run that was left alone, byte for byte
but for times that are measured, and nothing beside them, neither there nor in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import builtins
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.crash_cases import CASES, Case, make_assets, warm

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NAMED = ("rename", "replace", "mkdir", "rmdir", "unlink", "remove", "link", "symlink", "truncate", "chmod", "utime")
OPENED = ("fsync", "fchmod", "fdatasync", "ftruncate", "pwrite", "sendfile", "copy_file_range")
# what a run measures of time and memory, and whether the folder was there when it began
TIMED = {
    "seconds",
    "cost",
    "training_seconds",
    "latency_ms",
    "reused",
    "words_per_second",
    "seconds_per_step",
}
UNSTABLE = ("report.html",)  # shows the same times


@dataclass
class Points:
    """Counts file operations, and kills this process at one of them."""

    at: int | None = None
    half: bool = False  # a write is done in part before the end
    seen: list[str] = field(default_factory=list)

    def due(self, name: str, what: object) -> bool:
        """Note an operation; True where it is to be done in part."""
        self.seen.append(f"{name} {what}")
        if len(self.seen) - 1 == self.at:
            if not self.half:
                os.kill(os.getpid(), signal.SIGKILL)
            return True
        return False

    def install(self) -> None:
        """Let every way to a file pass by here; buffers in Python are those of `_pyio`, which calls `os`."""
        in_python = import_module("_pyio").open
        os_open, os_write = os.open, os.write

        def opened(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            if flags & WRITING and not str(path).startswith("/dev/"):
                self.due("open", path)
            return os_open(path, flags, *rest, **named)

        def written(fd: int, data: Any) -> int:
            if fd > 2 and self.due("write", fd):
                os_write(fd, bytes(data)[: max(1, len(bytes(data)) // 2)])
                os.kill(os.getpid(), signal.SIGKILL)
            return os_write(fd, data)

        def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:
                self.due(name, given[0])
                return real(*given, **named)

            return call

        for name in (*NAMED, *OPENED):
            if hasattr(os, name):
                setattr(os, name, watched(name, getattr(os, name)))
        os.open, os.write = opened, written
        plain = io.open

        def chosen(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
            changes = set(mode) & set("wax+") and file not in (0, 1, 2)
            return (in_python if changes else plain)(file, mode, *given, **named)

        builtins.open = io.open = chosen


def run(place: Path, case: Case, points: Points | None = None) -> tuple[int | None, str]:
    """Run a command in a child process: its exit code (None: killed), and what it said."""
    for name in ("work", "tmp"):
        (place / name).mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of threads, and these are idle
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(place / "work")
            os.environ["TMPDIR"] = tempfile.tempdir = str(place / "tmp")
            output = os.open(place / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(fd, "w"), "utf-8") for fd in (1, 2))
            sys.argv = ["clearhead", *case.arguments]
            if points is not None:
                points.install()
            from clearhead.cli import main

            main(case.arguments) if case.job is None else case.job()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            if points is not None and points.at is None:
                seen = list(points.seen)
                (place / "points").write_text("\n".join(seen))
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    said = (place / "said").read_text(errors="replace")
    return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else None), said


def contents(place: Path) -> dict[str, Any]:
    """Every file by its name, without the times that it tells."""
    made: dict[str, Any] = {}
    for path in sorted(path for part in ("work", "tmp") for path in (place / part).rglob("*")):
        name = str(path.relative_to(place))
        if "/tensorboard" in name:
            continue
        made[name] = None if path.is_dir() or path.name in UNSTABLE else plain(path)
    return made


def plain(path: Path) -> Any:
    """A file as it is compared."""
    data = path.read_bytes()
    if path.suffix == ".json":
        return json.dumps(without_times(json.loads(data)))
    if path.name == "log.jsonl":
        return json.dumps([without_times(json.loads(line)) for line in data.splitlines()])
    return data


def without_times(value: Any) -> Any:
    """JSON without the keys that tell what was measured of time."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMED}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def chosen_points(seen: Sequence[str], count: int) -> list[Points]:
    """As many points as are asked for, spread evenly; all of them where that is 0."""
    every = [
        Points(at=number, half=half)
        for number, name in enumerate(seen)
        for half in ((False, True) if name.startswith("write ") else (False,))
    ]
    if not count or count >= len(every):
        return every
    return [every[round(place * (len(every) - 1) / max(count - 1, 1))] for place in range(count)]


def tried(base: Path, case: Case, count: int, *, say: Callable[[str], None]) -> tuple[int, int]:
    """Kill one command at its points: how many, and how many findings."""
    whole = Points()
    code, said = run(base / "whole", case, whole)
    if code != 0:
        say(f"{case.name}: fails when it is left alone: {said.strip()[-400:]}")
        return 0, 1
    seen = (base / "whole" / "points").read_text().splitlines()
    truth = contents(base / "whole")
    again = run(base / "twin", case)[0], contents(base / "twin")
    findings = 0
    if again != (0, truth):
        say(f"{case.name}: two runs that were left alone differ: {differences(truth, again[1])}")
        findings += 1
    points = chosen_points(seen, count)
    for point in points:
        assert point.at is not None
        place = base / "killed"
        shutil.rmtree(place, ignore_errors=True)
        code, said = run(place, case, point)
        where = f"{case.name}, point {point.at} of {len(seen)} ({'in' if point.half else 'before'} {seen[point.at]})"
        where = re.sub(r"/\S*/(work|tmp)/", r"\1/", where)
        if code is not None:
            say(f"{where}: was not killed ({code}): {said.strip()[-200:]}")
            findings += 1
            continue
        code, said = run(place, case)
        found = differences(truth, contents(place)) if code == 0 else said.strip()[-300:]
        if found:
            say(f"{where}: {found}")
            findings += 1
    return len(points), findings


def differences(truth: dict[str, Any], now: dict[str, Any]) -> str:
    """The names of files that are not as they should be."""
    more, less = sorted(now.keys() - truth.keys()), sorted(truth.keys() - now.keys())
    other = sorted(name for name in truth.keys() & now.keys() if truth[name] != now[name])
    told = (("left behind", more), ("missing", less), ("differ", other))
    return "; ".join(f"{what}: {', '.join(names[:6])}" for what, names in told if names)


def main() -> None:
    """Run the commands and tell what they leave."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("names", nargs="*", help=f"some of {', '.join(CASES)}; all without it")
    arguments.add_argument("--count", type=int, default=40, help="points of each command; 0: all")
    chosen = arguments.parse_args()
    warm()
    base = Path(tempfile.mkdtemp(prefix="clearhead-crash-"))
    make_assets(base / "assets")
    total = findings = 0
    for name in chosen.names or CASES:
        case = CASES[name](base / "assets")
        points, found = tried(base / name, case, chosen.count, say=lambda line: print(line, flush=True))
        print(f"{name}: {points} points, {found} findings", flush=True)
        total, findings = total + points, findings + found
        shutil.rmtree(base / name)
    shutil.rmtree(base)
    print(f"{total} points: {findings} findings")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
