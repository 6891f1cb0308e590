"""Translation models from parallel rows: training, evaluation on held-out rows, resuming, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.decode import GeneratedText, Hypothesis
from clearhead.errors import InputError
from clearhead.jobs.events import RunEvents
from clearhead.training.loop import TrainingStep
from clearhead.translate.unknown import replace_unknown
from tests.parallel_rows import CONFIGS, TRANSLATOR_SETTINGS, make_parallel_rows, write_tsv
from tests.report.pages import Reader
from tests.variation import THREADS


@pytest.fixture(scope="module", params=list(CONFIGS))
def translator_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> clearhead.Run:
    """A translator of each family."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    long_enough = TRANSLATOR_SETTINGS | {"epochs": 20, "batch_tokens": 256}
    return clearhead.train(
        make_parallel_rows(1500), family=request.param, config=CONFIGS[request.param], output=folder, **long_enough
    )


@pytest.mark.learns
def test_a_translator_learns_and_is_measured(translator_run: clearhead.Run) -> None:
    assert (translator_run.task, translator_run.measured_on) == ("translate", "test")
    assert translator_run.metrics["exact_match"].value > 0.85  # 0.95 to 1.0 over seeds and precisions
    assert translator_run.metrics["bleu"].value > 85  # 96 to 100
    assert (
        translator_run.metrics["bleu"].low
        <= translator_run.metrics["bleu"].value
        <= translator_run.metrics["bleu"].high
    )
    model = clearhead.load(translator_run.folder)
    assert model.trained is not None
    assert model.trained.task == "translate"
    rows = make_parallel_rows(20, seed=5)
    translations = [answer.text for answer in model.generate([row["de"] for row in rows], num_beams=4)]
    assert sum(text == row["en"] for text, row in zip(translations, rows, strict=True)) >= 16  # 18 to 20
    stored = json.loads((translator_run.folder / "metrics.json").read_text())
    assert stored["parts"]["test"]["metrics"]["bleu"]["value"] == pytest.approx(translator_run.metrics["bleu"].value)


@pytest.mark.learns
def test_words_are_aligned_with_those_they_come_from(translator_run: clearhead.Run) -> None:
    model = clearhead.load(translator_run.folder)
    rows = make_parallel_rows(60, seed=9)
    aligned = model.align([row["de"] for row in rows], [row["en"] for row in rows])
    links = [
        link for hypothesis in aligned for link in hypothesis.links if hypothesis.target_words[link[1]] != "."
    ]  # a piece is "dog."
    assert sum(source == target for source, target in links) > 0.75 * len(links)  # word for word
    # what a step writes does not change where it looks: the unknown word is the one of this place
    correct, unknown = 0, model.tokenizer.unk_id
    assert unknown is not None
    for row in rows:
        ids = (*model.tokenizer.encode(row["en"].split()[0]).ids[:-1], unknown)
        hypothesis = Hypothesis(text=model.tokenizer.decode(ids), ids=ids, score=0.0, stopped="length")
        text = replace_unknown(model, [GeneratedText(**vars(hypothesis), source=row["de"], best=(hypothesis,))])[0].text
        correct += text == row["de"].split()[1].strip(".")
    assert correct > 36  # of 60


def test_a_report_stands_beside_the_model(translator_run: clearhead.Run) -> None:
    assert translator_run.report == translator_run.folder / "report.html"
    page = Reader(translator_run.report.read_text())
    assert {
        "texts",
        "curves",
        "metrics",
        "counted",
        "by-length",
        "worst-translations",
        "best-translations",
        "cost",
        "settings",
        "passport",
    } <= page.sections.keys()
    assert page.section_text("headline").startswith("BLEU")
    assert "Latency of one text" in page.section_text("cost")
    assert not page.all("script")
    assert page.all("table", **{"class": "heat aligned"})
    assert page.section_text("worst-translations").count("Alignment") >= 2


def test_evaluate_finds_the_rows_held_out(translator_run: clearhead.Run, tmp_path: Path) -> None:
    again = clearhead.evaluate(
        translator_run.folder, make_parallel_rows(1500), part="test", report=tmp_path / "page.html"
    )
    page = Reader((tmp_path / "page.html").read_text())
    assert {"counted", "by-length", "worst-translations"} <= page.sections.keys()
    assert "texts" not in page.sections  # what was measured is not what it was trained on
    for choice in ({"against": translator_run.folder}, {"slices": ["de"]}):
        with pytest.raises(InputError, match="not available for translators, which are measured by source length"):
            clearhead.evaluate(translator_run.folder, make_parallel_rows(5), **choice)
    assert again.rows == translator_run.rows["test"]
    assert again.metrics["bleu"].value == pytest.approx(translator_run.metrics["bleu"].value, abs=0.5)
    renamed_columns = clearhead.evaluate(
        translator_run.folder, [{"quelle": "ein hund.", "ziel": "one dog."}] * 3, text="quelle", label="ziel"
    )
    assert renamed_columns.rows == 3


