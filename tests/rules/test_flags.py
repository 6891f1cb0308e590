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
FOREIGN_FLAGS = {"--no-deps"}  # of pip
MODEL_CARDS = {"pretrain/card.py", "checkpoint/mean_head.py"}  # texts that are written into model folders
EXEMPT_FILES = {"jobs/plan.py"}  # its messages name `--set`, which it parses; no file may be added


def iter_strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a file other than docstrings; of f-strings, the literal parts."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_flags_in_messages_exist(path: Path) -> None:
    existing = (
        set(every_flag())
        | FOREIGN_FLAGS
        | (
            {flag for former_flags in FORMER_FLAGS.values() for flag in former_flags}
            if name_of(path) == "cli/flags.py"
            else set()
        )
    )
    mentions = [(line, flag) for line, text in iter_strings(path) for flag in FLAG.findall(text) if flag != "--"]
    unknown = [f"line {line}: {flag}" for line, flag in mentions if flag not in existing]
    assert unknown == []


@pytest.mark.parametrize("path", [path for path in FILES if name_of(path).split("/")[0] != "cli"], ids=name_of)
def test_the_library_names_no_flag(path: Path) -> None:
    """Messages for Python callers name keywords; only cli names flags, and `setting` serves both callers."""
    mentions = [(line, FLAG.findall(text)) for line, text in iter_strings(path)]
    mentions = [(line, flags) for line, flags in mentions if flags and not set(flags) <= FOREIGN_FLAGS]
    assert bool(mentions) <= (name_of(path) in EXEMPT_FILES | MODEL_CARDS), mentions


def iter_settings() -> Iterator[tuple[str, str, str | None]]:
    """Yield the file, the name and the verb, if it is given, of every call of `setting("name")`."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setting":
                verb_name = next(
                    (
                        keyword.value.value
                        for keyword in node.keywords
                        if keyword.arg == "of" and isinstance(keyword.value, ast.Constant)
                    ),
                    None,
                )
                if node.args and isinstance(node.args[0], ast.Constant):
                    yield name_of(path), str(node.args[0].value), None if verb_name is None else str(verb_name)


def list_keywords() -> set[str]:
    """List the keywords of public functions and the fields of plans and of `Decoding`."""
    functions = [getattr(clearhead, name) for name in clearhead.__all__]
    parameters = {
        name
        for function in (*functions, predict_file, load_predictor)
        if inspect.isfunction(function)
        for name in inspect.signature(inspect.unwrap(function)).parameters
    }
    return parameters | {field.name for settings_class in (*PLANS, Decoding) for field in fields(settings_class)}


def test_settings_in_messages_exist_for_both_callers() -> None:
    mentions = set(iter_settings())
    assert len(mentions) > 25
    flags = {name for verb_name in VERBS for name in flags_of(verb_name)} | set(ALIASES)
    field_names = {field.name for settings_class in PLANS for field in fields(settings_class)}
    for path, name, verb_name in mentions:
        assert name in list_keywords(), f"{path}: {name} is not a keyword"
        assert name in flags | field_names, f"{path}: {name} is not a flag"
        assert verb_name is None or name in flags_of(verb_name), f"{path}: clearhead {verb_name} has no {name}"


def test_a_setting_is_named_for_its_caller() -> None:
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
        assert setting("max_length", 64) == "max_length=64"  # no flag is invented
    with use_caller(ShellCaller("generate")):
        assert setting("temperature", 0.5) == "--temperature 0.5"
    assert setting("epochs") == "epochs"


def test_a_command_is_written_for_its_caller() -> None:
    assert command("train", resume="a run") == 'clearhead.train(resume="a run")'
    with use_caller(ShellCaller("embed")):
        assert command("train", resume="a run") == "clearhead train --resume 'a run'"
        assert command("convert", "old", "NEW", allow_pickle=True) == "clearhead convert --allow-pickle old NEW"


@pytest.mark.parametrize(
    ("message", "shell_message"),
    [
        ("Training settings: batch_size must be at least 1.", "Training settings: --batch-size must be at least 1."),
        ("set either batch_size or batch_tokens.", "set either --batch-size or --batch-tokens."),
        ("layers=sweep applies only to method features.", "--layers sweep applies only to method features."),
        ("epochs must be at least 1.", "--epochs must be at least 1."),
        ("Setting class_weight: invalid.", "Setting --class-weight: invalid."),
        ("rows.csv has no column 'batch_size'; it has text_b, label.", None),  # text of the user
        ("my/batch_size.csv is not there; batch_size.csv neither.", None),
        ("head_learning_rate must be above 0.", None),  # it has no flag
        ("The epochs of this run are over.", None),
        ("rows.csv: 4 of 5 rows must be mended.", None),
        ("--batch-size must be at least 1.", None),
    ],
)
def test_settings_in_messages_of_plans_become_flags_in_a_shell(message: str, shell_message: str | None) -> None:
    assert name_flags(message, "train") == (shell_message or message)
    assert name_flags(message, None) == message
