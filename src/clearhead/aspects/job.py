"""Aspect sentiment from end to end: find what a review speaks of (tag), then what it thinks of it (pair)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.aspects.predictor import ABOUT, ASPECT, FIND, FORMAT, JUDGE, aspect_space, load_aspects
from clearhead.aspects.reviews import Review, Span, reviews
from clearhead.checkpoint.passport import DataMark
from clearhead.data import Columns, Row, Source, TextRow, split_rows, text_hash
from clearhead.data.split import draw_rows
from clearhead.errors import InputError
from clearhead.evaluate.evaluate import evaluation_report, run_evaluate
from clearhead.files import write_json
from clearhead.jobs.kinds import ASPECTS
from clearhead.jobs.machine import begin_computing, on_machine
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import rows_digest
from clearhead.jobs.progress import Told
from clearhead.jobs.run_file import RUN, begin_run
from clearhead.jobs.run_folder import REPORT, SPLIT, check_folder
from clearhead.machine.threads import within_threads
from clearhead.predict.predictor import Predictor
from clearhead.tasks import ColumnRoles
from clearhead.tasks.registry import PAIR, TAG
from clearhead.train.finish import Run, write_metrics
from clearhead.train.job import run_train

if TYPE_CHECKING:
    import numpy as np

    from clearhead.tasks.evaluation import Evaluation

    Array = np.ndarray[Any, Any]


@within_threads
def run_aspects(
    plan: RunPlan,
    sources: Mapping[str, Source],
    folder: Path,
    *,
    command: str = "",
    resume: bool = False,
    allow_different_cpu: bool = False,
    report: bool = True,
    told: Told | None = None,
) -> Run:
    """Train a finder and a judge on the same split of the same reviews, and measure both together."""
    tell = told or Told()
    begun = time.perf_counter()
    if plan.method not in TAG.methods:
        raise InputError(f"aspect is learned by {', '.join(TAG.methods)}, and not by {plan.method}.")
    plan, machine = on_machine(plan)
    computed = begin_computing(folder, machine, resume=resume, allowed=allow_different_cpu, say=tell.say)
    if not resume:
        check_folder(folder)
    parts = {part: reviews(source, plan, tell.say) for part, source in sources.items()}
    if plan.rows is not None:
        parts["train"] = _drawn(parts["train"], plan)
    if len(parts) == 1 and not any(review.split for review in parts["train"]):
        parts = {"train": _split(parts["train"], plan)}
    given = {name: sources[name].name for name in parts}
    labels = sorted({label for some in parts.values() for review in some for _, _, label in review.spans})
    if len(labels) < 2:
        raise InputError(f"All aspects have the polarity {', '.join(labels) or 'none'}; there is nothing to learn.")
    begin_run(folder, plan, {}, command, computed, resume=resume)
    tell.begun(folder)
    split = "split" if any(review.split for some in parts.values() for review in some) else None
    runs = {}
    for name, rows_of in ((FIND, _found), (JUDGE, _judged)):
        tell.say(f"{name}: {ABOUT[name]}")
        own = {part: _source(rows_of(some), given[part]) for part, some in parts.items()}
        runs[name] = _trained(
            _plan_for(plan, name, split),
            own,
            folder / name,
            command=command,
            allowed=allow_different_cpu,
            report=report,
            tell=tell,
        )
    held = {part: some for part in ("dev", "test") if (some := _part(parts, part))}
    marks = {part: asdict(_mark(some, given.get(part, given["train"]), labels)) for part, some in held.items()}
    write_json(folder / ASPECTS, {"format": FORMAT, "labels": labels, "data": marks})
    if len(parts) == 1:
        numbers = {part: [review.number for review in some] for part, some in held.items()}
        write_json(folder / SPLIT, {"source": given["train"], "parts": numbers})
    predictor = load_aspects(folder, device=plan.device)
    evaluations = {
        part: run_evaluate(predictor, _source(_whole(some), given.get(part, given["train"])))
        for part, some in held.items()
    }
    run = Run(
        folder=folder,
        task="aspect",
        method=plan.method,
        labels=tuple(labels),
        columns={"text": "text"},
        rows={part: len(_part(parts, part)) for part in ("train", "dev", "test") if _part(parts, part)},
        evaluations=evaluations,
        seeds=(),
        said=tuple(said for one in runs.values() for said in one.said),
        notes=(*_notes(runs), *(note for one in runs.values() for note in one.notes)),
        seconds=time.perf_counter() - begun,
        cost={"seconds": round(time.perf_counter() - begun, 1)},
        machine=runs[FIND].machine,
    )
    if report:
        run = replace(run, report=_report(predictor, run, parts, given, command))
    write_metrics(folder, evaluations, ())  # last: it is finished
    return run


def _drawn(some: Sequence[Review], plan: RunPlan) -> list[Review]:
    """As many of the reviews to train on as were asked for, and all others."""
    train = [place for place, review in enumerate(some) if review.split in (None, "train")]
    kept = {train[place] for place in draw_rows(len(train), plan.rows or 0, plan.settings.seed).tolist()}
    left = kept | set(range(len(some))).difference(train)
    return [some[place] for place in sorted(left)]


def _mark(some: Sequence[Review], name: str, labels: Sequence[str]) -> DataMark:
    """Which reviews these are, as `evaluate` will see them."""
    import numpy as np

    space, columns = aspect_space(labels), Columns(text="text", label="spans")
    rows = [TAG.rows.check(Row(review.number, _row(review, review.spans)), columns, space) for review in some]
    kept = [row for row in rows if isinstance(row, TextRow)]
    targets = TAG.rows.labels([row.label for row in kept], space)
    hashes = np.array([text_hash(row.text) for row in kept], np.uint64)
    return DataMark(name=name, rows=len(kept), sha256=rows_digest(hashes, targets, space))


def _notes(runs: Mapping[str, Run]) -> tuple[str, ...]:
    """How good each of the two is by itself."""
    said = []
    for name, metric in ((FIND, "f1"), (JUDGE, "accuracy")):
        found = runs[name].metrics.get(metric)
        if found is not None:
            what = "aspects found, whatever is thought of them" if name == FIND else "polarity of given aspects"
            said.append(f"{what}: {metric} {found.value:.4f} ({found.low:.4f} to {found.high:.4f})")
    return tuple(said)


def _plan_for(plan: RunPlan, name: str, split: str | None) -> RunPlan:
    columns: dict[str, Any] = {"text": "text", "id": None, "options": None, "separator": None, "labels": None}
    own: dict[str, Any] = {
        "task": TAG.name,
        "label": "spans",
        "text_b": None,
        "metric": None,
        "pooling": None,
        "head_pooling": "auto",
    }
    if name == JUDGE:
        own = {"task": PAIR.name, "label": "label", "text_b": "aspect", "metric": None}
    given: dict[str, Any] = {"train": None, "dev": None, "test": None, "rows": None}  # reviews that are read and drawn
    return replace(
        plan,
        **columns,
        **own,
        **given,
        split=split,
        skip_bad_rows=False,
        minutes=None if plan.minutes is None else plan.minutes / 2,
        auto_method=False,
    )


def _trained(
    plan: RunPlan,
    sources: Mapping[str, Source],
    folder: Path,
    *,
    command: str,
    allowed: bool,
    report: bool,
    tell: Told,
) -> Run:
    """One of the two: read back, gone on with, or begun."""
    begun = (folder / RUN).is_file()
    return run_train(
        plan,
        sources,
        folder,
        command=command,
        resume=begun,
        allow_different_cpu=allowed,
        report=report,
        told=replace(tell, begun=lambda _: None),
    )


def _split(some: Sequence[Review], plan: RunPlan) -> list[Review]:
    """Parts by text, so that both models are trained on the same ones."""
    hashes = [text_hash(review.text) for review in some]
    found = split_rows(None, hashes, dev=plan.dev_share, test=plan.test_share, seed=plan.settings.seed)
    return [replace(review, split=str(part)) for review, part in zip(some, found, strict=True)]


def _part(parts: Mapping[str, Sequence[Review]], part: str) -> list[Review]:
    return [review for name, some in parts.items() for review in some if (review.split or name) == part]


def _found(some: Sequence[Review]) -> list[dict[str, Any]]:
    return [_row(review, [(a, b, ASPECT) for a, b, _ in review.spans]) for review in some]


def _whole(some: Sequence[Review]) -> list[dict[str, Any]]:
    return [_row(review, review.spans) for review in some]


def _row(review: Review, spans: Sequence[Span]) -> dict[str, Any]:
    listed = [{"start": a, "end": b, "label": label} for a, b, label in spans]
    made: dict[str, Any] = {"text": review.text, "spans": listed}
    return made if review.split is None else made | {"split": review.split}


def _judged(some: Sequence[Review]) -> list[dict[str, Any]]:
    made = []
    for review in some:
        split = {} if review.split is None else {"split": review.split}
        made += [{"text": review.text, "aspect": review.text[a:b], "label": c, **split} for a, b, c in review.spans]
    return made


def _source(rows: Sequence[dict[str, Any]], name: str) -> Source:
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    return Source(
        name=name,
        kind="list",
        columns=columns,
        open=lambda: (Row(number, dict(row)) for number, row in enumerate(rows, start=1)),
    )


def _report(
    predictor: Predictor, run: Run, parts: Mapping[str, Sequence[Review]], given: Mapping[str, str], command: str
) -> Path | None:
    """One page about both together; each of the two has its own."""
    part = run.measured_on
    if part is None:
        return None
    source = _source(_whole(_part(parts, part)), f"{given.get(part, given['train'])} ({part})")
    made: Evaluation = run.evaluations[part]
    assert TAG.rows.columns is not None
    return evaluation_report(
        predictor,
        source,
        made,
        run.folder / REPORT,
        command,
        TAG.rows.columns(source, ColumnRoles(), True),
        {} if run.machine is None else run.machine.lines(),
    )
