"""Which column plays which part: as named, by name, or by its cells. The only module that decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clearhead.caller import setting
from clearhead.data.column_layout import ONE_OR_TWO_TEXTS, ColumnLayout, Role
from clearhead.data.column_stats import ColumnStats, compute_column_stats
from clearhead.data.columns import ColumnRoles, Columns, format_column, format_columns
from clearhead.data.names import (
    ID_NAMES,
    LABEL_NAMES,
    NUMBER_NAMES,
    SPLIT_NAMES,
    TEXT_NAMES,
    TEXT_PAIR_NAMES,
    normalize_name,
)
from clearhead.data.sources.source import Source
from clearhead.errors import InputError

TASKS = {  # shorthands of `guess_columns`
    "classify": ColumnLayout(second_text=False),
    "pair": ColumnLayout(second_text=True),
    "regress": ColumnLayout(numeric_label=True),
}


def guess_columns(
    source: Source,
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    id: str | None = None,  # noqa: A002
    split: str | None = None,
    task: str | None = None,
    *,
    second: bool | None = None,
    number: bool = False,
    labelled: bool = True,
    pairs: bool = True,
) -> Columns:
    """The part that each column plays; without `labelled`, a label is taken if there is one by name.

    `second`: a second text is needed, or never there; None: as it comes. `number`: labels are numbers. The name of a
    task of texts and labels in cells stands for both.
    Without `pairs`, two columns that are named as pairs are not taken together.
    """
    layout = TASKS.get(task or "", ColumnLayout(second_text=second, numeric_label=number))
    named = ColumnRoles(text=text, text_b=text_b, label=label, id=id, split=split)
    return resolve_columns(source, layout if pairs else replace(layout, pair_names=()), named, labelled=labelled)


def resolve_columns(
    source: Source,
    layout: ColumnLayout = ONE_OR_TWO_TEXTS,
    named: ColumnRoles = ColumnRoles(),  # noqa: B008  frozen
    *,
    labelled: bool = True,
) -> Columns:
    """The part that each column plays in the rows of a task; without `labelled`, rows need not have a label."""
    if layout.header_only:
        return resolve_header(source.columns, source.name, layout, named)
    if layout.roles:
        return _resolve_by_roles(source, layout, named, labelled=labelled)
    return _resolve_by_cells(source, layout, named, labelled=labelled)


def resolve_header(
    columns: Sequence[str],
    name: str,
    layout: ColumnLayout,
    named: ColumnRoles = ColumnRoles(),  # noqa: B008  frozen
) -> Columns:
    """The same from the names of columns alone; as many as are missing are those that are left."""
    parts = [role.name for role in layout.roles]
    for column in (getattr(named, part) for part in (*parts, "split")):
        if column is not None and column not in columns:
            raise InputError(f"{name} has no column {format_column(column)!r}; it has {format_columns(columns)}.")
    split = named.split or find_column(columns, layout.split_names)
    chosen: dict[str, str | None] = {part: getattr(named, part) for part in parts}
    for role in layout.roles:
        taken = {split, *chosen.values()}
        free = [column for column in columns if column not in taken]
        chosen[role.name] = chosen[role.name] or find_column(free, role.column_names)
    left = [column for column in columns if column not in {split, *chosen.values()}]
    missing = [role for role in layout.roles if chosen[role.name] is None]
    if len(left) == len(missing):
        chosen |= {role.name: column for role, column in zip(missing, left, strict=True)}
    elif missing:
        which = " and ".join(setting(role.setting_name or role.name, role.setting_value) for role in missing)
        raise InputError(missing[0].missing_message.format(source=name, columns=format_columns(columns), setting=which))
    text = chosen["text"]
    assert text is not None
    return Columns(text=text, text_b=chosen.get("text_b"), split=split)


def match_columns(source: Source, columns: Columns, layout: ColumnLayout) -> Columns:
    """The same columns in another source of the same data, where the id and the split may be missing."""
    if layout.roles and not layout.header_only:
        names = {part: getattr(columns, part) for part in ("text", "text_b", "label", "id")}
        kept = {part: name for part, name in names.items() if name in source.columns}
        options = columns.options if set(columns.options) <= set(source.columns) else ()
        return replace(resolve_columns(source, layout, ColumnRoles(**kept, options=options)), split=None)
    for name in (columns.text, columns.text_b, columns.label):
        if name is not None and name not in source.columns:
            raise InputError(f"{source.name} has no column {name!r}; it has {format_columns(source.columns, 30)}.")
    return replace(columns, id=columns.id if columns.id in source.columns else None, split=None)


def columns_by_normalized_name(columns: Sequence[str]) -> dict[str, str]:
    """Columns by their names as they are compared; of several that are called the same, the first."""
    return {normalize_name(column): column for column in reversed(columns)}


def find_column(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """The first column, in the order of the names, that is called so."""
    called = columns_by_normalized_name(columns)
    return next((called[name] for name in names if name in called), None)


def _check_named(source: Source, named: Sequence[tuple[str, str | None]]) -> None:
    for option, name in named:
        if name is not None and name not in source.columns:
            has = format_columns(source.columns)
            raise InputError(
                f"{source.name} has no column {format_column(name)!r} for {setting(option)}; it has {has}."
            )


def _resolve_by_roles(source: Source, layout: ColumnLayout, named: ColumnRoles, *, labelled: bool) -> Columns:
    """The roles of a task one after the other; id, split and a text of any name are found by cells."""
    own = [(role.name, getattr(named, role.name)) for role in layout.roles]
    _check_named(source, own)
    options = () if layout.find_options is None else _resolve_options(source, layout.find_options, named.options)
    called = columns_by_normalized_name([name for name in source.columns if name not in options])
    chosen: dict[str, str | None] = {"text": None, "text_b": None, "label": None, **dict(own)}
    if len(options) == 1 and normalize_name(options[0]) == layout.nested_options:
        chosen["text"] = options[0]
    if chosen["text"] is None:
        pair = next(((called[a], called[b]) for a, b in layout.pair_names if a in called and b in called), None)
        if pair is not None and chosen["text_b"] in (None, pair[1]):
            chosen["text"], chosen["text_b"] = pair
    for role in layout.roles:
        if chosen[role.name] is None:
            chosen[role.name] = _find_role_column(source, role, called, chosen)
        if chosen[role.name] is None and role.required and (role.name != "label" or labelled):
            which = setting(role.setting_name or role.name, role.setting_value)
            raise InputError(
                role.missing_message.format(
                    source=source.name, content=role.content, columns=format_columns(source.columns), setting=which
                )
            )
    known = ColumnRoles(text=chosen["text"], text_b=chosen["text_b"], id=named.id, split=named.split)
    rest = _resolve_by_cells(source, ColumnLayout(second_text=False), known, labelled=False)
    found = replace(rest, label=chosen["label"], options=options, unused_texts=())
    return replace(found, messages=_describe_roles(layout, found))


def _resolve_options(
    source: Source, find: Callable[[Source], tuple[str, ...]], named: tuple[str, ...]
) -> tuple[str, ...]:
    _check_named(source, [("options", name) for name in named])
    options = named or find(source)
    if not options:
        which, has = setting("options", "a,b,c"), format_columns(source.columns)
        raise InputError(f"{source.name} has no columns of options among {has}; name them with {which}.")
    return options


def _find_role_column(
    source: Source, role: Role, called: Mapping[str, str], chosen: Mapping[str, str | None]
) -> str | None:
    if role.choose_column is not None:
        return role.choose_column(source, called, chosen["label"])
    taken = chosen["text"] if role.name == "label" else None
    return next((called[name] for name in role.column_names if name in called and called[name] != taken), None)


def _describe_roles(layout: ColumnLayout, found: Columns) -> tuple[str, ...]:
    """What was chosen, a line for each role."""
    lines: dict[str, str] = {}
    for role in layout.roles:
        if (name := getattr(found, role.name)) is not None:
            title = role.pair_title if found.text_b is not None and role.pair_title else role.title
            lines[role.name] = f"{title}: {format_column(name)}"
    if found.options:
        lines["options"] = f"options: {', '.join(map(format_column, found.options[:8]))}"
    return tuple(lines[part] for part in ("text", "text_b", "options", "label") if part in lines)


def _resolve_by_cells(source: Source, layout: ColumnLayout, named: ColumnRoles, *, labelled: bool) -> Columns:
    """One text or two and a label, by their names and by what their cells hold."""
    said: list[str] = []
    stats = compute_column_stats(source)
    text, text_b, label, id_, split = named.text, named.text_b, named.label, named.id, named.split
    _check_named(source, (("text", text), ("text_b", text_b), ("label", label), ("id", id_), ("split", split)))
    said += [
        f"{part}: {format_column(name)} (as said)" for part, name in (("text", text), ("second text", text_b)) if name
    ]
    taken = {name for name in (text, text_b, label, id_, split) if name is not None}
    free = [column for name, column in stats.items() if name not in taken]
    if id_ is None and (found := _find_stats_by_name(free, ID_NAMES, lambda column: not column.is_list)):
        id_ = found.name
        name = format_column(id_)
        said.append(f"id: {name} (by its name; rows with the same {name} stay together when the data is split)")
    if split is None and (found := _find_stats_by_name(free, SPLIT_NAMES, lambda column: column.holds_split_names)):
        split = found.name
        said.append(f"split: {format_column(split)} (by its name and values)")
    free = [column for column in free if column.name not in (id_, split)]
    if (
        text is None
        and text_b is None
        and layout.second_text is not False
        and (pair := _find_pair(free, label, layout))
    ):
        text, text_b = pair
        said.append(f"texts: {format_column(text)} and {format_column(text_b)} (by their names)")
    if text is None:
        text, why = _find_text(source, [column for column in free if column.name != label], list(stats.values()))
        said.append(f"text: {format_column(text)} ({why})")
    if text_b is None and layout.second_text:
        text_b = _find_second_text(source, [column for column in free if column.name not in (text, label)])
        said.append(f"second text: {format_column(text_b)} (the other column that holds texts)")
    free = [column for column in free if column.name not in (text, text_b)]
    if label is not None:
        said.append(f"label: {format_column(label)} (as said)")
    else:
        label, why = _find_label(source, free, list(stats.values()), number=layout.numeric_label, labelled=labelled)
        said += [f"label: {format_column(label)} ({why})"] if label is not None else []
    unused = [name for name in source.columns if name not in (text, text_b, label, id_, split)]
    said += [f"not used: {format_columns(unused)}"] if unused else []
    return Columns(
        text=text,
        text_b=text_b,
        label=label,
        id=id_,
        split=split,
        messages=tuple(said),
        unused_texts=tuple(name for name in unused if name in stats and stats[name].holds_texts),
    )


def _find_stats_by_name(
    stats: list[ColumnStats], names: Sequence[str], fits: Callable[[ColumnStats], bool]
) -> ColumnStats | None:
    """The first column, in the order of the names, that is called so and fits."""
    called = {normalize_name(column.name): column for column in reversed(stats)}
    return next(
        (called[name] for name in names if name in called and called[name].filled_count and fits(called[name])), None
    )


def _find_pair(stats: list[ColumnStats], label: str | None, layout: ColumnLayout) -> tuple[str, str] | None:
    """Two columns whose names go together; where a name alone does not tell that it is a text, its cells must."""
    called = {normalize_name(column.name): column for column in reversed(stats) if column.name != label}
    for first, second in layout.pair_names:
        if first in called and second in called:
            left, right = called[first], called[second]
            if any(column.is_numeric or column.is_list or not column.filled_count for column in (left, right)):
                continue
            by_cells = left.is_text and (right.is_text or not right.is_label or second == "aspect")  # these come again
            if by_cells or (first, second) in TEXT_PAIR_NAMES:
                return left.name, right.name
    return None


def _find_text(source: Source, free: list[ColumnStats], stats: list[ColumnStats]) -> tuple[str, str]:
    by_name = _find_stats_by_name(free, TEXT_NAMES, lambda column: not column.is_numeric and not column.is_list)
    if by_name is not None:
        return by_name.name, "by its name"
    texts = sorted((column for column in free if column.is_text), key=lambda column: -column.mean_characters)
    if not texts and len(free) == 1 and len(stats) == 1 and not free[0].is_list:
        return free[0].name, "the only column"
    texts = texts or sorted(
        (column for column in free if not column.is_numeric and not column.is_list and not column.is_label),
        key=lambda column: -column.mean_characters,
    )
    if not texts:
        which = setting("text", "COLUMN")
        raise InputError(
            f"no column of {source.name} reads like texts: {_format_stats(stats)}. Say which one with {which}."
        )
    if len(texts) > 1 and texts[1].mean_characters > 0.5 * texts[0].mean_characters:
        both = f"{format_column(texts[0].name)} and {format_column(texts[1].name)}"
        raise InputError(
            f"{both} of {source.name} both read like texts: {_format_stats(stats)}. Say which one with "
            f"{setting('text', 'COLUMN')} (and the other with {setting('text_b')} for a task on two texts), or "
            f"{setting('task', 'translate')} where one is written for the other."
        )
    return texts[0].name, "the longest texts"


def _find_second_text(source: Source, free: list[ColumnStats]) -> str:
    texts = [column for column in free if column.is_text]
    if len(texts) != 1:
        which = setting("text_b", "COLUMN")
        count = "no second column" if not texts else f"{len(texts)} more columns"
        raise InputError(f"{source.name} has {count} of texts: {_format_stats(free)}. Say which one with {which}.")
    return texts[0].name


def _find_label(
    source: Source, free: list[ColumnStats], stats: list[ColumnStats], *, number: bool, labelled: bool
) -> tuple[str | None, str]:
    if number:
        by_name = _find_stats_by_name(free, (*NUMBER_NAMES, *LABEL_NAMES), lambda column: column.is_numeric)
        others = [column for column in free if column.is_numeric and column.distinct_count > 2]
    else:
        by_name = _find_stats_by_name(free, LABEL_NAMES, lambda column: column.can_be_label)
        others = [column for column in free if column.is_label]
    if by_name is not None:
        rest = [column.name for column in others if column is not by_name]
        also = (
            f"; {format_columns(rest, 5)} could be one, too: say it with {setting('label', 'COLUMN')}" if rest else ""
        )
        return by_name.name, f"by its name{also}"
    if not labelled:
        return None, ""
    others = [column for column in others if column.distinct_count > 1] or others
    if not others:
        others = [column for column in free if column.is_numeric and not column.is_integer]  # scores
    if len(others) == 1:
        return others[0].name, f"{others[0].distinct_count:,} different values that come again and again"
    if others:
        names, which = format_columns([column.name for column in others], 10), setting("label", "COLUMN")
        raise InputError(
            f"{names} of {source.name} could each be the label: {_format_stats(stats)}. Say which one with {which}."
        )
    which = setting("label", "COLUMN")
    raise InputError(
        f"no column of {source.name} reads like a label: {_format_stats(stats)}. Say which one with {which}."
    )


def _format_stats(stats: Sequence[ColumnStats]) -> str:
    return ", ".join(column.summary for column in stats[:12]) + (", ..." if len(stats) > 12 else "")
