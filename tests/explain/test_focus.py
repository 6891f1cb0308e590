"""Figures, pages, JSON and tables hide special tokens, report what they hide, open on a word, and show the text."""

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
from tests.explain.test_pictures import SPACE, caption, drawn_lines
from tests.explain.test_trace_page import Reader, page_data
from tests.explain.traces import EXAMPLE_TOKENS, HOSTILE, make_trace


def make_focused_trace(token: str, tokens: list[str] = EXAMPLE_TOKENS, *, causal: bool = False) -> Trace:
    """Every token attends to the first (special) token by 1/2 and to `token` by 1/3; the remainder is uniform."""
    probs = np.full((3, len(tokens), len(tokens)), 1 / 6 / len(tokens))
    probs[:, :, 0] += 1 / 2
    probs[:, :, tokens.index(token)] += 1 / 3
    trace = make_trace(tokens, causal=causal)
    return replace(trace, layers=[replace(layer, probs=probs) for layer in trace.layers])


def svg_texts(svg: str, kind: str = "token") -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SPACE}text") if text.get("class") == kind]


def svg_titles(svg: str) -> list[str]:
    return svg_texts(svg, "title")


@pytest.mark.parametrize("word", ["animal", "tired", "street"])
def test_opens_on_the_word_that_the_others_attend_to(word: str) -> None:
    trace = make_focused_trace(word)
    assert find_informative_word(view_part(trace)) == [EXAMPLE_TOKENS.index(word)]
    svg = attention_svg(trace)
    assert f"from “{word}”" in svg
    assert {query for _, query, _ in drawn_lines(svg)} == {EXAMPLE_TOKENS.index(word)}
    assert page_data(attention_page(trace))["parts"][0]["opening"] == [EXAMPLE_TOKENS.index(word)]
    assert [row[0] for row in attention_table(trace)[1] if "▸" in row[0]] == [f"▸ {word}"]
    assert attention_data(trace)["informative"] == {"encoder": [EXAMPLE_TOKENS.index(word) - 1]}


def test_never_opens_on_special_tokens_or_punctuation() -> None:
    assert find_informative_word(view_part(make_focused_trace("[SEP]"))) != [len(EXAMPLE_TOKENS) - 1]
    assert find_informative_word(view_part(make_focused_trace("'"))) != [EXAMPLE_TOKENS.index("'")]
    assert find_informative_word(view_part(make_trace(["[CLS]", "...", "!", "[SEP]"]))) == [1]
    assert find_informative_word(view_part(make_trace(["[CLS]", "[SEP]"]))) == [0]  # there is nothing else


def test_opens_on_all_tokens_of_a_word() -> None:
    tokens = ["[CLS]", "my", "ref", "##und", "is", "late", "[SEP]"]
    trace = make_focused_trace("##und", tokens)
    assert find_informative_word(view_part(trace)) == [2, 3]
    assert "from “refund”" in attention_svg(trace)
    assert page_data(attention_page(trace))["parts"][0]["opening"] == [2, 3]
    trace = make_focused_trace("Ġfriend", ["<s>", "Hello", "Ġmy", "Ġfriend", ".", "</s>"])
    assert find_informative_word(view_part(trace)) == [3]  # without the full stop that the tokenizer glued to it


@pytest.mark.parametrize("part", ["decoder", "cross"])
def test_a_decoder_opens_on_the_word_with_the_most_focused_attention(part: str) -> None:
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
    opening = {part_data["part"]: part_data["opening"] for part_data in page_data(attention_page(trace))["parts"]}
    assert opening[part] == [4]
    assert 0 not in opening["decoder"] + opening["cross"]  # <start>


def test_special_tokens_are_shown_only_when_asked_for() -> None:
    trace = make_trace()
    words = [token for token in EXAMPLE_TOKENS if not token.startswith("[")]
    for svg, full_svg in (
        (attention_svg(trace), attention_svg(trace, special=True)),
        (attention_heatmap_svg(trace, 0, 0), attention_heatmap_svg(trace, 0, 0, special=True)),
    ):
        assert svg_texts(svg) == words * 2
        assert svg_texts(full_svg) == EXAMPLE_TOKENS * 2
        assert "not renormalized" in caption(svg)
        assert "renormalized" not in caption(full_svg)
    assert page_data(attention_page(trace))["start"]["hide"] is True
    assert page_data(attention_page(trace, special=True))["start"]["hide"] is False
    assert [row[0] for row in attention_table(trace, all_words=True, special=True)[1]] == EXAMPLE_TOKENS
    assert attention_data(trace, special=True)["tokens"] == EXAMPLE_TOKENS
    # one that is asked for by name is shown
    assert "from “[CLS]”" in attention_svg(trace, word="[CLS]")
    assert attention_data(trace, word=0)["tokens"] == EXAMPLE_TOKENS
    assert page_data(attention_page(trace, word="[SEP]"))["start"]["hide"] is False


