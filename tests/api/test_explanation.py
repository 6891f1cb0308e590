"""describe, explain, kind_of, words and bench return values that can be read, displayed and saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.cli import main
from clearhead.errors import ClearheadError, InputError
from clearhead.train.finish import Run
from clearhead.words import save_vectors
from tests.decode.texts import load_text_model
from tests.tiny_models import tiny_model
from tests.words.planted import royal

TEXT = "The old lighthouse keeper"


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random Marian model."""
    return load_text_model("marian", "core").save(tmp_path_factory.mktemp("translator") / "marian")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("encoder"))


def test_describe_is_what_the_verb_prints(
    encoder: Path, tfidf_run: Run, fine_tuned_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, kind, phrase in (
        (encoder, "encoder", "architecture"),
        (tfidf_run.folder, "classic model", "terms"),
        (fine_tuned_run.folder, "classifier", "labels"),
    ):
        description = clearhead.describe(folder)
        assert clearhead.kind_of(folder) == kind
        main(["describe", str(folder), "--json"])
        assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(description.to_json()))
        assert description.to_json()["disk_bytes"] > 0
        assert phrase in repr(description)
        assert "size on disk" in repr(description)
        assert phrase in description._repr_html_()


def test_describe_a_loaded_model_and_a_damaged_one(encoder: Path, tmp_path: Path) -> None:
    model = clearhead.load(encoder)
    description = clearhead.describe(model)
    assert description.to_json()["parameters"] == model.parameters
    assert description.to_json()["disk_bytes"] is None
    assert "size on disk" not in repr(description)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ClearheadError, match=r"config\.json"):
        clearhead.describe(tmp_path)


@pytest.mark.parametrize("show", [None, "attention", "alignment", "beams", "steps", "positions"])
def test_explain_can_be_shown_saved_and_read(
    show: str | None, translator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search: dict[str, Any] = {} if show == "positions" else {"max_length": 4}
    explanation = clearhead.explain(translator, TEXT, show=show, output=tmp_path / "made.svg", **search)
    assert explanation.kind == (show or "alignment")
    assert repr(explanation).startswith(f"Explanation({explanation.kind}, ")
    assert explanation._repr_html_().startswith("<svg")
    assert (tmp_path / "made.svg").read_text() == explanation.svg()
    flags = [] if show is None else ["--show", show]
    flags += [] if show == "positions" else ["--max-length", "4"]
    for name in ("a.svg", "a.html", "a.json"):
        assert explanation.save(tmp_path / name) == tmp_path / name
        main(["explain", str(translator), TEXT, "-o", str(tmp_path / f"verb-{name}"), "--quiet", *flags])
        assert (tmp_path / f"verb-{name}").read_text() == (tmp_path / name).read_text()
    main(["explain", str(translator), TEXT, "--json", *flags])
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(explanation.to_json()))
    assert (explanation.table is None) == (show == "positions")


def test_explain_an_encoder_and_mistakes(encoder: Path, tmp_path: Path) -> None:
    explanation = clearhead.explain(clearhead.load(encoder), "a good film", "it was bad", special=True)
    assert explanation.kind == "attention"
    assert explanation.facts["tokens"][0] == "[CLS]"
    assert explanation.table is not None
    for choices, problem in (
        ({"show": "everything"}, "show must be one of attention, alignment, beams, steps, positions"),
        ({"show": "attention", "words": True}, "words does not apply to attention; omit it, or use another show"),
        ({"target": "x", "num_beams": 2}, "target sets the output, .* omit num_beams and max_length"),
        ({"word": "good", "all_words": True}, "word and all_words exclude each other"),
        ({"show": "alignment"}, 'An alignment needs .*; use show="attention" for this model'),
        ({"output": tmp_path / "a.pdf"}, r"a\.pdf must end in \.svg"),
    ):
        with pytest.raises(InputError, match=problem):
            clearhead.explain(encoder, "a good film", **choices)
    with pytest.raises(InputError, match=r'There is no text to explain: .*, or use show="positions"'):
        clearhead.explain(encoder)


def test_kind_of_accepts_the_references_of_load(encoder: Path, tmp_path: Path) -> None:
    assert clearhead.kind_of(encoder) == clearhead.kind_of(str(encoder)) == "encoder"
    save_vectors(tmp_path / "royal.bin", royal())
    assert clearhead.kind_of(tmp_path / "royal.bin") == "word vectors"
    with pytest.raises(ClearheadError, match=r"is not a model folder \(config\.json not found\)"):
        clearhead.kind_of(tmp_path)
    with pytest.raises(ClearheadError, match="nowhere"):
        clearhead.kind_of(tmp_path / "nowhere")


def test_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_vectors(tmp_path / "royal.txt", royal())
    answers = clearhead.words(tmp_path / "royal.txt", "king", "-", "man", "+", "woman", top=1, similar=("man", "woman"))
    assert [neighbor.word for neighbor in answers.neighbors] == ["queen"]
    assert answers.cosine == clearhead.load_words(tmp_path / "royal.txt").cosine("man", "woman")
    terms = ["king", "-", "man", "+", "woman", "--top", "1", "--similar", "man", "woman"]
    main(["words", str(tmp_path / "royal.txt"), *terms, "--json"])
    json_output = json.loads(capsys.readouterr().out)
    assert json_output == answers.to_json() | {"model": str(tmp_path / "royal.txt")}
    assert "queen" in repr(answers)
    assert "queen" in answers._repr_html_()
    vectors = clearhead.load_words(tmp_path / "royal.txt")
    (tmp_path / "pairs.txt").write_text("king\tqueen\t9\nman\twoman\t8\nking\tapple\t1\n")
    assert clearhead.words(vectors, wordsim=tmp_path / "pairs.txt").similarities["wordsim"].known == 3
    with pytest.raises(InputError, match=r"Pass a word, .*, or similar, wordsim, simlex, analogies"):
        clearhead.words(vectors)


def test_bench_reads_files(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,text\n1,a good film\n2,it was bad\n")
    choices: dict[str, Any] = {"runtimes": ["engine"], "threads": 1, "seconds": 0.1}
    result = clearhead.bench(encoder, tmp_path / "a.csv", output=tmp_path / "a.svg", **choices)
    assert result.texts == 2
    assert (tmp_path / "a.svg").read_text() == result.svg()
    with pytest.raises(InputError, match=r"must end in \.svg"):
        clearhead.bench(encoder, output=tmp_path / "a.png", **choices)
