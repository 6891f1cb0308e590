"""What complexity measures: every layer at every size, medians, the growth with n, and where two lines cross."""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import clearhead
from clearhead.core.complexity import LAYERS
from clearhead.errors import InputError
from clearhead.runs.complexity import KINDS, Complexity, Timed, crossover


def timed(attention: list[float], recurrent: list[float], width: int = 64) -> list[Timed]:
    """Measured times at lengths 100, 200, 400, ..."""
    return [
        Timed(layer=layer, length=100 * 2**place, width=width, ms=ms, fastest_ms=ms, slowest_ms=ms)
        for layer, times in (("attention", attention), ("recurrent", recurrent))
        for place, ms in enumerate(times)
    ]


@pytest.fixture(scope="module")
def made() -> Complexity:
    return clearhead.complexity([16, 8, 8, 32], [8, 64], kernel=4, threads=1)


def test_every_layer_at_every_size(made: Complexity) -> None:
    assert (made.lengths, made.widths, made.kernel, made.repeats, made.threads) == ((8, 16, 32), (8, 64), 4, 5, 1)
    assert len(made.measured) == 3 * 2 * 4
    for one in made.measured:
        assert 0 < one.fastest_ms <= one.ms <= one.slowest_ms
    assert [kind.name for kind in KINDS] == list(LAYERS)
    assert [len(made.ms(kind.name, 64)) for kind in KINDS] == [3] * 4
    told = json.loads(json.dumps(made.to_json()), parse_constant=pytest.fail)
    assert [row["cost"] for row in told["table"]] == ["n² d", "n² d + n d²", "n d²", "k n d²"]
    assert [row["sequential_steps"] for row in told["table"]] == ["1", "1", "n", "1"]
    assert [row["longest_path"] for row in told["table"]] == ["1", "1", "n", "log_k n"]
    assert "self-attention" in made._repr_html_()


@pytest.mark.parametrize("kernel", [1, 2, 3, 8])
def test_every_layer_gives_a_vector_for_each_word(kernel: int) -> None:
    for width in (6, 128):
        x = torch.randn(1, 7, width)
        for kind in LAYERS.values():
            assert kind(width, kernel)(x).shape == x.shape


def test_the_crossover_lies_between_two_lengths() -> None:
    """n^2 against 200 n meets at 200; between two lengths, on a straight line of logarithms."""
    at = crossover(timed([1.0, 4.0, 16.0], [2.0, 4.0, 8.0]), 64)
    assert at.length == pytest.approx(200)
    between = crossover(timed([1.0, 4.0, 16.0], [3.0, 6.0, 12.0]), 64)
    assert between.length == pytest.approx(300)
    assert between.said([100, 200, 400]) == "width 64: self-attention is faster up to n ≈ 300 (4.7 d)"
    never = crossover(timed([1.0, 2.0], [8.0, 8.0]), 64)
    assert never.length is None
    assert never.said([100, 200]) == "width 64: self-attention is faster at every length up to 200"
    already = crossover(timed([9.0, 18.0], [1.0, 2.0]), 64)
    assert already.said([100, 200]) == "width 64: recurrence is faster already at length 100"


def test_by_operations_they_cross_at_n_equals_d() -> None:
    counted = {kind.name: kind.operations for kind in KINDS}
    for d in (64, 512):
        assert counted["attention"](d, d, 3) == counted["recurrent"](d, d, 3)
        assert counted["attention"](d // 2, d, 3) < counted["recurrent"](d // 2, d, 3)


def test_growth_is_the_slope_of_logarithms() -> None:
    lengths = (100, 200, 400, 800)
    times = timed([0.001 * n**2 for n in lengths], [0.5 * n for n in lengths])
    sizes = {"kernel": 3, "repeats": 5, "threads": 1}
    made = Complexity(lengths=lengths, widths=(64,), measured=tuple(times), crossovers=(), **sizes)
    assert made.growth("attention") == pytest.approx(2)
    assert made.growth("recurrent") == pytest.approx(1)


def test_attention_grows_faster_than_recurrence() -> None:
    """On any machine: of eight times the length, attention takes about sixty-four times, and recurrence eight."""
    made = clearhead.complexity([256, 2048], [64], threads=1)
    fastest = {(one.layer, one.length): one.fastest_ms for one in made.measured}
    power = {name: math.log(fastest[name, 2048] / fastest[name, 256], 8) for name in ("attention", "recurrent")}
    assert power["attention"] > power["recurrent"] + 0.3


def test_pictures(made: Complexity, tmp_path: Path) -> None:
    svg = made.save(tmp_path / "growth.svg")
    root = ElementTree.parse(svg).getroot()
    said = " ".join("".join(root.itertext()).split())
    assert "self-attention: n² d" in said
    assert "d = 64" in said
    assert svg.read_bytes() == made.save(tmp_path / "again.svg").read_bytes()
    assert made.save(tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
    page = made.save(str(tmp_path / "growth.html")).read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 1
    assert page.count("<table>") == 2
    assert "log_k n" in page
    with pytest.raises(InputError, match=r"growth.gif must end in .svg, .png or .html."):
        made.save(tmp_path / "growth.gif")


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    assert clearhead.complexity([4], [4], threads=before + 1).threads == before + 1
    assert torch.get_num_threads() == before


def test_one_length_has_no_growth() -> None:
    made = clearhead.complexity([4], [4], threads=1)
    assert made.growth("attention") is None
    assert made.to_json()["table"][0]["growth"] is None
    assert made.crossovers[0].length is None
