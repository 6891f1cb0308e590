"""How long it takes to answer or reject a text of one million bytes, by its content.

    python benchmarks/long_texts.py [--rounds 3] [--model default]

`embed` uses the default encoder, `predict` frozen features with a linear model on top. Times are medians over rounds of
the call only, in a new process, after the model was loaded and has answered a short text.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SIZE = 1_000_000
TEXT_UNITS = {
    "words": "the quiet river runs by an old garden ",
    "punctuation": "?!.,;:()-",
    "word pieces": "##",
    "HTML": "<p class='a'>&nbsp;<b>river</b></p>",
    "apostrophes": "'",
    "one long word": "a",
    "words of 99 letters": "b" * 99 + " ",
    "Chinese": "河流花园",
    "emoji": "🌊🌿",
    "digits": "1234567890",
    "blanks": " ",
}
CHILD = """
import sys, time
import clearhead
from clearhead.predict.loading import load_predictor
verb, model, path = sys.argv[1:]
text = open(path, encoding="utf-8").read()
if verb == "embed":
    encoder = clearhead.load(model)
    call = lambda one: encoder.embed([one])
else:
    predictor = load_predictor(model)
    call = lambda one: clearhead.predict(predictor, [one])
call("a short text")
begun = time.perf_counter()
try:
    call(text)
    end = "answered"
except clearhead.ClearheadError as error:
    end = "refused"
print(end, time.perf_counter() - begun)
"""


def time_call(verb: str, model: str, path: Path) -> tuple[str, float]:
    """Time one call in a fresh process; returns its outcome and seconds."""
    command = [sys.executable, "-c", CHILD, verb, model, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    outcome, seconds = process.stdout.split()
    return outcome, float(seconds)


def main() -> None:
    """Print a line per kind of text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="default")
    arguments = parser.parse_args()
    import clearhead

    verbs: Any = clearhead
    print("| text of 1 MB | embed | seconds | predict | seconds |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        rows = [{"text": f"a {mood} day, {count}", "label": mood} for count in range(20) for mood in ("dry", "wet")]
        settings: dict[str, Any] = {"method": "features", "model": arguments.model, "report": False}
        run_folder = verbs.train(rows, output=Path(folder) / "features", **settings).folder
        for name, unit in TEXT_UNITS.items():
            path = Path(folder) / "text.txt"
            path.write_bytes((unit * (SIZE // len(unit.encode()) + 1)).encode()[:SIZE].decode(errors="ignore").encode())
            cells = [name]
            for verb, model in (("embed", arguments.model), ("predict", str(run_folder))):
                runs = [time_call(verb, model, path) for _ in range(arguments.rounds)]
                cells += [
                    " or ".join({outcome for outcome, _ in runs}),
                    f"{statistics.median(seconds for _, seconds in runs):.2f}",
                ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
