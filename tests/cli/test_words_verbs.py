"""clearhead word2vec, words and contrast: results, JSON and mistakes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.words import save_vectors
from tests.words.planted import make_topic_sentences, royal

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    return save_vectors(tmp_path / "royal.bin", royal())


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt.gz"
    path.write_bytes(
        gzip.compress("".join(" ".join(line).upper() + ".\n" for line in make_topic_sentences(600)).encode())
    )
    return path


@pytest.mark.parametrize("name", ["out", "out.txt", "out.bin"])
def test_words_reads_the_output_of_word2vec(run: Run, text: Path, tmp_path: Path, name: str) -> None:
    output = tmp_path / name
    code, out, err = run("word2vec", text, "-o", output, "--width", 16, "--epochs", 8, "--seed", 1)
    assert (code, err) == (0, "")
    assert "32 of width 16; 0 rare words ignored" in out
    code, out, err = run("words", output, "t1w1", "--top", 2, "--quiet")
    assert (code, err) == (0, "")
    assert [word[:2] for word in out.split()] == ["t1", "t1"]


def test_word2vec_is_reproducible(run: Run, text: Path, tmp_path: Path) -> None:
    command = ("word2vec", text, "--mode", "cbow", "--epochs", 2, "--width", 8, "--json", "-o")
    code, out, err = run(*command, tmp_path / "a")
    assert (code, err) == (0, "")
    json_output = json.loads(out)
    assert (json_output["mode"], json_output["words"], json_output["sentences"]) == ("cbow", 32, 600)
    run(*command, tmp_path / "b")
    assert (tmp_path / "a/words.safetensors").read_bytes() == (tmp_path / "b/words.safetensors").read_bytes()
    assert json.loads((tmp_path / "a/words.json").read_text())["learned"]["epochs"] == 2
    code, out, err = run("word2vec", text, "-o", tmp_path / "c", "--epochs", 1, "--quiet")
    assert (code, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Name at least one text file"),
        (("missing.txt",), "not found"),
        (("TEXT", "--width", "0"), "width must be from 1 to 4096"),
        (("TEXT", "--min-count", "100000"), "2 are needed"),
        (("TEXT", "--mode", "glove"), "glove"),
        (("-", "-"), "can be read only once"),
    ],
)
def test_word2vec_mistakes(run: Run, text: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run(
        "word2vec", *(text if argument == "TEXT" else argument for argument in arguments), "-o", tmp_path / "new"
    )
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (tmp_path / "new").exists()


def test_word2vec_does_not_overwrite_a_folder(run: Run, text: Path, tmp_path: Path) -> None:
    code, _, err = run("word2vec", text, "-o", tmp_path)
    assert (code, "not empty" in err) == (2, True)


def test_word2vec_does_not_overwrite_a_file(run: Run, text: Path, tmp_path: Path) -> None:
    copy = tmp_path / "text.txt"
    copy.write_bytes(text.read_bytes())
    code, _, err = run("word2vec", copy, "-o", copy)
    assert (code, "already exists" in err) == (2, True)
    assert copy.read_bytes() == text.read_bytes()


def test_words_takes_sums_with_a_lone_hyphen(run: Run, vectors: Path) -> None:
    code, out, err = run("words", vectors, "king", "-", "man", "+", "woman", "--top", 1)
    assert (code, err) == (0, "")
    assert "king - man + woman" in out
    assert "queen" in out
    code, out, err = run("words", vectors, "king - man + woman", "--json", "--similar", "king", "king")
    json_output = json.loads(out)
    assert json_output["neighbours"][0]["word"] == "queen"
    assert json_output["similar"]["cosine"] == 1
    assert (json_output["words"], json_output["width"]) == (7, 4)


def test_words_measures(run: Run, vectors: Path, tmp_path: Path) -> None:
    pairs, questions = tmp_path / "pairs.tsv", tmp_path / "questions.txt"
    pairs.write_text("king\tqueen\t8\nking\tapple\t1\nman\twoman\t6\nprince\tking\t9\n")
    questions.write_text(": royal\nman king woman queen\nman king woman apple\n: <b>none</b>\nx y z w\n")
    command = ("words", vectors, "--wordsim", pairs, "--simlex", pairs, "--analogies", questions)
    code, out, err = run(*command, "--json")
    assert (code, err) == (0, "")
    json_output = json.loads(out)
    assert json_output["wordsim"]["known"] == json_output["simlex"]["rows"] == 4
    assert json_output["analogies"]["accuracy"]["value"] == 0.5
    code, out, _ = run(*command)
    assert code == 0
    assert "unknown words" in out
    assert "<b>none</b>" in out
    code, out, _ = run(*command, "--quiet")
    assert out.split()[-1] == "0.5000"


def test_words_of_a_transformer(run: Run, masked_model: Path) -> None:
    code, out, err = run("words", masked_model, "cat", "--top", 3)
    assert code == 0, err
    assert "tokens are whole words" in err
    assert "##s" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Name a word"),
        (("nobody",), "'nobody' is not among the 7 words"),
        (("king", "man"), "Put + or - before 'man'"),
        (("king", "--top", "0"), "top must be an integer >= 1, got 0"),
        (("king", "--limit", "0"), "limit"),
        (("--wordsim", "missing.tsv"), "does not exist or is not a file"),
    ],
)
def test_words_mistakes(run: Run, vectors: Path, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("words", vectors, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_contrast_of_a_transformer(run: Run, masked_model: Path) -> None:
    first, second = "the cat sat on a mat", "paris is the big cat"
    code, out, err = run("contrast", masked_model, first, second, "cat", "--json", "--also", "a cat")
    assert (code, err) == (0, "")
    json_output = json.loads(out)
    assert json_output["layers"][0] == {"name": "word table", "cosine": 1.0}
    assert json_output["layers"][-1]["cosine"] < 1
    assert [occurrence["sentence"] for occurrence in json_output["occurrences"]] == [first, second, "a cat"]
    for more in ((), ("--also", "a cat")):
        code, out, _ = run("contrast", masked_model, first, second, "cat", *more)
        assert code == 0
        assert "word table" in out
    code, out, err = run("contrast", masked_model, first, second, "cat", "--quiet")
    assert float(out) == pytest.approx(json_output["layers"][-1]["cosine"], abs=1e-4)
    assert err == ""


def test_contrast_of_word_vectors(run: Run, vectors: Path) -> None:
    code, out, err = run("contrast", vectors, "the king is dead", "long live the king", "king")
    assert code == 0, err
    assert "1.0000" in out
    assert "prince" in out
    assert "same vector in every context" in err


def test_contrast_names_the_sentence_without_the_word(run: Run, vectors: Path) -> None:
    code, out, err = run("contrast", vectors, "the king", "the queen", "king")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'king' does not occur as a separate word in 'the queen'" in err
