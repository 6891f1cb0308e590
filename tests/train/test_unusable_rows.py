"""inspect lists exactly the unusable rows that train refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clearhead
from clearhead.errors import InputError

FILES = {
    "classes.csv": 'text,label\ngood film,a\n,b\nbad film,b\n"only text"\nfine,a\nnice,\nlovely,b\nawful,a\nyes,b\n',
    "numbers.csv": "text,label\n" + "".join(f"film {n},{n}.5\n" for n in range(30)) + "no number,many\n",
    "split.csv": "text,label,split\n"
    + "".join(f"film {n},{'ab'[n % 2]},train\n" for n in range(9))
    + "x,,dev\n,a,dev\n",
    "many.csv": "text,label\n" + "".join(f"film {n},{'ab'[n % 2] if n % 2 else ''}\n" for n in range(60)),
    "tags.jsonl": "".join(json.dumps({"tokens": ["a", "b"], "tags": ["O", "B-X"]}) + "\n" for _ in range(8))
    + json.dumps({"tokens": ["a", "b"], "tags": ["O"]})
    + "\n",
    "options.csv": "question,choice0,choice1,label\n"
    + "".join(f"what {n},yes {n},no {n},{n % 2}\n" for n in range(20))
    + "why,yes,no,9\n",
}


@pytest.mark.parametrize("name", FILES)
def test_inspect_and_train_list_the_same_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FILES[name])
    task = {"numbers.csv": "regress", "tags.jsonl": "tag", "options.csv": "choice"}.get(name)
    label, method = (None, "head") if task in ("tag", "choice") else ("label", "majority")
    with pytest.raises(InputError) as refused:
        clearhead.train(path, output=tmp_path / "run", method=method, task=task, label=label)
    listed_rows, _, advice = str(refused.value).rpartition("\n")
    assert "skip_bad_rows" in advice
    inspection = clearhead.inspect(path, task=task, label=label, model=None)
    assert inspection.unusable == (listed_rows,)
    assert f"{sum(inspection.bad.values()):,} of {sum(inspection.bad.values()) + inspection.rows:,} rows" in listed_rows
    assert sum(inspection.parts.values()) == inspection.rows


def test_a_file_without_any_label_can_be_inspected(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "".join(f"film {n},\n" for n in range(8)))
    inspection = clearhead.inspect(path, label="label", model=None)
    assert (inspection.rows, inspection.unusable) == (8, ())


def test_multilabel_rows_may_have_no_label(tmp_path: Path) -> None:
    labels = ["a|b", "a", "", "b", "a|b", "b|a"] * 4
    path = tmp_path / "several.csv"
    path.write_text("text,labels\n" + "".join(f"film {n},{cell}\n" for n, cell in enumerate(labels)))
    run = clearhead.train(path, output=tmp_path / "run", method="majority", report=False)
    assert sum(run.rows.values()) == 24
    inspection = clearhead.inspect(path, model=None)
    assert (inspection.kind, inspection.rows, inspection.unusable) == ("multilabel", 24, ())
