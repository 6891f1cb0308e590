"""A first look: load the default model, compare a handful of sentences, and draw what one of them looks at."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import clearhead
from clearhead.explain import save_attention

SENTENCES = (
    "The parcel has not arrived yet.",
    "My package is still missing.",
    "How do I reset my password?",
    "I cannot log in to my account.",
    "The soup was cold and the waiter was rude.",
    "We loved the food and the friendly service.",
)
LECTURE = "The animal didn't cross the street because it was too tired"
OUT = Path("demo-out")


def main() -> None:
    """Everything that `make demo` shows."""
    console = Console()
    start = time.perf_counter()
    model = clearhead.load("default")
    console.print(f"[bold]1. A real pre-trained encoder, loaded in {time.perf_counter() - start:.1f} s[/bold]")
    console.print(repr(model), highlight=False)

    console.print("\n[bold]2. Sentences as vectors: the cosine of each pair (1 = same direction)[/bold]")
    vectors = model.embed(SENTENCES)
    table = Table("", *(str(number) for number in range(1, len(SENTENCES) + 1)))
    for number, (sentence, row) in enumerate(zip(SENTENCES, vectors @ vectors.T, strict=True), start=1):
        table.add_row(f"{number}. {sentence}", *(f"{similarity:.2f}" for similarity in row))
    console.print(table)

    OUT.mkdir(exist_ok=True)
    np.save(OUT / "vectors.npy", vectors)
    trace = model.trace(LECTURE)
    picture = save_attention(trace, OUT / "attention.svg", word="it")
    page = save_attention(trace, OUT / "attention.html")
    console.print(f'\n[bold]3. What each word of "{LECTURE}" looks at[/bold]')
    layers, heads = len(trace.layers), len(trace.layers[0].probs)
    console.print(f"{len(trace.tokens)} tokens, {layers} layers of {heads} heads; open these in a browser:")
    for path in (picture, page, OUT / "vectors.npy"):
        console.print(f"  {path}  ({path.stat().st_size / 1000:,.0f} kB)", highlight=False)
    console.print("\nNext: clearhead --help, docs/python.md, docs/command-line.md", highlight=False)


if __name__ == "__main__":
    main()
