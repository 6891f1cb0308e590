"""Demo on example data: inspect a CSV file, train, evaluate, predict, and visualize attention."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

EXAMPLES = Path(__file__).resolve().parent
OUT = Path("demo-out")
DATA = EXAMPLES / "support.csv"
SENTENCE = "The animal didn't cross the street because it was too tired"
MASKED = "A knock was heard at the [MASK], and he shook his [MASK]."
STEPS = (
    ("Inspect the data", f"clearhead inspect {DATA}"),
    ("Baseline: TF-IDF", f"clearhead train {DATA} --method tfidf -o {OUT}/words"),
    ("Fine-tune a small BERT", f"clearhead train {DATA} -o {OUT}/model"),
    (
        "Compare both models on held-out rows",
        f"clearhead evaluate {OUT}/model {DATA} --part test --against {OUT}/words",
    ),
    ("Predict", f"clearhead predict {OUT}/model {OUT}/new.csv -o {OUT}/answers.csv"),
    ("Fill masked words with a small pretrained BERT", f'clearhead fill novels "{MASKED}" --top 3'),
    ("Visualize attention in a sentence", f'clearhead explain default "{SENTENCE}" --word it -o {OUT}/attention.svg'),
)
NEW_MESSAGES = """message
I was charged twice for the same order and nobody answers my mails
the app closes itself when i open my basket
Could you tell me if the large backpack fits under an aeroplane seat?
parcel says delivered but there is nothing here
"Honestly the best support I have had in years, thank you!"
"""


def main() -> None:
    """Run all steps of `make demo`."""
    console = Console()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    (OUT / "new.csv").write_text(NEW_MESSAGES)
    start = time.perf_counter()
    for number, (title, command) in enumerate(STEPS, start=1):
        console.print(f"\n[bold]{number}. {title}[/bold]\n[dim]$ {command}[/dim]", highlight=False)
        subprocess.run([sys.executable, "-m", *shlex.split(command)], check=True)
    console.print(f"\n[bold]{OUT}/answers.csv[/bold]", highlight=False)
    console.print((OUT / "answers.csv").read_text(), highlight=False, markup=False)
    console.print(f"Done in {time.perf_counter() - start:.0f} s. Open these in a browser:")
    for path in (OUT / "model" / "report.html", OUT / "attention.svg"):
        console.print(f"  {path}  ({path.stat().st_size / 1000:,.0f} kB)", highlight=False)
    console.print("\nNext: train on your own file with clearhead train FILE; see docs/training.md", highlight=False)


if __name__ == "__main__":
    main()
