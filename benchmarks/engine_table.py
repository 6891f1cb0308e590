"""The Markdown tables of benchmarks/engine.py from its stored files: medians, ratios, shares of the peak."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine_contenders import CONTENDERS

PEER = "sentence-transformers"
HEADER = (
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
class ContenderFigures:
    """The figures of a contender."""

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


def count_operations(config: Mapping[str, Any], lengths: Sequence[int]) -> float:
    """Count the matrix product operations of a BERT of this shape for real tokens, per text on average."""
    width, feed_forward_width, layers = (
        config[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers")
    )
    per_token = 2 * (4 * width * width + 2 * width * feed_forward_width)
    return float(layers) * statistics.fmean(length * per_token + 4 * width * length * length for length in lengths)


def read_files(folder: Path, pattern: str) -> list[dict[str, Any]]:
    """Read all files that match a pattern."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(pattern))]


def compute_figures(folder: Path, config: Mapping[str, Any]) -> dict[str, ContenderFigures]:
    """Compute the figures of all contenders that were measured."""
    rounds, starts = read_files(folder, "round-*.json"), read_files(folder, "start-*.json")
    (settings,), (cosines,) = read_files(folder, "chosen.json"), read_files(folder, "vectors.json")
    operations = count_operations(config, settings["lengths"])
    figures = {}
    for name, contender in CONTENDERS.items():
        if not all(name in record for record in rounds):
            continue
        speeds = [record[name]["texts_per_second"] for record in rounds]
        ratios = [
            record[name]["texts_per_second"] / record[PEER]["texts_per_second"] for record in rounds if PEER in record
        ]
        latencies = sorted(ms for record in rounds for ms in record[name]["ms"])
        peaks = [record["peak"]["int8" if contender.int8 else "float"] for record in rounds if "peak" in record]
        figures[name] = ContenderFigures(
            speed=statistics.median(speeds),
            ratio=statistics.median(ratios) if ratios else float("nan"),
            p50=statistics.median(latencies),
            p99=latencies[min(int(0.99 * len(latencies)), len(latencies) - 1)],
            load=statistics.median(record[name]["seconds"] for record in starts),
            memory=statistics.median(record[name]["resident_mb"] or float("nan") for record in starts),
            mean=cosines[name][0],
            worst=cosines[name][1],
            share=statistics.median(speeds) * operations / max(peaks) if peaks else None,
            setting=settings["settings"].get(name),
        )
    return figures


def make_section(title: str, folder: Path, config: Mapping[str, Any], threads: int) -> str:
    """Format a workload of the benchmark as Markdown."""
    figures = compute_figures(folder, config)
    (settings,), rounds = read_files(folder, "chosen.json"), read_files(folder, "round-*.json")
    tokens = statistics.fmean(settings["lengths"])
    conditions = f"{len(settings['lengths'])} texts of {tokens:.0f} tokens, {threads} threads, {len(rounds)} rounds"
    lines = [f"### {title} ({conditions})", "", f"| {' | '.join(HEADER)} |", "|" + "---|" * len(HEADER)]
    for name, row in figures.items():
        setting = "" if row.setting is None else "{} a call, {} x {} threads".format(*row.setting)
        share = "" if row.share is None else f"{100 * row.share:.0f} %"
        cells = (
            CONTENDERS[name].title,
            f"{row.speed:,.1f}",
            f"{row.ratio:.2f}",
            f"{row.p50:.2f}",
            f"{row.p99:.2f}",
            f"{row.load:.2f}",
            f"{row.memory:,.0f}",
            f"{row.mean:.4f}",
            f"{row.worst:.4f}",
            share,
            setting,
        )
        lines.append(f"| {' | '.join(cells)} |")
    peaks = [row["peak"] for row in rounds if "peak" in row]
    if peaks:
        peak = {kind: max(row[kind] for row in peaks) / 1e9 for kind in ("float", "int8")}
        lines += ["", f"Peak of one matrix product: {peak['float']:.0f} Gop/s in float, {peak['int8']:.0f} in int8."]
    lines += [f"Left out: {name}: {reason}." for name, reason in settings["left_out"].items()]
    promised = compute_headline_ratios(figures)
    if promised:
        lines += [
            "",
            "| against | measured |",
            "|---|---|",
            *(f"| {title} | {value:.2f} |" for title, value in promised),
        ]
    return "\n".join(lines) + "\n"


def compute_headline_ratios(figures: Mapping[str, ContenderFigures]) -> list[tuple[str, float]]:
    """Compute the ratios that the documentation cites; above 1 is better than the other."""
    ratios: list[tuple[str, float]] = []
    if "engine" not in figures:
        return ratios
    engine, peer = figures["engine"], figures.get(PEER)
    float_peers = {name: row for name, row in figures.items() if not CONTENDERS[name].int8 and name != "engine"}
    if float_peers:
        best = max(float_peers, key=lambda name: float_peers[name].speed)
        ratios.append(
            (
                f"float to the best float peer ({CONTENDERS[best].title}), texts/s",
                engine.speed / float_peers[best].speed,
            )
        )
        ratios.append(
            (
                "the best float peer's p99/p50 to ours",
                min(row.p99 / row.p50 for row in float_peers.values()) / (engine.p99 / engine.p50),
            )
        )
    int8 = figures.get("int8")
    if int8 is not None:
        ratios.append(("int8 to our float, texts/s", int8.speed / engine.speed))
        int8_peers = {
            name: row
            for name, row in figures.items()
            if CONTENDERS[name].int8 and name != "int8" and row.mean >= int8.mean
        }
        if int8_peers:
            best = max(int8_peers, key=lambda name: int8_peers[name].speed)
            ratios.append(
                (
                    f"int8 to the best int8 peer of equal or better cosine ({CONTENDERS[best].title}), texts/s",
                    int8.speed / int8_peers[best].speed,
                )
            )
    if peer is not None:
        variants = [("float", engine)] + ([] if int8 is None else [("int8", int8)])
        for name, row in variants:
            ratios.append((f"{name} to sentence-transformers, texts/s", row.ratio))
            ratios.append((f"{name} to sentence-transformers, speed of one text", peer.p50 / row.p50))
        ratios.append(("sentence-transformers' load to ours", peer.load / engine.load))
        ratios.append(("sentence-transformers' memory to ours", peer.memory / engine.memory))
    return ratios
