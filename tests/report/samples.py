"""Synthetic results: evaluations of random logits, inspections of generated rows, logs of any length."""

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


def class_evaluation(
    rows: int = 300, labels: tuple[str, ...] = LABELS, *, seed: int = 0, temperature: float = 1.6, **options: Any
) -> Evaluation:
    """Evaluate random class logits: mostly correct, but overconfident."""
    generator = np.random.default_rng(seed)
    targets = generator.integers(0, len(labels), rows)
    logits = generator.normal(0, 2, (rows, len(labels)))
    logits[np.arange(rows), targets] += 3.5
    space = LabelSpace(names=labels)
    return evaluate_logits(
        TASKS["classify"], space, logits, targets, Calibration(temperature=temperature), resamples=200, **options
    )


def multilabel_evaluation(rows: int = 200, seed: int = 1, **options: Any) -> Evaluation:
    """Evaluate random logits of rows with several labels."""
    generator = np.random.default_rng(seed)
    targets = (generator.random((rows, len(LABELS))) < 0.3).astype(np.int64)
    logits = np.where(targets == 1, 1.5, -1.5) + generator.normal(0, 1.2, targets.shape)
    space = LabelSpace(names=LABELS, kind="multilabel", separator="|")
    calibration = Calibration(temperature=1.2, thresholds=(0.4,) * len(LABELS))
    return evaluate_logits(TASKS["classify"], space, logits, targets, calibration, resamples=200, **options)


def number_evaluation(rows: int = 150, seed: int = 2, **options: Any) -> Evaluation:
    """Evaluate random predictions of numbers from 0 to 5."""
    generator = np.random.default_rng(seed)
    targets = generator.uniform(0, 5, rows)
    logits = (targets + generator.normal(0, 0.7, rows))[:, None]
    space = LabelSpace(kind="number")
    return evaluate_logits(TASKS["regress"], space, logits, targets, Calibration(), resamples=200, **options)


def slice_columns(rows: int, seed: int = 3) -> dict[str, list[Any]]:
    """Return columns to slice by; one value is rare."""
    generator = np.random.default_rng(seed)
    channels = generator.choice(["mail", "chat", "phone", "fax"], rows, p=[0.5, 0.3, 0.17, 0.03])
    return {"channel": channels.tolist(), "length": generator.integers(1, 400, rows).tolist()}


def make_examples(
    evaluation: Evaluation, text: str = "where is the parcel number", text_b: str | None = None
) -> PartExamples:
    """Return the selected rows of an evaluation with texts whose last word supports the prediction."""
    assert evaluation.picks is not None

    def example(selected: SelectedRow) -> Example:
        row_text = f"{text} {selected.row}"
        last_word = text.rfind(" ") + 1
        words = (
            WordImportance(start=0, end=last_word, weight=-0.08),
            WordImportance(start=last_word, end=len(row_text), weight=0.4),
        )
        return Example(
            selected=selected, text=row_text, text_b=text_b, words=words if last_word else None, full_value=0.9
        )

    return PartExamples(
        worst=tuple(map(example, evaluation.picks.worst)),
        suspicious=tuple(map(example, evaluation.picks.suspicious)),
        cells=tuple(
            CellExamples(cell=cell, examples=tuple(map(example, cell.rows))) for cell in evaluation.picks.cells
        ),
        explained=len(evaluation.picks.worst),
        scored=99,
    )


def selection_options(rows: int) -> dict[str, Any]:
    """Return the options that make an evaluation select rows and slice them by length."""
    generator = np.random.default_rng(rows)
    return {"row_numbers": range(1, rows + 1), "slices": {"length in tokens": generator.integers(3, 90, rows).tolist()}}


def make_inspection(labels: tuple[str, ...] = LABELS, rows: int = 240) -> Inspection:
    """Inspect a dataset with duplicates, a leak, a conflict, bad rows and imbalanced labels."""
    generator = np.random.default_rng(4)
    words = ["parcel", "invoice", "password", "money", "late", "again", "please", "help", "never", "broken"]
    train: list[dict[str, Any]] = []
    for number in range(rows):
        text_words = generator.choice(words, int(generator.integers(3, 60)))
        label = labels[min(int(generator.exponential(1.4)), len(labels) - 1)]
        train.append({"text": f"{' '.join(text_words)} {number}", "label": label})
    train += [dict(train[0]), {**train[1], "label": labels[0]}, {**train[1], "label": labels[1]}]
    train.append({"text": "", "label": labels[0]})
    test = [dict(train[5]), *({"text": f"what about {number}?", "label": labels[number % 2]} for number in range(40))]
    return inspect_data(train, test=test)


