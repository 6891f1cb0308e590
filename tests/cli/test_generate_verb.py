"""clearhead generate: prompts, files, pipes and streams print what Model.generate returns."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import InputError
from clearhead.text import load_tokenizer
from clearhead.translate import generate as generating
from tests.text import tokenizer_folders

Run = Callable[..., tuple[int, str, str]]
SMALL = {"n_embd": 24, "n_layer": 2, "n_head": 2, "n_positions": 48}
PROMPT = "The old lighthouse"


def save_random_model(folder: Path, family: str, seed: int = 0) -> Path:
    """Save a tiny random model with a vocabulary that is learned here."""
    (folder / "words").mkdir(parents=True)
    getattr(tokenizer_folders, f"write_{family.replace('-', '_')}")(folder / "words")
    tokenizer = load_tokenizer(folder / "words", family, {"model_type": family}).source
    config = SMALL | {"bos_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id}
    return clearhead.create(family, config=config, head="causal", tokenizer=tokenizer, seed=seed).save(folder / "model")


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random GPT-2."""
    return save_random_model(tmp_path_factory.mktemp("gpt2"), "gpt2")


def test_a_prompt_is_continued(gpt2: Path, run: Run) -> None:
    generated = clearhead.load(gpt2).generate([PROMPT], max_length=8)[0]
    code, out, err = run("generate", gpt2, PROMPT, "--max-length", "8")
    assert (code, out, err) == (0, PROMPT + generated.text + "\n", "")
    assert run("generate", gpt2, PROMPT, "--max-length", "8", "-o", "-") == (code, out, err)
    assert run("generate", gpt2, PROMPT, "--max-length", "8", "--new-only")[1] == generated.text + "\n"
    assert run("generate", gpt2, PROMPT, "--max-length", "8", "--stream")[1] == out
    assert run("generate", gpt2, PROMPT, "--max-length", "8", "--stream", "--new-only")[1] == generated.text + "\n"
    json_output = json.loads(run("generate", gpt2, PROMPT, "--max-length", "8", "--json")[1])
    assert json_output["prompt"] == PROMPT
    assert json_output["text"] == PROMPT + json_output["continuation"] == PROMPT + generated.text
    assert json_output["score"] == pytest.approx(generated.score)


def test_decoding_options_are_passed_on(gpt2: Path, run: Run) -> None:
    model = clearhead.load(gpt2)
    options = {
        ("--num-beams", "3", "--num-return-sequences", "3"): {"num_beams": 3, "num_return_sequences": 3},
        ("--sample", "--temperature", "2", "--top-k", "9", "--top-p", "0.9", "--min-p", "0.01", "--seed", "4"): {
            "sample": True,
            "temperature": 2.0,
            "top_k": 9,
            "top_p": 0.9,
            "min_p": 0.01,
            "seed": 4,
        },
        ("--sample", "--num-return-sequences", "3", "--repetition-penalty", "1.5"): {
            "sample": True,
            "num_return_sequences": 3,
            "repetition_penalty": 1.5,
        },
        ("--no-repeat-ngram-size", "1", "--bad-words", "keeper", "--stop", "zz", "--stop", "e"): {
            "no_repeat_ngram_size": 1,
            "bad_words": ("keeper",),
            "stop": ("zz", "e"),
        },
        ("--num-beams", "2", "--length-penalty", "0.3", "--min-length", "3", "--prefix", " keeper"): {
            "num_beams": 2,
            "length_penalty": 0.3,
            "min_length": 3,
            "prefix": " keeper",
        },
    }
    for flags, settings in options.items():
        generated = model.generate([PROMPT], max_length=6, **settings)[0]  # type: ignore[arg-type]
        json_output = json.loads(run("generate", gpt2, PROMPT, "--max-length", "6", "--json", *flags)[1])
        assert json_output["continuation"] == generated.text, flags
        assert json_output["stopped"] == generated.stopped
        assert [hypothesis["continuation"] for hypothesis in json_output.get("best", [json_output])] == [
            hypothesis.text for hypothesis in generated.best
        ]
    code, out, _ = run("generate", gpt2, PROMPT, "--max-length", "6", "--sample", "--num-return-sequences", "2")
    best = model.generate([PROMPT], max_length=6, sample=True, num_return_sequences=2)[0].best
    assert (code, out) == (0, "\n\n".join(PROMPT + hypothesis.text for hypothesis in best) + "\n")


