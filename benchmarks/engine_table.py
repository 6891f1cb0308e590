"""The Markdown of benchmarks/engine.py out of the files that it left: medians, ratios, shares, promises."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine_columns import COLUMNS

PEER = "sentence-transformers"
HEADS = (
    "",
    "texts/s",
    "ratio",
    "one text, p50 ms",
    "p99 ms",
    "load s",
    "memory MB",
    "cosine, mean",
    "worst",
    "share of peak",
    "setting",
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One column's figures."""

    speed: float
    ratio: float  # to sentence-transformers, median over rounds
    p50: float
    p99: float
    load: float
    memory: float
    mean: float
    worst: float
    share: float | None
    setting: Sequence[int] | None


def operations(config: Mapping[str, Any], lengths: Sequence[int]) -> float:
    """Operations of the matrix products that a BERT of this shape needs for real tokens, per text on average."""
    width, inner, layers = (config[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    each = 2 * (4 * width * width + 2 * width * inner)
    return float(layers) * statistics.fmean(length * each + 4 * width * length * length for length in lengths)


def read(folder: Path, pattern: str) -> list[dict[str, Any]]:
    """Every file of a kind."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(pattern))]


def lines(folder: Path, config: Mapping[str, Any]) -> dict[str, Line]:
    """All columns that were measured."""
    rounds, starts = read(folder, "round-*.json"), read(folder, "start-*.json")
    (chosen,), (cosines,) = read(folder, "chosen.json"), read(folder, "vectors.json")
    needed = operations(config, chosen["lengths"])
    made = {}
    for name, column in COLUMNS.items():
        if not all(name in one for one in rounds):
            continue
        speeds = [one[name]["texts_per_second"] for one in rounds]
        ratios = [one[name]["texts_per_second"] / one[PEER]["texts_per_second"] for one in rounds if PEER in one]
        spent = sorted(ms for one in rounds for ms in one[name]["ms"])
        peaks = [one["peak"]["int8" if column.int8 else "float"] for one in rounds if "peak" in one]
        made[name] = Line(
            speed=statistics.median(speeds),
            ratio=statistics.median(ratios) if ratios else float("nan"),
            p50=statistics.median(spent),
            p99=spent[min(int(0.99 * len(spent)), len(spent) - 1)],
            load=statistics.median(one[name]["seconds"] for one in starts),
            memory=statistics.median(one[name]["resident_mb"] or float("nan") for one in starts),
            mean=cosines[name][0],
            worst=cosines[name][1],
            share=statistics.median(speeds) * needed / max(peaks) if peaks else None,
            setting=chosen["settings"].get(name),
        )
    return made


def section(title: str, folder: Path, config: Mapping[str, Any], threads: int) -> str:
    """One row of the benchmark as Markdown."""
    found = lines(folder, config)
    (chosen,), rounds = read(folder, "chosen.json"), read(folder, "round-*.json")
    tokens = statistics.fmean(chosen["lengths"])
    measured = f"{len(chosen['lengths'])} texts of {tokens:.0f} tokens, {threads} threads, {len(rounds)} rounds"
    said = [f"### {title} ({measured})", "", f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    for name, one in found.items():
        setting = "" if one.setting is None else "{} a call, {} x {} threads".format(*one.setting)
        share = "" if one.share is None else f"{100 * one.share:.0f} %"
        cells = (
            COLUMNS[name].title,
            f"{one.speed:,.1f}",
            f"{one.ratio:.2f}",
            f"{one.p50:.2f}",
            f"{one.p99:.2f}",
            f"{one.load:.2f}",
            f"{one.memory:,.0f}",
            f"{one.mean:.4f}",
            f"{one.worst:.4f}",
            share,
            setting,
        )
        said.append(f"| {' | '.join(cells)} |")
    peaks = [one["peak"] for one in rounds if "peak" in one]
    if peaks:
        best = {kind: max(one[kind] for one in peaks) / 1e9 for kind in ("float", "int8")}
        said += ["", f"Peak of one matrix product: {best['float']:.0f} Gop/s in float, {best['int8']:.0f} in int8."]
    said += [f"Left out: {name}: {why}." for name, why in chosen["left_out"].items()]
    promised = promises(found)
    if promised:
        said += ["", "| against | measured |", "|---|---|", *(f"| {what} | {value:.2f} |" for what, value in promised)]
    return "\n".join(said) + "\n"


def promises(found: Mapping[str, Line]) -> list[tuple[str, float]]:
    """The ratios that issue and docs speak of; above 1 is better than the other."""
    made: list[tuple[str, float]] = []
    if "engine" not in found:
        return made
    ours, peer = found["engine"], found.get(PEER)
    floats = {name: one for name, one in found.items() if not COLUMNS[name].int8 and name != "engine"}
    if floats:
        best = max(floats, key=lambda name: floats[name].speed)
        made.append((f"float to the best float peer ({COLUMNS[best].title}), texts/s", ours.speed / floats[best].speed))
        made.append(
            (
                "the best float peer's p99/p50 to ours",
                min(one.p99 / one.p50 for one in floats.values()) / (ours.p99 / ours.p50),
            )
        )
    small = found.get("int8")
    if small is not None:
        made.append(("int8 to our float, texts/s", small.speed / ours.speed))
        equal = {
            name: one for name, one in found.items() if COLUMNS[name].int8 and name != "int8" and one.mean >= small.mean
        }
        if equal:
            best = max(equal, key=lambda name: equal[name].speed)
            made.append(
                (
                    f"int8 to the best int8 peer of equal or better cosine ({COLUMNS[best].title}), texts/s",
                    small.speed / equal[best].speed,
                )
            )
    if peer is not None:
        each = [("float", ours)] + ([] if small is None else [("int8", small)])
        for name, one in each:
            made.append((f"{name} to sentence-transformers, texts/s", one.ratio))
            made.append((f"{name} to sentence-transformers, speed of one text", peer.p50 / one.p50))
        made.append(("sentence-transformers' load to ours", peer.load / ours.load))
        made.append(("sentence-transformers' memory to ours", peer.memory / ours.memory))
    return made
