"""Word alignments equal the traced attention, alone and in batches; replacement of unknown words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead import Model
from clearhead.decode import GeneratedText, Hypothesis
from clearhead.errors import InputError
from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.model.alignment import Aligner, best_alignment_layers, link_words, map_words_to_tokens, merge_tokens
from clearhead.text.words import find_word_spans
from clearhead.translate.unknown import (
    MarkedText,
    fill_unknown,
    mark_unknown,
    replace_unknown,
    unknown_includes_punctuation,
)
from tests.decode.texts import load_text_model

SOURCES = ["Der Hund bellt, und die Katze schläft.", "Ja!", "Ein Mann fährt mit dem Rad über die Straße nach Hause"]
TARGETS = ["The dog barks and the cat sleeps.", "Yes, yes, don't!", "A man rides"]


@pytest.mark.parametrize("family", ["marian", "t5"])
@pytest.mark.parametrize(("layer", "head"), [(None, None), (0, None), (1, 1)])
def test_alignments_are_the_traced_attention(family: str, layer: int | None, head: int | None) -> None:
    model = load_text_model(family)
    alignments = model.align(SOURCES, TARGETS, layer, head)
    for source, target, alignment in zip(SOURCES, TARGETS, alignments, strict=True):
        single = model.align([source], [target], layer, head)[0]
        np.testing.assert_allclose(alignment.weights, single.weights, atol=1e-6)
        assert alignment.links == single.links
        traced = model.trace(source, target=target).cross
        layers = [traced[number].probs for number in alignment.layers]
        probs = np.mean([layer_probs.mean(0) if head is None else layer_probs[head] for layer_probs in layers], 0)
        source_encoding, target_encoding = (
            model.tokenizer.encode(source),
            (model.target_tokenizer or model.tokenizer).encode(target),
        )
        word = next(index for index, text in enumerate(alignment.target_words) if text == written_words(target)[-1])
        rows = [
            n
            for n, offsets in enumerate(target_encoding.offsets)
            if is_inside(offsets, find_word_spans(target, keep_contractions=True)[word])
        ]
        columns = [
            n
            for n, offsets in enumerate(source_encoding.offsets)
            if is_inside(offsets, find_word_spans(source, keep_contractions=True)[0])
        ]
        assert alignment.weights[word, 0] == pytest.approx(probs[rows][:, columns].mean(0).sum(), abs=1e-5)
        assert alignment.source_words == tuple(source[a:b] for a, b in find_word_spans(source, keep_contractions=True))
        assert (alignment.weights.sum(1) <= 1 + 1e-5).all()


def written_words(text: str) -> list[str]:
    return [text[start:end] for start, end in find_word_spans(text, keep_contractions=True)]


def is_inside(offsets: tuple[int, int], span: tuple[int, int]) -> bool:
    return offsets[0] < offsets[1] and span[0] <= offsets[0] < span[1]


def test_a_prefix_is_read_and_has_no_words() -> None:
    model = load_text_model("t5")
    plain = model.align(["say: ein Hund"], ["a dog"])[0]
    with_prefix = model.align(["ein Hund"], ["a dog"], prefix="say: ")[0]
    assert with_prefix.source_words == ("ein", "Hund")
    np.testing.assert_allclose(with_prefix.weights, plain.weights[:, 2:], atol=1e-6)


def test_words_keep_what_belongs_to_them() -> None:
    text = "I don't know, O’Neil's \"dog\" costs 3.5 € - Zu\u0308rich 👨\u200d👩\u200d👧 你好"
    assert written_words(text) == [
        "I",
        "don't",
        "know",
        ",",
        "O’Neil's",
        '"',
        "dog",
        '"',
        "costs",
        "3.5",
        "€",
        "-",
        "Zu\u0308rich",
        "👨\u200d👩\u200d👧",
        "你",
        "好",
    ]
    assert written_words("dogs' 'n' ''") == ["dogs", "'", "'", "n", "'", "'", "'"]
    assert written_words(" ") == []


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target() -> None:
    attention = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.0, 0.3, 0.4]], np.float32)
    weights = merge_tokens(attention, [[0, 1], [2]], [[0, 1]], ([(0, 2), (3, 4)], [(0, 5)]))
    np.testing.assert_allclose(weights, [[0.3, 0.3]], atol=1e-6)
    assert link_words(np.array([[0.2, 0.7], [0.0, 0.0]])) == ((1, 0),)
    assert link_words(np.zeros((0, 3))) == ()
    assert [best_alignment_layers(count) for count in (1, 2, 3, 6)] == [(0,), (1,), (1, 2), (3, 4, 5)]


@pytest.mark.parametrize(("sources", "targets"), [([""], ["a b"]), (["a b"], [""]), (["", " "], [" ", ""])])
def test_nothing_aligns_with_nothing(sources: list[str], targets: list[str]) -> None:
    alignments = load_text_model("marian").align(sources, targets)
    sizes = [(len(alignment.target_words), len(alignment.source_words)) for alignment in alignments]
    assert sizes == [(len(t.split()), len(s.split())) for s, t in zip(sources, targets, strict=True)]
    assert [alignment.weights.shape for alignment in alignments] == sizes
    assert all(alignment.links == () for alignment in alignments)
    assert load_text_model("marian").align([], []) == []


def test_texts_beyond_the_limit_keep_their_words() -> None:
    model = load_text_model("marian")
    long = " ".join(["Hund"] * 700)
    alignment = model.align([long], ["dog cat"])[0]
    assert len(alignment.source_words) == 700
    assert alignment.weights[:, -1].sum() == 0
    assert alignment.weights[:, 0].sum() > 0


def create_recurrent(**config: Any) -> Model:
    source = load_text_model("marian")
    values = {
        "vocab_size": source.tokenizer.vocab_size,
        "width": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        **config,
    }
    model = clearhead.create("rnn", config=values, head="seq2seq", tokenizer=source.tokenizer)
    model.target_tokenizer = source.target_tokenizer
    return model


def test_the_recurrent_ancestor_aligns_by_its_one_attention() -> None:
    model = create_recurrent(attention="additive", input_feeding=True, decoder_start_token_id=1)
    alignment = model.align(SOURCES, TARGETS)[0]
    assert (alignment.layers, alignment.weights.dtype) == ((0,), np.float32)
    single = model.align(SOURCES[:1], TARGETS[:1])[0]
    np.testing.assert_allclose(alignment.weights, single.weights, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: create_recurrent(attention="none").align(["a"], ["b"]), "no attention"),
        (lambda: load_text_model("gpt2").align(["a"], ["b"]), "no decoder"),
        (lambda: load_text_model("marian").align(["a"], ["b", "c"]), "1 sources and 2 targets"),
        (lambda: load_text_model("marian").align("a", "b"), "put it in a list"),
        (
            lambda: load_text_model("marian").align(["a"], [3]),  # type: ignore[list-item]
            r"targets\[0\] is int",
        ),
        (lambda: load_text_model("marian").align(["a"], ["b"], layer=9), "layer must be an integer from 0 to"),
        (lambda: load_text_model("marian").align(["a"], ["b"], head=-1), "head must be an integer from 0 to"),
    ],
)
def test_what_cannot_be_aligned_is_said(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def make_answer(model: Model, source: str, ids: list[int]) -> GeneratedText:
    tokenizer = model.target_tokenizer or model.tokenizer
    text = tokenizer.decode(ids)
    hypothesis = Hypothesis(text=text, ids=tuple(ids), score=0.0, stopped="end")
    return GeneratedText(**vars(hypothesis), source=source, best=(hypothesis,))


@pytest.mark.parametrize("family", ["marian", "t5"])
def test_an_unknown_word_becomes_the_one_that_was_looked_at(family: str) -> None:
    model = load_text_model(family)
    tokenizer = model.target_tokenizer or model.tokenizer
    unknown, end = tokenizer.unk_id, tokenizer.eos_id
    assert unknown is not None
    assert end is not None
    whole_words = sorted(
        token for token in tokenizer.vocab if token.startswith("▁") and token[1:].isalpha() and len(token) > 3
    )
    before, incomplete, after = (
        tokenizer.vocab[token] for token in whole_words[:3]
    )  # of one word the other letters are unknown
    ids = [before, incomplete, unknown, after, end]
    source = "say: Der HUND-Ω, schläft"
    replaced = replace_unknown(model, [make_answer(model, source, ids)], "say: ")[0]
    aligner = Aligner(model)
    encoding = aligner.encode_source(source)
    row = aligner.cross_attention([encoding.ids], [ids])[0][2]
    words = written_words(source.removeprefix("say: "))
    spans = find_word_spans(source.removeprefix("say: "), keep_contractions=True)
    best = max(range(len(words)), key=lambda word: row[map_words_to_tokens(encoding, spans, 5)[word]].sum())
    assert replaced.text == f"{whole_words[0][1:]} {words[best]} {whole_words[2][1:]}"
    assert replaced.best[0].text == replaced.text
    assert words == ["Der", "HUND-Ω", ",", "schläft"]
    plain = make_answer(model, source, [before, after, end])
    assert replace_unknown(model, [plain]) == [plain]


@pytest.mark.parametrize(
    ("text", "rows", "expected"),
    [
        ("a # b", [[0.1, 0.9]], "a Zoë b"),
        ("a caf#s, b", [[0.1, 0.9]], "a Zoë, b"),  # a piece is unknown: the whole word is taken
        ("a ## b", [[0.1, 0.9], [0.9, 0.2]], "a Zoë b"),
        ("a # # b", [[0.1, 0.9], [0.2, 0.9]], "a Zoë b"),  # once
        ("a # # b", [[0.1, 0.9], [0.9, 0.1]], "a Zoë Ω b"),
        ("# and #", [[0.1, 0.9], [0.1, 0.9]], "Zoë and Zoë"),
    ],
)
def test_unknown_words_are_filled_in(text: str, rows: list[list[float]], expected: str) -> None:
    mark = "\U00010380"
    marked = MarkedText(text=text.replace("#", mark), marker=mark, token_indices=tuple(range(len(rows))))
    assert fill_unknown(marked, rows, ["Ω", "Zoë"]) == expected
    assert mark not in fill_unknown(marked, [[] for _ in rows], [])


@pytest.mark.parametrize(
    ("kind", "split", "texts", "takes"),
    [
        ("bpe", "metaspace", ["ein hund. zwei hunde."], False),  # ( ) and , are unknown, and . is not
        ("bpe", "metaspace", ["ein hund zwei hunde"], True),
        ("wordpiece", "blanks", ["ein hund. (zwei) hunde, ja!"], True),
        ("wordpiece", "bert", ["ein hund. (zwei) hunde, ja!"], False),
    ],
)
def test_signs_come_along_where_the_unknown_token_swallows_them(
    kind: str, split: str, texts: list[str], takes: bool
) -> None:
    learned = learn_tokenizer(
        iter(texts * 20), kind=kind, use="transformer", vocab_size=60, split=split, normalize="nfc"
    )
    assert unknown_includes_punctuation(learned.tokenizer) is takes


def test_a_text_that_speaks_of_unknown_words_is_left_alone() -> None:
    tokenizer = load_text_model("t5").tokenizer
    unknown = tokenizer.unk_id
    assert unknown is not None
    ids = (*tokenizer.encode("a b").ids[:-1], unknown)
    marked = mark_unknown(tokenizer, Hypothesis(text=tokenizer.decode(ids), ids=ids, score=0.0, stopped="length"))
    assert marked is not None
    assert marked.token_indices == (len(ids) - 1,)
    assert mark_unknown(tokenizer, Hypothesis(text="cut", ids=ids, score=0.0, stopped="stop")) is None
