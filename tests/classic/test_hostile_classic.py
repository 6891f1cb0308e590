"""Model folders that are damaged or mean harm are refused in one sentence, before they cost anything."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.checkpoint.weights import write_safetensors
from clearhead.classic import ClassicModel, LinearModel, MajorityModel, Tfidf, load_classic, save_classic
from clearhead.errors import CheckpointError, ClearheadError, TensorError, UnsafeError

CARD, TENSORS, TERMS = "classic.json", "classic.safetensors", "terms.json"
SECRET = "what-stands-in-a-file-outside"

Spoil = Callable[[Path], None]


def made(folder: Path) -> Path:
    """A small model of known numbers."""
    linear = LinearModel(np.arange(6, dtype=np.float32).reshape(2, 3), np.array([0.5, -0.5], np.float32), 10.0)
    tfidf = Tfidf(terms=("aa", "aa bb", "bb"), idf=np.array([1, 1.5, 2], np.float32))
    save_classic(folder, ClassicModel(method="tfidf", tfidf=tfidf, linear=linear))
    return folder


def vouch(folder: Path) -> None:
    """Make classic.json agree with the files as they are, so that the check behind it is reached."""
    card = json.loads((folder / CARD).read_text())
    for name in card["sha256"]:
        card["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / CARD).write_text(json.dumps(card))


def card(**change: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        data = json.loads((folder / CARD).read_text())
        data.update(change)
        (folder / CARD).write_text(json.dumps(data))

    return spoil


def settings(**change: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        data = json.loads((folder / CARD).read_text())
        data["tfidf"].update(change)
        (folder / CARD).write_text(json.dumps(data))

    return spoil


def without(key: str) -> Spoil:
    def spoil(folder: Path) -> None:
        data = json.loads((folder / CARD).read_text())
        del data[key]
        (folder / CARD).write_text(json.dumps(data))

    return spoil


def terms(value: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / TERMS).write_text(value if isinstance(value, str) else json.dumps({"terms": value}))
        vouch(folder)

    return spoil


def tensors(**change: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        kept: dict[str, Any] = {
            "bias": np.zeros(2, np.float32),
            "weight": np.zeros((2, 3), np.float32),
            "idf": np.ones(3, np.float32),
            **change,
        }
        write_safetensors(
            folder / TENSORS, {name: np.asarray(array) for name, array in kept.items() if array is not None}
        )
        vouch(folder)

    return spoil


def header(change: Callable[[dict[str, Any]], None]) -> Spoil:
    def spoil(folder: Path) -> None:
        data = (folder / TENSORS).read_bytes()
        length = int.from_bytes(data[:8], "little")
        entries = json.loads(data[8 : 8 + length])
        change(entries)
        text = json.dumps(entries).encode()
        (folder / TENSORS).write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
        vouch(folder)

    return spoil


def raw(name: str, data: bytes) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return spoil


def gone(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def linked(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        outside = folder.parent / SECRET
        (folder / name).rename(outside)
        (folder / name).symlink_to(outside)

    return spoil


def pipe(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


def long_file(name: str, size: int) -> Spoil:
    def spoil(folder: Path) -> None:
        with (folder / name).open("r+b") as file:
            file.truncate(size)

    return spoil


def flipped(folder: Path) -> None:
    """One bit of one weight."""
    data = bytearray((folder / TENSORS).read_bytes())
    data[-5] ^= 1
    (folder / TENSORS).write_bytes(bytes(data))


def mixed(folder: Path) -> None:
    """The terms of another save, which fit."""
    data = json.loads((folder / TERMS).read_text())
    (folder / TERMS).write_text(json.dumps({"terms": data["terms"][::-1]}))


NAN, INF, HUGE = np.float32("nan"), np.float32("inf"), np.float32(1e35)

CASES: dict[str, tuple[Spoil, type[ClearheadError], str]] = {
    "no card": (gone(CARD), CheckpointError, CARD),
    "no tensors": (gone(TENSORS), CheckpointError, TENSORS),
    "no terms": (gone(TERMS), CheckpointError, TERMS),
    "card is no JSON": (raw(CARD, b"{"), CheckpointError, "not valid JSON"),
    "card is no text": (raw(CARD, b"\xff\xfe\x00"), CheckpointError, "not UTF-8"),
    "card is a list": (raw(CARD, b"[]"), CheckpointError, "expected an object"),
    "card nests": (raw(CARD, b'{"a":' * 5000 + b"1" + b"}" * 5000), CheckpointError, CARD),
    "card says twice": (raw(CARD, b'{"format": 1, "format": 1}'), UnsafeError, "twice"),
    "card is endless": (long_file(CARD, 1 << 30), UnsafeError, "bytes"),
    "card is a pipe": (pipe(CARD), UnsafeError, "regular file"),
    "card is a link out": (linked(CARD), UnsafeError, "leaves the model folder"),
    "unknown key": (card(extra=1), CheckpointError, "'extra'"),
    "unknown setting": (settings(tokenizer="x"), CheckpointError, "'tokenizer'"),
    "missing key": (without("outputs"), CheckpointError, "outputs"),
    "newer format": (card(format=2), CheckpointError, "upgrade"),
    "format is a text": (card(format="1"), CheckpointError, "format"),
    "unknown method": (card(method="pickle"), CheckpointError, CARD),
    "method without settings": (card(tfidf=None), CheckpointError, "go together"),
    "settings without method": (card(method="linear"), CheckpointError, "go together"),
    "another method": (card(method="linear", tfidf=None), TensorError, "idf"),
    "no outputs": (card(outputs=0), CheckpointError, "go together"),
    "other outputs": (card(outputs=3), TensorError, "bias"),
    "outputs beyond count": (card(outputs=10**40), CheckpointError, "expected"),
    "outputs are true": (card(outputs=True), CheckpointError, "outputs"),
    "inputs below nothing": (card(inputs=-3), CheckpointError, "go together"),
    "other inputs": (card(inputs=4), TensorError, "weight"),
    "strength is nothing": (card(strength=0.0), CheckpointError, "strength"),
    "strength is NaN": (card(strength=float("nan")), CheckpointError, "strength"),
    "strength is infinite": (card(strength=float("inf")), CheckpointError, "strength"),
    "long n-grams": (settings(ngrams=[1, 10**9]), CheckpointError, "ngrams"),
    "n-grams of three": (settings(ngrams=[1, 2, 3]), CheckpointError, "ngrams"),
    "max_terms is negative": (settings(max_terms=-1), CheckpointError, "max_terms"),
    "pairs that are none": (settings(pairs=True), CheckpointError, "13 features"),
    "no hashes": (card(sha256={}), CheckpointError, "another save"),
    "hash of nonsense": (card(sha256={TENSORS: "x", TERMS: "y"}), CheckpointError, "another save"),
    "a bit flipped": (flipped, CheckpointError, "damaged"),
    "terms of another save": (mixed, CheckpointError, "another save"),
    "terms are no JSON": (terms("["), CheckpointError, TERMS),
    "terms are a number": (terms(3), CheckpointError, "no list"),
    "terms are none": (terms([]), CheckpointError, "no list"),
    "terms under another key": (terms('{"words": ["aa"]}'), CheckpointError, "no list"),
    "terms twice": (terms(["aa", "bb", "aa"]), CheckpointError, "twice"),
    "a term is a number": (terms(["aa", "bb", 3]), CheckpointError, "3"),
    "a term is a list": (terms(["aa", "bb", ["cc"]]), CheckpointError, "term"),
    "a term is empty": (terms(["aa", "bb", ""]), CheckpointError, "letters"),
    "a term is endless": (terms(["aa", "bb", "c" * 100_000]), CheckpointError, "letters"),
    "a term with control signs": (terms(["aa", "bb", "\x1b[2J" * 99]), CheckpointError, "letters"),
    "too few terms": (terms(["aa", "bb"]), CheckpointError, "idf"),
    "too many terms": (terms(["aa", "bb", "cc", "dd"]), CheckpointError, "idf"),
    "terms are a link out": (linked(TERMS), UnsafeError, "leaves the model folder"),
    "terms are a pipe": (pipe(TERMS), UnsafeError, "regular file"),
    "terms are endless": (long_file(TERMS, 1 << 40), UnsafeError, "bytes"),
    "tensors are a link out": (linked(TENSORS), UnsafeError, "leaves the model folder"),
    "tensors are a pipe": (pipe(TENSORS), UnsafeError, "regular file"),
    "tensors are endless": (long_file(TENSORS, 1 << 42), UnsafeError, "more than its tensors take"),
    "tensors are cut": (long_file(TENSORS, 200), CheckpointError, TENSORS),
    "tensors are empty": (raw(TENSORS, b""), UnsafeError, TENSORS),
    "tensors are a pickle": (raw(TENSORS, b"\x80\x04\x95" + b"0" * 99), UnsafeError, TENSORS),
    "NaN in the weights": (tensors(weight=np.array([[0, 0, NAN], [0, 0, 0]])), TensorError, "NaN"),
    "infinite weights": (tensors(weight=np.array([[0, 0, -INF], [0, 0, 0]])), TensorError, "infinity"),
    "huge weights": (tensors(weight=np.full((2, 3), HUGE)), TensorError, "numbers above"),
    "NaN in the bias": (tensors(bias=np.array([NAN, 0])), TensorError, "bias"),
    "NaN in idf": (tensors(idf=np.array([1, NAN, 1])), TensorError, "idf"),
    "idf of nothing": (tensors(idf=np.array([1, 0, 1])), TensorError, "idf out of its range"),
    "idf beyond reason": (tensors(idf=np.array([1, 1e6, 1])), TensorError, "idf out of its range"),
    "other size of weights": (tensors(weight=np.zeros((3, 2))), TensorError, "(2, 3)"),
    "flat weights": (tensors(weight=np.zeros(6)), TensorError, "(2, 3)"),
    "no idf": (tensors(idf=None), TensorError, "'idf'"),
    "one tensor more": (tensors(more=np.zeros(3)), TensorError, "'more'"),
    "whole numbers": (header(lambda h: h["bias"].update(dtype="I32")), TensorError, "I32"),
    "size beyond the file": (
        header(lambda h: h["bias"].update(shape=[1 << 50])),
        UnsafeError,
        "the length of the file",
    ),
    "the same bytes twice": (
        header(lambda h: h["bias"].update(data_offsets=[8, 16])),
        UnsafeError,
        "same bytes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_hostile_folders_are_refused(name: str, tmp_path: Path) -> None:
    spoil, error, word = CASES[name]
    folder = made(tmp_path / "model")
    load_classic(folder)  # nothing else is wrong with it
    spoil(folder)
    with pytest.raises(error) as caught:
        load_classic(folder)
    sentence = str(caught.value)
    assert word in sentence
    assert SECRET not in sentence
    assert sentence.isprintable()
    assert len(sentence) < 400
    assert sentence.endswith((".", "upgrade"))


def test_majority_without_outputs_is_refused(tmp_path: Path) -> None:
    save_classic(tmp_path, ClassicModel(method="majority", majority=MajorityModel(np.zeros(2, np.float32))))
    write_safetensors(tmp_path / TENSORS, {"bias": np.zeros((0,), np.float32)})
    vouch(tmp_path)
    with pytest.raises(TensorError, match="bias"):
        load_classic(tmp_path)


def test_mutated_files_never_fail_otherwise(tmp_path: Path) -> None:
    folder = made(tmp_path / "model")
    whole = {name: (folder / name).read_bytes() for name in (CARD, TENSORS, TERMS)}
    rng = random.Random(0)
    refused = 0
    for turn in range(250):
        for name, data in whole.items():
            (folder / name).write_bytes(data)
        name = rng.choice(list(whole))
        changed = bytearray(whole[name])
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(changed))
            changed[place : place + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        (folder / name).write_bytes(bytes(changed))
        if turn % 2 and name != CARD:
            vouch(folder)
        try:
            model = load_classic(folder)
        except CheckpointError:
            refused += 1
        else:
            assert np.isfinite(model.logits(["aa bb aa", ""])).all()
    assert 100 < refused < 250
