"""Kill every writing verb before each of its file operations, run the same command again, and compare the files.

    python fuzz/crash.py                        # every command at 40 points, spread over its file operations
    python fuzz/crash.py --count 0 convert      # one command at all points

A command runs in a child process that counts every operation that changes a file: open for writing, write, fsync,
truncate, rename, create, link, remove. The child gets SIGKILL before the n-th operation, or in the middle of it if it
is a write. Then the same command must succeed and produce the same files as an uninterrupted run, byte for byte except
for measured times, without leftovers in the output folder or the folder for temporary files.
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

from fuzz.crash_cases import CASES, CommandCase, make_assets, prepare_fork

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PATH_OPERATIONS = (
    "rename",
    "replace",
    "mkdir",
    "rmdir",
    "unlink",
    "remove",
    "link",
    "symlink",
    "truncate",
    "chmod",
    "utime",
)
DESCRIPTOR_OPERATIONS = ("fsync", "fchmod", "fdatasync", "ftruncate", "pwrite", "sendfile", "copy_file_range")
# measured times, and whether the output folder existed at the start
TIMING_KEYS = {
    "seconds",
    "cost",
    "training_seconds",
    "latency_ms",
    "reused",
    "words_per_second",
    "seconds_per_step",
}
UNSTABLE = ("report.html",)  # contains the same times


@dataclass
class KillPoint:
    """Counts file operations, and kills this process at the chosen one."""

    stop_at: int | None = None
    is_partial: bool = False  # kill in the middle of a write, not before it
    operations: list[str] = field(default_factory=list)

    def count_operation(self, name: str, target: object) -> bool:
        """Count an operation; True if it must be done partially before the kill."""
        self.operations.append(f"{name} {target}")
        if len(self.operations) - 1 == self.stop_at:
            if not self.is_partial:
                os.kill(os.getpid(), signal.SIGKILL)
            return True
        return False

    def install(self) -> None:
        """Intercept all file operations; `_pyio` replaces `io` because its buffers are written through `os`."""
        in_python = import_module("_pyio").open
        os_open, os_write = os.open, os.write

        def counting_open(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if flags & WRITE_FLAGS and not str(path).startswith("/dev/"):
                self.count_operation("open", path)
            return os_open(path, flags, *arguments, **options)

        def counting_write(fd: int, data: Any) -> int:
            if fd > 2 and self.count_operation("write", fd):
                os_write(fd, bytes(data)[: max(1, len(bytes(data)) // 2)])
                os.kill(os.getpid(), signal.SIGKILL)
            return os_write(fd, data)

        def wrap_call(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                self.count_operation(name, arguments[0])
                return real(*arguments, **options)

            return call

        for name in (*PATH_OPERATIONS, *DESCRIPTOR_OPERATIONS):
            if hasattr(os, name):
                setattr(os, name, wrap_call(name, getattr(os, name)))
        os.open, os.write = counting_open, counting_write
        plain_open = io.open

        def select_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            is_write = set(mode) & set("wax+") and file not in (0, 1, 2)
            return (in_python if is_write else plain_open)(file, mode, *arguments, **options)

        builtins.open = io.open = select_open


def run_command(folder: Path, case: CommandCase, points: KillPoint | None = None) -> tuple[int | None, str]:
    """Run a command in a child process; returns its exit code (None if killed) and its output."""
    for name in ("work", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python >= 3.12 warns about threads, but these are idle
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(folder / "work")
            os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
            output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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
            if points is not None and points.stop_at is None:
                operations = list(points.operations)
                (folder / "points").write_text("\n".join(operations))
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    text = (folder / "output").read_text(errors="replace")
    return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else None), text


def read_results(folder: Path) -> dict[str, Any]:
    """Read all files by name, without measured times."""
    files: dict[str, Any] = {}
    for path in sorted(path for part in ("work", "tmp") for path in (folder / part).rglob("*")):
        name = str(path.relative_to(folder))
        if "/tensorboard" in name:
            continue
        files[name] = None if path.is_dir() or path.name in UNSTABLE else read_comparable(path)
    return files


def read_comparable(path: Path) -> Any:
    """Read a file without measured times."""
    data = path.read_bytes()
    if path.suffix == ".json":
        return json.dumps(remove_times(json.loads(data)))
    if path.name == "log.jsonl":
        return json.dumps([remove_times(json.loads(line)) for line in data.splitlines()])
    return data


def remove_times(value: Any) -> Any:
    """Remove measured times from JSON."""
    if isinstance(value, dict):
        return {key: remove_times(inner) for key, inner in value.items() if key not in TIMING_KEYS}
    return [remove_times(inner) for inner in value] if isinstance(value, list) else value


def choose_points(operations: Sequence[str], count: int) -> list[KillPoint]:
    """Choose `count` evenly spread points; 0 means all."""
    points = [
        KillPoint(stop_at=index, is_partial=half)
        for index, name in enumerate(operations)
        for half in ((False, True) if name.startswith("write ") else (False,))
    ]
    if not count or count >= len(points):
        return points
    return [points[round(index * (len(points) - 1) / max(count - 1, 1))] for index in range(count)]


def kill_at_points(base: Path, case: CommandCase, count: int, *, report: Callable[[str], None]) -> tuple[int, int]:
    """Kill one command at each point; returns the numbers of points and findings."""
    counter = KillPoint()
    code, output = run_command(base / "whole", case, counter)
    if code != 0:
        report(f"{case.name}: fails without a kill: {output.strip()[-400:]}")
        return 0, 1
    operations = (base / "whole" / "points").read_text().splitlines()
    expected = read_results(base / "whole")
    twin_result = run_command(base / "twin", case)[0], read_results(base / "twin")
    findings = 0
    if twin_result != (0, expected):
        report(f"{case.name}: two uninterrupted runs differ: {describe_differences(expected, twin_result[1])}")
        findings += 1
    points = choose_points(operations, count)
    for point in points:
        assert point.stop_at is not None
        folder = base / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        code, output = run_command(folder, case, point)
        moment = "in" if point.is_partial else "before"
        location = f"{case.name}, point {point.stop_at} of {len(operations)} ({moment} {operations[point.stop_at]})"
        location = re.sub(r"/\S*/(work|tmp)/", r"\1/", location)
        if code is not None:
            report(f"{location}: was not killed ({code}): {output.strip()[-200:]}")
            findings += 1
            continue
        code, output = run_command(folder, case)
        problem = describe_differences(expected, read_results(folder)) if code == 0 else output.strip()[-300:]
        if problem:
            report(f"{location}: {problem}")
            findings += 1
    return len(points), findings


def describe_differences(expected: dict[str, Any], actual: dict[str, Any]) -> str:
    """List extra, missing and changed files."""
    extra, missing = sorted(actual.keys() - expected.keys()), sorted(expected.keys() - actual.keys())
    changed = sorted(name for name in expected.keys() & actual.keys() if expected[name] != actual[name])
    groups = (("left behind", extra), ("missing", missing), ("differ", changed))
    return "; ".join(f"{title}: {', '.join(names[:6])}" for title, names in groups if names)


def main() -> None:
    """Kill the commands at the chosen points, and report findings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help=f"commands to test (default: all): {', '.join(CASES)}")
    parser.add_argument("--count", type=int, default=40, help="points per command (0: all)")
    arguments = parser.parse_args()
    prepare_fork()
    base = Path(tempfile.mkdtemp(prefix="clearhead-crash-"))
    make_assets(base / "assets")
    total = findings = 0
    for name in arguments.names or CASES:
        case = CASES[name](base / "assets")
        points, case_findings = kill_at_points(
            base / name, case, arguments.count, report=lambda line: print(line, flush=True)
        )
        print(f"{name}: {points} points, {case_findings} findings", flush=True)
        total, findings = total + points, findings + case_findings
        shutil.rmtree(base / name)
    shutil.rmtree(base)
    print(f"{total} points: {findings} findings")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
