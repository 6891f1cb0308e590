"""Findings of an inspection in sentences, the most severe first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from clearhead.caller import setting
from clearhead.files import to_printable
from clearhead.html import pluralize

if TYPE_CHECKING:
    from clearhead.data.inspect import Inspection, RowRef

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
MIN_ROWS_PER_LABEL = 5  # a label with fewer rows is hard to learn
IMBALANCE_RATIO = 10  # ratio of the largest class to the smallest one
# UTF-8 that was decoded as Latin-1 or Windows-1252: é as Ã©, ’ as â€™, a no-break space with Â; replacement characters
MOJIBAKE = re.compile("Ã[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€[\x80-\xbf“”˜™¦œžš]|Â[\xa0-\xbf]|ï»¿|\ufffd")


class Finding(NamedTuple):
    """A sentence about the dataset and its severity."""

    severity: Severity
    sentence: str


def is_mojibake(text: str) -> bool:
    """Whether a text shows signs of decoding with a wrong encoding."""
    return not text.isascii() and MOJIBAKE.search(text) is not None


def collect_findings(inspection: Inspection) -> list[Finding]:
    """Collect the findings of an inspection."""
    return sorted(_iter_findings(inspection), key=lambda finding: SEVERITIES.index(finding.severity))


def _iter_findings(inspection: Inspection) -> Iterator[Finding]:
    if inspection.bad:
        reasons = ", ".join(f"{problem}: {count:,}" for problem, count in sorted(inspection.bad.items()))
        yield Finding("error", f"{pluralize(sum(inspection.bad.values()), 'row')} cannot be used ({reasons}).")
    yield from _iter_label_findings(inspection)
    yield from _iter_duplicate_findings(inspection)
    if inspection.mojibake:
        texts, verb = pluralize(inspection.mojibake, "text"), "shows" if inspection.mojibake == 1 else "show"
        yield Finding("warning", f"{texts} {verb} signs of a wrong encoding (é as Ã©, replacement characters).")
    if inspection.too_long:
        share = inspection.too_long / max(inspection.token_rows, 1)
        sample = "" if inspection.token_rows == inspection.rows else f" of the first {inspection.token_rows:,}"
        verb = "exceeds" if inspection.too_long == 1 else "exceed"
        yield Finding(
            "note",
            f"{pluralize(inspection.too_long, 'row')}{sample} ({share:.1%}) {verb} the maximum length of "
            f"{inspection.max_length} tokens: split into windows or truncated.",
        )
    if inspection.rows < 50:
        yield Finding("warning", f"only {pluralize(inspection.rows, 'row')}; expect wide confidence intervals.")


def _iter_duplicate_findings(inspection: Inspection) -> Iterator[Finding]:
    if inspection.conflicts.groups:
        texts, verb = pluralize(inspection.conflicts.groups, "text"), _occur(inspection.conflicts.groups)
        example = _format_example(inspection.conflicts.examples)
        yield Finding("warning", f"{texts} {verb} with different labels, for example in {example}.")
    if inspection.leaks.groups:
        texts, verb = pluralize(inspection.leaks.groups, "text"), _occur(inspection.leaks.groups)
        example = _format_example(inspection.leaks.examples)
        yield Finding(
            "error",
            f"{texts} {verb} in more than one part of the data, for example in {example}; "
            "scores on texts of the training set are optimistic.",
        )
    if inspection.near_leaks.groups:
        texts, verb = pluralize(inspection.near_leaks.groups, "text"), _occur(inspection.near_leaks.groups)
        example = _format_example(inspection.near_leaks.examples)
        yield Finding(
            "warning", f"{texts} {verb} nearly unchanged in more than one part of the data, for example in {example}."
        )
    if inspection.exact.rows:
        share = inspection.exact.rows / inspection.rows
        severity: Severity = "warning" if share > 0.05 else "note"
        rows, verb = pluralize(inspection.exact.rows, "row"), "repeats" if inspection.exact.rows == 1 else "repeat"
        example = _format_example(inspection.exact.examples)
        yield Finding(severity, f"{rows} ({share:.1%}) {verb} the text of an earlier row, for example {example}.")
    if inspection.near.rows:
        rows, verb = pluralize(inspection.near.rows, "row"), "repeats" if inspection.near.rows == 1 else "repeat"
        example = _format_example(inspection.near.examples)
        yield Finding("note", f"{rows} nearly {verb} the text of an earlier row, for example {example}.")


def _iter_label_findings(inspection: Inspection) -> Iterator[Finding]:
    if inspection.kind is None:
        yield Finding("note", "there is no label column: the data can be used for prediction, but not for training.")
        return
    if inspection.kind == "number":
        return
    counts = inspection.labels
    if not counts:
        yield Finding("error", "no row has a label; there is nothing to learn.")
        return
    if len(counts) == 1:
        yield Finding(
            "error", f"all rows have the label {to_printable(next(iter(counts)), 40)!r}; there is nothing to learn."
        )
        return
    for variants in _group_spelling_variants(counts):
        names = ", ".join(repr(to_printable(name, 30)) for name in variants)
        yield Finding("warning", f"the labels {names} differ only in case or whitespace; are they the same label?")
    rare = [name for name, count in counts.items() if count < MIN_ROWS_PER_LABEL]
    if rare:
        names = ", ".join(f"{to_printable(name, 30)} ({counts[name]})" for name in rare[-5:])
        more = "" if len(rare) <= 5 else f" and {len(rare) - 5} more"
        yield Finding("warning", f"labels with fewer than {MIN_ROWS_PER_LABEL} rows: {names}{more}.")
    max_count, min_count = max(counts.values()), min(counts.values())
    if inspection.kind == "classes" and max_count >= IMBALANCE_RATIO * min_count:
        largest = next(iter(counts))
        share, weight_setting = max_count / inspection.rows, setting("class_weight", "auto", of="train")
        yield Finding(
            "note",
            f"the classes are imbalanced: {to_printable(largest, 30)} has {share:.0%} of the rows, the smallest class "
            f"{min_count:,} of {inspection.rows:,}; prefer macro F1, and consider {weight_setting}.",
        )


def _group_spelling_variants(counts: Mapping[str, int]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for name in counts:
        groups.setdefault(" ".join(name.casefold().split()), []).append(name)
    return [sorted(names) for names in groups.values() if len(names) > 1]


def _format_example(examples: tuple[tuple[RowRef, ...], ...]) -> str:
    """Format the first rows of the first example."""
    rows = [f"row {number:,}" if part == "all" else f"{part} row {number:,}" for part, number in examples[0][:3]]
    return " and ".join([", ".join(rows[:-1]), rows[-1]]) if len(rows) > 1 else rows[0]


def _occur(count: int) -> str:
    return "occurs" if count == 1 else "occur"
