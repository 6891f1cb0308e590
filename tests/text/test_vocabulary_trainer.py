"""Trained tokenizers: deterministic, equal in `transformers`, with bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Pipeline
from tokenizers import models, pre_tokenizers, trainers

import clearhead
from clearhead.errors import ClearheadError, InputError
from clearhead.jobs.learn_tokenizer import LearnedTokenizer
from clearhead.text import load_tokenizer
from clearhead.text.probes import PROBES
from clearhead.text.vocabulary.trainer import scale_counts
from clearhead.text.vocabulary.word_counts import MAX_CHUNK_LENGTH, ChunkCounter, count_chunks, split_chunks
from tests.variation import scaled

STEMS = [
    "rad",
    "fahr",
    "mann",
    "haus",
    "wind",
    "licht",
    "wasser",
    "bring",
    "find",
    "klein",
    "naïve",
    "Straße",
    "ride",
    "light",
    "water",
    "small",
    "東京",
]
ENDINGS = ["", "s", "en", "er", "ing", "est", "lich", "ung", "'s"]
VARIANTS: list[dict[str, Any]] = [
    {"kind": "bpe"},
    {"kind": "unigram"},
    {"kind": "wordpiece"},
    {"kind": "bpe", "use": "transformer"},
    {"kind": "bpe", "use": "transformer", "split": "metaspace"},
    {"kind": "bpe", "use": "transformer", "split": "metaspace", "byte_fallback": True, "vocab_size": 700},
    {"kind": "bpe", "use": "bert", "split": "bert", "normalize": "bert-cased"},
    {"kind": "bpe", "use": "plain", "split": "whitespace"},
    {"kind": "wordpiece", "use": "transformer", "split": "blanks", "normalize": "nfc"},
    {"kind": "bpe", "split": "metaspace"},  # for gpt, with a separate unknown token
    {"use": "roberta"},
    {"use": "marian", "byte_fallback": True, "vocab_size": 700},
    {"use": "t5", "vocab_size": 500},
    {"kind": "unigram", "use": "bert", "split": "byte-level", "normalize": "none", "vocab_size": 500},
    {"kind": "wordpiece", "normalize": "nfc,strip-accents,lowercase", "split": "whitespace", "characters": 30},
]


def make_lines(count: int = 400, seed: int = 0) -> list[str]:
    """Make sentences of artificial words with a skewed frequency distribution."""
    rng = random.Random(seed)
    words = [stem + ending for stem in STEMS for ending in ENDINGS]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=rng.randint(3, 12))) + "." for _ in range(count)]


def format_options(options: dict[str, Any]) -> str:
    return "-".join(str(value) for value in options.values())


@pytest.fixture(scope="module")
def train() -> Callable[..., LearnedTokenizer]:
    trained_tokenizers: dict[str, LearnedTokenizer] = {}

    def train_once(options: dict[str, Any]) -> LearnedTokenizer:
        key = format_options(options)
        if key not in trained_tokenizers:
            trained_tokenizers[key] = clearhead.learn_tokenizer(make_lines(), **({"vocab_size": 400} | options))
        return trained_tokenizers[key]

    return train_once


@pytest.mark.parametrize("options", VARIANTS, ids=format_options)
def test_transformers_loads_the_same_tokenizer(
    options: dict[str, Any],
    train: Callable[..., LearnedTokenizer],
    load_reference: Callable[[Path], Any],
    tmp_path: Path,
) -> None:
    trained = train(options)
    folder = trained.save(tmp_path / "trained")
    assert sorted(path.name for path in folder.iterdir()) == [
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    theirs, ours = load_reference(folder), load_tokenizer(folder, "", {}).source
    assert len(theirs) == ours.vocab_size == trained.vocabulary <= trained.size
    assert theirs.get_vocab() == ours.vocab
    for text in [*PROBES, *make_lines(20, seed=1), *trained.special]:
        expected = theirs(text, return_offsets_mapping=True)
        encoding = trained.tokenizer.encode(text)
        assert encoding == ours.encode(text)
        assert encoding.ids == expected["input_ids"]
        assert encoding.offsets == [tuple(span) for span in expected["offset_mapping"]]
        assert ours.encode(text, "zwei Männer").ids == theirs(text, "zwei Männer")["input_ids"]
        for skip_special in (True, False):
            assert ours.decode(encoding.ids, skip_special=skip_special) == theirs.decode(
                encoding.ids, skip_special_tokens=skip_special
            )
    assert ours.special_tokens_map == {
        key: token for key, token in theirs.special_tokens_map.items() if isinstance(token, str)
    }
    assert all(theirs.convert_ids_to_tokens(theirs.all_special_ids)), "every special token has an id"
    assert ours.golden() == trained.tokenizer.golden()


@pytest.mark.parametrize("options", VARIANTS, ids=format_options)
def test_ids_are_consecutive(options: dict[str, Any], train: Callable[..., LearnedTokenizer]) -> None:
    trained = train(options)
    assert sorted(trained.tokenizer.vocab.values()) == list(range(trained.vocabulary))
    assert set(trained.special) <= set(trained.tokenizer.vocab)


def test_templates(train: Callable[..., LearnedTokenizer]) -> None:
    def describe_template(options: dict[str, Any], *texts: str) -> tuple[list[str], list[int]]:
        encoding = train(options).tokenizer.encode(*texts)
        layout = [
            (token if special else "AB"[side or 0], segment)
            for token, special, side, segment in zip(
                encoding.tokens, encoding.special, encoding.sides, encoding.segments, strict=True
            )
        ]
        collapsed = [
            pair for index, pair in enumerate(layout) if index == 0 or pair != layout[index - 1] or len(pair[0]) > 1
        ]
        return [token for token, _ in collapsed], [segment for _, segment in collapsed]

    assert describe_template(VARIANTS[2], "rad", "haus") == (["[CLS]", "A", "[SEP]", "B", "[SEP]"], [0, 0, 0, 1, 1])
    assert describe_template(VARIANTS[3], "rad") == (["A", "</s>"], [0, 0])
    assert describe_template(VARIANTS[0], "rad") == (["A"], [0])
    assert describe_template({"use": "roberta"}, "rad", "haus")[0] == ["<s>", "A", "</s>", "</s>", "B", "</s>"]
    t5 = train({"use": "t5", "vocab_size": 500}).tokenizer
    assert [t5.token_id(token) for token in ("<pad>", "</s>", "<unk>", "<extra_id_0>")] == [0, 1, 2, t5.vocab_size - 1]
    marian = train({"use": "marian", "byte_fallback": True, "vocab_size": 700}).tokenizer
    assert [marian.eos_id, marian.unk_id, marian.pad_id] == [0, 1, marian.vocab_size - 1]
    assert train({"use": "roberta"}).tokenizer.pad_id == 1


BYTE_LEVEL = clearhead.learn_tokenizer(make_lines(), kind="bpe", vocab_size=400)


@settings(max_examples=scaled(300), deadline=None)
@given(st.text())
def test_byte_level_is_lossless(text: str) -> None:
    encoding = BYTE_LEVEL.tokenizer.encode(text)
    if "<|endoftext|>" not in text:
        assert BYTE_LEVEL.tokenizer.decode(encoding.ids) == text
    assert BYTE_LEVEL.unknown == 0


@settings(max_examples=scaled(100), deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Z", "C")), min_size=1, max_size=8), min_size=1))
def test_byte_fallback_preserves_words(words: list[str]) -> None:
    text = " ".join(words)
    if "▁" not in text:
        assert BYTE_FALLBACK.tokenizer.decode(BYTE_FALLBACK.tokenizer.encode(text).ids) == text


BYTE_FALLBACK = clearhead.learn_tokenizer(
    make_lines(), kind="bpe", use="transformer", split="metaspace", byte_fallback=True, vocab_size=600
)

TRAINING_SCRIPT = """
import sys, hashlib
from pathlib import Path
import clearhead
from tests.text.test_vocabulary_trainer import make_lines
folder = Path(sys.argv[1])
for kind in ("bpe", "unigram", "wordpiece"):
    for size in (280, 400, 700):
        clearhead.learn_tokenizer(make_lines(150), folder / f"{kind}{size}", kind=kind, use="bert", size=size)
