"""clearhead inspect: check data before training."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.options import (
    DATA,
    MEASUREMENT,
    MODEL,
    Json,
    LabelColumn,
    OptionColumns,
    Quiet,
    SecondTextColumn,
    TextColumn,
)
from clearhead.cli.screen import model_notes, print_blank_line, print_facts, print_json, print_table, stages

LABEL_KINDS = {"classes": "one class per row", "multilabel": "several classes per row", "number": "numbers"}
MAX_LABELS = 30  # listed, most frequent first
HISTOGRAM_STEPS = " ▁▂▃▄▅▆▇█"


def inspect(
    file: str,
    /,
    *,
    dev: Annotated[str | None, Parameter(group=DATA, metavar="FILE")] = None,
    test: Annotated[str | None, Parameter(group=DATA, metavar="FILE")] = None,
    task: Annotated[str | None, Parameter(group=DATA)] = None,
    text: TextColumn = None,
    text_b: SecondTextColumn = None,
    label: LabelColumn = None,
    options: OptionColumns = None,
    model: Annotated[str, Parameter(group=MODEL)] = "default",
    estimate: Annotated[bool, Parameter(group=MEASUREMENT, negative="--no-estimate")] = True,
    json: Json = False,
    quiet: Annotated[Quiet, Parameter(help="Print only the findings.")] = False,
) -> None:
    """Check data before training: columns, labels, duplicates, leaks, lengths, and the cost of training.

    Parameters
    ----------
    file
        Rows in any format that `train` reads.
    dev
        Dev rows, checked for rows that also occur in other splits.
    test
        Test rows, checked for rows that also occur in other splits.
    task
        classify, pair, regress, tag, span, choice or aspect (default: detected from columns and labels).
    model
        Model whose tokenizer measures the lengths (default: default).
    estimate
        Run a few training steps to estimate time and memory (default: yes).
    """
    from clearhead import api

    with model_notes(quiet=True), stages(quiet=quiet or json) as bar:
        inspection = api.inspect(
            file,
            dev=dev,
            test=test,
            task=task,
            text=text,
            text_b=text_b,
            label=label,
            options=options,
            model=model,
            estimate=estimate,
            progress=bar,
        )
    if json:
        print_json(inspection.to_json())
        return
    if not quiet:
        print_facts(summarize(inspection), title=", ".join(inspection.sources))
        if inspection.labels:
            print_blank_line()
            print_table(("label", "rows", "share"), label_rows(inspection))
        for listing in inspection.unusable:  # as `train` lists them
            sys.stdout.write(listing + "\n")
        print_blank_line()
    findings = [(finding.severity, finding.sentence) for finding in inspection.findings]
    if findings:
        print_table(("severity", "finding"), findings)
    else:
        sys.stdout.write("No problems found.\n")


def summarize(inspection: Any) -> list[tuple[str, str]]:
    """Names and values of the summary."""
    from clearhead.api.support import pluralize

    parts = ", ".join(
        f"{count:,}" if part == "all" else f"{count:,} {part}" for part, count in inspection.parts.items()
    )
    facts = [("format", "; ".join(inspection.messages))]
    facts += [("" if number else "columns", line) for number, line in enumerate(inspection.columns.messages)]
    facts += [("rows", parts)]
    facts += [("unusable rows", f"{count:,} ({reason})") for reason, count in inspection.bad.items()]
    facts += [("labels", LABEL_KINDS.get(inspection.kind, "none"))]
    if inspection.numbers is not None:
        least, mean, most = inspection.numbers
        facts.append(("numbers", f"{least:g} to {most:g}, mean {mean:g}"))
    for unit, lengths in (("characters", inspection.characters), ("tokens", inspection.tokens)):
        if lengths is not None:
            summary = f"median {lengths.median:,}, 90 % up to {lengths.p90:,}, longest {lengths.most:,}"
            facts += [(unit, summary), (f"{unit}, histogram", format_histogram(lengths.histogram))]
    if inspection.too_long is not None:
        facts.append(("too long", f"{pluralize(inspection.too_long, 'row')} over {inspection.max_length} tokens"))
    duplicates = (
        ("duplicates", inspection.exact),
        ("near duplicates", inspection.near),
        ("in two splits", inspection.leaks),
    )
    for name, groups in duplicates:
        if groups.rows:
            facts.append((name, f"{pluralize(groups.rows, 'row')} in {pluralize(groups.groups, 'group')}"))
    if inspection.conflicts.groups:
        facts.append(("conflicting labels", pluralize(inspection.conflicts.groups, "text")))
    return facts + describe_estimate(inspection.estimate)


def describe_estimate(estimate: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The estimated cost of training."""
    if estimate is None:
        return []
    if "notes" in estimate:
        return [("training", note) for note in estimate["notes"]]
    cost = f"about {format_duration(estimate['seconds'])} and {estimate['memory_mb']:,} MB"
    work = f"{estimate['epochs']} epochs of --method {estimate['method']} with the model {estimate['model']}"
    facts = [("training", f"{cost} for {work} ({estimate['tokens_per_second']:,} tokens/s on this machine)")]
    if estimate["default_method"] != estimate["method"]:
        reason = "two texts, and too few dev rows to compare methods on"
        facts.append(("training", f"without --method, train uses {estimate['default_method']}, in seconds ({reason})"))
    return facts


def format_duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def format_histogram(bars: Any) -> str:
    """Lengths as block characters; each bin is twice as wide as the one before."""
    highest = max((count for _, count in bars), default=1)
    blocks = "".join(HISTOGRAM_STEPS[0 if not count else 1 + round(7 * count / highest)] for _, count in bars)
    return f"{blocks}  (up to {bars[0][0]:,} ... {bars[-1][0]:,})" if bars else ""


def label_rows(inspection: Any) -> list[tuple[str, str, str]]:
    """The most frequent labels as rows of a table."""
    total = max(inspection.rows, 1)
    frequent = list(inspection.labels.items())[:MAX_LABELS]
    rows = [(name, f"{count:,}", f"{count / total:.1%}") for name, count in frequent]
    hidden = len(inspection.labels) - MAX_LABELS
    return [*rows, (f"and {hidden:,} more", "", "")] if hidden > 0 else rows
