"""Fuzz loading model folders: `python fuzz/run.py --count 20000 --seed 0 [--jobs 2] [--minutes M] [--only N]`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from fuzz.drive import main

    raise SystemExit(main())
