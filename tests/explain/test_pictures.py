"""Figures show the trace: a line for each visible probability, darker if it is larger, with all text escaped."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import clearhead
from clearhead.core.trace import Trace
from clearhead.core.trace import trace as run_trace
from clearhead.errors import InputError
from clearhead.explain import attention_heatmap_svg, attention_page, attention_svg
from clearhead.explain.trace_view import MIN_DRAWN_PROB, find_informative_layer, list_parts, view_part
from clearhead.model.inputs import check_batch
from tests.explain.traces import EXAMPLE_TOKENS, HOSTILE, make_trace

SPACE = "{http://www.w3.org/2000/svg}"
TAGS = {"svg", "title", "desc", "rect", "text", "g", "line"}


def drawn_lines(svg: str) -> dict[tuple[int, int, int], tuple[float, float]]:
    """Return the drawn lines: (head, query, key) to (probability, opacity)."""
    links: dict[tuple[int, int, int], tuple[float, float]] = {}
    for group in ElementTree.fromstring(svg).iter(f"{SPACE}g"):
        for line in group.findall(f"{SPACE}line"):
            link = (int(group.attrib["data-head"]), int(line.attrib["data-query"]), int(line.attrib["data-key"]))
            assert link not in links
            links[link] = (float(line.attrib["data-prob"]), float(line.attrib["stroke-opacity"]))
    return links


def caption(svg: str) -> str:
    return " ".join(text.text or "" for text in ElementTree.fromstring(svg).iter() if text.get("class") == "caption")


def visible_links(trace: Trace, layer: int) -> set[tuple[int, ...]]:
    return {tuple(int(i) for i in indices) for indices in np.argwhere(trace.layers[layer].probs >= MIN_DRAWN_PROB)}


def test_one_line_for_each_link() -> None:
    trace = make_trace()
    links = drawn_lines(attention_svg(trace, layer=1, special=True, all_words=True))
    assert set(links) == visible_links(trace, 1)
    for link, (prob, _) in links.items():
        assert prob == pytest.approx(float(trace.layers[1].probs[link]), abs=5.1e-5)


def test_darker_is_more_probable() -> None:
    strokes = sorted(drawn_lines(attention_svg(make_trace(), layer=0, all_words=True)).values())
    assert [opacity for _, opacity in strokes] == sorted(opacity for _, opacity in strokes)
    assert strokes[0][1] < strokes[-1][1] <= 1


def test_darkest_line_from_it_is_the_argmax() -> None:
    trace = make_trace(seed=3)
    it_index = EXAMPLE_TOKENS.index("it")
    for head in range(3):
        links = drawn_lines(attention_svg(trace, layer=1, head=head, word="it", special=True))
        assert {query for _, query, _ in links} == {it_index}
        darkest = max(links, key=lambda link: links[link][1])
        assert darkest == (head, it_index, int(trace.attention(1, head)[it_index].argmax()))


def test_the_most_focused_layer_is_chosen_and_named() -> None:
    trace = make_trace(layers=5)
    uniform = np.full((3, len(EXAMPLE_TOKENS), len(EXAMPLE_TOKENS)), 1 / len(EXAMPLE_TOKENS))
    focused = uniform.copy()
    focused[1, EXAMPLE_TOKENS.index("it")] = np.eye(len(EXAMPLE_TOKENS))[EXAMPLE_TOKENS.index("animal")]
    layers = [replace(layer, probs=focused if layer.layer == 3 else uniform) for layer in trace.layers]
    trace = replace(trace, layers=layers)
    assert find_informative_layer(view_part(trace), [EXAMPLE_TOKENS.index("it")]) == 3
    svg = attention_svg(trace, word="it")
    assert "layer 3, all 3 heads, from “it”" in svg
    assert "chosen because its attention is the most focused" in svg
    assert "chosen because" not in attention_svg(trace, word="it", layer=3)
    resting = np.tile(
        np.eye(len(EXAMPLE_TOKENS), dtype="f4")[0], (3, len(EXAMPLE_TOKENS), 1)
    )  # every token attends to [CLS]
    assert (
        find_informative_layer(view_part(replace(trace, layers=[replace(layer, probs=resting) for layer in layers])))
        == 4
    )


def test_special_tokens_are_left_out_and_their_share_is_stated() -> None:
    trace = make_trace()
    svg = attention_svg(trace, layer=0, head=2, all_words=True)
    links = drawn_lines(svg)
    last = len(EXAMPLE_TOKENS) - 1
    assert set(links) == {link for link in visible_links(trace, 0) if link[0] == 2 and not {0, last} & set(link[1:])}
    inner = trace.layers[0].probs[2, 1:last]
    share = f"{float(inner[:, [0, last]].sum(-1).mean()):.0%}"
    assert f"they get {share} of the attention; the probabilities are the model's own, not renormalized" in caption(svg)


def test_accessible_and_light() -> None:
    for svg in (attention_svg(make_trace()), attention_heatmap_svg(make_trace(), 0, 0)):
        root = ElementTree.fromstring(svg)
        assert root.attrib["role"] == "img"
        assert root[0].tag == f"{SPACE}title"
        assert root[0].text
        assert root[1].tag == f"{SPACE}desc"
        assert root[1].text
        assert root[2].attrib["fill"].startswith("#f")  # its own light paper
        assert svg.count("http") == 1  # the name of SVG itself


def test_rows_do_not_meet_for_forty_tokens() -> None:
    root = ElementTree.fromstring(attention_svg(make_trace([f"word{i}" for i in range(40)]), head=0))
    texts = [text for text in root.iter(f"{SPACE}text") if text.get("class") == "token"]
    for column in (texts[:40], texts[40:]):
        baselines = [float(text.attrib["y"]) for text in column]
        assert all(after - before >= 20 for before, after in pairwise(baselines))
    assert float(root.attrib["height"]) > max(float(text.attrib["y"]) for text in root.iter(f"{SPACE}text"))


def test_heat_map_and_its_triangle() -> None:
    trace = make_trace(["The", "Ġanimal", "Ġdid", "Ġnot"], causal=True)
    svg = attention_heatmap_svg(trace, 1, 2)
    cells = [cell for cell in ElementTree.fromstring(svg).iter(f"{SPACE}rect") if cell.get("class") == "cell"]
    drawn_cells = {(int(cell.attrib["data-query"]), int(cell.attrib["data-key"])) for cell in cells}
    assert all(key <= query for query, key in drawn_cells)
    assert all((query, query) in drawn_cells for query in range(4) if trace.layers[1].probs[2, query, query] > 1e-3)
    assert "triangle is the causal mask" in svg
    assert "triangle" not in attention_heatmap_svg(make_trace(), 0, None)


def test_mean_of_heads_in_the_heat_map() -> None:
    trace = make_trace()
    root = ElementTree.fromstring(attention_heatmap_svg(trace, 0, None))
    probs = trace.attention(0)
    for cell in root.iter(f"{SPACE}rect"):
        if cell.get("class") == "cell":
            position = int(cell.attrib["data-query"]), int(cell.attrib["data-key"])
            assert float(cell.attrib["data-prob"]) == pytest.approx(float(probs[position]), abs=5.1e-5)


def test_decoder_and_cross() -> None:
    trace = make_trace(["▁Je", "▁suis", "▁étudi", "ant", "</s>"], ["<start>", "▁I", "▁am"])
    svg = attention_svg(trace, part="cross", layer=0)
    assert "Cross-attention" in svg
    assert {(query, key) for _, query, key in drawn_lines(svg)} <= {(q, k) for q in range(3) for k in range(5)}
    assert all(key <= query for _, query, key in drawn_lines(attention_svg(trace, part="decoder", layer=1)))
    assert "Decoder self-attention" in attention_heatmap_svg(trace, 0, 1, "decoder")
    assert "Encoder self-attention" in attention_svg(trace)


def test_hostile_tokens_are_escaped() -> None:
    trace = make_trace(HOSTILE)
    for svg in (
        attention_svg(trace, layer=0),
        attention_svg(trace, word=1, layer=0),
        attention_heatmap_svg(trace, 0, 0),
    ):
        assert "<script" not in svg
        assert "<img" not in svg
        assert "\u202e" not in svg
        root = ElementTree.fromstring(svg)
        assert {node.tag.removeprefix(SPACE) for node in root.iter()} <= TAGS
        svg.encode()  # no half characters
        assert "x" * 5000 in svg  # whole in the tooltip


@pytest.mark.parametrize(
    "settings",
    [
        {"layer": 2},
        {"layer": -1},
        {"layer": True},
        {"layer": "1"},
        {"head": 3},
        {"head": -1},
        {"layer": 0, "head": 3},
        {"word": "dog"},
        {"word": 99},
        {"part": "decoder"},
        {"part": "nonsense"},
    ],
)
def test_wrong_choices_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InputError):
        attention_svg(make_trace(), **settings)  # type: ignore[arg-type]


def test_wrong_traces_are_refused() -> None:
    trace = make_trace()
    with pytest.raises(InputError, match="no attention"):
        attention_svg(replace(trace, layers=[]))
    with pytest.raises(InputError, match="shape"):
        attention_svg(replace(trace, tokens=trace.tokens[:-1]))
    broken = trace.layers[0].probs.copy()
    broken[0, 0, 0] = np.nan
    with pytest.raises(InputError, match="non-finite"):
        attention_svg(replace(trace, layers=[replace(trace.layers[0], probs=broken)]))
    with pytest.raises(InputError, match="513 tokens"):
        attention_svg(make_trace(["a"] * 513, layers=1, heads=1, width=2))


def test_one_token() -> None:
    trace = make_trace(["only"], layers=1, heads=1)
    assert len(drawn_lines(attention_svg(trace))) == 1
    ElementTree.fromstring(attention_heatmap_svg(trace, 0, 0))


def test_no_torch_is_imported() -> None:
    code = "import sys, clearhead.explain; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("family", "config", "parts"),
    [
        ("gpt2", {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 50, "n_positions": 32}, ["encoder"]),
        (
            "t5",
            {"num_layers": 2, "num_heads": 2, "d_model": 16, "d_kv": 8, "d_ff": 32, "vocab_size": 50},
            ["encoder", "decoder", "cross"],
        ),
    ],
)
def test_traces_of_real_models(family: str, config: dict[str, int], parts: list[str]) -> None:
    model = clearhead.create(family, config=config)
    target = [[0, 6, 7]] if "cross" in parts else None
    batch, _ = check_batch(model.shape, [[1, 2, 3, 4, 5]], None, None, target, None)
    traced = run_trace(model.core, batch, list("abcde"), list("xyz") if target else None)
    assert list_parts(traced) == parts
    for part in parts:
        ElementTree.fromstring(attention_svg(traced, part=part))
    assert ("triangle" in attention_heatmap_svg(traced, 0, 0, parts[0])) == (family == "gpt2")
    assert attention_page(traced).startswith("<!doctype html>")
