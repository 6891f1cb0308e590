"""clearhead train --task translate and clearhead translate: texts, files, pipes and resuming."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from clearhead.cli import main
from clearhead.errors import InputError
from clearhead.translate import stream as translating
from tests.parallel_rows import CONFIGS, make_parallel_rows, write_tsv

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small translator, trained on the command line."""
    folder = tmp_path_factory.mktemp("translator")
    rows = write_tsv(folder / "pairs.tsv", make_parallel_rows(500))
    main(
        [
            "train",
            str(rows),
            "--task",
            "translate",
            "--source",
            "de",
            "--target",
            "en",
            "--family",
            "transformer",
            "--preset",
            "tiny",
            "--set",
            f"config={CONFIGS['transformer']}",
            "--set",
            "vocab_size=120",
            "--epochs",
            "20",
            "--learning-rate",
            "4e-3",
            "--batch-tokens",
            "512",
            "--threads",
            "1",
            "-o",
            str(folder / "model"),
            "--quiet",
        ]
    )
    return folder / "model"


def test_a_text_and_its_best_translations(translator: Path, run: Run) -> None:
    code, out, err = run("translate", translator, "ein hund sieht.", "--quiet")
    assert (code, err) == (0, "")
    assert out.endswith(".\n")
    assert run("translate", translator, "ein hund sieht.", "--quiet", "-o", "-") == (code, out, err)
    code, out, _ = run(
        "translate", translator, "ein hund sieht.", "--num-beams", "3", "--num-return-sequences", "3", "--json"
    )
    json_output = json.loads(out)
    assert code == 0
    assert json_output["translation"] == json_output["best"][0]["translation"]
    assert [hypothesis["score"] for hypothesis in json_output["best"]] == sorted(
        (hypothesis["score"] for hypothesis in json_output["best"]), reverse=True
    )
    sampled = [run("translate", translator, "ein hund.", "--sample", "--seed", "3")[1] for _ in range(2)]
    assert sampled[0] == sampled[1]


