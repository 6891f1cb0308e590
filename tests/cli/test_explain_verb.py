"""clearhead explain for decoders: alignments, beam trees, steps and positions, on the screen and as files."""

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
    """Tiny random models: T5, GPT-2, Marian, and a recurrent network without attention."""
    folder = tmp_path_factory.mktemp("models")
    sizes = {"vocab_size": 640, "width": 16, "encoder_layers": 1, "decoder_layers": 1, "attention": "none"}
    ids = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    rnn = clearhead.create("rnn", config=sizes | ids, head="seq2seq", tokenizer=load_text_model("t5").tokenizer)
    models = {
        "t5": load_text_model("t5", "core"),
        "gpt2": load_text_model("gpt2", "core"),
        "marian": load_text_model("marian", "core"),
        "rnn": rnn,
    }
    return {name: model.save(folder / name) for name, model in models.items()}


def test_a_translator_shows_its_alignment(models: dict[str, Path], run: Run, tmp_path: Path) -> None:
    code, out, err = run("explain", models["marian"], TEXT, "--max-length", 5)
    assert (code, err) == (0, "")
    assert "source tokens" in out
    code, out, _ = run("explain", models["marian"], TEXT, "--max-length", 5, "--json")
    json_output = json.loads(out)
    assert (len(json_output["probs"]), len(json_output["probs"][0])) == (
        len(json_output["target"]),
        len(json_output["source"]),
    )
    generated = clearhead.load(models["marian"]).generate([TEXT], num_beams=4, max_length=5)[0]
    assert len(json_output["target"]) == len(generated.ids)
    for name in ("a.svg", "a.png", "a.html", "a.json"):
        code, out, err = run("explain", models["marian"], TEXT, "--target", "rain fell", "-o", tmp_path / name)
        assert (code, out, err.count("\n")) == (0, "", 1)
    code, out, _ = run("explain", models["t5"], TEXT, "--layer", 1, "--head", 2, "--words", "--json", "--max-length", 4)
    assert (code, json.loads(out)["layer"], json.loads(out)["head"]) == (0, 1, 2)
    # attention of encoder, decoder and cross-attention
    run("explain", models["t5"], TEXT, "--show", "attention", "--max-length", 4, "-o", tmp_path / "all.json")
    json_output = json.loads((tmp_path / "all.json").read_text())
    assert json_output["layers"] and json_output["decoder"] and json_output["cross"]  # noqa: PT018
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
    translator, file = models["t5"], tmp_path / "a.svg"
    mistakes = {
        "no attention": (models["rnn"], TEXT),
        "no positions": (models["rnn"], "--show", "positions", "-o", file),
        "no decoder": (masked_model, "a cat", "--show", "alignment"),
        "no words": (masked_model, "a cat", "--show", "steps"),
        "no file": (masked_model, "--show", "positions"),
        "one word and all": (masked_model, "a cat", "--word", "cat", "--all-words"),
        "special tokens of another kind": (translator, TEXT, "--show", "beams", "--special"),
        "no text": (translator,),
        "an empty text": (translator, " "),
        "no such kind": (translator, TEXT, "--show", "everything"),
        "an option of another kind": (translator, TEXT, "--show", "beams", "--layer", 1),
        "a second text": (translator, TEXT, TEXT, "--show", "steps"),
        "target and beam": (translator, TEXT, "--target", "rain", "--num-beams", 2),
        "a beam of one": (translator, TEXT, "--show", "beams", "--num-beams", 1),
        "no beam": (translator, TEXT, "--num-beams", 0),
        "top of nothing": (translator, TEXT, "--show", "steps", "--top", 0),
        "no such layer": (translator, TEXT, "--layer", 99),
        "no such ending": (translator, TEXT, "-o", tmp_path / "a.pdf"),
        "a folder": (translator, TEXT, "-o", tmp_path),
    }
    for name, arguments in mistakes.items():
        code, out, err = run("explain", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (name, err)
        assert err.startswith("clearhead: "), name
