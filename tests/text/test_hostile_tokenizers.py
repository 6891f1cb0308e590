"""Any model folder loads as a tokenizer or raises one clear error."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import InputError, TokenizerError
from clearhead.text import Tokenizer, files, load_tokenizer
from tests.text.tokenizer_folders import (
    LEGACY_WRITERS,
    write_albert,
    write_bert_cased,
    write_json,
    write_roberta,
    write_t5,
    write_xlm_roberta,
)

LoadFamily = Callable[[str, str], tuple[Tokenizer, Any]]


def save_tokenizer(write_folder: Callable[[Path], str], folder: Path) -> tuple[dict[str, Any], str]:
    """Save a valid tokenizer.json and return its data and model type."""
    model_type = write_folder(folder / "legacy")
    load_tokenizer(folder / "legacy", model_type, {}).source.save(folder)
    return json.loads((folder / "tokenizer.json").read_text("utf-8")), model_type


def check_rejected(folder: Path, model_type: str, pattern: str = ".") -> str:
    with pytest.raises(TokenizerError, match=pattern) as error:
        load_tokenizer(folder, model_type, {})
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


INVALID_FILES = {
    "empty": b"",
    "not json": b"{",
    "a list": b"[1, 2]",
    "a number": b"7",
    "null": b"null",
    "bad utf-8": b'{"version": "\xff"}',
    "utf-16": '{"version": "1.0"}'.encode("utf-16"),
    "deep": b'{"model":' * 100_000,
    "deep list": b'{"model":' + b"[" * 200_000,
    "NUL": b"\x00" * 100,
    "no model": b'{"version": "1.0"}',
    "wrong version": b'{"version": "9.9", "model": {"type": "WordPiece", "vocab": {}}}',
    "huge number": b'{"model": {"type": "WordPiece", "vocab": {"a": 1' + b"0" * 5_000 + b"}}}",
}


@pytest.mark.parametrize("model_type", ["modernbert", "bert"], ids=["without recipe", "with recipe"])
@pytest.mark.parametrize("case", INVALID_FILES)
def test_files_that_are_not_tokenizers(tmp_path: Path, case: str, model_type: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(INVALID_FILES[case])
    check_rejected(tmp_path, model_type, "tokenizer.json")


FLAGS = {"lstrip": True, "rstrip": False, "single_word": True, "special": False}
INVALID_TOKENIZERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "vocab is a number": lambda d: d["model"].update(vocab=3),
    "vocab is a list of numbers": lambda d: d["model"].update(vocab=[1, 2]),
    "id is text": lambda d: d["model"]["vocab"].update({"a": "x"}),
    "id is negative": lambda d: d["model"]["vocab"].update({"qqq": -1}),
    "id is a fraction": lambda d: d["model"]["vocab"].update({"qqq": 1.5}),
    "id is huge": lambda d: d["model"]["vocab"].update({"qqq": 2**40}),
    "id with a billion unused ids below it": lambda d: d["model"]["vocab"].update({"qqq": 10**9}),
    "added token that is empty after normalization": lambda d: d["added_tokens"].append(
        {"id": len(d["model"]["vocab"]), "content": "\x00", "normalized": True, **FLAGS}
    ),
    "id is true": lambda d: d["model"]["vocab"].update({"qqq": True}),
    "two tokens with one id": lambda d: d["model"]["vocab"].update({"qqq": 7}),
    "wrong kind of model": lambda d: d["model"].update(type="BPE", merges=[]),
    "unknown kind of model": lambda d: d["model"].update(type="Surprise"),
    "added token without content": lambda d: d["added_tokens"].append({"id": 3}),
    "added token with a bad id": lambda d: d["added_tokens"].append({"id": -3, "content": "x"}),
    "added token with a bad flag": lambda d: d["added_tokens"].append({"id": 3, "content": "x", "lstrip": 3}),
    "added token with an unpaired surrogate": lambda d: d["added_tokens"].append({"id": 3, "content": "\ud800"}),
    "added tokens are a number": lambda d: d.update(added_tokens=5),
    "post-processor of an unknown type": lambda d: d.update(post_processor={"type": "Surprise"}),
    "post-processor is a list": lambda d: d.update(post_processor=[1]),
    "normalizer is a number": lambda d: d.update(normalizer=4),
}


@pytest.mark.parametrize("case", INVALID_TOKENIZERS)
def test_invalid_wordpiece_files(tmp_path: Path, case: str) -> None:
    data, model_type = save_tokenizer(write_bert_cased, tmp_path)
    INVALID_TOKENIZERS[case](data)
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    check_rejected(tmp_path, model_type)


@pytest.mark.parametrize(
    "merges", [7, [3], ["a"], ["a b c"], [["a", 1]], ["nosuchpiece northis"], [["a", "b", "c"]]], ids=str
)
def test_invalid_merges(tmp_path: Path, merges: Any) -> None:
    data, model_type = save_tokenizer(write_roberta, tmp_path)
    data["model"]["merges"] = merges
    write_json(tmp_path / "tokenizer.json", data)
    check_rejected(tmp_path, model_type)


@pytest.mark.parametrize("vocab", [{}, [], [["a"]], [["a", "x"]], [[1, 0.0]], [["a", 0.0]], [["a", None]]], ids=str)
def test_invalid_pieces(tmp_path: Path, vocab: Any) -> None:
    data, model_type = save_tokenizer(write_t5, tmp_path)
    data["model"]["vocab"] = vocab
    write_json(tmp_path / "tokenizer.json", data)
    check_rejected(tmp_path, model_type)


@pytest.mark.parametrize(
    "score", [float("nan"), float("inf"), float("-inf"), 1e300, 10**400, True], ids=lambda x: str(x)[:9]
)
def test_invalid_scores(tmp_path: Path, score: Any) -> None:
    data, model_type = save_tokenizer(write_t5, tmp_path)
    data["model"]["vocab"][-1][1] = score
    write_json(tmp_path / "tokenizer.json", data)
    check_rejected(tmp_path, model_type, "score")


def test_long_tokens_are_shortened_in_messages(tmp_path: Path) -> None:
    data, model_type = save_tokenizer(write_bert_cased, tmp_path)
    for vocab in ({"x" * 9_000: -1}, {"x" * 9_000: 3}, {"x" * 50_000: 3_000}):
        changed_data = data | {"model": data["model"] | {"vocab": data["model"]["vocab"] | vocab}}
        write_json(tmp_path / "tokenizer.json", changed_data)
        check_rejected(tmp_path, model_type, "x{80}")


@pytest.mark.parametrize("unk_token", ["?" * 101, {"content": "?" * 900, "special": True}], ids=["text", "object"])
def test_long_unknown_tokens_are_rejected(tmp_path: Path, unk_token: Any) -> None:
    model_type = write_bert_cased(tmp_path)
    (tmp_path / "special_tokens_map.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"unk_token": unk_token}))
    check_rejected(tmp_path, model_type, "unk_token must have at most 100 bytes")


@pytest.mark.parametrize("table", ["!!!", "AAAA", "/////w==", "BAAAAP////8="])
def test_invalid_normalization_tables(tmp_path: Path, table: str) -> None:
    data, model_type = save_tokenizer(write_xlm_roberta, tmp_path)
    data["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": table}
    write_json(tmp_path / "tokenizer.json", data)
    with contextlib.suppress(TokenizerError):
        load_tokenizer(tmp_path, model_type, {}).source.encode("keeper é ﬁ")


@pytest.mark.parametrize("pattern", ["((", "[", "(?<name", "*a", "\\", "a{99999999}"])
def test_invalid_patterns_are_reported(tmp_path: Path, pattern: str) -> None:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    data = {"version": "1.0", "added_tokens": [], "pre_tokenizer": split}
    data |= {"model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"}}
    write_json(tmp_path / "tokenizer.json", data)
    check_rejected(tmp_path, "modernbert", "tokenizer.json cannot be used")


def test_template_with_unknown_ids(tmp_path: Path) -> None:
    single = [{"SpecialToken": {"id": "[X]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    tokens = {"[X]": {"id": "[X]", "ids": [4_000_000], "tokens": ["[X]"]}}
    template = {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": tokens}
    model = {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"}
    data = {"version": "1.0", "added_tokens": [], "post_processor": template, "model": model}
    write_json(tmp_path / "tokenizer.json", data)
    check_rejected(tmp_path, "modernbert", "ids that are not in the vocabulary")


def test_library_panics_become_tokenizer_errors() -> None:
    class PanicException(BaseException):
        """Has the same name as the exception of Rust panics, which cannot be imported."""

    with pytest.raises(TokenizerError, match="panicked"), files.wrap_library_errors("x.json cannot be used"):
        raise PanicException("index out of bounds")
    with pytest.raises(KeyboardInterrupt), files.wrap_library_errors("x.json cannot be used"):
        raise KeyboardInterrupt


def test_file_sizes_are_checked_before_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    with path.open("wb") as file:
        file.truncate(files.MAX_VOCABULARY_BYTES + 1)  # a sparse file, which needs no disk space
    check_rejected(tmp_path, "bert", "larger than the limit of 512 MB")
    path.unlink()
    with (tmp_path / "tokenizer_config.json").open("wb") as file:
        file.truncate(files.MAX_SETTINGS_BYTES + 1)
    check_rejected(tmp_path, "bert", "larger than the limit of 16 MB")


SETTINGS: dict[str, dict[str, Any]] = {
    "flag is text": {"do_lower_case": "yes"},
    "special token is a number": {"cls_token": 5},
    "special token is a list": {"mask_token": ["[MASK]"]},
    "special token without content": {"mask_token": {"__type": "AddedToken"}},
    "required unknown token is null": {"unk_token": None},
    "required separator is null": {"sep_token": None},
    "class is a number": {"tokenizer_class": 3},
    "added tokens are a list": {"added_tokens_decoder": [1]},
    "added token id is text": {"added_tokens_decoder": {"x": {"content": "y"}}},
    "added token is a string": {"added_tokens_decoder": {"3": "y"}},
    "extra tokens are text": {"extra_special_tokens": "x"},
    "additional token is a number": {"additional_special_tokens": [3]},
    "unpaired surrogate": {"mask_token": "\udfff"},
    "side is up": {"truncation_side": "up"},
    "split is a number": {"split_special_tokens": 1},
}


@pytest.mark.parametrize("case", SETTINGS)
def test_invalid_settings(tmp_path: Path, case: str) -> None:
    model_type = write_bert_cased(tmp_path)
    (tmp_path / "special_tokens_map.json").unlink()  # it takes precedence over the settings
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(SETTINGS[case]))
    check_rejected(tmp_path, model_type)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("added_tokens.json", b'{"x": "y"}'),
        ("added_tokens.json", b'{"x": -1}'),
        ("added_tokens.json", b"[]"),
        ("special_tokens_map.json", b"7"),
        ("special_tokens_map.json", b'{"cls_token": {"content": 4}}'),
        ("special_tokens_map.json", b'{"mask_token": 4}'),
        ("tokenizer_config.json", b"\xff"),
    ],
)
def test_invalid_settings_files(tmp_path: Path, name: str, content: bytes) -> None:
    model_type = write_bert_cased(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / name).write_bytes(content)
    assert name.split(".")[0] in check_rejected(tmp_path, model_type)


def test_invalid_legacy_vocabularies(tmp_path: Path) -> None:
    model_type = write_roberta(tmp_path)
    vocab = json.loads((tmp_path / "vocab.json").read_text("utf-8"))
    valid_vocab = (tmp_path / "vocab.json").read_bytes()
    for content in (
        b"",
        b"[]",
        b"\xff",
        json.dumps(vocab | {"q": "1"}).encode(),
        json.dumps(vocab | {"qq": 5}).encode(),
    ):
        (tmp_path / "vocab.json").write_bytes(content)
        check_rejected(tmp_path, model_type)
    (tmp_path / "vocab.json").write_bytes(valid_vocab)
    for content in (b"a b c\n", b"nosuch piece\n", b"\xff\n"):
        (tmp_path / "merges.txt").write_bytes(content)
        check_rejected(tmp_path, model_type, "merges.txt")
    folder = tmp_path / "words"
    write_bert_cased(folder)
    (folder / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")
    check_rejected(folder, "bert", r"vocab\.txt is not UTF-8")


def test_missing_files_are_named(tmp_path: Path) -> None:
    for model_type, pattern in (
        ("bert", r"expected tokenizer\.json or vocab\.txt"),
        ("gpt2", r"tokenizer\.json or vocab\.json \+ merges\.txt or encoder\.json \+ vocab\.bpe"),
        ("t5", r"spiece\.model"),
        ("xlm-roberta", r"sentencepiece\.bpe\.model"),
        ("deberta-v2", r"spm\.model"),
        ("modernbert", r"tokenizer\.json"),
        ("nobody-knows", r"tokenizer\.json"),
    ):
        check_rejected(tmp_path, model_type, pattern)
    check_rejected(tmp_path / "nowhere", "bert", "; expected ")


def test_a_folder_named_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").mkdir()
    check_rejected(tmp_path, "bert", "; expected ")


def test_paths_in_settings_are_ignored(tmp_path: Path) -> None:
    model_type = write_bert_cased(tmp_path / "model")
    expected_ids = load_tokenizer(tmp_path / "model", model_type, {}).source.golden()
    (tmp_path / "other.txt").write_text("[UNK]\n[CLS]\n[SEP]\n", encoding="utf-8")
    path = tmp_path / "model" / "tokenizer_config.json"
    ignored_settings: dict[str, Any] = {"vocab_file": str(tmp_path / "other.txt"), "tokenizer_file": "../other.json"}
    ignored_settings |= {"name_or_path": "/etc/passwd", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}}
    write_json(path, json.loads(path.read_text()) | ignored_settings)
    tokenizer = load_tokenizer(tmp_path / "model", model_type, {}).source
    assert tokenizer.golden() == expected_ids
    tokenizer.save(tmp_path / "out")
    assert not set(ignored_settings) & set(json.loads((tmp_path / "out" / "tokenizer_config.json").read_text()))


def test_random_corruption_raises_tokenizer_errors(tmp_path: Path) -> None:
    rng = random.Random(5)
    for name in ("bert_cased", "gpt2", "albert"):
        folder = tmp_path / name
        _, model_type = save_tokenizer(LEGACY_WRITERS[name], folder)
        original = (folder / "tokenizer.json").read_bytes()
        for _ in range(25):
            damaged = bytearray(original)
            for _ in range(rng.randint(1, 3)):
                position = rng.randrange(len(damaged))
                damaged[position : position + rng.randint(0, 4)] = bytes(rng.choice(b'{}[]",:0-xn\\') for _ in range(2))
            (folder / "tokenizer.json").write_bytes(damaged)
            for tested_type in (model_type, "modernbert"):
                with contextlib.suppress(TokenizerError):
                    tokenizer = load_tokenizer(folder, tested_type, {}).source
                    tokenizer.decode(tokenizer.encode("The keeper é").ids)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (None, "got NoneType"),
        (3, "got int"),
        (b"bytes", "got bytes"),
        (["a", 3], "word 1 has type int"),
        ({"a": 1}, "got dict"),
        ("half \ud83d a pair", "unpaired surrogate at character 5"),
        (["fine", "\udc00"], "surrogate"),
        (("a",), "tuple of 1"),
        (("a", "b", "c"), "tuple of 3"),
        (("a", ["b"]), "two strings or two lists"),
        (("a", None), "got NoneType"),
    ],
)
def test_invalid_texts_are_rejected(load_family: LoadFamily, text: Any, pattern: str) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    with pytest.raises(InputError, match=pattern):
        ours.encode_batch([text])
    with pytest.raises(InputError, match="text 1"):
        ours.encode_batch(["good", text])


def test_invalid_ids_are_rejected(load_family: LoadFamily) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    for ids in ([-1], [2**40], ["7"], [1.5], [None]):
        with pytest.raises(InputError):
            ours.decode(ids)  # type: ignore[arg-type]
    assert ours.decode([399_999]) == ""


def test_encoding_failures_are_reported(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[CLS]\n[SEP]\n[PAD]\n[MASK]\nword\n", encoding="utf-8")
    tokenizer = load_tokenizer(tmp_path, "bert", {}).source
    assert tokenizer.encode("word").tokens == ["[CLS]", "word", "[SEP]"]
    with pytest.raises(TokenizerError, match="UNK"):
        tokenizer.encode("other")


def test_long_special_tokens_are_shortened_in_messages(tmp_path: Path) -> None:
    write_albert(tmp_path)
    settings = {"sep_token": "x" * 999, "added_tokens_decoder": {"400": {"content": "", "normalized": True}}}
    write_json(tmp_path / "tokenizer_config.json", settings)
    assert len(check_rejected(tmp_path, "albert", "is not in the vocabulary")) < 200
