"""Run every command and every Python block of README.md and docs/, each page in an empty folder.

    python docs/check.py [PAGE ...]

Shell blocks are ```sh, Python blocks are ```python; the Python blocks of a page are one program, run where the last of
them stands. Each page has `examples/` beside it. `make` lines are checked against the Makefile instead of being run. A
block after `<!-- needs NAME -->` is run when the environment variable NAME is set (CLEARHEAD_WEIGHTS defaults to
../shared/weights).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).parents[1]
BLOCK = re.compile(r"(?:<!-- needs (\w+) -->\n)?^```(sh|python)\n(.*?)^```", re.M | re.S)


def environment() -> dict[str, str]:
    """This environment's own commands first, nothing from the network."""
    made = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "error::UserWarning"}
    made["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{made.get('PATH', '')}"
    weights = Path(made.get("CLEARHEAD_WEIGHTS", REPO.parent / "shared" / "weights"))
    if weights.is_dir():
        made["CLEARHEAD_WEIGHTS"] = str(weights)
    return made


def command(kind: str, text: str) -> list[str]:
    """How a block is run."""
    if kind == "python":
        return [sys.executable, "-c", text]
    targets = re.findall(r"^make ([\w-]+)", text, re.M)
    missing = [target for target in targets if f"\n{target}:" not in (REPO / "Makefile").read_text()]
    if missing:
        return ["bash", "-c", f"echo the Makefile has no target {missing[0]}; exit 1"]
    return ["bash", "-euc", "\n".join(line for line in text.splitlines() if not line.startswith("make "))]


def main(pages: list[str]) -> int:
    """Exit code 1 when a block fails."""
    chosen = [REPO / page for page in pages] or [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]
    failed = ran = 0
    for page in chosen:
        blocks = BLOCK.findall(page.read_text())
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(REPO / "examples")
            program = ""
            for place, (needs, kind, text) in enumerate(blocks):
                first = next(line for line in text.splitlines() if line.strip())
                if needs and needs not in environment():
                    print(f"skip  {page.name}: {first} (set {needs})")
                    continue
                if kind == "python":
                    program = text = program + text
                    if any(later[1] == "python" for later in blocks[place + 1 :]):
                        continue
                done = subprocess.run(
                    command(kind, text), cwd=folder, env=environment(), capture_output=True, text=True, check=False
                )
                ran += 1
                if done.returncode:
                    failed += 1
                    print(f"FAIL  {page.name}: {first}\n{done.stdout}{done.stderr}")
                else:
                    print(f"ok    {page.name}: {first}")
    print(f"{ran - failed} passed, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
