"""The quality benchmark: rows as in the files, a table that matches the stored runs."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import finetune
import pytest
from finetune_table import compute_scores, make_row, make_table, prepare_metric
from finetune_tasks import (
    SETTINGS,
    TASKS,
    Task,
    TaskRows,
    groups_of,
    label_names,
    labels_of,
    load_rows,
    read_rows,
    run_path,
    split_by_text,
)

from clearhead.metrics import answer_f1, count_entities, entity_scores, extract_entities

ROWS = {  # train, choose, measure, with the files of the data folder
    "mrpc": (3576, 500, 500),
    "rte": (2490, 277, 277),
    "cola": (8551, 1043, 1043),
    "stsb": (5749, 1500, 1500),
    "sst2": (6920, 872, 872),
    "conll2003": (4000, 3250, 3250),
    "wnut17": (3394, 1009, 1009),
    "squad": (3000, 1000, 1000),
    "openbookqa": (1500, 500, 500),
}
ROW_DIGESTS = {  # if the rows change, stored runs worth hours become void
    "mrpc": "b46c41a8af2abfd6",
    "rte": "b4a886af4f52cedd",
    "cola": "5e9a7b1772ed5a06",
    "stsb": "034719103fd97407",
    "semeval14": "3edacc42729d981f",
    "sst2": "7f4e91c55c35188b",
}


def store(out: Path, task: Task, side: str, seed: int, correct_count: int, rows: int = 200) -> dict[str, Any]:
    """Store a synthetic run with `correct_count` correct rows."""
    truth = [str(index % 2) for index in range(rows)]
    predictions = [label if index < correct_count else "01"[label == "0"] for index, label in enumerate(truth)]
    record = {
        "task": task.name,
        "side": side,
        "seed": seed,
        "scores": compute_scores(task, truth, predictions, ["0", "1"]),
        "cpu_seconds": 100.0 + seed,
        "labels": ["0", "1"],
        "truth": truth,
        "groups": list(range(rows)),
        "predictions": predictions,
    }
    run_path(out, task.name, side, seed).write_text(json.dumps(record))
    return record


@pytest.mark.parametrize(
    ("ours", "verdict", "difference"),
    [
        ((120, 122, 124), "WORSE", "-0.1900"),
        ((161, 159, 160), "no difference", "+0.0000"),
        ((199,) * 3, "better", "+0.1950"),
    ],
)
def test_small_sets_are_judged_by_the_paired_difference(
    tmp_path: Path, ours: tuple[int, ...], verdict: str, difference: str
) -> None:
    for seed, (theirs, mine) in enumerate(zip((158, 160, 162), ours, strict=True)):
        store(tmp_path, TASKS["rte"], "peer", seed, theirs)
        store(tmp_path, TASKS["rte"], "clearhead", seed, mine)
    header, rule, row = make_table([TASKS["rte"]], tmp_path, 3).split("\n")
    assert rule == "|" + " --- |" * 8
    cells = dict(zip(header.split(" | "), row.split(" | "), strict=True))
    assert (cells["| task"], cells["metric"], cells["peer"]) == ("| rte", "accuracy", "0.8000 +- 0.0100 (n=3)")
    assert cells["difference"].startswith(f"{difference} (")
    assert cells["verdict"] == verdict
    assert cells["CPU s peer / clearhead"] == "101 / 101"
    assert cells["command |"] == "`python benchmarks/finetune.py --tasks rte --seeds 3` |"


def test_one_seed_is_judged_by_the_interval_of_the_peer(tmp_path: Path) -> None:
    peer = [store(tmp_path, TASKS["sst2"], "peer", 0, 160)]
    # 160 of 200: the interval is about 0.745 to 0.855
    for correct_count, verdict in ((145, "BELOW"), (152, "within"), (175, "above")):
        runs = {"peer": peer, "clearhead": [store(tmp_path, TASKS["sst2"], "clearhead", 0, correct_count)]}
        assert make_row(TASKS["sst2"], "accuracy", runs).verdict.split()[0] == verdict


def test_only_seeds_of_both_sides_are_compared(tmp_path: Path) -> None:
    peer = [
        store(tmp_path, TASKS["rte"], "peer", seed, correct_count) for seed, correct_count in enumerate((150, 160, 10))
    ]
    ours = [
        store(tmp_path, TASKS["rte"], "clearhead", seed, correct_count) for seed, correct_count in enumerate((152, 162))
    ]
    row = make_row(TASKS["rte"], "accuracy", {"peer": peer, "clearhead": ours})
    assert row.difference is not None
    assert row.difference.value == pytest.approx(0.01)
    assert make_row(TASKS["rte"], "accuracy", {"peer": peer, "clearhead": []}).verdict == "waiting"


def test_rows_of_one_text_are_drawn_together(tmp_path: Path) -> None:
    task, widths = TASKS["rte"], []
    for group_size in (1, 10):  # ten rows that are correct or wrong together count as one
        runs = {}
        for side, correct_count in (("peer", 150), ("clearhead", 160)):
            record = store(tmp_path, task, side, 0, correct_count)
            runs[side] = [record | {"groups": [index // group_size for index in range(200)]}]
        difference = make_row(task, "accuracy", runs).difference
        assert difference is not None
        widths.append(difference.high - difference.low)
    assert widths[1] > 2 * widths[0]


def test_runs_of_other_rows_are_not_compared(tmp_path: Path) -> None:
    runs = {
        side: [store(tmp_path, TASKS["rte"], side, 0, 50, rows)] for side, rows in (("peer", 60), ("clearhead", 70))
    }
    with pytest.raises(SystemExit, match="different rows"):
        make_row(TASKS["rte"], "accuracy", runs)


def test_runs_of_other_settings_are_not_compared(tmp_path: Path) -> None:
    runs = {
        side: [store(tmp_path, TASKS["rte"], side, 0, 50) | {"settings": {"epochs": epochs}}]
        for side, epochs in (("peer", 3), ("clearhead", 4))
    }
    with pytest.raises(SystemExit, match="with different settings"):
        make_row(TASKS["rte"], "accuracy", runs)


def test_a_finished_run_is_kept_and_one_of_other_settings_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    task = TASKS["sst2"]
    samples = [{"sentence": f"text {index}", "label": str(index % 2)} for index in range(8)]
    rows, path = TaskRows(train=samples, choose=samples, measure=samples), run_path(tmp_path / "new", "sst2", "peer", 0)
    assert not finetune.is_finished(task, path, rows)
    finetune.run_and_store(task, "peer", 0, rows, path, lambda: ["1"] * 8)
    record = json.loads(path.read_text())
    assert record["scores"] == {"accuracy": 0.5}
    assert record["settings"] == {"epochs": 3, "learning_rate": 5e-5, "batch_size": 32, "model": "default"}
    assert [index.name for index in path.parent.iterdir()] == ["sst2-peer-0.json"]
    assert finetune.is_finished(task, path, rows)
    assert not finetune.is_finished(task, path, TaskRows(train=samples[:4], choose=samples, measure=samples))
    monkeypatch.setitem(SETTINGS, "epochs", 4)
    assert not finetune.is_finished(task, path, rows)


def test_rows_of_one_text_stay_in_one_part() -> None:
    rng = random.Random(1)
    rows = [{"text": f"text {rng.randrange(300)}", "aspect": str(index)} for index in range(1000)]
    parts = split_by_text(rows, "text")
    assert sorted(int(row["aspect"]) for part in parts for row in part) == list(range(1000))
    texts = [{row["text"] for row in part} for part in parts]
    assert len(set.union(*texts)) == sum(map(len, texts))
    assert [round(len(part) / sum(map(len, texts)), 1) for part in texts] == [0.7, 0.1, 0.2]


def test_a_missing_data_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="set CLEARHEAD_DATA"):
        load_rows(TASKS["sst2"], tmp_path)


@pytest.mark.parametrize("name", TASKS)
def test_tasks_load(data_folder: Path, name: str) -> None:
    task = TASKS[name]
    rows = load_rows(task, data_folder)
    parts = (rows.train, rows.choose, rows.measure)
    assert tuple(map(len, parts)) == ROWS[name] if name in ROWS else sum(map(len, parts)) == 3608
    columns = {column for column in (task.text, task.text_b, *task.options, task.label) if column}
    assert all(
        set(row) == columns and all(value not in ("", []) for value in row.values()) for part in parts for row in part
    )
    if task.kind == "regress":
        assert {type(row[task.label]) for row in rows.train} == {float}
    elif task.kind not in ("tag", "span"):
        assert {row[task.label] for row in rows.measure} == {row[task.label] for row in rows.train}
    assert rows.digest() == ROW_DIGESTS.get(name, rows.digest())
    assert task.settings == SETTINGS if name in ROW_DIGESTS else task.settings["max_length"] in (256, 384)
    assert all(len(row["tokens"]) == len(row["tags"]) for row in rows.train if task.kind == "tag")


TAGGED = [["B-A", "I-A", "O"], ["O", "B-B"], ["O", "O"], ["B-A"]]
PREDICTED = [["B-A", "O", "O"], ["O", "B-B"], ["B-A", "O"], ["B-A"]]


def test_entities_are_counted_by_sentence(tmp_path: Path) -> None:
    task = TASKS["conll2003"]
    expected = entity_scores(
        count_entities([extract_entities(row) for row in TAGGED], [extract_entities(row) for row in PREDICTED])
    )
    assert compute_scores(task, TAGGED, PREDICTED, None) == {"f1": expected["f1"]}
    assert prepare_metric(task, "f1", TAGGED, PREDICTED, None).arrays[0].tolist() == [
        [[0, 1, 1]],
        [[1, 1, 1]],
        [[0, 1, 0]],
        [[1, 1, 1]],
    ]
    rows = [{"tokens": ["a"] * len(tags), "tags": tags} for tags in TAGGED]
    assert label_names(task, TaskRows(train=rows, choose=rows, measure=rows)) == ["B-A", "B-B", "I-A", "O"]
    assert groups_of(task, [*rows, rows[0]]) == [0, 1, 1, 2, 0]
    record = {"truth": TAGGED * 20, "groups": list(range(80)), "labels": None, "cpu_seconds": 1.0}
    runs = {}
    for side, predictions in (("peer", PREDICTED), ("clearhead", TAGGED)):
        records = [record | {"seed": seed, "predictions": predictions * 20} for seed in range(2)]
        runs[side] = [
            record | {"scores": compute_scores(task, TAGGED * 20, predictions * 20, None)} for record in records
        ]
    table_row = make_row(task, "f1", runs)
    assert table_row.verdict == "better"
    assert table_row.difference is not None
    assert table_row.difference.value == pytest.approx(1 - expected["f1"])
    assert table_row.difference.low < table_row.difference.value < table_row.difference.high


def test_answers_are_measured_by_question_and_drawn_by_passage() -> None:
    task = TASKS["squad"]
    rows = [
        {"question": f"who {index}", "context": f"passage {index // 2}", "answers": {"text": ["the red cat", "cat"]}}
        for index in range(4)
    ]
    truth, predictions = labels_of(task, rows), ["Red cat!", "cat", "red dog", ""]
    assert truth[0] == ["the red cat", "cat"]
    assert groups_of(task, rows) == [0, 0, 1, 1]
    assert compute_scores(task, truth, predictions, None) == {
        "f1": pytest.approx((1 + 1 + answer_f1("red dog", "red cat") + 0) / 4),
        "exact_match": 0.5,
    }
    assert prepare_metric(task, "exact_match", truth, predictions, None).arrays[0].tolist() == [1, 1, 0, 0]


def test_files_are_read_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "rows.conll.gz"
    path.write_bytes(gzip.compress("Bonn\tNNP\tB-LOC\nis\tVBZ\tO\n\n\nHer\u2028e\tRB\tO\n".encode()))
    assert read_rows(path) == [
        {"tokens": ["Bonn", "is"], "tags": ["B-LOC", "O"]},
        {"tokens": ["Her\u2028e"], "tags": ["O"]},
    ]
    (tmp_path / "rows.jsonl").write_text('{"question": "a\u2028b"}\n{"question": "c"}\n')
    assert read_rows(tmp_path / "rows.jsonl") == [{"question": "a\u2028b"}, {"question": "c"}]
