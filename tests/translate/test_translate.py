"""A translator from parallel rows: it learns, is measured on rows held out, goes on after a stop, or says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.decode import Generated, Hypothesis
from clearhead.errors import InputError
from clearhead.jobs.events import RunEvents
from clearhead.training.loop import TrainingStep
from clearhead.translate.unknown import replace_unknown
from tests.parallel_rows import CONFIGS, TRANSLATOR_SETTINGS, make_parallel_rows, write_tsv
from tests.report.pages import Reader
from tests.variation import THREADS


@pytest.fixture(scope="module", params=list(CONFIGS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> clearhead.Run:
    """A translator of each family."""
    place = tmp_path_factory.mktemp(request.param) / "model"
    long_enough = TRANSLATOR_SETTINGS | {"epochs": 20, "batch_tokens": 256}
    return clearhead.train(
        make_parallel_rows(1500), family=request.param, config=CONFIGS[request.param], output=place, **long_enough
    )


@pytest.mark.learns
def test_a_translator_learns_and_is_measured(made: clearhead.Run) -> None:
    assert (made.task, made.measured_on) == ("translate", "test")
    assert made.metrics["exact_match"].value > 0.85  # 0.95 to 1.0 over seeds and precisions
    assert made.metrics["bleu"].value > 85  # 96 to 100
    assert made.metrics["bleu"].low <= made.metrics["bleu"].value <= made.metrics["bleu"].high
    model = clearhead.load(made.folder)
    assert model.trained is not None
    assert model.trained.task == "translate"
    rows = make_parallel_rows(20, seed=5)
    said = [one.text for one in model.generate([row["de"] for row in rows], num_beams=4)]
    assert sum(text == row["en"] for text, row in zip(said, rows, strict=True)) >= 16  # 18 to 20
    kept = json.loads((made.folder / "metrics.json").read_text())
    assert kept["parts"]["test"]["metrics"]["bleu"]["value"] == pytest.approx(made.metrics["bleu"].value)


@pytest.mark.learns
def test_words_are_aligned_with_those_they_come_from(made: clearhead.Run) -> None:
    model = clearhead.load(made.folder)
    rows = make_parallel_rows(60, seed=9)
    aligned = model.align([row["de"] for row in rows], [row["en"] for row in rows])
    links = [link for one in aligned for link in one.links if one.target_words[link[1]] != "."]  # a piece is "dog."
    assert sum(source == target for source, target in links) > 0.75 * len(links)  # word for word
    # what a step writes does not change where it looks: the unknown word is the one of this place
    right, unknown = 0, model.tokenizer.unk_id
    assert unknown is not None
    for row in rows:
        ids = (*model.tokenizer.encode(row["en"].split()[0]).ids[:-1], unknown)
        one = Hypothesis(text=model.tokenizer.decode(ids), ids=ids, score=0.0, stopped="length")
        said = replace_unknown(model, [Generated(**vars(one), source=row["de"], best=(one,))])[0].text
        right += said == row["de"].split()[1].strip(".")
    assert right > 36  # of 60


def test_a_report_stands_beside_the_model(made: clearhead.Run) -> None:
    assert made.report == made.folder / "report.html"
    read = Reader(made.report.read_text())
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
    } <= read.sections.keys()
    assert read.said("headline").startswith("BLEU")
    assert "One text alone" in read.said("cost")
    assert not read.all("script")
    assert read.all("table", **{"class": "heat aligned"})
    assert read.said("worst-translations").count("Alignment") >= 2


def test_evaluate_finds_the_rows_held_out(made: clearhead.Run, tmp_path: Path) -> None:
    again = clearhead.evaluate(made.folder, make_parallel_rows(1500), part="test", report=tmp_path / "page.html")
    read = Reader((tmp_path / "page.html").read_text())
    assert {"counted", "by-length", "worst-translations"} <= read.sections.keys()
    assert "texts" not in read.sections  # what was measured is not what it was trained on
    for choice in ({"against": made.folder}, {"slices": ["de"]}):
        with pytest.raises(InputError, match="measured alone"):
            clearhead.evaluate(made.folder, make_parallel_rows(5), **choice)
    assert again.rows == made.rows["test"]
    assert again.metrics["bleu"].value == pytest.approx(made.metrics["bleu"].value, abs=0.5)
    other = clearhead.evaluate(
        made.folder, [{"quelle": "ein hund.", "ziel": "one dog."}] * 3, text="quelle", label="ziel"
    )
    assert other.rows == 3


def test_a_stopped_run_ends_in_the_same_words(tmp_path: Path) -> None:
    choices: dict[str, Any] = {**TRANSLATOR_SETTINGS, "epochs": 3, "config": CONFIGS["transformer"], "vocab_size": 100}
    rows = write_tsv(tmp_path / "pairs.tsv", make_parallel_rows(200))
    whole = clearhead.train(rows, output=tmp_path / "whole", **choices)

    class StopError(Exception): ...

    def stop(step: TrainingStep) -> None:
        if step.epoch == 1:
            raise StopError

    with pytest.raises(StopError):
        clearhead.train(rows, output=tmp_path / "half", events=RunEvents(training_step=stop), **choices)
    again = clearhead.train(resume=tmp_path / "half")
    assert again.metrics == whole.metrics
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "half"))
    assert one == other


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
def test_a_checkpoint_is_taught_further(tmp_path: Path, made: clearhead.Run) -> None:
    spoken = [{"de": row["de"], "en": row["en"].replace("dog", "cat")} for row in make_parallel_rows(200, seed=3)]
    choices: dict[str, Any] = {
        "task": "translate",
        "epochs": 8,
        "learning_rate": 2e-3,
        "batch_tokens": 256,
        "threads": THREADS,
    }
    run = clearhead.train(spoken, model=str(made.folder), output=tmp_path / "next", **choices)
    assert run.metrics["bleu"].value > 60
    assert clearhead.load(run.folder).generate(["ein hund."])[0].text == "one cat."


@pytest.mark.parametrize(
    ("rows", "choices", "said"),
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
def test_what_cannot_be_is_said(rows: list[dict[str, str]], choices: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        clearhead.train(rows, task="translate", output=tmp_path / "out", **choices)
    assert not (tmp_path / "out").exists()  # the same folder can be named again


@pytest.mark.parametrize(
    "setting", [{"freeze_encoder": True}, {"gradual_unfreezing": True}, {"lm_weight": 0.5}], ids=str
)
def test_settings_of_other_tasks_are_refused(setting: dict[str, Any], tmp_path: Path) -> None:
    choices: dict[str, Any] = {**TRANSLATOR_SETTINGS, "config": CONFIGS["transformer"], **setting}
    with pytest.raises(InputError, match=f"{next(iter(setting))} is for tasks with a head"):
        clearhead.train(make_parallel_rows(50), output=tmp_path / "run", **choices)
