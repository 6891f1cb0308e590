"""Find the text and label columns of a table by their names and cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clearhead.caller import setting
from clearhead.data.column_layout import ColumnLayout
from clearhead.data.column_stats import ColumnStats
from clearhead.data.columns import format_column, format_columns
from clearhead.data.names import LABEL_NAMES, NUMBER_NAMES, TEXT_NAMES, TEXT_PAIR_NAMES, normalize_name
from clearhead.data.sources.source import Source
from clearhead.errors import InputError


def find_by_name(
    stats: list[ColumnStats], names: Sequence[str], is_suitable: Callable[[ColumnStats], bool]
) -> ColumnStats | None:
    """Return the first column, in the order of `names`, that has the name and is suitable."""
    by_name = {normalize_name(column.name): column for column in reversed(stats)}
    return next(
        (
            by_name[name]
            for name in names
            if name in by_name and by_name[name].filled_count and is_suitable(by_name[name])
        ),
        None,
    )


def find_text_pair(stats: list[ColumnStats], label: str | None, layout: ColumnLayout) -> tuple[str, str] | None:
    """Find two columns whose names belong together; if the names are ambiguous, their cells must look like texts."""
    by_name = {normalize_name(column.name): column for column in reversed(stats) if column.name != label}
    for first, second in layout.pair_names:
        if first in by_name and second in by_name:
            first_column, second_column = by_name[first], by_name[second]
            if any(
                column.is_numeric or column.is_list or not column.filled_count
                for column in (first_column, second_column)
            ):
                continue
            by_cells = first_column.is_text and (
                second_column.is_text or not second_column.is_label or second == "aspect"
            )  # aspects recur
            if by_cells or (first, second) in TEXT_PAIR_NAMES:
                return first_column.name, second_column.name
    return None


def find_text_column(source: Source, candidates: list[ColumnStats], stats: list[ColumnStats]) -> tuple[str, str]:
    by_name = find_by_name(candidates, TEXT_NAMES, lambda column: not column.is_numeric and not column.is_list)
    if by_name is not None:
        return by_name.name, "by name"
    texts = sorted((column for column in candidates if column.is_text), key=lambda column: -column.mean_characters)
    if not texts and len(candidates) == 1 and len(stats) == 1 and not candidates[0].is_list:
        return candidates[0].name, "the only column"
    texts = texts or sorted(
        (column for column in candidates if not column.is_numeric and not column.is_list and not column.is_label),
        key=lambda column: -column.mean_characters,
    )
    if not texts:
        text_setting = setting("text", "COLUMN")
        raise InputError(
            f"No column of {source.name} looks like texts: {_format_stats(stats)}. "
            f"Name the text column with {text_setting}."
        )
    if len(texts) > 1 and texts[1].mean_characters > 0.5 * texts[0].mean_characters:
        names = f"{format_column(texts[0].name)} and {format_column(texts[1].name)}"
        raise InputError(
            f"{names} of {source.name} both look like texts: {_format_stats(stats)}. Name the text column with "
            f"{setting('text', 'COLUMN')} (and the second one with {setting('text_b')} for a task on pairs), or use "
            f"{setting('task', 'translate')} if one is a translation of the other."
        )
    return texts[0].name, "the longest texts"


def find_second_text_column(source: Source, candidates: list[ColumnStats]) -> str:
    texts = [column for column in candidates if column.is_text]
    if len(texts) != 1:
        text_b_setting = setting("text_b", "COLUMN")
        count = "no second text column" if not texts else f"{len(texts)} candidates for the second text"
        raise InputError(
            f"{source.name} has {count}: {_format_stats(candidates)}. Name the column with {text_b_setting}."
        )
    return texts[0].name


def find_label_column(
    source: Source, candidates: list[ColumnStats], stats: list[ColumnStats], *, number: bool, labeled: bool
) -> tuple[str | None, str]:
    if number:
        by_name = find_by_name(candidates, (*NUMBER_NAMES, *LABEL_NAMES), lambda column: column.is_numeric)
        others = [column for column in candidates if column.is_numeric and column.distinct_count > 2]
    else:
        by_name = find_by_name(candidates, LABEL_NAMES, lambda column: column.can_be_label)
        others = [column for column in candidates if column.is_label]
    if by_name is not None:
        alternatives = [column.name for column in others if column is not by_name]
        if not alternatives:
            return by_name.name, "by name"
        noun = "candidate" if len(alternatives) == 1 else "candidates"
        label_setting = setting("label", "COLUMN")
        return by_name.name, f"by name; other {noun}: {format_columns(alternatives, 5)}; set with {label_setting}"
    if not labeled:
        return None, ""
    others = [column for column in others if column.distinct_count > 1] or others
    if not others:
        others = [column for column in candidates if column.is_numeric and not column.is_integer]  # scores
    if len(others) == 1:
        return others[0].name, f"{others[0].distinct_count:,} distinct recurring values"
    if others:
        names, label_setting = format_columns([column.name for column in others], 10), setting("label", "COLUMN")
        raise InputError(
            f"{names} of {source.name} could all be the label: {_format_stats(stats)}. "
            f"Name the label column with {label_setting}."
        )
    label_setting = setting("label", "COLUMN")
    raise InputError(
        f"No column of {source.name} looks like a label: {_format_stats(stats)}. "
        f"Name the label column with {label_setting}."
    )


def _format_stats(stats: Sequence[ColumnStats]) -> str:
    return ", ".join(column.summary for column in stats[:12]) + (", ..." if len(stats) > 12 else "")
