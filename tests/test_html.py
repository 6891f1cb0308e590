"""The writer of tables: headers with a scope, attributes that are escaped, and parts in their order."""

from __future__ import annotations

from clearhead.html import write_cell, write_row, write_table


def test_a_table_has_its_parts_in_order() -> None:
    rows = [write_row([write_cell("a", "row"), write_cell("1", class_="n")], class_="main")]
    head = [write_cell("Name", "col"), write_cell("")]
    assert write_table(rows, head, caption="What", class_="bars") == (
        '<table class="bars"><caption>What</caption><thead><tr><th scope="col">Name</th><td></td></tr></thead>'
        '<tbody><tr class="main"><th scope="row">a</th><td class="n">1</td></tr></tbody></table>'
    )
    assert write_table(["<tr></tr>"], separator="\n") == "<table>\n<tbody>\n<tr></tr>\n</tbody></table>"


def test_attributes_are_escaped_and_left_out() -> None:
    hostile = '"><script>'
    assert write_cell("x", dir=None, title=hostile) == '<td title="&quot;&gt;&lt;script&gt;">x</td>'
    assert write_row([], data_row="1", class_=None) == '<tr data-row="1"></tr>'