def test_what_is_shown_and_what_is_hidden_add_up() -> None:
    trace = make_trace(["▁das", "▁Haus", "</s>"], ["<start>", "▁the", "▁house"])
    data = attention_data(trace)
    assert (data["tokens"], data["target_tokens"]) == (["▁das", "▁Haus"], ["▁the", "▁house"])
    assert (data["positions"], data["target_positions"]) == ([0, 1], [1, 2])
    for field, has_hidden_tokens in (("layers", True), ("decoder", True), ("cross", True)):
        for layer in data[field]:
            probs, special_share = np.array(layer["probs"]), np.array(layer["special_share"])
            assert probs.shape == (3, 2, 2)
            assert special_share.any() == has_hidden_tokens
            np.testing.assert_allclose(probs.sum(-1) + special_share, 1, atol=5e-4)
    columns, rows, _ = attention_table(trace, layer=0)
    assert columns == ("token", "attends to", "special tokens (hidden)")
    assert float(rows[0][2]) == pytest.approx(float(trace.attention(0)[0, 2]), abs=0.0051)
    cells = ElementTree.fromstring(attention_heatmap_svg(trace, 0, 1)).iter(f"{SPACE}rect")
    cell_attributes = (cell.attrib for cell in cells if cell.get("data-prob"))
    drawn_probs = {(cell["data-query"], cell["data-key"]): cell["data-prob"] for cell in cell_attributes}
    assert set(drawn_probs) == {(query, key) for query in "01" for key in "01"}
    assert float(drawn_probs["1", "0"]) == pytest.approx(float(trace.layers[0].probs[1, 1, 0]), abs=5.1e-5)


def test_tokens_that_the_tokenizer_put_in_are_hidden_whatever_they_are_called() -> None:
    trace = replace(make_trace(["<begin>", "a", "cat", "<finish>"]), special=[True, False, False, True])
    assert svg_texts(attention_svg(trace)) == ["a", "cat"] * 2
    assert svg_texts(attention_svg(replace(trace, special=[True]))) == ["<begin>", "a", "cat", "<finish>"] * 2


@pytest.mark.parametrize("family", ["gpt2", "t5", "marian", "bert"])
def test_traces_of_real_models_hold_texts_and_special_tokens(family: str, tmp_path: Path) -> None:
    model = clearhead.load("novels") if family == "bert" else load_text_model(family)
    target = "rain fell" if family in ("t5", "marian") else None
    trace = model.trace("The old keeper", target=target)
    assert (trace.text, trace.target) == ("The old keeper", target)
    encoding = model.tokenizer.encode("The old keeper")
    assert trace.special == encoding.special
    title = ["The old keeper"] if target is None else ["The old keeper", "→ rain fell"]
    svg = save_attention(trace, tmp_path / "a.svg").read_text()
    assert svg_titles(svg)[:-1] == title
    text_tokens = [
        token for token, special in zip(view_part(trace).queries, encoding.special, strict=True) if not special
    ]
    assert svg_texts(svg) == [token.label for token in text_tokens] * 2
    if target is not None:
        ids = (model.target_tokenizer or model.tokenizer).encode(target).ids
        assert model.trace("The old keeper", target=ids).target == target
        data = attention_data(trace)
        assert len(data["target_tokens"]) == len(ids) - 1  # the start is hidden, and the end is read by nobody


def test_the_texts_are_the_title() -> None:
    pair = replace(make_trace(), text="How many?", second="Three <b>lived</b>\nthere.")
    assert heading_texts(pair) == ["How many?", "Three <b>lived</b> there."]
    assert svg_titles(attention_svg(pair))[:2] == ["How many?", "Three <b>lived</b> there."]
    page = attention_page(pair)
    assert "<title>How many? | Three &lt;b&gt;lived&lt;/b&gt; there.</title>" in page
    assert [tag for tag, _ in Reader(page).tags].count("b") == 3  # those of the explanation
    assert "<title>Mine</title>" in attention_page(pair, title="Mine")
    assert "How many? | Three" in attention_page(pair, title="Mine")
    assert attention_table(pair)[2].startswith("How many? | Three <b>lived</b> there.\n")
    assert attention_data(pair)["second"] == pair.second
    assert svg_titles(attention_svg(make_trace(["[CLS]", "a", "cat", "[SEP]"])))[0] == "a cat"  # what the tokens spell
    ElementTree.fromstring(attention_svg(replace(make_trace(HOSTILE), text="\u202e]]>\x00\ud800<script>")))


@pytest.mark.parametrize("text", ["word " * 400, "x" * 3000, "本" * 500, "a b", "", "ab " * 20 + "c" * 90])
def test_long_texts_fit_above_a_picture(text: str) -> None:
    trace = replace(make_trace(), text=text)
    heading_lines = wrap_heading(trace, 30)
    assert len(heading_lines) <= 2
    assert all(text_width(line) <= 30.9 for line in heading_lines)
    assert text.replace(" ", "").startswith(
        "".join(heading_lines).replace(" ", "").rstrip("…")
    )  # no gap between the lines
    assert len(attention_page(trace).split("<h1")[1].split("</h1>")[0]) < 1000
    ElementTree.fromstring(attention_svg(trace))


def test_one_word_and_all_words_are_refused() -> None:
    for draw in (attention_svg, attention_page, attention_table):
        with pytest.raises(InputError, match="exclude each other"):
            draw(make_trace(), word="it", all_words=True)
