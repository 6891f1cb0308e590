"""Alignments, beam trees, steps and positions say what the model did, in every form, and never run what they show."""

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
def recurrent(attention: str) -> Model:
    sizes = {"vocab_size": 640, "width": 16, "encoder_layers": 1, "decoder_layers": 1, "attention": attention}
    ids = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    tokenizer = load_text_model("t5").tokenizer
    return clearhead.create("rnn", config=sizes | ids, head="seq2seq", tokenizer=tokenizer, seed=1)


def written(*tokens: str, **choices: Any) -> Any:
    """A trace whose target places are named by the words that were written."""
    trace = make_trace(["▁das", "▁Ha", "us", "</s>"], ["<start>", *tokens[:-1]], **choices)
    return replace(trace, next_tokens=list(tokens))


@pytest.mark.parametrize("family", ["t5", "marian"])
def test_a_model_writes_its_own_target(family: str) -> None:
    model = load_text_model(family)
    trace = trace_generated(model, TEXT, num_beams=3, max_length=6)
    best = model.generate([TEXT], num_beams=3, max_length=6)[0]
    tokenizer = model.target_tokenizer or model.tokenizer
    assert trace.next_tokens == tokenizer.tokens(best.ids)
    assert trace.target_tokens == ["<start>", *trace.next_tokens[:-1]]
    found = alignment(trace, special=True)
    assert found.probs.shape == (len(best.ids), len(trace.tokens))
    np.testing.assert_allclose(found.probs, trace.cross[found.layer].probs.mean(0))
    # a row is where the decoder looked while it wrote that word
    forced = model.trace(TEXT, target=best.ids)
    np.testing.assert_allclose(forced.cross[0].probs, trace.cross[0].probs, atol=1e-6)


def test_the_recurrent_ancestor_with_and_without_attention() -> None:
    trace = trace_generated(recurrent("additive"), TEXT, max_length=5)
    found = alignment(trace)
    np.testing.assert_allclose(found.probs.sum(1) + found.special_share, 1.0, atol=1e-5)
    assert (found.layers, found.heads) == (1, 1)
    assert "mean of all heads" not in alignment_svg(trace)
    none = trace_generated(recurrent("none"), TEXT, max_length=5)
    with pytest.raises(InputError, match="no cross-attention, so there is no alignment"):
        alignment_svg(none)
    with pytest.raises(InputError, match="pass target= to trace"):
        alignment(make_trace())
    with pytest.raises(InputError, match="no decoder"):
        trace_generated(load_text_model("gpt2"), TEXT)


def test_a_layer_a_head_and_the_firmest() -> None:
    trace = written("▁the", "▁ho", "use", "</s>", layers=3, heads=2)
    found = alignment(trace, layer=1, head=1)
    np.testing.assert_array_equal(found.probs, trace.cross[1].probs[1, :-1, :-1])
    np.testing.assert_array_equal(alignment(trace, layer=1, head=1, special=True).probs, trace.cross[1].probs[1])
    firm = [float((layer.probs.mean(0)[:-1, :-1] ** 2).sum()) for layer in trace.cross]
    assert alignment(trace).layer == int(np.argmax(firm))
    for layer, head in ((3, None), (None, 2), (0, -1)):
        with pytest.raises(InputError, match="There is no"):
            alignment(trace, layer=layer, head=head)


def test_tokens_of_a_word_are_taken_together() -> None:
    trace = written("▁the", "▁ho", "use", "</s>")
    found = alignment(trace, layer=0, words=True, special=True)
    assert [token.label for token in found.source] == ["das", "Haus", "</s>"]
    assert [token.label for token in found.target] == ["the", "house", "</s>"]
    whole = trace.cross[0].probs.mean(0)
    house = whole[1:3].mean(0)
    np.testing.assert_allclose(found.probs[1], [house[0], house[1] + house[2], house[3]], rtol=1e-5)
    np.testing.assert_allclose(found.probs.sum(1), 1.0, atol=1e-6)
    hidden = alignment(trace, layer=0, words=True)
    assert [token.label for token in hidden.target] == ["the", "house"]
    np.testing.assert_allclose(hidden.probs, found.probs[:2, :2])
    np.testing.assert_allclose(hidden.special_share, found.probs[:2, 2])


