"""clearhead predict MODEL "a text": an answer for every task, and how texts and file names are distinguished."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.data.sources.paths import is_text
from clearhead.errors import InputError
from tests.aspect_rows import make_reviews
from tests.tiny_models import make_sentiment_rows, tiny_model

Run = Callable[..., tuple[int, str, str]]
TEXT = "the film was great, and the music"
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
SIZES |= {"max_position_embeddings": 32}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model for each task: TF-IDF models, and networks with random heads, without a passport of training."""
    folder = tmp_path_factory.mktemp("models")
    rows = make_sentiment_rows(60)
    pairs = [{"a": row["text"], "b": "film", "label": row["label"]} for row in rows]
    numbers = [{"text": row["text"], "score": (row["label"] == "good") + 0.01 * len(row["text"])} for row in rows]
    multilabel_rows = [
        row | {"label": f"{row['label']}|long" if len(row["text"]) > 40 else row["label"]} for row in rows
    ]
    folders = {}
    for name, training_rows, choices in (
        ("classify", rows, {}),
        ("pair", pairs, {"task": "pair", "text": "a", "text_b": "b"}),
        ("regress", numbers, {"task": "regress", "label": "score"}),
        ("multilabel", multilabel_rows, {"separator": "|"}),
    ):
        settings: dict[str, Any] = {"method": "tfidf", "report": False, **choices}
        folders[name] = str(clearhead.train(training_rows, output=folder / name, **settings).folder)
    tiny = clearhead.load(tiny_model(folder / "tiny"))
    heads = {"tag": ("O", "B-NICE", "I-NICE"), "span": None, "choice": None, "classify": ("no", "yes")}
    for head, labels in heads.items():
        label_options: dict[str, Any] = {} if labels is None else {"labels": labels}
        model = clearhead.create("bert", config=SIZES, head=head, tokenizer=tiny.tokenizer, seed=2, **label_options)
        folders["foreign" if head == "classify" else head] = str(model.save(folder / f"head-{head}"))
    return folders


def test_a_label_with_its_probabilities(models: dict[str, str], run: Run) -> None:
    code, out, err = run("predict", models["classify"], TEXT)
    assert (code, err) == (0, "")
    answer = clearhead.predict(models["classify"], [TEXT])[0]
    first_line, *bars = out.splitlines()
    assert first_line == f"{answer.label} {answer.probability:.3f}"
    ranked = sorted(answer.probabilities.items(), key=lambda item: -item[1])
    assert [bar.split()[0] for bar in bars] == [name for name, _ in ranked]
    assert [float(bar.split()[-1]) for bar in bars] == pytest.approx([prob for _, prob in ranked], abs=6e-4)
    code, out, err = run("predict", models["classify"], TEXT, "--json")
    json_output = json.loads(out)
    assert (json_output["label"], json_output["probabilities"], json_output["abstained"]) == (
        answer.label,
        answer.probabilities,
        False,
    )
    assert run("predict", models["classify"], TEXT, "--quiet") == (0, f"{answer.label}\n", "")
    assert clearhead.predict_text(models["classify"], TEXT).label == answer.label


def test_a_model_may_abstain(models: dict[str, str], run: Run) -> None:
    code, out, _ = run("predict", models["classify"], "the", "--abstain-below", "0.999")
    assert code == 0
    assert out.startswith("no answer (probability 0.")
    assert "below 0.999" in out
    code, out, _ = run("predict", models["classify"], "the", "--abstain-below", "0.999", "--json")
    assert json.loads(out)["abstained"] is True
    assert "label" not in json.loads(out)


def test_numbers_several_labels_and_pairs(models: dict[str, str], run: Run) -> None:
    code, out, _ = run("predict", models["regress"], TEXT)
    assert code == 0
    assert float(out) == pytest.approx(clearhead.predict_text(models["regress"], TEXT).value, abs=1e-4)
    code, out, _ = run("predict", models["multilabel"], TEXT, "--json")
    assert set(json.loads(out)["probabilities"]) == {"good", "bad", "long"}
    assert run("predict", models["multilabel"], TEXT)[0] == 0
    code, out, _ = run("predict", models["pair"], TEXT, "film", "--json")
    row = {"a": TEXT, "b": "film"}
    assert json.loads(out)["label"] == clearhead.predict(models["pair"], [row])[0].label


def test_tags_answers_and_options(models: dict[str, str], run: Run) -> None:
    code, out, err = run("predict", models["tag"], TEXT)
    assert (code, bool(out.strip())) == (0, True), err
    code, out, _ = run("predict", models["tag"], TEXT, "--json")
    assert len(json.loads(out)["tags"]) == len(TEXT.replace(",", " ,").split())
    code, out, _ = run("predict", models["span"], "was it", TEXT)
    code, json_line, _ = run("predict", models["span"], "was it", TEXT, "--json")
    best = json.loads(json_line)
    assert code == 0
    assert best["answer"] in TEXT
    assert out.startswith(f"{best['answer']} {best['probability']:.3f}")
    code, out, _ = run("predict", models["choice"], "was it", "great", "awful", "sad", "--json")
    json_output = json.loads(out)
    assert code == 0
    assert 0 <= json_output["option"] < 3
    assert len(json_output["probabilities"]) == 3
    assert run("predict", models["choice"], "was it", "great", "awful")[0] == 0


