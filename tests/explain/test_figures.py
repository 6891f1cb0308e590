"""Alignments, beam trees, steps and positions show what the model computed in all formats and never run their texts."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import clearhead
from clearhead import Model
from clearhead.errors import InputError, MissingExtraError
from clearhead.explain import (
    alignment,
    alignment_page,
    alignment_svg,
    beam_tree,
    beams_svg,
    decoding_steps,
    png,
    positions,
    positions_svg,
    save_alignment,
    save_attention,
    save_beams,
    save_positions,
    save_steps,
    steps_svg,
    trace_generated,
)
from clearhead.explain.figure import figure_page
from clearhead.explain.positions import _find_buckets, sinusoids
from clearhead.explain.svg import raster
from clearhead.model.generation import TextGenerator
from tests.decode.texts import load_text_model
from tests.explain.traces import HOSTILE, make_trace

TEXT = "The old lighthouse keeper"
SPACE = "{http://www.w3.org/2000/svg}"


@cache
def create_recurrent(attention: str) -> Model:
    sizes = {"vocab_size": 640, "width": 16, "encoder_layers": 1, "decoder_layers": 1, "attention": attention}
    ids = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    tokenizer = load_text_model("t5").tokenizer
    return clearhead.create("rnn", config=sizes | ids, head="seq2seq", tokenizer=tokenizer, seed=1)


def make_translation_trace(*tokens: str, **settings: Any) -> Any:
    """Return a trace whose target positions are labeled with the generated tokens."""
    trace = make_trace(["▁das", "▁Ha", "us", "</s>"], ["<start>", *tokens[:-1]], **settings)
    return replace(trace, next_tokens=list(tokens))


@pytest.mark.parametrize("family", ["t5", "marian"])
def test_a_model_writes_its_own_target(family: str) -> None:
    model = load_text_model(family)
    trace = trace_generated(model, TEXT, num_beams=3, max_length=6)
    hypothesis = model.generate([TEXT], num_beams=3, max_length=6)[0]
    tokenizer = model.target_tokenizer or model.tokenizer
    assert trace.next_tokens == tokenizer.tokens(hypothesis.ids)
    assert trace.target_tokens == ["<start>", *trace.next_tokens[:-1]]
    matrix = alignment(trace, special=True)
    assert matrix.probs.shape == (len(hypothesis.ids), len(trace.tokens))
    np.testing.assert_allclose(matrix.probs, trace.cross[matrix.layer].probs.mean(0))
    # a row is the attention of the decoder while it generated that token
    forced = model.trace(TEXT, target=hypothesis.ids)
    np.testing.assert_allclose(forced.cross[0].probs, trace.cross[0].probs, atol=1e-6)


def test_a_recurrent_model_with_and_without_attention() -> None:
    trace = trace_generated(create_recurrent("additive"), TEXT, max_length=5)
    matrix = alignment(trace)
    np.testing.assert_allclose(matrix.probs.sum(1) + matrix.special_share, 1.0, atol=1e-5)
    assert (matrix.layers, matrix.heads) == (1, 1)
    assert "mean of all heads" not in alignment_svg(trace)
    unattended = trace_generated(create_recurrent("none"), TEXT, max_length=5)
    with pytest.raises(InputError, match="no cross-attention, so there is no alignment"):
        alignment_svg(unattended)
    with pytest.raises(InputError, match="pass target= to trace"):
        alignment(make_trace())
    with pytest.raises(InputError, match="no decoder"):
        trace_generated(load_text_model("gpt2"), TEXT)


def test_a_layer_a_head_and_the_most_focused_layer() -> None:
    trace = make_translation_trace("▁the", "▁ho", "use", "</s>", layers=3, heads=2)
    matrix = alignment(trace, layer=1, head=1)
    np.testing.assert_array_equal(matrix.probs, trace.cross[1].probs[1, :-1, :-1])
    np.testing.assert_array_equal(alignment(trace, layer=1, head=1, special=True).probs, trace.cross[1].probs[1])
    focus = [float((layer.probs.mean(0)[:-1, :-1] ** 2).sum()) for layer in trace.cross]
    assert alignment(trace).layer == int(np.argmax(focus))
    for layer, head in ((3, None), (None, 2), (0, -1)):
        with pytest.raises(InputError, match="There is no"):
            alignment(trace, layer=layer, head=head)


def test_tokens_of_a_word_are_merged() -> None:
    trace = make_translation_trace("▁the", "▁ho", "use", "</s>")
    matrix = alignment(trace, layer=0, words=True, special=True)
    assert [token.label for token in matrix.source] == ["das", "Haus", "</s>"]
    assert [token.label for token in matrix.target] == ["the", "house", "</s>"]
    token_probs = trace.cross[0].probs.mean(0)
    house_probs = token_probs[1:3].mean(0)
    np.testing.assert_allclose(
        matrix.probs[1], [house_probs[0], house_probs[1] + house_probs[2], house_probs[3]], rtol=1e-5
    )
    np.testing.assert_allclose(matrix.probs.sum(1), 1.0, atol=1e-6)
    hidden = alignment(trace, layer=0, words=True)
    assert [token.label for token in hidden.target] == ["the", "house"]
    np.testing.assert_allclose(hidden.probs, matrix.probs[:2, :2])
    np.testing.assert_allclose(hidden.special_share, matrix.probs[:2, 2])


def test_the_picture_of_an_alignment() -> None:
    trace = make_translation_trace("▁the", "▁ho", "use", "</s>")
    root = ElementTree.fromstring(alignment_svg(trace, layer=0, special=True))
    squares = [square.attrib for square in root.iter(f"{SPACE}rect") if square.get("data-prob")]
    cells = {(int(square["data-query"]), int(square["data-key"])) for square in squares}
    assert cells == {(row, column) for row in range(4) for column in range(4)}
    labels = [text.text for text in root.iter(f"{SPACE}text") if text.get("class") == "token"]
    assert labels == ["the", "ho", "-use", "</s>", "das", "Ha", "-us", "</s>"]
    root = ElementTree.fromstring(alignment_svg(trace, layer=0))
    labels = [text.text for text in root.iter(f"{SPACE}text") if text.get("class") == "token"]
    assert labels == ["the", "ho", "-use", "das", "Ha", "-us"]
    page = alignment_page(trace)
    assert '"view":"heat"' in page
    assert '"part":"cross"' in page


@pytest.mark.parametrize("runtime", ["core", "engine"])
@pytest.mark.parametrize("family", ["t5", "marian", "gpt2"])
def test_the_tree_is_the_search(family: str, runtime: str) -> None:
    model = load_text_model(family, runtime)
    tree = beam_tree(model, TEXT, num_beams=3, max_length=6)
    best = model.generate([TEXT], num_beams=3, num_return_sequences=3, max_length=6)[0].best
    assert [text for text, _, _ in tree.answers] == [hypothesis.text for hypothesis in best]
    np.testing.assert_allclose(
        [score for _, score, _ in tree.answers], [hypothesis.score for hypothesis in best], rtol=1e-5
    )
    best_path = [node for node in tree.nodes if node.in_answer]
    assert [node.id for node in best_path] == list(best[0].ids)
    assert best_path[-1].finished_score == pytest.approx(best[0].score)
    finished_scores = sorted(
        (node.finished_score for node in tree.nodes if node.finished_score is not None), reverse=True
    )
    np.testing.assert_allclose(finished_scores[:3], [hypothesis.score for hypothesis in best], rtol=1e-5)
    for step in range(1, tree.steps + 1):
        continued = [node for node in tree.nodes if node.step == step and node.is_continued]
        assert len(continued) <= 3
        for node in (node for node in tree.nodes if node.step == step):
            parent_score = 0.0 if node.parent < 0 else tree.nodes[node.parent].score
            assert node.parent < 0 or (
                tree.nodes[node.parent].is_continued and tree.nodes[node.parent].step == step - 1
            )
            assert node.probability == pytest.approx(np.exp(node.score - parent_score))
    # the probabilities are the model's own
    for node_index in (len(tree.nodes) - 1, 1):
        ids = [node.id for node in tree.path_to(node_index)]
        logits = list(TextGenerator(model, max_length=9).teacher_force(TEXT, ids))[-1][0].astype(np.float64)
        probs = np.exp(logits - logits.max())
        assert tree.nodes[node_index].probability == pytest.approx(probs[ids[-1]] / probs.sum(), rel=1e-3)


def test_groups_and_ends_of_a_tree() -> None:
    tree = beam_tree(load_text_model("gpt2"), TEXT, num_beams=4, num_beam_groups=2, diversity_penalty=0.5, max_length=5)
    assert {node.group for node in tree.nodes} == {0, 1}
    assert sum(node.in_answer for node in tree.nodes) == 5
    with pytest.raises(InputError, match="num_beams must be at least 2 to draw a tree, got 1"):
        beam_tree(load_text_model("gpt2"), TEXT, num_beams=1)
    with pytest.raises(InputError, match="no text to decode"):
        beam_tree(load_text_model("t5"), "  ")
    with pytest.raises(InputError, match=r"at most 1,200 are drawn"):
        beams_svg(beam_tree(load_text_model("t5"), TEXT, num_beams=16, max_length=90, min_length=90))


def test_an_observed_search_finds_the_same() -> None:
    model = load_text_model("marian")
    generator = TextGenerator(model, num_beams=4, num_return_sequences=4, max_length=8)
    steps: list[Any] = []
    observed = generator.generate_hypotheses(TEXT, steps.append)
    assert [hypothesis.ids for hypothesis in observed] == [
        hypothesis.ids for hypothesis in generator.generate_hypotheses(TEXT, None)
    ]
    assert [step.length for step in steps] == list(range(len(steps)))


@pytest.mark.parametrize("runtime", ["core", "engine"])
@pytest.mark.parametrize("family", ["t5", "gpt2"])
def test_steps_are_those_of_the_decoder(family: str, runtime: str) -> None:
    model = load_text_model(family, runtime)
    decoded = decoding_steps(model, TEXT, top=4, max_length=5)
    hypothesis = model.generate([TEXT], max_length=5)[0]
    assert tuple(step.chosen.id for step in decoded.steps) == hypothesis.ids
    assert all(step.rank == 1 and step.candidates[0].is_chosen for step in decoded.steps)
    assert sum(np.log(step.chosen.probability) for step in decoded.steps) / 5 == pytest.approx(
        hypothesis.score, rel=1e-4
    )
    for step in decoded.steps:
        probs = [candidate.probability for candidate in step.candidates]
        assert (len(probs), probs) == (4, sorted(probs, reverse=True))
    assert decoded.opening == ("<start>" if family == "t5" else "… keeper")
    searched = decoding_steps(model, TEXT, num_beams=4, max_length=5)
    assert tuple(step.chosen.id for step in searched.steps) == model.generate([TEXT], num_beams=4, max_length=5)[0].ids


def test_a_target_is_followed_and_constraints_are_shown() -> None:
    model = load_text_model("t5")
    decoded = decoding_steps(model, TEXT, target="rain fell", top=1)
    ids = model.tokenizer.encode("rain fell").ids
    assert [step.chosen.id for step in decoded.steps] == ids
    assert any(step.rank > 1 for step in decoded.steps)
    assert steps_svg(decoded).count('class="candidate"') == sum(1 + (step.rank > 1) for step in decoded.steps)
    unconstrained = decoding_steps(model, TEXT, max_length=1).steps[0]
    constrained = decoding_steps(model, TEXT, max_length=1, bad_words=[(unconstrained.chosen.id,)]).steps[0]
    assert constrained.chosen.id == unconstrained.candidates[1].id
    assert [(candidate.allowed, candidate.is_chosen) for candidate in constrained.candidates[:2]] == [
        (False, False),
        (True, True),
    ]
    assert constrained.candidates[0].probability == pytest.approx(unconstrained.chosen.probability, rel=1e-5)
    with pytest.raises(InputError, match="top must be"):
        decoding_steps(model, TEXT, top=0)


def test_sinusoids_and_buckets_are_those_of_the_core() -> None:
    import torch

    from clearhead.core.positions import BucketBias
    from clearhead.core.positions import sinusoids as truth

    for width, halves in ((8, False), (9, False), (10, True)):
        expected = truth(torch.arange(20), width, halves=halves).numpy()
        np.testing.assert_allclose(sinusoids(20, width, halves=halves), expected, atol=1e-12)
    shape = load_text_model("t5").shape.stack
    distances = np.arange(-150, 151)
    np.testing.assert_array_equal(
        _find_buckets(distances, shape), BucketBias(shape).bucket(torch.from_numpy(distances)).numpy()
    )


@pytest.mark.parametrize("runtime", ["core", "engine"])
def test_positions_of_every_kind(runtime: str) -> None:
    sinusoidal = positions(load_text_model("marian", runtime))
    assert sinusoidal.kind == "sinusoidal_halves"
    similarity = sinusoidal.similarity
    assert similarity is not None
    assert similarity[5, 6] > similarity[5, 8] > similarity[5, 12]  # nearer is more alike
    learned = positions(load_text_model("gpt2", runtime), 50)
    np.testing.assert_allclose(
        learned.table, load_text_model("gpt2", runtime).tensor("stack.positions.table.weight")[:50]
    )
    distances = positions(load_text_model("t5", runtime))
    assert (distances.kind, distances.first, distances.similarity) == ("buckets", -64, None)
    for model_positions in (sinusoidal, learned, distances):
        assert ElementTree.fromstring(positions_svg(model_positions)).tag == f"{SPACE}svg"
    with pytest.raises(InputError, match="reads in order"):
        positions(create_recurrent("none"))
    with pytest.raises(InputError, match="count must be"):
        positions(load_text_model("t5"), 1)


def save_figures(folder: Path, suffix: str) -> list[Path]:
    trace, model = make_translation_trace("▁the", "▁ho", "use", "</s>"), load_text_model("t5")
    return [
        save_alignment(trace, folder / f"a{suffix}"),
        save_alignment(trace, folder / f"w{suffix}", words=True),
        save_attention(trace, folder / f"l{suffix}"),
        save_beams(beam_tree(model, TEXT, num_beams=2, max_length=4), folder / f"b{suffix}"),
        save_steps(decoding_steps(model, TEXT, max_length=4), folder / f"s{suffix}"),
        save_positions(positions(load_text_model("marian")), folder / f"p{suffix}"),
    ]


def test_every_figure_in_every_format(tmp_path: Path) -> None:
    for path in save_figures(tmp_path, ".json"):
        assert json.loads(path.read_text())
    for path in save_figures(tmp_path, ".svg"):
        root = ElementTree.parse(path).getroot()
        assert root.attrib["role"] == "img"
        assert root[1].text
    for path in save_figures(tmp_path, ".html"):
        assert "default-src 'none'" in path.read_text()
    for path in save_figures(tmp_path, ".png"):
        data = path.read_bytes()
        width, height = struct.unpack(">II", data[16:24])
        assert data[:4] == b"\x89PNG"
        assert min(width, height) > 300
    with pytest.raises(InputError, match=r"must end in \.svg, \.png, \.html or \.json"):
        save_positions(positions(load_text_model("marian")), tmp_path / "p.pdf")


def test_png_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raster, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"clearhead\[train\]"):
        save_attention(make_trace(), tmp_path / "a.png")


def test_a_png_has_the_colors_of_its_picture() -> None:
    import io

    from matplotlib.image import imread

    svg = alignment_svg(make_translation_trace("▁the", "▁ho", "use", "</s>"), layer=0)
    pixels = imread(io.BytesIO(png(svg)), format="png")
    for square in (rect for rect in ElementTree.fromstring(svg).iter(f"{SPACE}rect") if rect.get("data-prob")):
        x, y = (2 * (float(square.attrib[name]) + 4) for name in ("x", "y"))
        opacity = float(square.attrib["fill-opacity"])
        blue = np.array([0x1B, 0x4F, 0x8F]) / 255
        np.testing.assert_allclose(pixels[int(y), int(x), :3], opacity * blue + 1 - opacity, atol=0.02)


def test_hostile_words_are_shown_and_never_run(tmp_path: Path) -> None:
    trace = replace(make_trace(HOSTILE, HOSTILE), next_tokens=HOSTILE)
    model = load_text_model("gpt2")
    hostile = "<script>alert(1)</script> שלום 日本 👩‍👩‍👧 \u202e ${x} $a_b$"
    for suffix in (".svg", ".html", ".png", ".json"):
        for path in (
            save_alignment(trace, tmp_path / f"a{suffix}", words=True),
            save_alignment(trace, tmp_path / f"b{suffix}"),
            save_beams(
                beam_tree(model, hostile, num_beams=2, max_length=3), tmp_path / f"c{suffix}", source_note=hostile
            ),
            save_steps(decoding_steps(model, hostile, max_length=3), tmp_path / f"d{suffix}", source_note=hostile),
        ):
            if suffix == ".png":
                continue
            text = path.read_text()
            assert "<script>alert" not in text
            assert "<img" not in text
            assert "\u202e" not in text
    page = figure_page("<b>&", alignment_svg(trace), tables={"<i>": (("<u>",), [("<script>",)])})
    assert not any(f"<{tag}>" in page for tag in ("b", "i", "u", "script"))