def test_files_pipes_and_interrupted_jobs(
    gpt2: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = ["Rain fell", "", "The old", "A model reads words"]
    text = "\n".join(prompts) + "\n"
    (tmp_path / "in.txt").write_text(text)
    code, expected, _ = run("generate", gpt2, tmp_path / "in.txt", "--max-length", "5")
    lines = expected.split("\n")
    assert (code, len(lines), lines[1]) == (0, 5, "")
    for prompt, line in zip(prompts, lines, strict=False):
        assert line.startswith(prompt)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert run("generate", gpt2, "-", "--max-length", "5")[1] == expected
    command = ("generate", gpt2, tmp_path / "in.txt", "--max-length", "5", "-o", tmp_path / "out.txt")
    continue_lines = generating.continue_lines

    def fail_after_two_lines(*args: Any, **choices: Any) -> Iterator[Any]:
        yield from islice(continue_lines(*args, **choices), 2)
        raise InputError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(generating, "continue_lines", fail_after_two_lines)
        assert run(*command)[0] == 2
    assert not (tmp_path / "out.txt").exists()
    with (tmp_path / "out.txt.partial").open("a") as file:
        file.write("half a li")
    code, out, err = run(*command)
    assert (code, out) == (0, "")
    assert "2 lines" in err
    assert (tmp_path / "out.txt").read_text() == expected
    assert not list(tmp_path.glob("*.partial*"))
    code, _, err = run(*command)  # existing files are never overwritten
    assert (code, "already exists" in err) == (2, True)
    assert (tmp_path / "out.txt").read_text() == expected
    (tmp_path / "other.txt.partial").write_text("of another job\n")
    assert run(*command[:-1], tmp_path / "other.txt")[0] == 0
    assert (tmp_path / "other.txt").read_text() == expected
    (tmp_path / "in.csv").write_text("id,opening\n1,Rain fell\n")
    table = run("generate", gpt2, tmp_path / "in.csv", "--text", "opening", "--max-length", "5")
    assert table[1] == lines[0] + "\n"


def test_a_prompt_that_is_too_long_is_named_by_its_line(gpt2: Path, run: Run, tmp_path: Path) -> None:
    short_prompt, long_prompt = "Rain fell", "rain " * 400
    (tmp_path / "in.txt").write_text(f"{short_prompt}\n\n{long_prompt}\n{short_prompt}\n")
    command = ("generate", gpt2, tmp_path / "in.txt", "--max-length", "3", "-o", tmp_path / "out.txt", "--quiet")
    code, _, err = run(*command)
    assert code == 2
    assert "Line 3: the prompt" in err
    partial_lines = (tmp_path / "out.txt.partial").read_text().split("\n")
    assert partial_lines[0].startswith(short_prompt)
    assert partial_lines[1:] == ["", ""]  # the empty line, and nothing for the long prompt
    code, _, err = run("generate", gpt2, long_prompt, "--max-length", "3")
    assert (code, "row" in err, "Line" in err) == (2, False, False)


def test_openai_gpt_separates_words_by_spaces(run: Run, tmp_path: Path) -> None:
    folder = save_random_model(tmp_path, "openai-gpt")
    code, out, _ = run("generate", folder, PROMPT, "--max-length", "6")
    assert code == 0
    assert out.startswith(PROMPT + " ")
    assert out[len(PROMPT) + 1] != " "
    assert run("generate", folder, PROMPT, "--max-length", "6", "--stream")[1] == out
    assert json.loads(run("generate", folder, PROMPT, "--max-length", "6", "--json")[1])["text"] + "\n" == out


def test_an_empty_prompt_starts_a_text(gpt2: Path, run: Run) -> None:
    model = clearhead.load(gpt2)
    code, out, _ = run("generate", gpt2, "", "--max-length", "5")
    assert (code, out) == (0, model.generate([""], max_length=5)[0].text + "\n")


def test_mistakes_are_one_sentence(gpt2: Path, masked_model: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    headless = clearhead.load(gpt2, head=None).save(tmp_path / "bare")
    config = {"width": 16, "heads": 2, "feed_width": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 40}
    translator = clearhead.create("transformer", config=config, head="seq2seq").save(tmp_path / "translator")
    mistakes = {
        "encoder, which cannot continue a prompt": ("generate", masked_model, "a text"),
        "clearhead fill": ("generate", masked_model, "a text"),
        "with no head": ("generate", headless, "a text"),
        "use clearhead translate": ("generate", translator, "a text"),
        "--stream prints the continuation of a single prompt": ("generate", gpt2, tmp_path / "in.txt", "--stream"),
        "add --json": ("generate", gpt2, tmp_path / "in.txt", "--sample", "--num-return-sequences", "2"),
        "--text is only for files": ("generate", gpt2, "a text", "--text", "b"),
        "--num-beams 1 and --num-return-sequences 1": ("generate", gpt2, "a text", "--stream", "--num-beams", "2"),
        "--temperature requires --sample": ("generate", gpt2, "a text", "--temperature", "2"),
        "--num-return-sequences (2) must not be greater than --num-beams (1)": (
            "generate",
            gpt2,
            "a text",
            "--num-return-sequences",
            "2",
        ),
        "the model has 48 positions": ("generate", gpt2, "a text " * 60),
        "--max-length must be": ("generate", gpt2, "a text", "--max-length", "0"),
    }
    for message, arguments in mistakes.items():
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (message, err)
        assert message in err
