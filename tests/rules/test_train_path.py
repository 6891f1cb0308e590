"""The path of `train`: reads of the data file and the weights, writes of the plan, and the number of calls.

How the path is counted: a *call* is a function of clearhead on the stack, from `api.train` down, when a row is first
converted to its next representation or when the report is written. Every function counts once, including decorators
and generators; lambdas, comprehensions and constructors do not count. A *representation* is a new layout of rows;
`PartRows` and `PackedDataset` are views that store positions in a token table.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import IO, Any

import pytest

import clearhead
from clearhead.api import train
from clearhead.checkpoint.folder import Checkpoint
from clearhead.data.examples import TextRow
from clearhead.data.sources import files
from clearhead.data.sources.source import Row
from clearhead.data.table import TokenTable
from clearhead.jobs import run_file
from clearhead.report import page
from clearhead.tasks.examples import Example, SelectedRow
from clearhead.tasks.packed import PackedBatch, PackedDataset
from clearhead.tasks.task import Answers
from tests.rows import make_multilabel_rows
from tests.tiny_models import make_sentiment_rows, write_csv

REPO = Path(__file__).parents[2]
SUPPORT = REPO / "examples" / "support.csv"
ROOT = str(Path(clearhead.__file__).parent)
REPRESENTATIONS = (Row, TextRow, TokenTable, PackedBatch, Answers, SelectedRow, Example)
FAST_SETTINGS: dict[str, Any] = {"threads": 1, "precision": "float"}
METHODS: dict[str, dict[str, Any]] = {
    "features": {"method": "features"},
    "finetune": {"method": "finetune", "epochs": 1},
    "tfidf": {"method": "tfidf"},
    "majority": {"method": "majority"},
}


class CountingFile(io.RawIOBase):
    """A file that counts the bytes read from it."""

    def __init__(self, inner: IO[bytes], add: Callable[[int], None]) -> None:
        self._inner, self._add = inner, add

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._inner.read(len(target))
        target[: len(data)] = data
        self._add(len(data))
        return len(data)

    def close(self) -> None:
        self._inner.close()
        super().close()


@contextmanager
def count_bytes_read(path: Path) -> Iterator[list[int]]:
    """Count all bytes read from a file."""
    total = [0]

    def add(count: int) -> None:
        total[0] += count

    original = Path.open

    def open_counting(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        file = original(self, mode, *args, **kwargs)
        return io.BufferedReader(CountingFile(file, add), 1) if self == path and mode == "rb" else file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", open_counting)
        yield total


@pytest.mark.parametrize(
    ("method", "rows"), [*((method, 300) for method in METHODS), ("tfidf", 30_000), ("majority", 30_000)]
)
def test_the_file_is_read_at_most_twice(method: str, rows: int, tiny: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv", make_sentiment_rows(rows))
    size = path.stat().st_size
    assert (size > files.HEAD_BYTES) is (rows > 1000)
    with count_bytes_read(path) as total:
        train(path, output=tmp_path / "run", model=tiny, **FAST_SETTINGS, **METHODS[method])
    # to detect its encoding and to read its rows, plus the head for its format
    assert size < total[0] <= 2 * size + files.HEAD_BYTES + 2


def test_a_third_pass_is_detected(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv", make_sentiment_rows(30))
    with count_bytes_read(path) as total:
        for _ in range(3):
            with path.open("rb") as file:
                file.read()
    assert total[0] == 3 * path.stat().st_size


@contextmanager
def record_tensors_read() -> Iterator[list[list[str]]]:
    """Record the names of the tensors that each load of a model reads."""
    loads: list[list[str]] = []
    original = Checkpoint.iter_arrays

    def record_names(self: Checkpoint, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        loads.append([])
        for name, array in original(self, *args, **kwargs):
            loads[-1].append(name)
            yield name, array

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "iter_arrays", record_names)
        yield loads


@pytest.mark.parametrize(
    ("method", "expected_loads"), [("features", 1), ("finetune", 1), ("tfidf", 0), ("majority", 0)]
)
def test_the_model_is_loaded_once(method: str, expected_loads: int, tiny: str, reviews: Path, tmp_path: Path) -> None:
    """Networks of several seeds, baselines and report share what was read."""
    with record_tensors_read() as loads:
        train(reviews, output=tmp_path / "run", model=tiny, **FAST_SETTINGS, **METHODS[method])
    assert len(loads) == expected_loads
    if method == "finetune":
        with record_tensors_read() as loads:
            train(reviews, output=tmp_path / "seeds", model=tiny, seeds=2, **FAST_SETTINGS, **METHODS[method])
        assert len(loads) == 1
        with record_tensors_read() as loads:
            train(reviews, output=tmp_path / "alone", model=tiny, baselines=False, **FAST_SETTINGS, **METHODS[method])
        assert len(loads) == 1


def test_no_tensor_is_read_twice(tiny: str, tmp_path: Path) -> None:
    """Baselines may need a pooler that the network did not load; only those tensors are read later."""
    with record_tensors_read() as loads:
        train(
            make_multilabel_rows(80),
            output=tmp_path / "run",
            model=tiny,
            seeds=2,
            **FAST_SETTINGS,
            **METHODS["finetune"],
        )
    names = [name for load in loads for name in load]
    assert len(names) == len(set(names)) > 0
    assert all(name.startswith("pooler.") for load in loads[1:] for name in load)


@pytest.mark.parametrize("method", METHODS)
def test_the_plan_is_written_once(
    method: str, tiny: str, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Any] = []
    original = run_file.write_run_file

    def record_plan(folder: Path, plan: Any, *args: Any, **kwargs: Any) -> None:
        plans.append(plan)
        original(folder, plan, *args, **kwargs)

    monkeypatch.setattr(run_file, "write_run_file", record_plan)
    run = train(reviews, output=tmp_path / "run", model=tiny, **FAST_SETTINGS, **METHODS[method])
    assert plans == [run_file.read_run_file(run.folder).plan]
    settings = plans[0].settings
    assert (plans[0].method, settings.precision) == (method, "float")
    assert plans[0].auto_rate is (method != "finetune")


def trace_path(run: Callable[[], object]) -> tuple[set[str], set[str]]:
    """Run, and collect the functions from a row to the report and the representations of the row."""
    kinds: dict[CodeType, str] = {kind.__init__.__code__: kind.__name__ for kind in (*REPRESENTATIONS, PackedDataset)}
    kinds[page.save_report.__code__] = "report"
    calls: set[str] = set()
    kinds_reached: set[str] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        kind = kinds.get(frame.f_code) if event == "call" else None
        if kind is None or kind in kinds_reached:
            return
        kinds_reached.add(kind)
        caller: FrameType | None = frame
        while caller is not None:
            code = caller.f_code
            if code.co_filename.startswith(ROOT) and not code.co_name.startswith("<") and code.co_name != "__init__":
                calls.add(f"{code.co_filename[len(ROOT) + 1 :]}:{code.co_name}")
            caller = caller.f_back

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls, kinds_reached


@pytest.mark.parametrize(("method", "limit"), [("features", 45), ("finetune", 45)])
def test_the_path_from_a_row_to_the_report_is_short(method: str, limit: int, tiny: str, tmp_path: Path) -> None:
    """Fine-tuning also predicts the dev rows after each epoch."""
    rows = tmp_path / "support.csv"
    shutil.copy(SUPPORT, rows)
    calls, kinds = trace_path(
        lambda: train(rows, output=tmp_path / "run", model=tiny, **FAST_SETTINGS, **METHODS[method])
    )
    assert kinds == {kind.__name__ for kind in REPRESENTATIONS} | {"PackedDataset", "report"}
    assert len(REPRESENTATIONS) <= 7
    assert 20 < len(calls) <= limit, "\n".join(sorted(calls))


def test_the_table_of_the_path_names_files_that_exist() -> None:
    text = (REPO / "CONTRIBUTING.md").read_text()
    table = text.split("## The path of a run")[1].split("\n## ")[0]
    quoted = [cell for line in table.splitlines() if line.startswith("| ") for cell in line.split("`")[1::2]]
    paths = [name for name in quoted if name.endswith(".py")]
    assert len(paths) >= 12
    assert not [name for name in paths if not (REPO / "src" / "clearhead" / name).is_file()]
