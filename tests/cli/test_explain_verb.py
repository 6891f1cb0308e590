"""clearhead explain of models that write: alignments, beam trees, steps and positions, on the screen and as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import clearhead
from tests.decode.texts import load_text_model

Run = Callable[..., tuple[int, str, str]]
TEXT = "The old lighthouse keeper"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small models with weights of chance: a pair, a GPT, and a recurrent network without attention."""
    place = tmp_path_factory.mktemp("models")
    sizes = {"vocab_size": 640, "width": 16, "encoder_layers": 1, "decoder_layers": 1, "attention": "none"}
    ids = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    rnn = clearhead.create("rnn", config=sizes | ids, head="seq2seq", tokenizer=load_text_model("t5").tokenizer)
    made = {
        "t5": load_text_model("t5", "core"),
        "gpt2": load_text_model("gpt2", "core"),
        "marian": load_text_model("marian", "core"),
        "rnn": rnn,
    }
    return {name: model.save(place / name) for name, model in made.items()}


def test_a_translator_shows_its_alignment(models: dict[str, Path], run: Run, tmp_path: Path) -> None:
    code, out, err = run("explain", models["marian"], TEXT, "--max-length", 5)
    assert (code, err) == (0, "")
    assert "source tokens" in out
    code, out, _ = run("explain", models["marian"], TEXT, "--max-length", 5, "--json")
    told = json.loads(out)
    assert (len(told["probs"]), len(told["probs"][0])) == (len(told["target"]), len(told["source"]))
    best = clearhead.load(models["marian"]).generate([TEXT], num_beams=4, max_length=5)[0]
    assert len(told["target"]) == len(best.ids)
    for name in ("a.svg", "a.png", "a.html", "a.json"):
        code, out, err = run("explain", models["marian"], TEXT, "--target", "rain fell", "-o", tmp_path / name)
        assert (code, out, err.count("\n")) == (0, "", 1)
    code, out, _ = run("explain", models["t5"], TEXT, "--layer", 1, "--head", 2, "--words", "--json", "--max-length", 4)
    assert (code, json.loads(out)["layer"], json.loads(out)["head"]) == (0, 1, 2)
    # the parts of attention are there as before
    run("explain", models["t5"], TEXT, "--show", "attention", "--max-length", 4, "-o", tmp_path / "all.json")
    told = json.loads((tmp_path / "all.json").read_text())
    assert told["layers"] and told["decoder"] and told["cross"]  # noqa: PT018
    assert run("explain", models["t5"], TEXT, "--part", "encoder", "-o", tmp_path / "e.svg", "--quiet") == (0, "", "")


@pytest.mark.parametrize("name", ["t5", "gpt2"])
def test_beams_and_steps(name: str, models: dict[str, Path], run: Run, tmp_path: Path) -> None:
    code, out, _ = run("explain", models[name], TEXT, "--show", "steps", "--top", 2, "--max-length", 4)
    assert (code, "other candidates" in out) == (0, True)
    code, out, _ = run("explain", models[name], TEXT, "--show", "steps", "--top", 2, "--max-length", 4, "--json")
    assert [len(step["candidates"]) for step in json.loads(out)["steps"]] == [2] * 4
    code, out, _ = run("explain", models[name], TEXT, "--show", "beams", "--num-beams", 3, "--max-length", 4)
    assert (code, "stopped by" in out) == (0, True)
    for kind in ("beams", "steps"):
        for suffix in (".svg", ".png", ".html", ".json"):
            path = tmp_path / f"{kind}{suffix}"
            code, out, err = run("explain", models[name], TEXT, "--show", kind, "--max-length", 3, "-o", path, "--json")
            assert (code, err) == (0, "")
            assert json.loads(out)["output"] == str(path)
            assert path.stat().st_size > 300
    code, out, _ = run("explain", models[name], TEXT, "--show", "steps", "--target", "rain fell", "--json")
    assert json.loads(out)["chosen"] == "the target that was given"


def test_positions(models: dict[str, Path], run: Run, masked_model: Path, tmp_path: Path) -> None:
    for model, kind in ((models["marian"], "sinusoidal_halves"), (models["t5"], "buckets"), (masked_model, "learned")):
        code, out, _ = run("explain", model, "--show", "positions", "-o", tmp_path / "p.svg", "--json")
        assert (code, json.loads(out)["kind"]) == (0, kind)


def test_mistakes(models: dict[str, Path], run: Run, masked_model: Path, tmp_path: Path) -> None:
    pair, file = models["t5"], tmp_path / "a.svg"
    wrong = {
        "no attention": (models["rnn"], TEXT),
        "no positions": (models["rnn"], "--show", "positions", "-o", file),
        "no decoder": (masked_model, "a cat", "--show", "alignment"),
        "no words": (masked_model, "a cat", "--show", "steps"),
        "no file": (masked_model, "--show", "positions"),
        "one word and all": (masked_model, "a cat", "--word", "cat", "--all-words"),
        "special tokens of another kind": (pair, TEXT, "--show", "beams", "--special"),
        "no text": (pair,),
        "an empty text": (pair, " "),
        "no such kind": (pair, TEXT, "--show", "everything"),
        "an option of another kind": (pair, TEXT, "--show", "beams", "--layer", 1),
        "a second text": (pair, TEXT, TEXT, "--show", "steps"),
        "target and beam": (pair, TEXT, "--target", "rain", "--num-beams", 2),
        "a beam of one": (pair, TEXT, "--show", "beams", "--num-beams", 1),
        "no beam": (pair, TEXT, "--num-beams", 0),
        "top of nothing": (pair, TEXT, "--show", "steps", "--top", 0),
        "no such layer": (pair, TEXT, "--layer", 99),
        "no such ending": (pair, TEXT, "-o", tmp_path / "a.pdf"),
        "a folder": (pair, TEXT, "-o", tmp_path),
    }
    for name, arguments in wrong.items():
        code, out, err = run("explain", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (name, err)
        assert err.startswith("clearhead: "), name
