"""Learning to translate as a whole job: read, cut into pieces, train, choose on dev, translate, measure, keep."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.caller import setting
from clearhead.checkpoint.passport import Trained, read_passport, write_passport
from clearhead.data import Source
from clearhead.data.split import draw_rows
from clearhead.errors import ClearheadError, InputError
from clearhead.files import write_json
from clearhead.jobs.cost import cost_of
from clearhead.jobs.defaults import with_threads
from clearhead.jobs.machine import begin_computing, on_machine
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.progress import Told
from clearhead.jobs.run_file import RUN, Computed, begin_run, read_saved, write_saved
from clearhead.jobs.run_folder import REPORT, SPLIT, check_folder
from clearhead.jobs.training_state import STATE, drop_state, restore_saved
from clearhead.machine.cpu import versions
from clearhead.machine.threads import within_threads
from clearhead.metrics.translation import measure_translations
from clearhead.model import Model
from clearhead.model.loading import load, need_torch
from clearhead.train.finish import Run, base_name, write_metrics
from clearhead.train.network import drive, early_note, finish_state, seconds_of
from clearhead.translate.dataset import Texts, read_texts
from clearhead.translate.evaluate import Translated, translated, translations
from clearhead.translate.report import write_report
from clearhead.translate.translator import VOCABULARY, encode, is_new, make_model

if TYPE_CHECKING:
    from clearhead.tasks.parallel import Parallel

ROWS_SEEN = 600_000  # rows that a new translator sees, each as often as it is an epoch
JUDGED = 400  # dev rows that an epoch is judged by
WORDS = 4  # of a target: BLEU counts four of them in a row, and is 0 whatever is said where there are fewer


@within_threads
def run_translate(
    plan: RunPlan,
    sources: Mapping[str, Source],
    folder: Path,
    *,
    command: str = "",
    resume: bool = False,
    allow_different_cpu: bool = False,
    finish: bool = False,
    report: bool = True,
    told: Told | None = None,
) -> Run:
    """Train to the end, or on from where a killed run stands, or `finish` it as it is."""
    need_torch("Learning to translate")
    from clearhead.training.log import read_log

    tell, begun = told or Told(), time.perf_counter()
    if plan.method != "finetune":
        raise InputError(f"translate is learned by finetune, and not by {plan.method}.")
    for name in ("frozen", "unfreeze", "lm_weight"):
        if getattr(plan.settings, name):
            raise InputError(f"{name} is for tasks with a head on an encoder; translate trains the whole network.")
    if plan.seeds > 1:
        raise InputError(f"translate is trained with one seed at a time; run it again with another {setting('seed')}.")
    plan, machine = on_machine(plan)
    computed = begin_computing(folder, machine, resume=resume, allowed=allow_different_cpu, say=tell.say)
    if not resume:
        check_folder(folder)
    texts = read_texts(sources, plan, tell.count)
    for line in (*(said for source in sources.values() for said in source.said), *texts.said):
        tell.say(line)
    if plan.auto_epochs and is_new(plan):
        epochs = min(max(ROWS_SEEN // len(texts.parts["train"]), 10), 60)
        plan = replace(plan, auto_epochs=False, settings=replace(plan.settings, epochs=epochs))
        tell.say(f"epochs: {epochs} (by the number of rows; override with {setting('epochs', 'N')})")
    now = {"columns": {"source": texts.sides.source, "target": texts.sides.target}, "task": "translate"}
    marks = {part: asdict(texts.mark(part)) for part in texts.parts}
    there = folder.exists()
    begin_run(folder, plan, {**now, "data": marks}, command, computed, resume=resume)
    try:
        model = make_model(plan, texts, folder, tell)
        plan = with_threads(plan, model)
        if read_saved(folder).plan.threads is None:
            computed = computed.with_threads(plan.threads)
            write_saved(folder, plan, {**now, "data": marks}, command, computed)
        data, long = encode(model, texts.parts["train"], plan)
    except ClearheadError:
        if not resume:
            _take_back(folder, there)
        raise
    tell.begun(folder)
    notes = [f"{long:,} training rows are too long to learn from, and were left out."] if long else []
    tell.say(f"model: {model.family.title}, {model.parameters:,} parameters; {int(data.row_tokens.sum()):,} tokens")
    over = read_saved(folder).fitted
    if over is None:
        learned = _fit(model, data, texts, plan, folder, tell, finish=finish)
    else:
        restore_saved(model, folder)
        learned = over.notes
    notes += [*learned, *computed.notes()]
    trained = _trained(plan, texts, command, computed)
    replace(model, trained=trained).save(folder)
    model = load(folder, device=plan.device, threads=plan.threads)  # as it was saved
    found = _measured(model, texts, plan, tell)
    metrics = {part: one.scores.to_json()["metrics"] for part, one in found.items()}
    known = read_passport(folder)
    assert known is not None  # it was saved just now
    trained = replace(trained, metrics=metrics)
    write_passport(folder, replace(known, trained=trained))
    evaluations = {part: one.evaluation() for part, one in found.items()}
    own = [part for part in found if part not in sources]
    held = {part: [pair.number for pair in texts.parts[part]] for part in own}
    write_json(folder / SPLIT, {"source": texts.names["train"], "parts": held})
    run = Run(
        folder=folder,
        task="translate",
        method=plan.method,
        labels=(),
        columns=trained.columns,
        rows={part: len(rows) for part, rows in texts.parts.items()},
        evaluations=evaluations,
        seeds=(),
        said=texts.said,
        notes=tuple(notes),
        skipped=texts.skipped,
        seconds=time.perf_counter() - begun,
        cost=cost_of(folder, begun, 0.0),
        machine=computed.last,
    )
    if not report:
        drop_state(folder, learned, keep=plan.keep_state)
        write_metrics(folder, evaluations, ())
        return run
    tell.count("writing the report", 0, None)
    made = write_report(
        folder / REPORT,
        title=f"{folder.name}: translate",
        model=model,
        folder=folder,
        found=found,
        evaluations=evaluations,
        trained=trained,
        command=command,
        notes=[*run.said, *run.notes],
        cost=run.cost,
        log=list(read_log(folder)),
        texts=texts,
        settings=trained.settings,
    )
    drop_state(folder, learned, keep=plan.keep_state)
    write_metrics(folder, evaluations, ())  # last: it is finished
    return replace(run, report=made)


def _take_back(folder: Path, there: bool) -> None:
    """A run that cannot begin leaves nothing, so that it can be called again with other settings."""
    shutil.rmtree(folder / VOCABULARY, ignore_errors=True)
    (folder / RUN).unlink(missing_ok=True)
    if not there:
        folder.rmdir()


def _fit(
    model: Model, data: Parallel, texts: Texts, plan: RunPlan, folder: Path, tell: Told, *, finish: bool
) -> list[str]:
    """Learn to the end from the last saved state; the model then has the best weights."""
    import numpy as np

    from clearhead.training.loop import train_steps
    from clearhead.training.loss_monitor import LossMonitor
    from clearhead.training.objectives import objective_for
    from clearhead.training.optimizer import make_optimizer
    from clearhead.training.state import Progress, State, load_state

    settings = plan.settings
    network = model.use_core().network
    state = State(network, make_optimizer(network, settings), Progress())
    load_state(folder / STATE, state)
    score = _scorer(model, texts, plan)
    if finish:
        finish_state(state, data, settings, folder, score)
    objective = objective_for("words", settings)
    watch = LossMonitor(objective.constant_loss(data.target.ids) or 0.0, settings, words=True)
    steps = train_steps(
        state,
        data,
        settings,
        objective=objective,
        score=score,
        device=str(model.core.device),
        seconds=seconds_of(plan),
        row_weights=data.row_words.astype(np.float64),  # every word counts alike, as in the paper
    )
    drive(state, steps, folder, settings, watch, tell.step)
    state.restore_best()
    network.eval()
    stuck = watch.verdict()
    early = early_note(state, data, settings, plan)
    return early if stuck is None or (state.progress.best_score or 0) > 1 else [*early, stuck]


def _scorer(model: Model, texts: Texts, plan: RunPlan) -> Callable[[], float] | None:
    """BLEU of the likeliest words on some dev rows, by which epochs are compared; chrF where there are few words."""
    dev = texts.parts.get("dev")
    if dev is None:
        return None
    rows = [dev[place] for place in draw_rows(len(dev), min(JUDGED, len(dev)), plan.settings.seed)]
    words = sum(len(pair.target.split()) for pair in rows) / len(rows)
    name = "bleu" if words >= WORDS else "chrf"

    def score() -> float:
        said = translations(model, [pair.source for pair in rows], plan.prefix, beam=1)
        return measure_translations(said, [pair.target for pair in rows], n=0).measures[name].value

    return score


def _measured(model: Model, texts: Texts, plan: RunPlan, tell: Told) -> dict[str, Translated]:
    """Dev and test rows, translated and measured."""
    held = [part for part in ("dev", "test") if part in texts.parts]

    def counted(part: str) -> Callable[[int, int], None]:
        return lambda done, total: tell.count(f"translating {part} rows", done, total)

    return {part: translated(model, texts.parts[part], plan.prefix, plan.beam, counted(part)) for part in held}


def _trained(plan: RunPlan, texts: Texts, command: str, computed: Computed) -> Trained:
    """What the model folder promises about itself."""
    kept = ("dev_share", "test_share", "threads", "prefix", "beam", "pieces", "shared")
    return Trained(
        task="translate",
        method=plan.method,
        kind="texts",
        columns={"source": texts.sides.source, "target": texts.sides.target},
        max_length=plan.max_length,
        base="" if is_new(plan) else base_name(plan.model),
        data={part: texts.mark(part) for part in texts.parts},
        seeds=[plan.settings.seed],
        settings=asdict(plan.settings) | {key: getattr(plan, key) for key in kept},
        versions=versions(),
        command=command,
        machine=computed.machine,
        resumed_on=list(computed.resumed_on),
    )
