"""clearhead word2vec, words and contrast as people call them."""

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
def test_word2vec_learns_what_words_then_finds(run: Run, text: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    code, told, err = run("word2vec", text, "-o", out, "--width", 16, "--epochs", 8, "--seed", 1)
    assert (code, err) == (0, "")
    assert "32 of width 16; 0 rare words ignored" in told
    code, told, err = run("words", out, "t1w1", "--top", 2, "--quiet")
    assert (code, err) == (0, "")
    assert [word[:2] for word in told.split()] == ["t1", "t1"]


def test_word2vec_prints_json_and_repeats_itself(run: Run, text: Path, tmp_path: Path) -> None:
    call = ("word2vec", text, "--mode", "cbow", "--epochs", 2, "--width", 8, "--json", "-o")
    code, told, err = run(*call, tmp_path / "a")
    assert (code, err) == (0, "")
    made = json.loads(told)
    assert (made["mode"], made["words"], made["sentences"]) == ("cbow", 32, 600)
    run(*call, tmp_path / "b")
    assert (tmp_path / "a/words.safetensors").read_bytes() == (tmp_path / "b/words.safetensors").read_bytes()
    assert json.loads((tmp_path / "a/words.json").read_text())["learned"]["epochs"] == 2
    code, told, err = run("word2vec", text, "-o", tmp_path / "c", "--epochs", 1, "--quiet")
    assert (code, told, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Name at least one text file"),
        (("missing.txt",), "not found"),
        (("TEXT", "--width", "0"), "width must be from 1 to 4096"),
        (("TEXT", "--min-count", "100000"), "2 are needed"),
        (("TEXT", "--mode", "glove"), "glove"),
        (("-", "-"), "can be read only once"),
    ],
)
def test_word2vec_says_what_is_wrong(
    run: Run, text: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, told, err = run("word2vec", *(text if one == "TEXT" else one for one in arguments), "-o", tmp_path / "new")
    assert (code, told, err.count("\n")) == (2, "", 1)
    assert said in err
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
    code, told, err = run("words", vectors, "king", "-", "man", "+", "woman", "--top", 1)
    assert (code, err) == (0, "")
    assert "king - man + woman" in told
    assert "queen" in told
    code, told, err = run("words", vectors, "king - man + woman", "--json", "--similar", "king", "king")
    made = json.loads(told)
    assert made["neighbours"][0]["word"] == "queen"
    assert made["similar"]["cosine"] == 1
    assert (made["words"], made["width"]) == (7, 4)


def test_words_measures(run: Run, vectors: Path, tmp_path: Path) -> None:
    pairs, questions = tmp_path / "pairs.tsv", tmp_path / "questions.txt"
    pairs.write_text("king\tqueen\t8\nking\tapple\t1\nman\twoman\t6\nprince\tking\t9\n")
    questions.write_text(": royal\nman king woman queen\nman king woman apple\n: <b>none</b>\nx y z w\n")
    call = ("words", vectors, "--wordsim", pairs, "--simlex", pairs, "--analogies", questions)
    code, told, err = run(*call, "--json")
    assert (code, err) == (0, "")
    made = json.loads(told)
    assert made["wordsim"]["known"] == made["simlex"]["rows"] == 4
    assert made["analogies"]["accuracy"]["value"] == 0.5
    code, told, _ = run(*call)
    assert code == 0
    assert "unknown words" in told
    assert "<b>none</b>" in told
    code, told, _ = run(*call, "--quiet")
    assert told.split()[-1] == "0.5000"


def test_words_of_a_transformer(run: Run, masked_model: Path) -> None:
    code, told, err = run("words", masked_model, "cat", "--top", 3)
    assert code == 0, err
    assert "tokens are whole words" in err
    assert "##s" not in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Name a word"),
        (("nobody",), "'nobody' is not among the 7 words"),
        (("king", "man"), "Put + or - before 'man'"),
        (("king", "--top", "0"), "top must be an integer >= 1, got 0"),
        (("king", "--limit", "0"), "limit"),
        (("--wordsim", "missing.tsv"), "does not exist or is not a file"),
    ],
)
def test_words_says_what_is_wrong(run: Run, vectors: Path, arguments: tuple[str, ...], said: str) -> None:
    code, told, err = run("words", vectors, *arguments)
    assert (code, told, err.count("\n")) == (2, "", 1)
    assert said in err


def test_contrast_of_a_transformer(run: Run, masked_model: Path) -> None:
    first, second = "the cat sat on a mat", "paris is the big cat"
    code, told, err = run("contrast", masked_model, first, second, "cat", "--json", "--also", "a cat")
    assert (code, err) == (0, "")
    made = json.loads(told)
    assert made["layers"][0] == {"name": "word table", "cosine": 1.0}
    assert made["layers"][-1]["cosine"] < 1
    assert [one["sentence"] for one in made["occurrences"]] == [first, second, "a cat"]
    for more in ((), ("--also", "a cat")):
        code, told, _ = run("contrast", masked_model, first, second, "cat", *more)
        assert code == 0
        assert "word table" in told
    code, told, err = run("contrast", masked_model, first, second, "cat", "--quiet")
    assert float(told) == pytest.approx(made["layers"][-1]["cosine"], abs=1e-4)
    assert err == ""


def test_contrast_of_word_vectors(run: Run, vectors: Path) -> None:
    code, told, err = run("contrast", vectors, "the king is dead", "long live the king", "king")
    assert code == 0, err
    assert "1.0000" in told
    assert "prince" in told
    assert "same vector in every context" in err


def test_contrast_says_where_the_word_is_missing(run: Run, vectors: Path) -> None:
    code, told, err = run("contrast", vectors, "the king", "the queen", "king")
    assert (code, told, err.count("\n")) == (2, "", 1)
    assert "'king' does not occur as a separate word in 'the queen'" in err
