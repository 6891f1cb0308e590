"""Resolve the role of each column: as named by the user, by its usual name, or by its cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clearhead.caller import setting
from clearhead.data.column_detection import (
    find_by_name,
    find_label_column,
    find_second_text_column,
    find_text_column,
    find_text_pair,
)
from clearhead.data.column_layout import ONE_OR_TWO_TEXTS, ColumnLayout, Role
from clearhead.data.column_stats import compute_column_stats
from clearhead.data.columns import ColumnRoles, Columns, format_column, format_columns
from clearhead.data.names import (
    ID_NAMES,
    SPLIT_NAMES,
    normalize_name,
)
from clearhead.data.sources.source import Source
from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError

TASKS = {  # shorthands of `guess_columns`
    "classify": ColumnLayout(second_text=False),
    "pair": ColumnLayout(second_text=True),
    "regress": ColumnLayout(numeric_label=True),
}


@renamed_parameters(labelled="labeled")
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
    labeled: bool = True,
    pairs: bool = True,
) -> Columns:
    """Resolve the role of each column; if not `labeled`, a label is used only if its name is a usual one.

    `second`: whether a second text is required (True), excluded (False) or optional (None). `number`: labels are
    numbers. `task` ("classify", "pair", "regress") sets both. Without `pairs`, columns whose names form a pair are not
    combined.
    """
    layout = TASKS.get(task or "", ColumnLayout(second_text=second, numeric_label=number))
    named = ColumnRoles(text=text, text_b=text_b, label=label, id=id, split=split)
    return resolve_columns(source, layout if pairs else replace(layout, pair_names=()), named, labeled=labeled)


def resolve_columns(
    source: Source,
    layout: ColumnLayout = ONE_OR_TWO_TEXTS,
    named: ColumnRoles = ColumnRoles(),  # noqa: B008  frozen
    *,
    labeled: bool = True,
) -> Columns:
    """Resolve the role of each column in the rows of a task; if not `labeled`, rows need no label."""
    if layout.header_only:
        return resolve_header(source.columns, source.name, layout, named)
    if layout.roles:
        return _resolve_by_roles(source, layout, named, labeled=labeled)
    return _resolve_by_cells(source, layout, named, labeled=labeled)


def resolve_header(
    columns: Sequence[str],
    source_name: str,
    layout: ColumnLayout,
    named: ColumnRoles = ColumnRoles(),  # noqa: B008  frozen
) -> Columns:
    """Resolve roles from column names only; remaining columns fill missing roles if their numbers match."""
    roles = [role.name for role in layout.roles]
    for column in (getattr(named, role_name) for role_name in (*roles, "split")):
        if column is not None and column not in columns:
            raise InputError(
                f"{source_name} has no column {format_column(column)!r}; it has {format_columns(columns)}."
            )
    split = named.split or find_column(columns, layout.split_names)
    selected: dict[str, str | None] = {role_name: getattr(named, role_name) for role_name in roles}
    for role in layout.roles:
        taken = {split, *selected.values()}
        free = [column for column in columns if column not in taken]
        selected[role.name] = selected[role.name] or find_column(free, role.column_names)
    remaining = [column for column in columns if column not in {split, *selected.values()}]
    missing = [role for role in layout.roles if selected[role.name] is None]
    if len(remaining) == len(missing):
        selected |= {role.name: column for role, column in zip(missing, remaining, strict=True)}
    elif missing:
        settings = " and ".join(setting(role.setting_name or role.name, role.setting_value) for role in missing)
        raise InputError(
            missing[0].missing_message.format(source=source_name, columns=format_columns(columns), setting=settings)
        )
    text = selected["text"]
    assert text is not None
    return Columns(text=text, text_b=selected.get("text_b"), split=split)


def match_columns(source: Source, columns: Columns, layout: ColumnLayout) -> Columns:
    """Resolve the same columns in another source of the same data, where id and split may be missing."""
    if layout.roles and not layout.header_only:
        names = {part: getattr(columns, part) for part in ("text", "text_b", "label", "id")}
        names_here = {part: name for part, name in names.items() if name in source.columns}
        options = columns.options if set(columns.options) <= set(source.columns) else ()
        return replace(resolve_columns(source, layout, ColumnRoles(**names_here, options=options)), split=None)
    for name in (columns.text, columns.text_b, columns.label):
        if name is not None and name not in source.columns:
            raise InputError(f"{source.name} has no column {name!r}; it has {format_columns(source.columns, 30)}.")
    return replace(columns, id=columns.id if columns.id in source.columns else None, split=None)


def columns_by_normalized_name(columns: Sequence[str]) -> dict[str, str]:
    """Map normalized names to columns; the first one wins among equal names."""
    return {normalize_name(column): column for column in reversed(columns)}


def find_column(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the first column, in the order of `names`, that has one of them."""
    by_name = columns_by_normalized_name(columns)
    return next((by_name[name] for name in names if name in by_name), None)


def _check_named(source: Source, named: Sequence[tuple[str, str | None]]) -> None:
    for option, name in named:
        if name is not None and name not in source.columns:
            available = format_columns(source.columns)
            raise InputError(
                f"{source.name} has no column {format_column(name)!r} for {setting(option)}; it has {available}."
            )


