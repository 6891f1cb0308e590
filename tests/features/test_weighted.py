"""--method features --set layer=weighted: from a run to its passport, its note, and the same answers again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.api import evaluate, load_predictor, predict, train
from clearhead.cli import main
from clearhead.errors import CheckpointError, InputError
from clearhead.train.finish import Run
from tests.task_rows import words_and_tags
from tests.tiny_models import labelled, write_csv


@pytest.fixture(scope="module")
def mute(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of which nothing but the word vectors says anything: its blocks answer every text alike."""
    model = clearhead.load(tiny, "core")
    model.module.stack.blocks[0].feed.norm.weight.data.zero_()
    return str(model.save(tmp_path_factory.mktemp("mute") / "model"))


@pytest.fixture(scope="module")
def run(mute: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("weighted")
    rows = write_csv(place / "rows.csv", labelled(300))
    return train(rows, output=place / "run", model=mute, method="features", layer="weighted", pooling="mean")


@pytest.mark.learns
def test_the_only_layer_that_knows_gets_all_the_weight(run: Run) -> None:
    assert run.metrics["accuracy"].value > 0.75
    (said,) = [note for note in run.notes if "layers weighted" in note]
    assert "0: 1.000, 1: 0.000, 2: 0.000" in said
    assert run.report is not None
    assert said in run.report.read_text()


def test_the_weights_are_kept_and_used_again(run: Run, mute: str) -> None:
    kept = json.loads((run.folder / "clearhead.json").read_text())["trained"]
    assert (kept["layer"], len(kept["layer_scores"])) == ("weighted", 3)
    again = evaluate(run.folder, run.folder.parent / "rows.csv", part="test")
    assert again.metrics["log_loss"].value == pytest.approx(run.metrics["log_loss"].value, abs=1e-5)
    # by hand: gamma * sum_j softmax(s)_j h_j, pooled, and the linear model on it
    texts = [row["text"] for row in labelled(5, seed=4)]
    model, predictor = clearhead.load(mute), load_predictor(run.folder)
    shares = np.exp(np.array(kept["layer_scores"]) - max(kept["layer_scores"]))
    weights = kept["layer_gamma"] * shares / shares.sum()
    mixed = sum(weight * model.embed(texts, layer=layer, pooling="mean") for layer, weight in enumerate(weights))
    logits = predictor.scorer.classic.logits(features=mixed)  # type: ignore[attr-defined]
    assert [one.label for one in predict(run.folder, texts)] == [predictor.space.names[one] for one in logits.argmax(1)]


def test_words_and_pairs_are_weighed_too(tiny: str, tmp_path: Path) -> None:
    rows = [{"tokens": [w for w, _ in row], "tags": [t for _, t in row]} for row in words_and_tags(120)]
    tagger = train(rows, output=tmp_path / "tags", model=tiny, method="features", layer="weighted", report=False)
    assert any("layers weighted" in note for note in tagger.notes)
    assert predict(tmp_path / "tags", [{"tokens": ["a", "good", "film"]}])[0].tags is not None


def test_the_command_line_tells_it(mute: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_csv(tmp_path / "rows.csv", labelled(120))
    main(
        [
            "train",
            str(rows),
            "--model",
            mute,
            "--method",
            "features",
            "--set",
            "layer=weighted",
            "-o",
            str(tmp_path / "run"),
        ]
    )
    told = capsys.readouterr()
    assert "layers weighted for this task" in told.out + told.err


def test_mistakes_are_one_sentence(run: Run, tiny: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match='max does not add up; say pooling="mean"'):
        train(labelled(60), output=tmp_path / "no", model=tiny, method="features", layer="weighted", pooling="max")
    predictor = load_predictor(run.folder)
    assert predictor.trained is not None
    for change in ({"layer_scores": [1.0]}, {"layer_scores": [1e9, 0.0, 0.0]}, {"layer_gamma": -1.0}):
        broken = clearhead.load(run.folder)
        broken = replace(broken, trained=replace(predictor.trained, **change))
        folder = tmp_path / f"broken{len(list(tmp_path.iterdir()))}"
        broken.save(folder)
        for name in ("classic.json", "classic.safetensors"):
            (folder / name).write_bytes((run.folder / name).read_bytes())
        with pytest.raises(CheckpointError, match=r"weighted layers|has weights for 1 layers"):
            load_predictor(folder)