def test_the_picture_of_an_alignment() -> None:
    trace = written("▁the", "▁ho", "use", "</s>")
    root = ElementTree.fromstring(alignment_svg(trace, layer=0, special=True))
    squares = [one.attrib for one in root.iter(f"{SPACE}rect") if one.get("data-prob")]
    cells = {(int(one["data-query"]), int(one["data-key"])) for one in squares}
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
    assert [text for text, _, _ in tree.answers] == [one.text for one in best]
    np.testing.assert_allclose([score for _, score, _ in tree.answers], [one.score for one in best], rtol=1e-5)
    way = [node for node in tree.nodes if node.in_answer]
    assert [node.id for node in way] == list(best[0].ids)
    assert way[-1].finished_score == pytest.approx(best[0].score)
    ended = sorted((node.finished_score for node in tree.nodes if node.finished_score is not None), reverse=True)
    np.testing.assert_allclose(ended[:3], [one.score for one in best], rtol=1e-5)
    for step in range(1, tree.steps + 1):
        kept = [node for node in tree.nodes if node.step == step and node.is_continued]
        assert len(kept) <= 3
        for node in (node for node in tree.nodes if node.step == step):
            before = 0.0 if node.parent < 0 else tree.nodes[node.parent].score
            assert node.parent < 0 or (
                tree.nodes[node.parent].is_continued and tree.nodes[node.parent].step == step - 1
            )
            assert node.probability == pytest.approx(np.exp(node.score - before))
    # the probabilities are the model's own
    for number in (len(tree.nodes) - 1, 1):
        ids = [node.id for node in tree.path_to(number)]
        logits = list(TextGenerator(model, max_length=9).teacher_force(TEXT, ids))[-1][0].astype(np.float64)
        probs = np.exp(logits - logits.max())
        assert tree.nodes[number].probability == pytest.approx(probs[ids[-1]] / probs.sum(), rel=1e-3)


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


def test_a_watched_search_finds_the_same() -> None:
    model = load_text_model("marian")
    writer = TextGenerator(model, num_beams=4, num_return_sequences=4, max_length=8)
    seen: list[Any] = []
    watched = writer.generate_hypotheses(TEXT, seen.append)
    assert [one.ids for one in watched] == [one.ids for one in writer.generate_hypotheses(TEXT, None)]
    assert [step.length for step in seen] == list(range(len(seen)))


@pytest.mark.parametrize("runtime", ["core", "engine"])
@pytest.mark.parametrize("family", ["t5", "gpt2"])
def test_steps_are_what_the_decoder_thought(family: str, runtime: str) -> None:
    model = load_text_model(family, runtime)
    found = decoding_steps(model, TEXT, top=4, max_length=5)
    best = model.generate([TEXT], max_length=5)[0]
    assert tuple(step.chosen.id for step in found.steps) == best.ids
    assert all(step.rank == 1 and step.candidates[0].is_chosen for step in found.steps)
    assert sum(np.log(step.chosen.probability) for step in found.steps) / 5 == pytest.approx(best.score, rel=1e-4)
    for step in found.steps:
        shares = [one.probability for one in step.candidates]
        assert (len(shares), shares) == (4, sorted(shares, reverse=True))
    assert found.opening == ("<start>" if family == "t5" else "… keeper")
    searched = decoding_steps(model, TEXT, num_beams=4, max_length=5)
    assert tuple(step.chosen.id for step in searched.steps) == model.generate([TEXT], num_beams=4, max_length=5)[0].ids