"""


def test_training_is_deterministic_across_processes(tmp_path: Path) -> None:
    files_by_process = []
    for name in ("first", "second", "third"):
        folder = tmp_path / name
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", TRAINING_SCRIPT, str(folder)], check=True, env=environment)
        files_by_process.append({str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.json"))})
    assert len(files_by_process[0]) == 27
    assert files_by_process[0] == files_by_process[1] == files_by_process[2]


def test_bpe_matches_the_library() -> None:
    library_tokenizer = Pipeline(models.BPE())
    library_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options: dict[str, Any] = {"vocab_size": 500, "min_frequency": 2, "show_progress": False}
    library_tokenizer.train_from_iterator(make_lines(), trainers.BpeTrainer(initial_alphabet=alphabet, **options))
    ours = clearhead.learn_tokenizer(make_lines(), kind="bpe", vocab_size=501)
    assert set(library_tokenizer.get_vocab()) | {"<|endoftext|>"} == set(ours.tokenizer.vocab)


def test_unigram_matches_the_library() -> None:
    library_tokenizer = Pipeline(models.Unigram())
    library_tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    options: dict[str, Any] = {"vocab_size": 197, "show_progress": False, "unk_token": "<unk>"}
    library_tokenizer.train_from_iterator(make_lines(), trainers.UnigramTrainer(special_tokens=["<unk>"], **options))
    ours = clearhead.learn_tokenizer(make_lines(), kind="unigram", vocab_size=200, normalize="none")
    assert set(library_tokenizer.get_vocab()) == set(ours.tokenizer.vocab) - {"<pad>", "<s>", "</s>"}


def test_reported_counts() -> None:
    texts = make_lines(200)
    trained = clearhead.learn_tokenizer(texts, kind="wordpiece", vocab_size=200, normalize="bert-cased", characters=25)
    tokens = [token for text in texts for token in trained.tokenizer.encode(text).tokens[1:-1]]
    words = sum(len(text.split()) for text in texts)
    assert (trained.lines, trained.words) == (200, words)
    assert trained.tokens_per_word == pytest.approx(len(tokens) / words)
    assert trained.unknown == pytest.approx(tokens.count("[UNK]") / len(tokens))
    assert trained.unknown > 0
    characters = [character for text in texts for character in text if character != " "]
    covered_characters = [character for character in characters if character in trained.tokenizer.vocab]
    assert trained.characters == len(set(covered_characters)) == 25
    assert trained.covered == pytest.approx(len(covered_characters) / len(characters))
    report = json.loads(json.dumps(trained.to_json(), allow_nan=False))
    assert (report["kind"], report["vocabulary"], report["folder"]) == ("wordpiece", trained.vocabulary, None)
    assert "tokens per word" in trained._repr_html_()


def test_min_count() -> None:
    texts = ["abc abc abc xyz"] * 2
    frequent_only = clearhead.learn_tokenizer(
        texts, kind="bpe", use="plain", split="metaspace", vocab_size=100, min_count=3
    )
    assert "▁abc" in frequent_only.tokenizer.vocab
    assert "▁xyz" not in frequent_only.tokenizer.vocab
    all_words = clearhead.learn_tokenizer(
        texts, kind="bpe", use="plain", split="metaspace", vocab_size=100, min_count=1
    )
    assert "▁xyz" in all_words.tokenizer.vocab


@settings(max_examples=scaled(100), deadline=None)
@given(st.text(max_size=400))
def test_chunks_join_to_the_line(line: str) -> None:
    assert "".join(split_chunks(line)) == line
    assert all(0 < len(chunk) <= MAX_CHUNK_LENGTH for chunk in split_chunks(line))


def test_subsampling_preserves_relative_frequencies() -> None:
    rng = random.Random(0)

    def make_texts() -> Iterator[str]:
        for line_number in range(20_000):
            yield f"common word{rng.randrange(10**9)} {'early' if line_number < 10_000 else 'late'}"

    counter = count_chunks(make_texts(), max_characters=50_000)
    assert sum(map(len, counter.counts)) <= 50_000
    assert (counter.sampling_interval, counter.line_count) == (8, 20_000)
    common, early, late = (counter.counts[word] for word in ("common", " early", " late"))
    assert common == pytest.approx(20_000 / counter.sampling_interval, rel=0.05)
    assert early == pytest.approx(late, rel=0.05)


def test_large_counts_are_scaled() -> None:
    words = {"often": 9_000, "some": 900, "once": 1}
    assert scale_counts(words, max_words=10_000) == (words, 1)
    assert scale_counts(words, max_words=1_000) == ({"often": 900, "some": 90}, 10)


def test_very_long_lines_are_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    with path.open("w") as file:
        for _ in range(40):
            file.write(" ".join(make_lines(300)) + " ")
    trained = clearhead.learn_tokenizer(path, kind="bpe", vocab_size=300)
    assert trained.lines >= 10
    assert trained.words > 40 * 300


def test_all_file_formats_give_the_same_vocabulary(tmp_path: Path) -> None:
    texts = make_lines(60)
    (tmp_path / "plain.txt").write_text("\n".join(texts))
    (tmp_path / "windows.en").write_bytes("\r\n".join(texts).encode("utf-16"))
    with gzip.open(tmp_path / "packed.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(texts) + "\n")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate(texts)))
    (tmp_path / "pairs.tsv").write_text(
        "de\ten\n" + "".join(f"{first}\t{second}\n" for first, second in zip(texts[::2], texts[1::2], strict=True))
    )
    expected = clearhead.learn_tokenizer(texts, vocab_size=300).tokenizer.vocab

    def learn_vocab(file: Any, **options: Any) -> dict[str, int]:
        return clearhead.learn_tokenizer(file, vocab_size=300, **options).tokenizer.vocab

    assert learn_vocab(tmp_path / "plain.txt") == expected
    assert learn_vocab(str(tmp_path / "windows.en")) == expected
    assert learn_vocab(tmp_path / "packed.txt.gz") == expected
    assert learn_vocab(tmp_path / "rows.jsonl") == expected
    assert (
        learn_vocab(tmp_path / "pairs.tsv", text="de,en")
        == learn_vocab(tmp_path / "pairs.tsv", text=["en", "de"])
        == expected
    )
    assert learn_vocab(io.BytesIO("\n".join(texts).encode())) == expected
    assert learn_vocab(iter(texts)) == expected
    from_two_files = clearhead.learn_tokenizer(
        [str(tmp_path / "plain.txt"), str(tmp_path / "rows.jsonl")], vocab_size=300
    )
    assert from_two_files.lines == 120
    assert clearhead.learn_tokenizer(texts, vocab_size=300, limit=7).lines == 7


HOSTILE_TOKENS = [
    "<script>alert(1)</script>",
    "$A",
    "$B:1",
    "[CLS]:0",
    "##a",
    "Ġ",
    "▁",
    "a",
    "{}",
    '"',
    "\\",
    "<0x41>",
    "x\u0301",
]


@pytest.mark.parametrize("options", [VARIANTS[0], VARIANTS[1], VARIANTS[2], VARIANTS[5]], ids=format_options)
@pytest.mark.parametrize("token", HOSTILE_TOKENS)
def test_special_tokens_with_special_syntax(
    token: str, options: dict[str, Any], load_reference: Callable[[Path], Any], tmp_path: Path
) -> None:
    trained = clearhead.learn_tokenizer(
        make_lines(40), tmp_path / "trained", **(options | {"vocab_size": 600, "special": [token]})
    )
    theirs = load_reference(tmp_path / "trained")
    assert theirs.convert_tokens_to_ids(token) == trained.tokenizer.token_id(token)
    assert token in trained.special
    for text in (f"rad {token} haus", token, "wind"):
        assert theirs(text)["input_ids"] == trained.tokenizer.encode(text).ids
        assert trained.tokenizer.token_id(token) in trained.tokenizer.encode(f"rad {token} haus").ids


@pytest.mark.parametrize("token", ["$A", "[SEP]:1", "<b>"])
def test_templates_with_special_syntax(token: str, load_reference: Callable[[Path], Any], tmp_path: Path) -> None:
    trained = clearhead.learn_tokenizer(
        make_lines(40), tmp_path / "trained", use="bert", vocab_size=200, special=[f"cls={token}"]
    )
    assert trained.tokenizer.encode("rad").tokens[0] == token == trained.tokenizer.cls_token
    assert (
        load_reference(tmp_path / "trained")("rad", "haus")["input_ids"] == trained.tokenizer.encode("rad", "haus").ids
    )


def test_special_tokens_in_the_text_are_noted() -> None:
    trained = clearhead.learn_tokenizer(["a </s> b"] * 300, kind="unigram", vocab_size=50)
    assert any("'</s>' occurs in 300 words" in note for note in trained.notes)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "no text to learn from"),
        (["  ", "\n"], {"kind": "unigram"}, "no words to learn from"),
        (["a", 3], {}, "Text 1 has type int"),
        (["a\ud800"], {}, "an unpaired surrogate"),
        ({"a": 1}, {}, "got a dict"),
        (b"abc", {}, "got a bytes"),
        (["abc"], {"kind": "words"}, "kind must be one of bpe, unigram, wordpiece"),
        (["abc"], {"use": "lstm"}, "use must be one of bert, roberta, gpt"),
        (["abc"], {"vocab_size": 0}, "size must be an integer from 1"),
        (["abc"], {"vocab_size": 1.5}, "size must be an integer"),
        (["abc"], {"vocab_size": True}, "size must be an integer"),
        (["abc"], {"vocab_size": 100}, "size 100 is too small for 1 special tokens and 256 single-character tokens"),
        (["abc def"], {"kind": "wordpiece", "vocab_size": 9}, "use at least 15, or limit the characters"),
        (["abc def"], {"kind": "unigram", "vocab_size": 9}, "use at least 11"),
        (["abc"], {"kind": "wordpiece", "split": "metaspace"}, "one of bert, blanks, whitespace for wordpiece"),
        (["abc"], {"kind": "unigram", "split": "bert"}, "split must be one of metaspace, byte-level for unigram"),
        (["abc"], {"byte_fallback": True}, "byte_fallback requires"),
        (["abc"], {"characters": 3}, "characters cannot be limited"),
        (["abc"], {"normalize": "nfc,upper"}, "got 'upper'"),
        (["abc"], {"limit": 0}, "limit must be an integer >= 1"),
        (["abc"], {"min_count": 0}, "min_count must be an integer"),
        (["abc"], {"special": [""]}, "must have 1 to 100 bytes"),
        (["abc"], {"special": ["a b"]}, "without whitespace"),
        (["abc"], {"special": ["<a>", "<a>"]}, "more than once"),
        (["abc"], {"special": ["\x00"]}, "not printable"),
        (["abc"], {"special": [3]}, "must be strings"),
        (["abc"], {"use": "plain", "special": ["pad=</s>"]}, "cannot have a second role"),
        (["abc"], {"text": "a"}, "text and encoding apply only to files"),
    ],
)
def test_invalid_options(texts: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        clearhead.learn_tokenizer(texts, **options)
    assert message in str(error.value)


def test_invalid_training_files(tmp_path: Path) -> None:
    valid_text = "\n".join(make_lines(30))
    cases: dict[str, tuple[bytes, dict[str, Any], str]] = {
        "empty.txt": (b"", {}, "empty.txt is empty"),
        "blank.txt": (b"\n \n\n", {}, "blank.txt contains no text"),
        "image.png": (b"\x89PNG\r\n\x1a\n\x00\x00" + bytes(range(256)) * 9, {}, "NUL bytes, so it is probably binary"),
        "noise.bin": (bytes(range(1, 256)) * 40, {}, "40 lines of invalid UTF-8 (first: line 3)"),
        "wrong.txt": (valid_text.encode(), {"encoding": "klingon"}, "Unknown encoding 'klingon'"),
        "table.csv": (b"de,en\na,b\n", {}, "has the columns de, en; name the text columns"),
        "named.csv": (b"de,en\na,b\n", {"text": "fr"}, "has no column 'fr'; it has de, en"),
        "cut.txt.gz": (gzip.compress(os.urandom(400_000))[:300_000], {}, "cut.txt.gz"),
    }
    for name, (data, options, message) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ClearheadError) as error:
            clearhead.learn_tokenizer(tmp_path / name, vocab_size=300, **options)
        assert message in str(error.value), name
    with pytest.raises(InputError, match=r"nowhere\.txt not found"):
        clearhead.learn_tokenizer("nowhere.txt")
    (tmp_path / "good.txt").write_text(valid_text)
    with pytest.raises(InputError, match="other entries of the list are files"):
        clearhead.learn_tokenizer([str(tmp_path / "good.txt"), str(tmp_path / "gone.txt")])
    (tmp_path / "greek.txt").write_bytes(("καλημέρα κόσμε\n" * 30).encode("cp1253"))
    latin1 = clearhead.learn_tokenizer(tmp_path / "greek.txt", vocab_size=300)
    assert latin1.notes[0] == "greek.txt was read as Latin-1."
    greek = clearhead.learn_tokenizer(tmp_path / "greek.txt", kind="unigram", vocab_size=60, encoding="cp1253")
    assert "κ" in greek.tokenizer.vocab
    (tmp_path / "odd.txt").write_bytes(valid_text.encode() + b"\nbad \xff\xfe\n" + valid_text.encode())
    partly_invalid = clearhead.learn_tokenizer(tmp_path / "odd.txt", vocab_size=300)
    assert any("skipped 1 line of invalid UTF-8 (first: line 31)" in note for note in partly_invalid.notes)


def test_existing_folders_are_not_changed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="already exists and is not empty"):
        clearhead.learn_tokenizer(make_lines(30), tmp_path / "out", vocab_size=300)
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "mine.txt"]
    with pytest.raises(InputError, match="too small"):
        clearhead.learn_tokenizer(make_lines(30), tmp_path / "new", vocab_size=10)
    assert not (tmp_path / "new").exists()


def test_smaller_vocabularies_are_noted() -> None:
    for kind in ("bpe", "unigram", "wordpiece"):
        trained = clearhead.learn_tokenizer(["to be or not to be"], kind=kind, vocab_size=5000)
        assert trained.vocabulary < 5000
        assert any("fewer than the requested 5,000" in note for note in trained.notes)
        assert any("The text has only 6 words" in note for note in trained.notes)


def test_a_single_character_is_enough_text() -> None:
    for kind in ("bpe", "unigram", "wordpiece"):
        trained = clearhead.learn_tokenizer(["a"], kind=kind, vocab_size=300)
        assert trained.tokenizer.encode("a").ids


def test_adding_a_line_does_not_iterate_over_all_words() -> None:
    """The time to count a line must not depend on the number of counted words."""

    class NonIterableCounter(Counter[str]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("iterated over all counted words")

    counter = ChunkCounter()
    counter.counts = NonIterableCounter({"one": 1})
    counter.add("one two two")
    assert dict(counter.counts.items()) == {"one": 2, " two": 2}
