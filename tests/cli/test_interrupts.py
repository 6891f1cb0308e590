"""Ctrl-C during startup is one line and exit code 130; importing the command line imports nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Ctrl-C when a module is about to be imported; `turned` is the exception that its import raises instead
CHILD = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name != {module!r}:
            return None
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1_000_000):  # the handler runs between two instructions
                pass
        except KeyboardInterrupt as error:
            if {turned!r} == "ImportError":
                raise ImportError("initialization failed") from error
            if {turned!r} == "SystemError":
                raise SystemError("returned NULL without setting an exception") from error
            raise
        raise AssertionError("no signal came")

from clearhead.cli import main
sys.meta_path.insert(0, Interrupting())
sys.argv = ["clearhead", *{arguments!r}]
main()
"""
LIGHT_MODULES = ("cyclopts", "clearhead.cli.streams", "clearhead.errors", "clearhead.cli.describe")
HEAVY_MODULES = ("numpy", "tokenizers")


def run_interrupted(module: str, arguments: list[str], turned: str = "") -> subprocess.CompletedProcess[str]:
    code = CHILD.format(module=module, turned=turned, arguments=arguments)
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("module", [*LIGHT_MODULES, *HEAVY_MODULES])
def test_while_a_library_is_imported(module: str, masked_model: Path) -> None:
    process = run_interrupted(module, ["describe", str(masked_model)])
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "clearhead: interrupted\n")


@pytest.mark.parametrize("turned", ["", "ImportError", "SystemError"])
def test_while_torch_is_imported(turned: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"word {n},{n % 2}\n" for n in range(20)))
    arguments = ["train", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "run"), "--quiet"]
    process = run_interrupted("torch", arguments, turned)
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "clearhead: interrupted\n")


def test_an_error_without_an_interrupt_keeps_its_traceback() -> None:
    code = "import sys; sys.modules['clearhead.cli.models'] = None; sys.argv = ['clearhead', 'models']\n"
    code += "from clearhead.cli import main; main()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert process.returncode == 1
    assert "Traceback" in process.stderr


def test_importing_the_command_line_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import clearhead.cli; print(*sorted(set(sys.modules) - before))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert set(process.stdout.split()) <= {"__future__", "clearhead", "clearhead.cli", "clearhead.lazy"}


def test_the_handler_of_a_program_that_calls_main_stays(capsys: pytest.CaptureFixture[str]) -> None:
    from clearhead.cli import main

    handler = signal.getsignal(signal.SIGINT)
    main(["--version"])
    assert signal.getsignal(signal.SIGINT) is handler
    assert capsys.readouterr().out.strip()