def test_a_target_is_followed_and_rules_are_told() -> None:
    model = load_text_model("t5")
    found = decoding_steps(model, TEXT, target="rain fell", top=1)
    ids = model.tokenizer.encode("rain fell").ids
    assert [step.chosen.id for step in found.steps] == ids
    assert any(step.rank > 1 for step in found.steps)
    assert steps_svg(found).count('class="candidate"') == sum(1 + (step.rank > 1) for step in found.steps)
    free = decoding_steps(model, TEXT, max_length=1).steps[0]
    barred = decoding_steps(model, TEXT, max_length=1, bad_words=[(free.chosen.id,)]).steps[0]
    assert barred.chosen.id == free.candidates[1].id
    assert [(one.allowed, one.is_chosen) for one in barred.candidates[:2]] == [(False, False), (True, True)]
    assert barred.candidates[0].probability == pytest.approx(free.chosen.probability, rel=1e-5)
    with pytest.raises(InputError, match="top must be"):
        decoding_steps(model, TEXT, top=0)


def test_the_waves_are_those_of_the_core() -> None:
    import torch

    from clearhead.core.positions import BucketBias
    from clearhead.core.positions import sinusoids as truth

    for width, halves in ((8, False), (9, False), (10, True)):
        expected = truth(torch.arange(20), width, halves=halves).numpy()
        np.testing.assert_allclose(sinusoids(20, width, halves=halves), expected, atol=1e-12)
    shape = load_text_model("t5").shape.stack
    gaps = np.arange(-150, 151)
    np.testing.assert_array_equal(_find_buckets(gaps, shape), BucketBias(shape).bucket(torch.from_numpy(gaps)).numpy())


@pytest.mark.parametrize("runtime", ["core", "engine"])
def test_positions_of_every_kind(runtime: str) -> None:
    waves = positions(load_text_model("marian", runtime))
    assert waves.kind == "sinusoidal_halves"
    like = waves.similarity
    assert like is not None
    assert like[5, 6] > like[5, 8] > like[5, 12]  # nearer is more alike
    learned = positions(load_text_model("gpt2", runtime), 50)
    np.testing.assert_allclose(
        learned.table, load_text_model("gpt2", runtime).tensor("stack.positions.table.weight")[:50]
    )
    distances = positions(load_text_model("t5", runtime))
    assert (distances.kind, distances.first, distances.similarity) == ("buckets", -64, None)
    for found in (waves, learned, distances):
        assert ElementTree.fromstring(positions_svg(found)).tag == f"{SPACE}svg"
    with pytest.raises(InputError, match="reads in order"):
        positions(recurrent("none"))
    with pytest.raises(InputError, match="count must be"):
        positions(load_text_model("t5"), 1)


def saved(folder: Path, suffix: str) -> list[Path]:
    trace, model = written("▁the", "▁ho", "use", "</s>"), load_text_model("t5")
    return [
        save_alignment(trace, folder / f"a{suffix}"),
        save_alignment(trace, folder / f"w{suffix}", words=True),
        save_attention(trace, folder / f"l{suffix}"),
        save_beams(beam_tree(model, TEXT, num_beams=2, max_length=4), folder / f"b{suffix}"),
        save_steps(decoding_steps(model, TEXT, max_length=4), folder / f"s{suffix}"),
        save_positions(positions(load_text_model("marian")), folder / f"p{suffix}"),
    ]


def test_every_kind_in_every_form(tmp_path: Path) -> None:
    for path in saved(tmp_path, ".json"):
        assert json.loads(path.read_text())
    for path in saved(tmp_path, ".svg"):
        root = ElementTree.parse(path).getroot()
        assert root.attrib["role"] == "img"
        assert root[1].text
    for path in saved(tmp_path, ".html"):
        assert "default-src 'none'" in path.read_text()
    for path in saved(tmp_path, ".png"):
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


def test_a_png_has_the_colours_of_its_picture() -> None:
    import io

    from matplotlib.image import imread

    svg = alignment_svg(written("▁the", "▁ho", "use", "</s>"), layer=0)
    pixels = imread(io.BytesIO(png(svg)), format="png")
    for square in (one for one in ElementTree.fromstring(svg).iter(f"{SPACE}rect") if one.get("data-prob")):
        x, y = (2 * (float(square.attrib[name]) + 4) for name in ("x", "y"))
        dark = float(square.attrib["fill-opacity"])
        blue = np.array([0x1B, 0x4F, 0x8F]) / 255
        np.testing.assert_allclose(pixels[int(y), int(x), :3], dark * blue + 1 - dark, atol=0.02)


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