def test_json_contains_the_alignment(translator: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("ein hund sieht.\n\nzwei katze.\n")
    code, out, err = run("translate", translator, tmp_path / "in.txt", "--json", "--quiet")
    first, empty, last = map(json.loads, out.splitlines())
    assert (code, err) == (0, "")
    assert first["source_words"] == ["ein", "hund", "sieht", "."]
    assert " ".join(first["target_words"]).replace(" .", ".") == first["translation"]
    for translation in (first, last):
        sources, targets = zip(*translation["alignment"], strict=True)
        assert set(sources) <= set(range(len(translation["source_words"])))
        assert list(targets) == list(range(len(translation["target_words"])))
    assert "alignment" not in empty
    plain = json.loads(run("translate", translator, "ein hund sieht.", "--json", "--no-align")[1])
    assert plain == {name: first[name] for name in plain}
    assert plain.keys() == first.keys() - {"alignment", "source_words", "target_words"}
    code, out, err = run("translate", translator, "ein hund sieht.", "--replace-unknown", "--quiet")
    assert (code, out, err) == (0, first["translation"] + "\n", "")


def test_a_model_without_attention_has_no_alignment(run: Run, tmp_path: Path) -> None:
    rows = write_tsv(tmp_path / "pairs.tsv", make_parallel_rows(30))
    config = '{"width": 16, "encoder_layers": 1, "decoder_layers": 1, "attention": "none", "input_feeding": false}'
    main(
        [
            "train",
            str(rows),
            "--task",
            "translate",
            "--family",
            "rnn",
            "--set",
            f"config={config}",
            "--set",
            "vocab_size=80",
            "--epochs",
            "1",
            "--threads",
            "1",
            "-o",
            str(tmp_path / "rnn"),
            "--quiet",
        ]
    )
    code, out, err = run("translate", tmp_path / "rnn", "ein hund", "--json", "--max-length", "4")
    assert (code, err.count("\n")) == (0, 1)
    assert "no attention" in err
    assert "alignment" not in json.loads(out)
    for option in (("--json", "--align"), ("--replace-unknown",)):
        code, out, err = run("translate", tmp_path / "rnn", "ein hund", *option)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "no attention" in err


def test_lines_keep_their_order_and_empty_ones_stay(
    translator: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [row["de"] for row in make_parallel_rows(9, seed=2)]
    text = "\n".join([*lines[:4], "", *lines[4:]]) + "\n"
    (tmp_path / "in.txt").write_text(text)
    code, expected, _ = run("translate", translator, tmp_path / "in.txt")
    translations = expected.split("\n")
    assert (code, len(translations), translations[4]) == (0, 11, "")
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert run("translate", translator, "-")[1] == expected
    table = write_tsv(tmp_path / "in.tsv", [{"id": str(index), "de": line} for index, line in enumerate(lines)])
    assert run("translate", translator, table, "--text", "de")[1].split("\n") == [*translations[:4], *translations[5:]]
    # an interrupted job resumes after its last complete line
    command = ("translate", translator, tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    translate_lines = translating.translate_lines

    def fail_after_three_lines(*args: Any, **choices: Any) -> Iterator[Any]:
        yield from islice(translate_lines(*args, **choices), 3)
        raise InputError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(translating, "translate_lines", fail_after_three_lines)
        assert run(*command)[0] == 2
    assert not (tmp_path / "out.txt").exists()
    with (tmp_path / "out.txt.partial").open("a") as file:
        file.write("half a li")
    code, out, err = run(*command)
    assert (code, out) == (0, "")
    assert "3 lines" in err
    assert (tmp_path / "out.txt").read_text() == expected
    assert not list(tmp_path.glob("*.partial*"))
    code, _, err = run(*command)  # existing files are never overwritten
    assert (code, "already exists" in err) == (2, True)
    assert (tmp_path / "out.txt").read_text() == expected
    (tmp_path / "other.txt.partial").write_text("of another job\n")
    assert run(*command[:-1], tmp_path / "other.txt")[0] == 0
    assert (tmp_path / "other.txt").read_text() == expected


def test_every_requested_translation_is_printed(
    translator: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [row["de"] for row in make_parallel_rows(4, seed=2)]
    code, out, _ = run("translate", translator, lines[0], "--num-return-sequences", "3")
    cells = [line.split("\t") for line in out.splitlines()]
    assert (code, [rank for rank, _, _ in cells]) == (0, ["1", "2", "3"])
    assert sorted((float(score) for _, score, _ in cells), reverse=True) == [float(score) for _, score, _ in cells]
    json_output = json.loads(run("translate", translator, lines[0], "--num-return-sequences", "3", "--json")[1])
    assert [text for _, _, text in cells] == [hypothesis["translation"] for hypothesis in json_output["best"]]
    assert cells[0][2] == run("translate", translator, lines[0])[1].rstrip("\n")
    (tmp_path / "in.txt").write_text("\n".join([*lines[:2], "", *lines[2:]]) + "\n")
    expected = run("translate", translator, tmp_path / "in.txt", "--num-return-sequences", "3")[1]
    assert [line.split("\t")[:2] for line in expected.splitlines()] == [
        [str(number), str(rank)] for number in range(1, 6) for rank in ((1,) if number == 3 else (1, 2, 3))
    ]
    assert expected.splitlines()[0] == "1\t" + out.splitlines()[0]
    output = tmp_path / "out.tsv"  # resumed after the last source with all translations
    command = ("translate", translator, tmp_path / "in.txt", "--num-return-sequences", "3", "-o", output)
    with monkeypatch.context() as patch:
        patch.setattr(translating, "translate_lines", lambda *_, **__: iter([None]))  # fails at the first line
        with pytest.raises(AttributeError):
            run(*command)
    fingerprint = (tmp_path / "out.tsv.partial.json").read_bytes()
    for line_count in (0, 2, 4, 6, len(expected.splitlines())):
        output.unlink(missing_ok=True)
        partial = "".join(f"{line}\n" for line in expected.splitlines()[:line_count]) + "3\t1" * (line_count == 6)
        (tmp_path / "out.tsv.partial").write_text(partial)
        (tmp_path / "out.tsv.partial.json").write_bytes(fingerprint)
        assert run(*command)[0] == 0
        assert output.read_text() == expected
    output.write_text("something else\n")
    code, _, err = run(*command)
    assert (code, "already exists" in err, output.read_text()) == (2, True, "something else\n")


def test_mistakes_are_one_sentence(translator: Path, masked_model: Path, run: Run, tmp_path: Path) -> None:
    mistakes = {
        "no text": ("translate", translator),
        "an empty text": ("translate", translator, " "),
        "no decoder": ("translate", masked_model, "a text"),
        "a column without a file": ("translate", translator, "a text", "--text", "de"),
        "more translations than beams": (
            "translate",
            translator,
            "a text",
            "--num-beams",
            "2",
            "--num-return-sequences",
            "5",
        ),
        "temperature without samples": ("translate", translator, "a text", "--temperature", "2"),
        "a folder as output": ("translate", translator, "a text", "-o", tmp_path),
        "words without json": ("translate", translator, "a text", "--align"),
        "predict": ("predict", translator, tmp_path / "none.csv"),
    }
    for name, arguments in mistakes.items():
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (name, err)


def test_evaluate_and_describe_a_translator(translator: Path, run: Run) -> None:
    code, out, _ = run("evaluate", translator, translator.parent / "pairs.tsv", "--part", "test", "--json")
    evaluation = json.loads(out)
    assert (code, evaluation["task"]) == (0, "translate")
    assert {"bleu", "chrf", "chrf++", "exact_match"} <= evaluation["metrics"].keys()
    code, out, _ = run("describe", translator)
    assert code == 0
    assert "translate" in out