def test_a_stopped_run_ends_in_the_same_words(tmp_path: Path) -> None:
    choices: dict[str, Any] = {**TRANSLATOR_SETTINGS, "epochs": 3, "config": CONFIGS["transformer"], "vocab_size": 100}
    rows = write_tsv(tmp_path / "pairs.tsv", make_parallel_rows(200))
    complete_run = clearhead.train(rows, output=tmp_path / "whole", **choices)

    class StopError(Exception): ...

    def stop(step: TrainingStep) -> None:
        if step.epoch == 1:
            raise StopError

    with pytest.raises(StopError):
        clearhead.train(rows, output=tmp_path / "half", events=RunEvents(training_step=stop), **choices)
    again = clearhead.train(resume=tmp_path / "half")
    assert again.metrics == complete_run.metrics
    uninterrupted, resumed = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "half"))
    assert uninterrupted == resumed


def test_two_vocabularies(tmp_path: Path) -> None:
    choices: dict[str, Any] = {**TRANSLATOR_SETTINGS, "epochs": 1, "config": CONFIGS["transformer"], "shared": False}
    run = clearhead.train(make_parallel_rows(80), output=tmp_path / "two", **choices)
    model = clearhead.load(run.folder)
    assert model.target_tokenizer is not None
    assert model.shape.decoder is not None
    assert model.shape.decoder.vocab_size == model.target_tokenizer.vocab_size != model.tokenizer.vocab_size
    first = model.generate(["ein hund."], max_length=5)[0]
    model.save(tmp_path / "copy")
    assert clearhead.load(tmp_path / "copy").generate(["ein hund."], max_length=5)[0].ids == first.ids


@pytest.mark.learns
def test_a_checkpoint_is_taught_further(tmp_path: Path, translator_run: clearhead.Run) -> None:
    spoken = [{"de": row["de"], "en": row["en"].replace("dog", "cat")} for row in make_parallel_rows(200, seed=3)]
    choices: dict[str, Any] = {
        "task": "translate",
        "epochs": 8,
        "learning_rate": 2e-3,
        "batch_tokens": 256,
        "threads": THREADS,
    }
    run = clearhead.train(spoken, model=str(translator_run.folder), output=tmp_path / "next", **choices)
    assert run.metrics["bleu"].value > 60
    assert clearhead.load(run.folder).generate(["ein hund."])[0].text == "one cat."


@pytest.mark.parametrize(
    ("rows", "choices", "message"),
    [
        ([{"a": "x", "b": "y", "c": "z"}], {}, 'source="COLUMN" and target="COLUMN"'),
        ([{"a": "x", "b": "y"}], {"source": "nowhere"}, "no column 'nowhere'"),
        ([{"a": "x", "b": "y"}], {"source": "a", "target": "a"}, "same column"),
        ([{"a": "x", "b": ""}] * 3, {}, "cannot be used"),
        ([{"a": "x", "b": "y"}] * 9, {"family": "bert"}, "family must be"),
        ([{"a": "x", "b": "y"}] * 9, {"preset": "gigantic"}, "no preset"),
        ([{"a": "x", "b": "y"}] * 9, {"config": "{"}, "config must be JSON"),
        ([{"a": "x y z", "b": "a b c"}] * 9, {"max_length": 8, "vocab_size": 40, "prefix": "0 1 2 3 4 5 6"}, "longer"),
        (
            [{"a": "x", "b": "y"}] * 9,
            {"model": "default", "method": "tfidf"},
            "supports only the method finetune, got tfidf",
        ),
        ([{"a": "abcdefghijklm", "b": "nopqrstuvwxyz"}] * 9, {"vocab_size": 16}, "too small for the characters"),
    ],
)
def test_what_cannot_be_is_said(
    rows: list[dict[str, str]], choices: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        clearhead.train(rows, task="translate", output=tmp_path / "out", **choices)
    assert not (tmp_path / "out").exists()  # the same folder can be named again


@pytest.mark.parametrize(
    "setting", [{"freeze_encoder": True}, {"gradual_unfreezing": True}, {"lm_weight": 0.5}], ids=str
)
def test_settings_of_other_tasks_are_refused(setting: dict[str, Any], tmp_path: Path) -> None:
    choices: dict[str, Any] = {**TRANSLATOR_SETTINGS, "config": CONFIGS["transformer"], **setting}
    with pytest.raises(InputError, match=f"{next(iter(setting))} is for tasks with a head"):
        clearhead.train(make_parallel_rows(50), output=tmp_path / "run", **choices)
