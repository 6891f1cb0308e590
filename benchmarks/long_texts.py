"""How long a text of one million bytes takes to be answered or refused, by what it consists of.

    python benchmarks/long_texts.py [--rounds 3] [--model default]

`embed` reads the text with the default encoder, `predict` with frozen features and a linear model on top. The times are
of the call alone, in a new process, after the model was loaded and has answered a short text: medians of the rounds.
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
TEXTS = {
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


def timed(verb: str, model: str, path: Path) -> tuple[str, float]:
    """What became of a text, and the seconds that it took."""
    command = [sys.executable, "-c", CHILD, verb, model, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    end, seconds = done.stdout.split()
    return end, float(seconds)


def main() -> None:
    """Print a line for each kind of text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="default")
    given = parser.parse_args()
    import clearhead

    verbs: Any = clearhead
    print("| text of 1 MB | embed | seconds | predict | seconds |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        rows = [{"text": f"a {mood} day, {count}", "label": mood} for count in range(20) for mood in ("dry", "wet")]
        choices: dict[str, Any] = {"method": "features", "model": given.model, "report": False}
        trained = verbs.train(rows, output=Path(folder) / "features", **choices).folder
        for name, part in TEXTS.items():
            path = Path(folder) / "text.txt"
            path.write_bytes((part * (SIZE // len(part.encode()) + 1)).encode()[:SIZE].decode(errors="ignore").encode())
            cells = [name]
            for verb, model in (("embed", given.model), ("predict", str(trained))):
                runs = [timed(verb, model, path) for _ in range(given.rounds)]
                cells += [" or ".join({end for end, _ in runs}), f"{statistics.median(one for _, one in runs):.2f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
