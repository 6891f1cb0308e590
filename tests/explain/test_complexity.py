"""Complexity measures every layer at every size, fits the growth with n, and finds the crossover."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import exp
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
import torch

import clearhead
from clearhead.core.complexity import LAYERS, TimedShape
from clearhead.errors import InputError
from clearhead.explain.complexity import (
    LAYER_KINDS,
    MAX_ROUNDS,
    Complexity,
    LayerTiming,
    find_crossover,
    measure_until_resolved,
)


def layer_timings(attention: list[float], recurrent: list[float], width: int = 64) -> list[LayerTiming]:
    """Return measured times at lengths 100, 200, 400, ..."""
    return [
        LayerTiming(layer=layer, length=100 * 2**doubling, width=width, ms=ms, fastest_ms=ms, slowest_ms=ms)
        for layer, times in (("attention", attention), ("recurrent", recurrent))
        for doubling, ms in enumerate(times)
    ]


@pytest.fixture(scope="module")
def complexity() -> Complexity:
    return clearhead.complexity([16, 8, 8, 32], [8, 64], kernel=4, threads=1)


def test_every_layer_at_every_size(complexity: Complexity) -> None:
    assert (complexity.lengths, complexity.widths, complexity.kernel, complexity.repeats, complexity.threads) == (
        (8, 16, 32),
        (8, 64),
        4,
        5,
        1,
    )
    assert len(complexity.measured) == 3 * 2 * 4
    for timing in complexity.measured:
        assert 0 < timing.fastest_ms <= timing.ms <= timing.slowest_ms
    assert [kind.name for kind in LAYER_KINDS] == list(LAYERS)
    assert [len(complexity.ms(kind.name, 64)) for kind in LAYER_KINDS] == [3] * 4
    stored = json.loads(json.dumps(complexity.to_json()), parse_constant=pytest.fail)
    assert [row["cost"] for row in stored["table"]] == ["n² d", "n² d + n d²", "n d²", "k n d²"]
    assert [row["sequential_steps"] for row in stored["table"]] == ["1", "1", "n", "1"]
    assert [row["longest_path"] for row in stored["table"]] == ["1", "1", "n", "log_k n"]
    assert "self-attention" in complexity._repr_html_()


@pytest.mark.parametrize("kernel", [1, 2, 3, 8])
def test_every_layer_gives_a_vector_for_each_word(kernel: int) -> None:
    for width in (6, 128):
        x = torch.randn(1, 7, width)
        for kind in LAYERS.values():
            assert kind(width, kernel)(x).shape == x.shape


def test_the_crossover_lies_between_two_lengths() -> None:
    """n^2 and 200 n meet at 200; between two lengths the crossover is interpolated on a log-log scale."""
    on_length = find_crossover(layer_timings([1.0, 4.0, 16.0], [2.0, 4.0, 8.0]), 64)
    assert on_length.length == pytest.approx(200)
    between_lengths = find_crossover(layer_timings([1.0, 4.0, 16.0], [3.0, 6.0, 12.0]), 64)
    assert between_lengths.length == pytest.approx(300)
    assert between_lengths.describe([100, 200, 400]) == "width 64: self-attention is faster up to n ≈ 300 (4.7 d)"
    never = find_crossover(layer_timings([1.0, 2.0], [8.0, 8.0]), 64)
    assert never.length is None
    assert never.describe([100, 200]) == "width 64: self-attention is faster at every length up to 200"
    before_first = find_crossover(layer_timings([9.0, 18.0], [1.0, 2.0]), 64)
    assert before_first.describe([100, 200]) == "width 64: recurrence is faster already at length 100"


def test_by_operations_they_cross_at_n_equals_d() -> None:
    operations = {kind.name: kind.operations for kind in LAYER_KINDS}
    for d in (64, 512):
        assert operations["attention"](d, d, 3) == operations["recurrent"](d, d, 3)
        assert operations["attention"](d // 2, d, 3) < operations["recurrent"](d // 2, d, 3)


def test_growth_is_the_slope_of_logarithms() -> None:
    lengths = (100, 200, 400, 800)
    times = layer_timings([0.001 * n**2 for n in lengths], [0.5 * n for n in lengths])
    sizes = {"kernel": 3, "repeats": 5, "threads": 1}
    complexity = Complexity(lengths=lengths, widths=(64,), measured=tuple(times), crossovers=(), **sizes)
    assert complexity.growth("attention") == pytest.approx(2)
    assert complexity.growth("recurrent") == pytest.approx(1)


LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)


# a round of times as `time_layers` gives them, without a clock
def synthetic_rounds(
    noise: float, seed: int = 0, bursts: float = 0.0
) -> Callable[[], tuple[dict[TimedShape, list[float]], int]]:
    """Return rounds of five times of n^2 and 200 n with log-normal `noise`; a share `bursts` takes ten times longer."""
    random = Random(seed)
    seconds = {"attention": lambda n: 1e-8 * n**2, "recurrent": lambda n: 2e-6 * n}
    seconds_by_layer = seconds | {"projected": seconds["attention"], "convolution": seconds["recurrent"]}

    def time_round() -> tuple[dict[TimedShape, list[float]], int]:
        return {
            (kind.name, length, 64): [
                seconds_by_layer[kind.name](length)
                * exp(random.gauss(0, noise))
                * (10 if random.random() < bursts else 1)
                for _ in range(5)
            ]
            for length in LENGTHS
            for kind in LAYER_KINDS
        }, 1

    return time_round


def test_clean_times_are_resolved_in_one_round() -> None:
    complexity = measure_until_resolved(synthetic_rounds(0.0), LENGTHS, (64,))
    assert (complexity.rounds, complexity.resolved) == (1, True)
    fit = complexity.fit("attention")
    assert (fit.power, fit.low, fit.high, fit.r2) == pytest.approx((2, 2, 2, 1))
    assert complexity.crossovers[0].length == pytest.approx(200)
    assert complexity.crossovers[0].describe(LENGTHS) == "width 64: self-attention is faster up to n ≈ 200 (3.1 d)"
    assert complexity.cost_table()[1][0][-1] == "n^2.00"
    assert "self-attention: n^2.00 (2.00 to 2.00), R² 1.000, repeats spread by 0%" in complexity.notes


@pytest.mark.parametrize("seed", range(8))
def test_a_little_noise_is_resolved_with_its_interval(seed: int) -> None:
    complexity = measure_until_resolved(synthetic_rounds(0.05, seed), LENGTHS, (64,))
    assert complexity.resolved
    for name, truth in (("attention", 2), ("recurrent", 1)):
        fit = complexity.fit(name)
        assert fit.low is not None
        assert fit.high is not None
        assert fit.low - 0.05 < truth < fit.high + 0.05
        assert 0 < fit.high - fit.low < 0.5
        assert fit.power == pytest.approx(truth, abs=0.15)


@pytest.mark.parametrize(("noise", "bursts"), [(1.5, 0.0), (0.8, 0.4), (0.3, 0.5)])
def test_unreliable_exponents_are_never_printed(noise: float, bursts: float) -> None:
    """However noisy the times are, a printed exponent is close to the truth, or reported as unresolved."""
    unresolved_count = 0
    for seed in range(4):
        complexity = measure_until_resolved(synthetic_rounds(noise, seed, bursts), LENGTHS, (64,))
        for kind, (*_, cell) in zip(LAYER_KINDS, complexity.cost_table()[1], strict=True):
            fit = complexity.fit(kind.name)
            assert (fit.power is None) == (cell == "unresolved") == (fit.reason is not None)
            unresolved_count += fit.power is None
            if fit.power is not None:
                truth = 2 if kind.name in ("attention", "projected") else 1
                assert fit.power == pytest.approx(truth, abs=0.5)
        if not complexity.resolved:
            assert complexity.rounds == MAX_ROUNDS
            assert (
                "not resolved: measure again on an idle machine, with longer texts or more repeats" in complexity.notes
            )
    assert unresolved_count >= 4


def test_a_crossing_that_the_repeats_do_not_agree_on_is_not_reported() -> None:
    samples_by_layer = {"attention": [1.0, 2.0, 3.0, 4.0, 9.0], "recurrent": [1.1, 1.9, 3.1, 3.9, 9.1]}
    times = [
        LayerTiming(
            layer=layer, length=length, width=64, ms=3.0, fastest_ms=1.0, slowest_ms=9.0, samples_ms=tuple(samples)
        )
        for layer, samples in samples_by_layer.items()
        for length in (100, 200, 400)
    ]
    crossover = find_crossover(times, 64)
    assert (crossover.length, crossover.resolved) == (None, False)
    assert crossover.describe([100, 200, 400]).startswith("width 64: the crossover is not resolved")


def test_the_same_times_give_the_same_numbers() -> None:
    first, second = (measure_until_resolved(synthetic_rounds(0.2, 3), LENGTHS, (64,)).to_json() for _ in range(2))
    assert first == second
    stored = json.loads(json.dumps(first), parse_constant=pytest.fail)
    assert {"growth", "growth_low", "growth_high", "r2", "spread", "not_resolved"} <= set(stored["table"][0])


def test_pictures(complexity: Complexity, tmp_path: Path) -> None:
    svg = complexity.save(tmp_path / "growth.svg")
    root = ElementTree.parse(svg).getroot()
    svg_text = " ".join("".join(root.itertext()).split())
    assert "self-attention: n² d" in svg_text
    assert "d = 64" in svg_text
    assert svg.read_bytes() == complexity.save(tmp_path / "again.svg").read_bytes()
    assert complexity.save(tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
    page = complexity.save(str(tmp_path / "growth.html")).read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 1
    assert page.count("<table>") == 2
    assert "log_k n" in page
    with pytest.raises(InputError, match=r"growth.gif must end in .svg, .png or .html."):
        complexity.save(tmp_path / "growth.gif")


def test_threads_are_restored() -> None:
    before = torch.get_num_threads()
    assert clearhead.complexity([4], [4], threads=before + 1).threads == before + 1
    assert torch.get_num_threads() == before


def test_one_length_has_no_growth() -> None:
    complexity = clearhead.complexity([4], [4], threads=1)
    assert complexity.growth("attention") is None
    assert complexity.to_json()["table"][0]["growth"] is None
    assert complexity.crossovers[0].length is None