def test_aspects(tmp_path: Path, run: Run) -> None:
    base = str(tiny_model(tmp_path / "tiny"))
    folder = tmp_path / "aspects"
    clearhead.train(make_reviews(40), task="aspect", model=base, output=folder, epochs=1, batch_size=16, report=False)
    code, out, err = run("predict", folder, "the film was great today", "--json")
    assert code == 0, err
    assert "tags" in json.loads(out)
    assert run("predict", folder, "the film was great today")[0] == 0


def test_third_party_classifiers_read_one_text_or_two(models: dict[str, str], run: Run) -> None:
    single = json.loads(run("predict", models["foreign"], TEXT, "--json")[1])
    pair = json.loads(run("predict", models["foreign"], TEXT, "a poor end", "--json")[1])
    assert set(single["probabilities"]) == {"no", "yes"}
    assert single["probabilities"] != pair["probabilities"]


def test_the_number_of_texts_must_fit(models: dict[str, str], run: Run, tmp_path: Path) -> None:
    mistakes = {
        "expects two texts, got 1: pass the second text": (models["pair"], TEXT),
        "expects one text, got 2": (models["classify"], TEXT, TEXT),
        "expects at most two texts, got 3": (models["foreign"], TEXT, TEXT, TEXT),
        "pass a question and a passage, got 1": (models["span"], TEXT),
        "a question and at least two options, got 2": (models["choice"], TEXT, TEXT),
        "Text 1 of 1 is empty": (models["classify"], " "),
        "Text 2 of 2 is empty": (models["pair"], TEXT, ""),
        "--output is only for files": (models["classify"], TEXT, "-o", tmp_path / "a.csv"),
        "--text-b is only for files": (models["classify"], TEXT, "--text-b", "b"),
        "does not predict labels": ("novels", TEXT),
        "does not exist": (tmp_path / "nothing", TEXT),
    }
    for message, arguments in mistakes.items():
        code, out, err = run("predict", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (message, err)
        assert message in err
    with pytest.raises(InputError, match="No text given"):
        clearhead.predict_text(models["classify"])


def test_a_file_that_is_missing_is_not_a_text(models: dict[str, str], run: Run, tmp_path: Path) -> None:
    for name in ("reviews.csv", "data/reviews.dat", "my reviews.jsonl", "./reviews", "/nowhere/rows.tsv", "*.csv"):
        code, out, err = run("predict", models["classify"], name, "-o", tmp_path / "out.csv")
        assert (code, out) == (2, ""), name
        assert err.count("\n") == 1
    (tmp_path / "rows.csv").write_text("text\nthe film was great\n")
    code, _, err = run("predict", models["classify"], tmp_path / "rows.csv", "a text", "-o", tmp_path / "out.csv")
    assert (code, "is a file" in err) == (2, True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a good film", True),
        ("good", True),
        ("Good?", True),
        ("and/or", True),
        ("It cost 3.50", True),
        ("see https://example.org/a.html", True),
        ("https://example.org/a.html", True),
        ("either/or version 3.5", True),
        ("24/7 service.", True),
        ("x" * 100_000, True),
        ("a\0b", True),
        ("-", False),
        ("rows.csv", False),
        ("rows.CSV.gz", False),
        ("a b.parquet", False),
        ("data/rows.dat", False),
        ("data/part-*", False),
        ("./rows", False),
        ("~/rows", False),
        ("data/", False),
    ],
)
def test_texts_and_files_are_distinguished(value: str, expected: bool) -> None:
    assert is_text(value) is expected


def test_existing_paths_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a good film").write_text("text\n")
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    assert not is_text("a good film")
    assert not is_text("broken")
    assert is_text("another film")


def test_labels_cannot_control_the_terminal(models: dict[str, str], run: Run, tmp_path: Path) -> None:
    shutil.copytree(models["foreign"], tmp_path / "odd")
    config = json.loads((tmp_path / "odd" / "config.json").read_text())
    config |= {"id2label": {"0": "a\x1b[31m", "1": "b\nc"}, "label2id": {"a\x1b[31m": 0, "b\nc": 1}}
    (tmp_path / "odd" / "config.json").write_text(json.dumps(config))
    (tmp_path / "odd" / "clearhead.json").unlink()
    for flags in ((), ("--quiet",)):
        code, out, _ = run("predict", tmp_path / "odd", TEXT, *flags)
        assert code == 0
        assert len(out.splitlines()) == (1 if flags else 3)
        assert "\x1b" not in out


def test_a_tuple_is_one_pair_for_a_model_of_pairs(models: dict[str, str]) -> None:
    predictions = clearhead.predict(models["pair"], (TEXT, "film"))
    assert predictions == clearhead.predict(models["pair"], [(TEXT, "film")])
    assert len(clearhead.predict(models["classify"], (TEXT, "film"))) == 2
