"""Runs that never were: evaluations of drawn logits, inspections of written rows, logs of any length."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.data import Inspection, LabelSpace, inspect_data
from clearhead.report import ReportData
from clearhead.tasks import TASKS, Calibration
from clearhead.tasks.evaluation import Evaluation, evaluate_logits
from clearhead.tasks.examples import CellExamples, Example, PartExamples, SelectedRow, WordImportance

LABELS = ("billing", "delivery", "login", "other", "refund")
METHODS = ("majority", "tfidf", "features", "head", "finetune")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "\u202eevil\u2066 right to left",
    "</title></style></svg><script src=https://evil.example/x.js></script>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(4)",
    "<!-- --><svg onload=alert(5)>",
    "שלום",
    "long" * 5000,
    "nul\x00 and \ud800 half",
    "&lt;b&gt; &amp; ]]>",
)


def classes(
    rows: int = 300, labels: tuple[str, ...] = LABELS, *, seed: int = 0, temperature: float = 1.6, **more: Any
) -> Evaluation:
    """Mostly right, too sure of itself."""
    drawn = np.random.default_rng(seed)
    targets = drawn.integers(0, len(labels), rows)
    logits = drawn.normal(0, 2, (rows, len(labels)))
    logits[np.arange(rows), targets] += 3.5
    space = LabelSpace(names=labels)
    return evaluate_logits(
        TASKS["classify"], space, logits, targets, Calibration(temperature=temperature), resamples=200, **more
    )


def multilabel(rows: int = 200, seed: int = 1, **more: Any) -> Evaluation:
    """Several labels a row."""
    drawn = np.random.default_rng(seed)
    targets = (drawn.random((rows, len(LABELS))) < 0.3).astype(np.int64)
    logits = np.where(targets == 1, 1.5, -1.5) + drawn.normal(0, 1.2, targets.shape)
    space = LabelSpace(names=LABELS, kind="multilabel", separator="|")
    reading = Calibration(temperature=1.2, thresholds=(0.4,) * len(LABELS))
    return evaluate_logits(TASKS["classify"], space, logits, targets, reading, resamples=200, **more)


def numbers(rows: int = 150, seed: int = 2, **more: Any) -> Evaluation:
    """Scores from 0 to 5."""
    drawn = np.random.default_rng(seed)
    targets = drawn.uniform(0, 5, rows)
    logits = (targets + drawn.normal(0, 0.7, rows))[:, None]
    space = LabelSpace(kind="number")
    return evaluate_logits(TASKS["regress"], space, logits, targets, Calibration(), resamples=200, **more)


def sliced(rows: int, seed: int = 3) -> dict[str, list[Any]]:
    """Columns to slice by; one value is rare."""
    drawn = np.random.default_rng(seed)
    channels = drawn.choice(["mail", "chat", "phone", "fax"], rows, p=[0.5, 0.3, 0.17, 0.03])
    return {"channel": channels.tolist(), "length": drawn.integers(1, 400, rows).tolist()}


def looked(one: Evaluation, text: str = "where is the parcel number", text_b: str | None = None) -> PartExamples:
    """The picked rows of an evaluation with a text each, in which the last word speaks for the answer."""
    assert one.picks is not None

    def example(pick: SelectedRow) -> Example:
        own = f"{text} {pick.row}"
        cut = text.rfind(" ") + 1
        words = (WordImportance(start=0, end=cut, weight=-0.08), WordImportance(start=cut, end=len(own), weight=0.4))
        return Example(selected=pick, text=own, text_b=text_b, words=words if cut else None, full_value=0.9)

    return PartExamples(
        worst=tuple(map(example, one.picks.worst)),
        suspicious=tuple(map(example, one.picks.suspicious)),
        cells=tuple(CellExamples(cell=cell, examples=tuple(map(example, cell.rows))) for cell in one.picks.cells),
        explained=len(one.picks.worst),
        scored=99,
    )


def counted(rows: int) -> dict[str, Any]:
    """What makes an evaluation pick rows, and slice them by their length."""
    drawn = np.random.default_rng(rows)
    return {"row_numbers": range(1, rows + 1), "slices": {"length in tokens": drawn.integers(3, 90, rows).tolist()}}


def inspected(labels: tuple[str, ...] = LABELS, rows: int = 240) -> Inspection:
    """A data set with duplicates, a leak, a conflict, bad rows and uneven labels."""
    drawn = np.random.default_rng(4)
    words = ["parcel", "invoice", "password", "money", "late", "again", "please", "help", "never", "broken"]
    made: list[dict[str, Any]] = []
    for number in range(rows):
        chosen = drawn.choice(words, int(drawn.integers(3, 60)))
        label = labels[min(int(drawn.exponential(1.4)), len(labels) - 1)]
        made.append({"text": f"{' '.join(chosen)} {number}", "label": label})
    made += [dict(made[0]), {**made[1], "label": labels[0]}, {**made[1], "label": labels[1]}]
    made.append({"text": "", "label": labels[0]})
    test = [dict(made[5]), *({"text": f"what about {number}?", "label": labels[number % 2]} for number in range(40))]
    return inspect_data(made, test=test)


def log_lines(steps: int = 300, epochs: int = 3) -> list[dict[str, Any]]:
    """A loss that falls, a rate that rises and falls, a score at the end of each epoch."""
    drawn = np.random.default_rng(5)
    made: list[dict[str, Any]] = []
    best = -1.0
    for step in range(1, steps + 1):
        done = step / steps
        loss = 0.25 + 1.3 * np.exp(-4 * done) + abs(drawn.normal(0, 0.12))
        rate = 5e-5 * min(done / 0.1, (1 - done) / 0.9)
        epoch = min(int((step - 1) * epochs / steps), epochs - 1)
        line = {
            "step": step,
            "steps": steps,
            "epoch": epoch,
            "loss": float(loss),
            "rate": rate,
            "gradient": 1.0,
            "rows": 32,
            "tokens": 900,
            "seconds": 0.2,
            "score": None,
            "best": False,
        }
        if step * epochs % steps < epochs and (step * epochs) // steps > epoch:
            score = 0.9 - 0.2 * np.exp(-1.5 * (epoch + 1)) - (0.02 if epoch == epochs - 1 else 0)
            line |= {"score": float(score), "best": bool(score > best)}
            best = max(best, float(score))
        made.append(line)
    return made


def rungs(**changes: Any) -> list[dict[str, Any]]:
    """Five methods; the networks take about the same time for a text."""
    made = []
    for place, method in enumerate(METHODS):
        made.append(
            {
                "method": method,
                "left_out": None,
                "value": 0.5 + 0.1 * place,
                "low": 0.45 + 0.1 * place,
                "high": 0.55 + 0.1 * place,
                "training_seconds": 10.0**place,
                "size_mb": 0.01 * 10.0**place,
                "latency_ms": (0.05, 0.2, 20.0, 20.5, 21.0)[place],
                "difference": None if place == 4 else {"difference": -0.1, "low": -0.2, "high": 0.01, "p": 0.1},
            }
            | changes
        )
    return made


def climbed(**changes: Any) -> dict[str, Any]:
    """A ladder as in ladder.json."""
    made = {
        "metric": "accuracy",
        "part": "test",
        "rows": 300,
        "margin": 0.01,
        "recommended": "head",
        "reason": "It is.",
        "not_tried": (),
        "caveat": None,
    }
    return made | {"rungs": rungs()} | changes


def baseline(method: str, value: float) -> dict[str, Any]:
    """A cheap method beside the model, as `Run.to_json()` has it."""
    gap = {"difference": 0.125, "low": 0.05, "high": 0.2, "p": 0.01}
    return {"method": method, "rows": 1234, "value": value, "low": 0.5, "high": 0.75, "difference": gap, "seconds": 1.0}


def swept(layers: int = 6, **changes: Any) -> list[dict[str, Any]]:
    """Some layers, each with two poolings."""
    plain = {"spread": 0.02, "seconds": 1.5}
    return [
        {"layer": f"layer_{place}", "pooling": mode, "score": 0.8 + 0.01 * place} | plain | changes
        for place in range(layers)
        for mode in ("mean", "max")
    ]


def whole(**changes: Any) -> ReportData:
    """A report with every section."""
    more = counted(300)
    dev = classes(120, seed=7, **counted(120))
    test = classes(
        300,
        slices=sliced(300) | more["slices"],
        row_numbers=more["row_numbers"],
        seconds=1.25,
        truncated=2,
        windowed=5,
        skipped={"empty text": 2},
    )
    values: dict[str, Any] = {
        "title": "Support messages by intent",
        "command": "clearhead train messages.csv --label intent -o runs/intent --seeds 3",
        "parts": {"dev": dev, "test": test},
        "examples": {"dev": looked(dev), "test": looked(test)},
        "inspection": inspected(),
        "log": log_lines(),
        "seeds": [{"seed": s, "dev": 0.9 + 0.01 * s, "test": 0.88 + 0.005 * s} for s in range(3)],
        "settings": {
            "epochs": 3,
            "learning_rate": 5e-5,
            "batch_size": 32,
            "freeze_encoder": False,
            "max_grad_norm": 1.0,
            "head": {"learning_rate": None},
        },
        "passport": {"format": 1, "trained": {"task": "classify", "labels": list(LABELS)}},
        "notes": ["The loss did not move in the first epoch; a higher rate may help."],
        "sweep": swept(),
        "baselines": [baseline("majority", 0.25), baseline("features", 0.625)],
        "ladder": climbed(),
        "machine": {"precision": "float", "threads": "2", "instructions": "AVX2", "torch": "2.13.0"},
        "cost": {"training seconds": 61.5, "tokens per second": 4321.0, "peak memory MB": 812},
    }
    return ReportData(**(values | changes))
