"""clearhead inspect: what is in a file, before anything is trained on it."""

from __future__ import annotations

import sys
from typing import Any

from clearhead.cli.screen import model_notes, print_json, print_table, stages

KINDS = {"classes": "classes", "multilabel": "several a row", "number": "numbers"}


def inspect(
    file: str,
    /,
    *,
    dev: str | None = None,
    test: str | None = None,
    task: str | None = None,
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    options: str | None = None,
    model: str = "default",
    estimate: bool = True,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Look at data before training on it: columns, labels, duplicates, leaks, lengths, and what training would take.

    Parameters
    ----------
    file
        Rows in any form that `train` reads.
    dev
        Development rows, to look for leaks between the parts.
    test
        Test rows.
    task
        classify, pair, regress, tag, span, choice or aspect; without it, by the columns and labels.
    text
        The column with the text; guessed where it is not given.
    text_b
        The column with the second text.
    label
        The column with the label.
    options
        The columns with the options of a question, commas between them, or the one that holds them all.
    model
        The model whose tokens lengths are measured in.
    estimate
        Try a few training steps to tell time and memory, or do not (--no-estimate).
    json
        Print one JSON object.
    quiet
        Only the findings.
    """
    from clearhead import api

    with model_notes(quiet=True), stages(quiet=quiet or json) as bar:
        found = api.inspect(
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
            told=bar,
        )
    if json:
        print_json(found.to_json())
        return
    if not quiet:
        print_table(("what", "value"), facts(found), title=", ".join(found.sources))
        if found.labels:
            print_table(("label", "rows", "share"), balance(found))
        for listing in found.unusable:  # as `train` lists them
            sys.stdout.write(listing + "\n")
    print_table(("", "finding"), [(one.severity, one.sentence) for one in found.findings] or [("", "nothing odd")])


def facts(found: Any) -> list[tuple[str, str]]:
    """The lines of the first table."""
    columns = found.columns
    parts = ", ".join(f"{count:,} {part}" for part, count in found.parts.items())
    lines = [("read as", "; ".join(found.said))]
    lines += [("columns", said) for said in columns.said]
    lines += [("rows", parts)]
    lines += [("cannot be used", f"{count:,} ({what})") for what, count in found.bad.items()]
    lines += [("labels", KINDS.get(found.kind, "none"))]
    if found.numbers is not None:
        least, mean, most = found.numbers
        lines.append(("numbers", f"{least:g} to {most:g}, mean {mean:g}"))
    for name, lengths in (("characters", found.characters), ("tokens", found.tokens)):
        if lengths is not None:
            said = f"median {lengths.median:,}, 90 % up to {lengths.p90:,}, longest {lengths.most:,}"
            lines += [(name, said), (f"{name}, histogram", histogram(lengths.histogram))]
    if found.too_long is not None:
        lines.append(("longer than the model", f"{found.too_long:,} rows over {found.max_length} tokens"))
    same = (("the same text", found.exact), ("nearly the same text", found.near), ("in two parts", found.leaks))
    lines += [(what, f"{alike.rows:,} rows in {alike.groups:,} groups") for what, alike in same if alike.rows]
    if found.conflicts.groups:
        lines.append(("conflicting labels", f"{found.conflicts.groups:,} texts"))
    return lines + estimated(found.estimate)


def estimated(estimate: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What training would take."""
    if estimate is None:
        return []
    if "notes" in estimate:
        return [("training", note) for note in estimate["notes"]]
    cost = f"about {lasting(estimate['seconds'])} and {estimate['memory_mb']:,} MB"
    said = f"{cost} for {estimate['epochs']} epochs of {estimate['method']}"
    lines = [("training", f"{said} with {estimate['model']} here ({estimate['tokens_per_second']:,} tokens/s)")]
    if estimate["default_method"] != estimate["method"]:
        few = "two texts, and too few dev rows to compare methods on"
        quick = f"without --method, train fits {estimate['default_method']} in seconds instead: {few}"
        lines.append(("training", quick))
    return lines


def lasting(seconds: float) -> str:
    """A time in the unit that people would use."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def histogram(bars: Any) -> str:
    """Lengths as bars of text, each twice as far as the one before."""
    most = max((count for _, count in bars), default=1)
    steps = " ▁▂▃▄▅▆▇█"
    drawn = "".join(steps[0 if not count else 1 + round(7 * count / most)] for _, count in bars)
    return f"{drawn}  (up to {bars[0][0]:,} ... {bars[-1][0]:,})" if bars else ""


def balance(found: Any) -> list[tuple[str, str, str]]:
    """The most frequent labels."""
    total = max(found.rows, 1)
    lines = [(name, f"{count:,}", f"{count / total:.1%}") for name, count in list(found.labels.items())[:30]]
    more = len(found.labels) - 30
    return [*lines, (f"and {more:,} more", "", "")] if more > 0 else lines
