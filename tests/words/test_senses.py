"""One word in two sentences: equal without context, different with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.errors import InputError
from clearhead.words import WordVectors
from clearhead.words.contrast import extract_word_table
from tests.tiny_models import tiny_gpt, tiny_model
from tests.words.planted import royal


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("runtime", ["engine", "core"])
def test_layers_begin_equal_and_part(tiny: Path, runtime: str) -> None:
    model = clearhead.load(tiny, runtime)
    contrast = clearhead.contrast(model, "the film was good", "good music and a film", "film", also=["we saw a Film"])
    assert [layer.name for layer in contrast.layers] == ["word table", "embeddings", "layer 1", "layer 2"]
    assert contrast.layers[0].cosine == 1.0
    assert all(layer.cosine < 0.9999 for layer in contrast.layers[1:])
    encoded = [model.tokenizer.encode(occurrence.sentence).ids for occurrence in contrast.occurrences]
    a, b = model.run([encoded[0]]).hidden[2][0, 2], model.run([encoded[1]]).hidden[2][0, 5]
    assert contrast.layers[3].cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5)
    first = contrast.occurrences[0]
    assert (first.start, first.end, first.tokens) == (4, 8, ("film",))
    assert {occurrence.text for occurrence in first.senses} == {"good music and a film", "we saw a Film"}
    assert first.senses[0].cosine >= first.senses[1].cosine
    assert {occurrence.text for occurrence in first.words} == {"the", "was", "good"}


def test_a_word_of_several_tokens_is_their_mean(tmp_path: Path) -> None:
    from clearhead.text import load_tokenizer

    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nbank\n##er\n##s\nthe\nsaw\n")
    tokenizer = load_tokenizer(tmp_path, "bert", {"model_type": "bert"}).source
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = clearhead.create("bert", config=sizes, tokenizer=tokenizer)
    contrast = clearhead.contrast(model, "the bankers saw", "saw the bankers", "bankers")
    assert contrast.occurrences[0].tokens == ("bank", "##er", "##s")
    assert contrast.layers[0].cosine == 1.0
    assert any("mean" in note for note in contrast.notes)
    assert extract_word_table(model).words == ("bank", "the", "saw")


def test_a_word_that_stands_twice_is_said(tiny: Path) -> None:
    contrast = clearhead.contrast(tiny, "film and film", "a film", "film")
    assert any("2 times" in note for note in contrast.notes)


@pytest.mark.parametrize(
    ("first", "second", "word", "message"),
    [
        ("the film", "the plot", "film", "'film' does not occur as a separate word in 'the plot'"),
        ("the films", "the film", "film", "does not occur as a separate word"),
        ("the film", "the film", " ", "The word is empty"),
        ("the " * 40 + "film", "the film", "film", "cut off"),
    ],
)
def test_sentences_without_the_word(tiny: Path, first: str, second: str, word: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        clearhead.contrast(tiny, first, second, word)


def test_word_vectors_cannot_tell_the_sentences_apart() -> None:
    contrast = clearhead.contrast(royal(), "the King is here", "a king", "king")
    assert [(layer.name, layer.cosine) for layer in contrast.layers] == [("word vectors", 1.0)]
    assert contrast.occurrences[0].words[0].text == "prince"
    assert contrast.to_json()["occurrences"][0]["senses"][0]["cosine"] == 1.0


def test_words_that_are_written_differently_are_said() -> None:
    cased = WordVectors(words=("bank", "Bank"), matrix=np.eye(2, dtype=np.float32))
    contrast = clearhead.contrast(cased, "Bank of the river", "the bank", "bank")
    assert contrast.layers[0].cosine == 0
    assert "Bank and bank are two words with separate vectors" in contrast.notes[0]
    assert "two words" not in " ".join(clearhead.contrast(cased, "a bank", "the bank", "bank").notes)


def test_rows_of_the_table_that_differ_are_said(tmp_path: Path) -> None:
    model = clearhead.load(tiny_gpt(tmp_path), "core")
    contrast = clearhead.contrast(model, "the film and more", "film", "film")
    assert contrast.layers[0].cosine < 0.999
    assert any("different rows of the word table" in note for note in contrast.notes)
    same = clearhead.contrast(model, "the film and more", "a film", "film")
    assert same.layers[0].cosine == 1
    assert not any("different rows" in note for note in same.notes)


@pytest.mark.parametrize("word", ["don't", "don’t"])
def test_either_apostrophe_is_found(word: str) -> None:
    words = WordVectors(words=("don't", "don’t"), matrix=np.ones((2, 2), np.float32))
    assert clearhead.contrast(words, "I don’t", "you don't", word).occurrences[0].tokens == ("don’t",)


def test_the_word_table_of_a_model(tiny: Path) -> None:
    model = clearhead.load(tiny)
    vectors = clearhead.load_words(tiny)
    assert "[CLS]" not in vectors.words
    np.testing.assert_array_equal(
        vectors["film"], model.tensor("stack.embed.token.weight")[model.tokenizer.token_id("film")]
    )
    assert len(clearhead.load_words(tiny, limit=3)) == 3


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ({"Ġthe": 0, "the": 1, "Ġbank": 2, "er": 3, "<s>": 4}, ("the", "bank")),
        ({"▁the": 0, "the": 1, "▁bank": 2, "<extra_id_0>": 3}, ("the", "bank")),
        ({"the</w>": 0, "ba": 1, "bank</w>": 2}, ("the", "bank")),
        ({"the": 0, "##er": 1, "[unused1]": 2, "bank": 3, "12": 4}, ("the", "bank")),
    ],
)
def test_whole_words_of_every_kind_of_vocabulary(tokens: dict[str, int], words: tuple[str, ...]) -> None:
    class FakeTokenizer:
        vocab = tokens

        @property
        def special_tokens_map(self) -> dict[str, str]:
            return {}

        def decode(self, ids: list[int]) -> str:
            raise AssertionError("only words that are not ASCII are decoded")

    class FakeModel:
        tokenizer = FakeTokenizer()
        reference = "spelled"

        def tensor(self, _: str) -> object:
            return np.ones((len(tokens), 2), np.float32)

    assert extract_word_table(FakeModel()).words == words  # type: ignore[arg-type]
