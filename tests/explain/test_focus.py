"""Pictures, pages, numbers and tables hide special tokens, say what they hide, open on a word, and show the text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import clearhead
from clearhead.core.trace import Trace
from clearhead.errors import InputError
from clearhead.explain import (
    attention_data,
    attention_heatmap_svg,
    attention_page,
    attention_svg,
    attention_table,
    save_attention,
)
from clearhead.explain.focus import find_informative_word
from clearhead.explain.headings import heading_texts, wrap_heading
from clearhead.explain.svg import text_width
from clearhead.explain.trace_view import view_part
from tests.decode.texts import load_text_model
from tests.explain.test_pictures import SPACE, caption, lines
from tests.explain.test_trace_page import Reader, page_data
from tests.explain.traces import HOSTILE, LECTURE, make_trace


def looked_at(token: str, tokens: list[str] = LECTURE, *, causal: bool = False) -> Trace:
    """Every token gives half to the first one, which is special, and a third to this one; the rest is even."""
    probs = np.full((3, len(tokens), len(tokens)), 1 / 6 / len(tokens))
    probs[:, :, 0] += 1 / 2
    probs[:, :, tokens.index(token)] += 1 / 3
    trace = make_trace(tokens, causal=causal)
    return replace(trace, layers=[replace(layer, probs=probs) for layer in trace.layers])


def labels(svg: str, kind: str = "token") -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SPACE}text") if text.get("class") == kind]


def titles(svg: str) -> list[str]:
    return labels(svg, "title")


@pytest.mark.parametrize("word", ["animal", "tired", "street"])
def test_opens_on_the_word_that_the_others_look_at(word: str) -> None:
    trace = looked_at(word)
    assert find_informative_word(view_part(trace)) == [LECTURE.index(word)]
    svg = attention_svg(trace)
    assert f"from “{word}”" in svg
    assert {query for _, query, _ in lines(svg)} == {LECTURE.index(word)}
    assert page_data(attention_page(trace))["parts"][0]["opening"] == [LECTURE.index(word)]
    assert [row[0] for row in attention_table(trace)[1] if "▸" in row[0]] == [f"▸ {word}"]
    assert attention_data(trace)["informative"] == {"encoder": [LECTURE.index(word) - 1]}


def test_neither_special_tokens_nor_punctuation_are_opened_on() -> None:
    assert find_informative_word(view_part(looked_at("[SEP]"))) != [len(LECTURE) - 1]
    assert find_informative_word(view_part(looked_at("'"))) != [LECTURE.index("'")]
    assert find_informative_word(view_part(make_trace(["[CLS]", "...", "!", "[SEP]"]))) == [1]
    assert find_informative_word(view_part(make_trace(["[CLS]", "[SEP]"]))) == [0]  # there is nothing else


def test_a_word_of_several_pieces_is_opened_on_as_a_whole() -> None:
    tokens = ["[CLS]", "my", "ref", "##und", "is", "late", "[SEP]"]
    trace = looked_at("##und", tokens)
    assert find_informative_word(view_part(trace)) == [2, 3]
    assert "from “refund”" in attention_svg(trace)
    assert page_data(attention_page(trace))["parts"][0]["opening"] == [2, 3]
    trace = looked_at("Ġfriend", ["<s>", "Hello", "Ġmy", "Ġfriend", ".", "</s>"])
    assert find_informative_word(view_part(trace)) == [3]  # without the full stop that the tokenizer glued to it


@pytest.mark.parametrize("part", ["decoder", "cross"])
def test_a_decoder_opens_on_the_word_that_looks_most_firmly(part: str) -> None:
    target = ["<start>", "▁the", "▁old", "▁house", "▁fell"]
    trace = make_trace(["▁das", "▁Haus", "▁fiel", "</s>"], target)
    layers = []
    for layer in getattr(trace, part):
        probs = np.tril(np.ones(layer.probs.shape)) if part == "decoder" else np.ones(layer.probs.shape)
        probs /= probs.sum(-1, keepdims=True)
        probs[:, 4] = np.eye(layer.probs.shape[2])[2 if part == "decoder" else 1]
        layers.append(replace(layer, probs=probs))
    trace = replace(trace, **{part: layers})  # type: ignore[arg-type]
    assert find_informative_word(view_part(trace, part)) == [4]
    assert "from “fell”" in attention_svg(trace, part=part)
    opening = {one["part"]: one["opening"] for one in page_data(attention_page(trace))["parts"]}
    assert opening[part] == [4]
    assert 0 not in opening["decoder"] + opening["cross"]  # <start>


def test_special_tokens_are_shown_only_when_asked_for() -> None:
    trace = make_trace()
    words = [token for token in LECTURE if not token.startswith("[")]
    for svg, every in (
        (attention_svg(trace), attention_svg(trace, special=True)),
        (attention_heatmap_svg(trace, 0, 0), attention_heatmap_svg(trace, 0, 0, special=True)),
    ):
        assert labels(svg) == words * 2
        assert labels(every) == LECTURE * 2
        assert "not renormalized" in caption(svg)
        assert "renormalized" not in caption(every)
    assert page_data(attention_page(trace))["start"]["hide"] is True
    assert page_data(attention_page(trace, special=True))["start"]["hide"] is False
    assert [row[0] for row in attention_table(trace, all_words=True, special=True)[1]] == LECTURE
    assert attention_data(trace, special=True)["tokens"] == LECTURE
    # one that is asked for by name is shown
    assert "from “[CLS]”" in attention_svg(trace, word="[CLS]")
    assert attention_data(trace, word=0)["tokens"] == LECTURE
    assert page_data(attention_page(trace, word="[SEP]"))["start"]["hide"] is False


def test_what_is_shown_and_what_is_hidden_add_up() -> None:
    trace = make_trace(["▁das", "▁Haus", "</s>"], ["<start>", "▁the", "▁house"])
    data = attention_data(trace)
    assert (data["tokens"], data["target_tokens"]) == (["▁das", "▁Haus"], ["▁the", "▁house"])
    assert (data["positions"], data["target_positions"]) == ([0, 1], [1, 2])
    for field, hides in (("layers", True), ("decoder", True), ("cross", True)):
        for layer in data[field]:
            probs, share = np.array(layer["probs"]), np.array(layer["special_share"])
            assert probs.shape == (3, 2, 2)
            assert share.any() == hides
            np.testing.assert_allclose(probs.sum(-1) + share, 1, atol=5e-4)
    columns, rows, _ = attention_table(trace, layer=0)
    assert columns == ("token", "attends to", "special tokens (hidden)")
    assert float(rows[0][2]) == pytest.approx(float(trace.attention(0)[0, 2]), abs=0.0051)
    cells = ElementTree.fromstring(attention_heatmap_svg(trace, 0, 1)).iter(f"{SPACE}rect")
    marked = (one.attrib for one in cells if one.get("data-prob"))
    shown = {(one["data-query"], one["data-key"]): one["data-prob"] for one in marked}
    assert set(shown) == {(query, key) for query in "01" for key in "01"}
    assert float(shown["1", "0"]) == pytest.approx(float(trace.layers[0].probs[1, 1, 0]), abs=5.1e-5)


def test_tokens_that_the_tokenizer_put_in_are_hidden_whatever_they_are_called() -> None:
    trace = replace(make_trace(["<begin>", "a", "cat", "<finish>"]), special=[True, False, False, True])
    assert labels(attention_svg(trace)) == ["a", "cat"] * 2
    assert labels(attention_svg(replace(trace, special=[True]))) == ["<begin>", "a", "cat", "<finish>"] * 2


@pytest.mark.parametrize("family", ["gpt2", "t5", "marian", "bert"])
def test_real_models_tell_their_texts_and_their_special_tokens(family: str, tmp_path: Path) -> None:
    model = clearhead.load("novels") if family == "bert" else load_text_model(family)
    target = "rain fell" if family in ("t5", "marian") else None
    trace = model.trace("The old keeper", target=target)
    assert (trace.text, trace.target) == ("The old keeper", target)
    encoding = model.tokenizer.encode("The old keeper")
    assert trace.special == encoding.special
    title = ["The old keeper"] if target is None else ["The old keeper", "→ rain fell"]
    svg = save_attention(trace, tmp_path / "a.svg").read_text()
    assert titles(svg)[:-1] == title
    shown = [token for token, special in zip(view_part(trace).queries, encoding.special, strict=True) if not special]
    assert labels(svg) == [token.label for token in shown] * 2
    if target is not None:
        ids = (model.target_tokenizer or model.tokenizer).encode(target).ids
        assert model.trace("The old keeper", target=ids).target == target
        data = attention_data(trace)
        assert len(data["target_tokens"]) == len(ids) - 1  # the start is hidden, and the end is read by nobody


def test_the_texts_are_the_title() -> None:
    pair = replace(make_trace(), text="How many?", second="Three <b>lived</b>\nthere.")
    assert heading_texts(pair) == ["How many?", "Three <b>lived</b> there."]
    assert titles(attention_svg(pair))[:2] == ["How many?", "Three <b>lived</b> there."]
    page = attention_page(pair)
    assert "<title>How many? | Three &lt;b&gt;lived&lt;/b&gt; there.</title>" in page
    assert [tag for tag, _ in Reader(page).tags].count("b") == 3  # those of the explanation
    assert "<title>Mine</title>" in attention_page(pair, title="Mine")
    assert "How many? | Three" in attention_page(pair, title="Mine")
    assert attention_table(pair)[2].startswith("How many? | Three <b>lived</b> there.\n")
    assert attention_data(pair)["second"] == pair.second
    assert titles(attention_svg(make_trace(["[CLS]", "a", "cat", "[SEP]"])))[0] == "a cat"  # what the tokens spell
    ElementTree.fromstring(attention_svg(replace(make_trace(HOSTILE), text="\u202e]]>\x00\ud800<script>")))


@pytest.mark.parametrize("text", ["word " * 400, "x" * 3000, "本" * 500, "a b", "", "ab " * 20 + "c" * 90])
def test_long_texts_fit_above_a_picture(text: str) -> None:
    trace = replace(make_trace(), text=text)
    found = wrap_heading(trace, 30)
    assert len(found) <= 2
    assert all(text_width(line) <= 30.9 for line in found)
    assert text.replace(" ", "").startswith("".join(found).replace(" ", "").rstrip("…"))  # no gap between the lines
    assert len(attention_page(trace).split("<h1")[1].split("</h1>")[0]) < 1000
    ElementTree.fromstring(attention_svg(trace))


def test_one_word_and_all_words_are_refused() -> None:
    for draw in (attention_svg, attention_page, attention_table):
        with pytest.raises(InputError, match="exclude each other"):
            draw(make_trace(), word="it", all_words=True)
