"""kill -9 at a file operation: repeating the command gives the same files, and no temporary files remain."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import ClearheadError, InputError
from clearhead.files import (
    PARTIAL_SUFFIX,
    atomic_file,
    atomic_folder,
    is_occupied,
    partial_path,
    remove_leftovers,
    scratch_folder,
)
from clearhead.jobs.restart import is_locked, lock_run_folder
from clearhead.translate.generate import continue_lines
from clearhead.translate.stream import translate_lines
from fuzz.crash import KillPoint, choose_points, kill_at_points, read_results, run_command
from fuzz.crash_cases import CommandCase
from fuzz.warm_up import import_package
from tests.parallel_rows import make_parallel_rows
from tests.tiny_models import make_sentiment_rows, tiny_gpt, write_csv
from tests.words.planted import make_topic_sentences


@pytest.fixture(scope="module", autouse=True)
def import_dependencies() -> None:
    """Import once what every killed child process would import."""
    for name in ("cyclopts.help", "rich.table", "jinja2", "msgspec", "email.message"):
        import_module(name)
    import_package()


def write_file() -> None:
    with atomic_file(Path("new/file.bin")) as file:
        file.write(b"x" * 100_000)
        file.write(b"end")


def write_folder() -> None:
    with atomic_folder(Path("folder")) as folder, scratch_folder() as scratch:
        (scratch / "beside").write_bytes(b"1")
        (folder / "below").mkdir()
        with atomic_file(folder / "below" / "one") as file:
            file.write(b"1")
        (folder / "two").write_text("2")


@pytest.mark.slow
@pytest.mark.parametrize("write", [write_file, write_folder])
def test_every_point_of_a_file_and_a_folder(write: Callable[[], None], tmp_path: Path) -> None:
    messages: list[str] = []
    points, findings = kill_at_points(tmp_path, CommandCase(write.__name__, [], write), 0, report=messages.append)
    assert (findings, messages) == (0, [])
    assert points > 5


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "arguments",
    [
        ["word2vec", "words.txt", "-o", "out", "--width", "4", "--epochs", "1"],
        ["learn-tokenizer", "words.txt", "-o", "out", "--vocab-size", "300"],
        ["train", "rows.csv", "--method", "majority"],
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[2:4]),
)
def test_some_points_of_a_command(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("".join(" ".join(line) + "\n" for line in make_topic_sentences(100)))
    write_csv(tmp_path / "rows.csv", make_sentiment_rows(30))
    case = CommandCase(arguments[0], [str(tmp_path / part) if "." in part else part for part in arguments])
    messages: list[str] = []
    points, findings = kill_at_points(tmp_path, case, 3, report=messages.append)
    assert (points, findings, messages) == (3, 0, [])


def test_the_harness_notices_what_is_left(tmp_path: Path) -> None:
    def write_carelessly() -> None:
        Path("half").write_bytes(b"1")
        Path("half").replace("whole")
        if Path("other").exists():
            raise InputError("other is there already")
        Path("other").write_bytes(b"2")

    messages: list[str] = []
    assert kill_at_points(tmp_path, CommandCase("careless", [], write_carelessly), 0, report=messages.append)[1] > 0
    assert any("other is there already" in line for line in messages)


def test_points_are_spread_and_writes_are_torn() -> None:
    operations = ["open a", "write 3", "replace a"]
    points = [(point.stop_at, point.is_partial) for point in choose_points(operations, 0)]
    assert points == [(0, False), (1, False), (1, True), (2, False)]
    assert [point.stop_at for point in choose_points(operations, 2)] == [0, 2]


def test_a_killed_run_goes_on_by_its_own_command_alone(tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(30))
    case = CommandCase("train", ["train", str(rows), "--method", "majority", "-o", "run"])
    assert run_command(tmp_path / "a", case, KillPoint(stop_at=14))[0] is None
    assert (tmp_path / "a" / "work" / "run" / "run.json").is_file()
    other_case = CommandCase("train", [*case.arguments, "--seed", "3"])
    code, output = run_command(tmp_path / "a", other_case)
    assert (code, "contains an unfinished run; resume it with --resume" in output) == (2, True)
    assert run_command(tmp_path / "a", case)[0] == 0
    code, output = run_command(tmp_path / "a", case)
    assert (code, "already exists and is not empty" in output) == (2, True)


def test_a_run_that_still_goes_on_is_left_alone(tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(30))
    case = CommandCase("train", ["train", str(rows), "--method", "majority", "-o", "run"])
    assert run_command(tmp_path / "a", case, KillPoint(stop_at=14))[0] is None
    before = read_results(tmp_path / "a")
    handle = os.open(tmp_path / "a" / "work" / "run", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        code, output = run_command(tmp_path / "a", case)
        assert (code, "in use by another process" in output) == (2, True)
        assert read_results(tmp_path / "a") == before
    finally:
        os.close(handle)
    assert run_command(tmp_path / "a", case)[0] == 0


def test_a_folder_behind_a_link_is_no_other_process(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert not is_locked(tmp_path / "link")
    with lock_run_folder(tmp_path / "link", None):
        assert is_locked(tmp_path / "real")
        with lock_run_folder(tmp_path / "real", None):  # the lock is reentrant within a process
            pass
    assert not is_locked(tmp_path / "real")


def test_what_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    part = partial_path(tmp_path / "file")
    part.write_bytes(b"of another")
    handle = os.open(part, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with atomic_file(tmp_path / "file") as file:
        file.write(b"ours")
    remove_leftovers(tmp_path)
    assert (tmp_path / "file").read_bytes() == b"ours"
    assert part.read_bytes() == b"of another"
    os.close(handle)
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_links_and_folders_under_the_temporary_name(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    for make in (lambda part: part.symlink_to(tmp_path / "mine"), lambda part: part.hardlink_to(tmp_path / "mine")):
        part = partial_path(tmp_path / "file")
        make(part)
        with atomic_file(tmp_path / "file") as file:
            file.write(b"new")
        assert (tmp_path / "mine").read_bytes() == b"mine"
        part.unlink()
    partial_path(tmp_path / "file").mkdir()
    with atomic_file(tmp_path / "file") as file:
        file.write(b"newer")
    assert (tmp_path / "file").read_bytes() == b"newer"


def test_names_as_long_as_can_be(tmp_path: Path) -> None:
    longest = tmp_path / ("ä" * 127 + "b")
    with atomic_file(longest) as file:
        file.write(b"1")
    with atomic_folder(tmp_path / ("c" * 255)) as folder:
        assert folder.name.endswith(PARTIAL_SUFFIX)
    assert {path.name for path in tmp_path.iterdir()} == {longest.name, "c" * 255}
    for write in (atomic_file, atomic_folder):
        for name, reason in (("d" * 256, "File name too long"), ("a\0b", "its name contains invalid characters")):
            with pytest.raises(ClearheadError, match=reason), write(tmp_path / name):
                pass
    with pytest.raises(ClearheadError, match="File name too long"):
        is_occupied(tmp_path / ("d" * 256))


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), atomic_file(tmp_path / "file"):
        raise KeyError
    with pytest.raises(ClearheadError, match="cannot be written: No such file"), atomic_folder(tmp_path / "folder"):
        (tmp_path / "missing").read_bytes()
    assert not list(tmp_path.iterdir())


def test_a_translation_that_goes_on_has_the_same_bits(tmp_path: Path) -> None:
    lines = [row["de"] for row in make_parallel_rows(24)]
    tokenizer = clearhead.learn_tokenizer(lines, kind="bpe", use="transformer", vocab_size=300).tokenizer
    config: dict[str, Any] = {"width": 32, "heads": 2, "feed_width": 48, "encoder_layers": 2, "decoder_layers": 1}
    config |= {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id}
    config |= {"eos_token_id": tokenizer.eos_id, "decoder_start_token_id": tokenizer.bos_id}
    model = clearhead.create("transformer", config=config, head="seq2seq", tokenizer=tokenizer)
    translations = list(translate_lines(model, lines, max_length=6, num_beams=2))
    for skip in (0, 1, 9, 23, 24, 30):
        assert list(translate_lines(model, lines, skip=skip, max_length=6, num_beams=2)) == translations[skip:]
    language_model = clearhead.load(tiny_gpt(tmp_path))
    samples = list(continue_lines(language_model, lines, max_length=4, sample=True, seed=3))
    for skip in (1, 9, 24):
        assert (
            list(continue_lines(language_model, lines, skip=skip, max_length=4, sample=True, seed=3)) == samples[skip:]
        )
