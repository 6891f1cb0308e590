"""clearhead complexity: tables, figures, JSON and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
SIZES = ("--lengths", "8,32", "--widths", "16", "--threads", 1)


def test_tables_and_a_picture(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "growth.svg"
    code, out, err = run("complexity", *SIZES, "-o", picture)
    assert code == 0
    for phrase in ("kernel 3, threads: 1, repeats: 5", "sequential steps", "longest path", "log_k n", "width 16:"):
        assert phrase in " ".join(out.split())
    assert err == f"figure: {picture}\n"
    assert "<svg" in picture.read_text()
    code, quiet_out, err = run("complexity", *SIZES, "-o", picture, "--quiet")
    assert (code, err) == (0, "")
    assert "self-attention" in quiet_out


def test_json(run: Run) -> None:
    code, out, err = run("complexity", *SIZES, "--kernel", 5, "--repeats", 7, "--json")
    assert (code, err) == (0, "")
    json_output = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert (json_output["lengths"], json_output["widths"], json_output["kernel"], json_output["repeats"]) == (
        [8, 32],
        [16],
        5,
        7,
    )
    assert len(json_output["measured"]) == 8
    assert json_output["crossovers"][0]["width"] == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--lengths", "8,x"), "--lengths must be integers separated by commas, such as 64,128, got '8,x'."),
        (("--lengths", "0"), "--lengths must be from 1 to 32,768, got 0."),
        (("--lengths", "99999999"), "--lengths must be from 1 to 32,768, got 99999999."),
        (("--widths", "9000"), "--widths must be from 1 to 8,192, got 9000."),
        (("--widths", ",".join(map(str, range(1, 40)))), "--widths must be 1 to 32 distinct numbers, got 39."),
        (("--kernel", "0"), "--kernel must be from 1 to 255, got 0."),
        (("--repeats", "4"), "--repeats must be from 5 to 1,000, got 4."),
        (("--threads", "0"), "--threads must be from 1 to 1024, got 0."),
        (("-o", "growth.gif"), "growth.gif must end in .svg, .png or .html."),
    ],
)
def test_mistakes(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("complexity", *arguments)
    assert (code, out) == (2, "")
    assert message in err
