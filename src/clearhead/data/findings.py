"""What an inspection means: sentences for people, the gravest first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from clearhead.caller import setting
from clearhead.files import to_printable

if TYPE_CHECKING:
    from clearhead.data.inspect import Inspection, RowRef

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
MIN_ROWS_PER_LABEL = 5  # rows of a class that are hardly enough to learn from
IMBALANCE_RATIO = 10  # times as many rows in the largest class as in the smallest
# UTF-8 that was read as Latin-1 or Windows-1252: é as Ã©, ’ as â€™, a no-break space with Â; and lost characters
MOJIBAKE = re.compile("Ã[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€[\x80-\xbf“”˜™¦œžš]|Â[\xa0-\xbf]|ï»¿|\ufffd")


class Finding(NamedTuple):
    """One thing to know, and how grave it is."""

    severity: Severity
    sentence: str


def is_mojibake(text: str) -> bool:
    """Whether a text looks as if it was once decoded wrongly."""
    return not text.isascii() and MOJIBAKE.search(text) is not None


def collect_findings(inspection: Inspection) -> list[Finding]:
    """Everything worth saying about a data set."""
    return sorted(_iter_findings(inspection), key=lambda finding: SEVERITIES.index(finding.severity))


def _iter_findings(inspection: Inspection) -> Iterator[Finding]:
    if inspection.bad:
        reasons = ", ".join(f"{problem}: {count:,}" for problem, count in sorted(inspection.bad.items()))
        yield Finding("error", f"{_count_rows(sum(inspection.bad.values()))} cannot be used ({reasons}).")
    yield from _iter_label_findings(inspection)
    if inspection.conflicts.groups:
        example = _format_example(inspection.conflicts.examples)
        yield Finding(
            "warning", f"{_count_texts(inspection.conflicts.groups)} with more than one label, as in {example}."
        )
    if inspection.leaks.groups:
        example = _format_example(inspection.leaks.examples)
        yield Finding(
            "error",
            f"{_count_texts(inspection.leaks.groups)} in more than one part of the data, as in {example}; "
            "a model is not measured by what it was trained on.",
        )
    if inspection.near_leaks.groups:
        example = _format_example(inspection.near_leaks.examples)
        texts = _count_texts(inspection.near_leaks.groups)
        yield Finding("warning", f"{texts} nearly the same in more than one part of the data, as in {example}.")
    if inspection.exact.rows:
        share = inspection.exact.rows / inspection.rows
        severity: Severity = "warning" if share > 0.05 else "note"
        example = _format_example(inspection.exact.examples)
        duplicates = f"{_count_rows(inspection.exact.rows)} ({share:.1%}) with the text of an earlier row"
        yield Finding(severity, f"there {_is_or_are(inspection.exact.rows)} {duplicates}, as in {example}.")
    if inspection.near.rows:
        example = _format_example(inspection.near.examples)
        near_duplicates = f"{_count_rows(inspection.near.rows)} with nearly the text of an earlier row"
        yield Finding("note", f"there {_is_or_are(inspection.near.rows)} {near_duplicates}, as in {example}.")
    if inspection.mojibake:
        yield Finding(
            "warning", f"{_count_texts(inspection.mojibake)} with signs of wrong decoding (é as Ã©, lost characters)."
        )
    if inspection.too_long:
        share = inspection.too_long / max(inspection.token_rows, 1)
        sample = "" if inspection.token_rows == inspection.rows else f" of the first {inspection.token_rows:,}"
        yield Finding(
            "note",
            f"{_count_rows(inspection.too_long)}{sample} ({share:.1%}) {_is_or_are(inspection.too_long)} longer than the "
            f"{inspection.max_length} tokens that the model reads: in windows, or cut.",
        )
    if inspection.rows < 50:
        yield Finding(
            "warning",
            f"{_count_rows(inspection.rows)} {_is_or_are(inspection.rows)} few; expect wide intervals on every figure.",
        )


def _iter_label_findings(inspection: Inspection) -> Iterator[Finding]:
    if inspection.kind is None:
        yield Finding("note", "there is no label column, so this can be predicted on but not trained on.")
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
        yield Finding("warning", f"the labels {names} differ only in case or space; are they the same?")
    rare = [name for name, count in counts.items() if count < MIN_ROWS_PER_LABEL]
    if rare:
        names = ", ".join(f"{to_printable(name, 30)} ({counts[name]})" for name in rare[-5:])
        more = "" if len(rare) <= 5 else f" and {len(rare) - 5} more"
        yield Finding("warning", f"fewer than {MIN_ROWS_PER_LABEL} rows have the label {names}{more}.")
    max_count, min_count = max(counts.values()), min(counts.values())
    if inspection.kind == "classes" and max_count >= IMBALANCE_RATIO * min_count:
        largest = next(iter(counts))
        share, weight_setting = max_count / inspection.rows, setting("class_weight", "auto", of="train")
        yield Finding(
            "note",
            f"the classes are uneven: {to_printable(largest, 30)} has {share:.0%} of the rows, the smallest "
            f"{min_count:,} of {inspection.rows:,}; look at macro F1, and think of {weight_setting}.",
        )


def _group_spelling_variants(counts: Mapping[str, int]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for name in counts:
        groups.setdefault(" ".join(name.casefold().split()), []).append(name)
    return [sorted(names) for names in groups.values() if len(names) > 1]


def _format_example(examples: tuple[tuple[RowRef, ...], ...]) -> str:
    """The first rows of the first example."""
    rows = [f"row {number:,}" if part == "all" else f"{part} row {number:,}" for part, number in examples[0][:3]]
    return " and ".join([", ".join(rows[:-1]), rows[-1]]) if len(rows) > 1 else rows[0]


def _count_rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


def _count_texts(count: int) -> str:
    return f"there {_is_or_are(count)} {count:,} text{'s' * (count != 1)}"