def make_log(steps: int = 300, epochs: int = 3) -> list[dict[str, Any]]:
    """Return log lines: a decreasing loss, a learning rate with warmup and decay, a score after each epoch."""
    generator = np.random.default_rng(5)
    lines: list[dict[str, Any]] = []
    best = -1.0
    for step in range(1, steps + 1):
        progress = step / steps
        loss = 0.25 + 1.3 * np.exp(-4 * progress) + abs(generator.normal(0, 0.12))
        rate = 5e-5 * min(progress / 0.1, (1 - progress) / 0.9)
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
        lines.append(line)
    return lines


def method_results(**changes: Any) -> list[dict[str, Any]]:
    """Return results of five methods; the networks have about the same latency."""
    results = []
    for rank, method in enumerate(METHODS):
        results.append(
            {
                "method": method,
                "left_out": None,
                "value": 0.5 + 0.1 * rank,
                "low": 0.45 + 0.1 * rank,
                "high": 0.55 + 0.1 * rank,
                "training_seconds": 10.0**rank,
                "size_mb": 0.01 * 10.0**rank,
                "latency_ms": (0.05, 0.2, 20.0, 20.5, 21.0)[rank],
                "difference": None if rank == 4 else {"difference": -0.1, "low": -0.2, "high": 0.01, "p": 0.1},
            }
            | changes
        )
    return results


def make_ladder(**changes: Any) -> dict[str, Any]:
    """Return a ladder as in ladder.json."""
    ladder = {
        "metric": "accuracy",
        "part": "test",
        "rows": 300,
        "margin": 0.01,
        "recommended": "head",
        "reason": "It is.",
        "not_tried": (),
        "caveat": None,
    }
    return ladder | {"rungs": method_results()} | changes


def make_baseline(method: str, value: float) -> dict[str, Any]:
    """Return the result of a cheaper method as in `Run.to_json()`."""
    difference = {"difference": 0.125, "low": 0.05, "high": 0.2, "p": 0.01}
    return {
        "method": method,
        "rows": 1234,
        "value": value,
        "low": 0.5,
        "high": 0.75,
        "difference": difference,
        "seconds": 1.0,
    }


def make_sweep(layers: int = 6, **changes: Any) -> list[dict[str, Any]]:
    """Return scores of `layers` layers, each with two poolings."""
    common = {"spread": 0.02, "seconds": 1.5}
    return [
        {"layer": f"layer_{layer}", "pooling": mode, "score": 0.8 + 0.01 * layer} | common | changes
        for layer in range(layers)
        for mode in ("mean", "max")
    ]


def full_report(**changes: Any) -> ReportData:
    """Return the data of a report with every section."""
    options = selection_options(300)
    dev = class_evaluation(120, seed=7, **selection_options(120))
    test = class_evaluation(
        300,
        slices=slice_columns(300) | options["slices"],
        row_numbers=options["row_numbers"],
        seconds=1.25,
        truncated=2,
        windowed=5,
        skipped={"empty text": 2},
    )
    values: dict[str, Any] = {
        "title": "Support messages by intent",
        "command": "clearhead train messages.csv --label intent -o runs/intent --seeds 3",
        "parts": {"dev": dev, "test": test},
        "examples": {"dev": make_examples(dev), "test": make_examples(test)},
        "inspection": make_inspection(),
        "log": make_log(),
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
        "sweep": make_sweep(),
        "baselines": [make_baseline("majority", 0.25), make_baseline("features", 0.625)],
        "ladder": make_ladder(),
        "machine": {"precision": "float", "threads": "2", "instructions": "AVX2", "torch": "2.13.0"},
        "cost": {"training seconds": 61.5, "tokens per second": 4321.0, "peak memory MB": 812},
    }
    return ReportData(**(values | changes))