def _resolve_by_roles(source: Source, layout: ColumnLayout, named: ColumnRoles, *, labeled: bool) -> Columns:
    """Resolve the roles of a task in order; id, split and unnamed texts are detected by their cells."""
    role_columns = [(role.name, getattr(named, role.name)) for role in layout.roles]
    _check_named(source, role_columns)
    options = () if layout.find_options is None else _resolve_options(source, layout.find_options, named.options)
    by_name = columns_by_normalized_name([name for name in source.columns if name not in options])
    selected: dict[str, str | None] = {"text": None, "text_b": None, "label": None, **dict(role_columns)}
    if len(options) == 1 and normalize_name(options[0]) == layout.nested_options:
        selected["text"] = options[0]
    if selected["text"] is None:
        pair = next(((by_name[a], by_name[b]) for a, b in layout.pair_names if a in by_name and b in by_name), None)
        if pair is not None and selected["text_b"] in (None, pair[1]):
            selected["text"], selected["text_b"] = pair
    for role in layout.roles:
        if selected[role.name] is None:
            selected[role.name] = _find_role_column(source, role, by_name, selected)
        if selected[role.name] is None and role.required and (role.name != "label" or labeled):
            column_setting = setting(role.setting_name or role.name, role.setting_value)
            raise InputError(
                role.missing_message.format(
                    source=source.name,
                    content=role.content,
                    columns=format_columns(source.columns),
                    setting=column_setting,
                )
            )
    text_roles = ColumnRoles(text=selected["text"], text_b=selected["text_b"], id=named.id, split=named.split)
    by_cells = _resolve_by_cells(source, ColumnLayout(second_text=False), text_roles, labeled=False)
    columns = replace(by_cells, label=selected["label"], options=options, unused_texts=())
    return replace(columns, messages=_describe_roles(layout, columns))


def _resolve_options(
    source: Source, find: Callable[[Source], tuple[str, ...]], named: tuple[str, ...]
) -> tuple[str, ...]:
    _check_named(source, [("options", name) for name in named])
    options = named or find(source)
    if not options:
        column_setting, available = setting("options", "a,b,c"), format_columns(source.columns)
        raise InputError(f"{source.name} has no option columns among {available}; name them with {column_setting}.")
    return options


def _find_role_column(
    source: Source, role: Role, by_name: Mapping[str, str], selected: Mapping[str, str | None]
) -> str | None:
    if role.choose_column is not None:
        return role.choose_column(source, by_name, selected["label"])
    text_column = selected["text"] if role.name == "label" else None
    return next((by_name[name] for name in role.column_names if name in by_name and by_name[name] != text_column), None)


def _describe_roles(layout: ColumnLayout, columns: Columns) -> tuple[str, ...]:
    """Describe the column of each role, one line per role."""
    lines: dict[str, str] = {}
    for role in layout.roles:
        if (name := getattr(columns, role.name)) is not None:
            title = role.pair_title if columns.text_b is not None and role.pair_title else role.title
            lines[role.name] = f"{title} column: {format_column(name)}"
    if columns.options:
        lines["options"] = f"option columns: {', '.join(map(format_column, columns.options[:8]))}"
    return tuple(lines[part] for part in ("text", "text_b", "options", "label") if part in lines)


def _resolve_by_cells(source: Source, layout: ColumnLayout, named: ColumnRoles, *, labeled: bool) -> Columns:
    """Resolve one or two texts and a label by the names and cells of columns."""
    messages: list[str] = []
    stats = compute_column_stats(source)
    text, text_b, label, id_, split = named.text, named.text_b, named.label, named.id, named.split
    _check_named(source, (("text", text), ("text_b", text_b), ("label", label), ("id", id_), ("split", split)))
    messages += [
        f"{part} column: {format_column(name)} (as named)"
        for part, name in (("text", text), ("second text", text_b))
        if name
    ]
    named_columns = {name for name in (text, text_b, label, id_, split) if name is not None}
    candidates = [column for name, column in stats.items() if name not in named_columns]
    if id_ is None and (match := find_by_name(candidates, ID_NAMES, lambda column: not column.is_list)):
        id_ = match.name
        name = format_column(id_)
        messages.append(f"id column: {name} (by name; rows with the same {name} stay in the same split)")
    if split is None and (match := find_by_name(candidates, SPLIT_NAMES, lambda column: column.holds_split_names)):
        split = match.name
        messages.append(f"split column: {format_column(split)} (by name and values)")
    candidates = [column for column in candidates if column.name not in (id_, split)]
    if (
        text is None
        and text_b is None
        and layout.second_text is not False
        and (pair := find_text_pair(candidates, label, layout))
    ):
        text, text_b = pair
        messages.append(f"text columns: {format_column(text)} and {format_column(text_b)} (by name)")
    if text is None:
        text, reason = find_text_column(
            source, [column for column in candidates if column.name != label], list(stats.values())
        )
        messages.append(f"text column: {format_column(text)} ({reason})")
    if text_b is None and layout.second_text:
        text_b = find_second_text_column(source, [column for column in candidates if column.name not in (text, label)])
        messages.append(f"second text column: {format_column(text_b)} (the only other column of texts)")
    candidates = [column for column in candidates if column.name not in (text, text_b)]
    if label is not None:
        messages.append(f"label column: {format_column(label)} (as named)")
    else:
        label, reason = find_label_column(
            source, candidates, list(stats.values()), number=layout.numeric_label, labeled=labeled
        )
        messages += [f"label column: {format_column(label)} ({reason})"] if label is not None else []
    unused = [name for name in source.columns if name not in (text, text_b, label, id_, split)]
    messages += [f"not used: {format_columns(unused)}"] if unused else []
    return Columns(
        text=text,
        text_b=text_b,
        label=label,
        id=id_,
        split=split,
        messages=tuple(messages),
        unused_texts=tuple(name for name in unused if name in stats and stats[name].holds_texts),
    )
