"""Messages name settings that exist, as the caller writes them: flags on the command line, keywords in Python."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import clearhead
from clearhead.caller import command, setting, use_caller, verb
from clearhead.cli import VERBS
from clearhead.cli.flags import ALIASES, FORMER_FLAGS, ShellCaller, every_flag, flags_of, name_flags
from clearhead.decode.settings import Decoding
from clearhead.jobs.plan import RunPlan
from clearhead.predict.files import predict_file
from clearhead.predict.loading import load_predictor
from clearhead.pretrain.plan import PretrainPlan
from clearhead.training.settings import TrainSettings

ROOT = Path(clearhead.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FLAG = re.compile(r"(?<![\w-])(?:--[a-z]+(?:-[a-z]+)*(?![\w-])|-o\b|(?<=\s)--$)")  # the last: a name follows
PLANS = (RunPlan, PretrainPlan, TrainSettings)  # whose fields `train`, `ladder` and `pretrain` take
OF_OTHERS = {"--no-deps"}  # of pip
PAGES = {"pretrain/card.py", "checkpoint/mean_head.py"}  # texts that are written into model folders
# messages that still name a flag to whoever calls; no file may be added
LATER = {"jobs/plan.py"}  # it reads `--set` itself


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file that people may read: all but docstrings; of f-strings, the parts that stand there."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_flags_in_messages_exist(path: Path) -> None:
    known = (
        set(every_flag())
        | OF_OTHERS
        | ({flag for old in FORMER_FLAGS.values() for flag in old} if name_of(path) == "cli/flags.py" else set())
    )
    named = [(line, flag) for line, text in strings(path) for flag in FLAG.findall(text) if flag != "--"]
    wrong = [f"line {line}: {flag}" for line, flag in named if flag not in known]
    assert wrong == []


@pytest.mark.parametrize("path", [path for path in FILES if name_of(path).split("/")[0] != "cli"], ids=name_of)
def test_the_library_names_no_flag(path: Path) -> None:
    """What Python callers read has keywords; the command line alone writes flags, and `setting` where both read it."""
    found = [(line, FLAG.findall(text)) for line, text in strings(path)]
    found = [(line, flags) for line, flags in found if flags and not set(flags) <= OF_OTHERS]
    assert bool(found) <= (name_of(path) in LATER | PAGES), found


def settings_named() -> Iterator[tuple[str, str, str | None]]:
    """Where `setting("name")` is called: the file, the name, and the verb where one is said."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setting":
                of = next(
                    (
                        word.value.value
                        for word in node.keywords
                        if word.arg == "of" and isinstance(word.value, ast.Constant)
                    ),
                    None,
                )
                if node.args and isinstance(node.args[0], ast.Constant):
                    yield name_of(path), str(node.args[0].value), None if of is None else str(of)


def keywords() -> set[str]:
    """Every keyword of a public function, with the fields of plans and of decoding."""
    functions = [getattr(clearhead, name) for name in clearhead.__all__]
    known = {
        name
        for function in (*functions, predict_file, load_predictor)
        if inspect.isfunction(function)
        for name in inspect.signature(inspect.unwrap(function)).parameters
    }
    return known | {one.name for kind in (*PLANS, Decoding) for one in fields(kind)}


def test_settings_in_messages_exist_for_both_callers() -> None:
    found = set(settings_named())
    assert len(found) > 25
    flags = {name for one in VERBS for name in flags_of(one)} | set(ALIASES)
    fields_set = {one.name for kind in PLANS for one in fields(kind)}
    for path, name, of in found:
        assert name in keywords(), f"{path}: {name} is no keyword"
        assert name in flags | fields_set, f"{path}: {name} is no flag"
        assert of is None or name in flags_of(of), f"{path}: clearhead {of} has no {name}"


def test_the_same_setting_for_every_caller() -> None:
    assert setting("text_b", "COLUMN") == 'text_b="COLUMN"'
    assert setting("skip_bad_rows", True) == "skip_bad_rows=True"
    assert (setting("epochs"), setting("epochs", 3)) == ("epochs", "epochs=3")
    assert (verb("learn-tokenizer"), verb("embed")) == ("clearhead.learn_tokenizer", "Model.embed")
    with use_caller(ShellCaller("train")):
        assert setting("text_b", "COLUMN") == "--text-b COLUMN"
        assert setting("skip_bad_rows", True) == "--skip-bad-rows"
        assert setting("output", "FOLDER") == "-o FOLDER"
        assert setting("max_length", 64) == "--set max_length=64"  # train has no flag of this name
        assert setting("allow_pickle", True, of="convert") == "--allow-pickle"
        assert verb("learn-tokenizer") == "clearhead learn-tokenizer"
    with use_caller(ShellCaller("evaluate")):
        assert setting("slices") == "--slice"
        assert setting("max_length", 64) == "max_length=64"  # nothing that does not exist
    with use_caller(ShellCaller("generate")):
        assert setting("temperature", 0.5) == "--temperature 0.5"
    assert setting("epochs") == "epochs"


def test_whole_commands_for_every_caller() -> None:
    assert command("train", resume="a run") == 'clearhead.train(resume="a run")'
    with use_caller(ShellCaller("embed")):
        assert command("train", resume="a run") == "clearhead train --resume 'a run'"
        assert command("convert", "old", "NEW", allow_pickle=True) == "clearhead convert --allow-pickle old NEW"


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("Training settings: batch_size must be at least 1.", "Training settings: --batch-size must be at least 1."),
        ("set either batch_size or batch_tokens.", "set either --batch-size or --batch-tokens."),
        ("layers=sweep applies only to method features.", "--layers sweep applies only to method features."),
        ("epochs must be at least 1.", "--epochs must be at least 1."),
        ("Setting class_weight: invalid.", "Setting --class-weight: invalid."),
        ("rows.csv has no column 'batch_size'; it has text_b, label.", None),  # the user's own words
        ("my/batch_size.csv is not there; batch_size.csv neither.", None),
        ("head_learning_rate must be above 0.", None),  # it has no flag
        ("The epochs of this run are over.", None),
        ("rows.csv: 4 of 5 rows must be mended.", None),
        ("--batch-size must be at least 1.", None),
    ],
)
def test_settings_in_the_checks_of_plans_are_flags_in_a_shell(said: str, read: str | None) -> None:
    assert name_flags(said, "train") == (read or said)
    assert name_flags(said, None) == said
