"""Damaged or malicious model folders are rejected with a short message, before they cost time or memory."""

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
SECRET = "content-of-a-file-outside"

Corruption = Callable[[Path], None]


def save_small_model(folder: Path) -> Path:
    """Save a small model with known weights."""
    linear = LinearModel(np.arange(6, dtype=np.float32).reshape(2, 3), np.array([0.5, -0.5], np.float32), 10.0)
    tfidf = Tfidf(terms=("aa", "aa bb", "bb"), idf=np.array([1, 1.5, 2], np.float32))
    save_classic(folder, ClassicModel(method="tfidf", tfidf=tfidf, linear=linear))
    return folder


def update_hashes(folder: Path) -> None:
    """Update the hashes in classic.json, so that later checks are reached."""
    stored_card = json.loads((folder / CARD).read_text())
    for name in stored_card["sha256"]:
        stored_card["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / CARD).write_text(json.dumps(stored_card))


def change_card(**changes: Any) -> Corruption:
    def corrupt(folder: Path) -> None:
        data = json.loads((folder / CARD).read_text())
        data.update(changes)
        (folder / CARD).write_text(json.dumps(data))

    return corrupt


def change_settings(**changes: Any) -> Corruption:
    def corrupt(folder: Path) -> None:
        data = json.loads((folder / CARD).read_text())
        data["tfidf"].update(changes)
        (folder / CARD).write_text(json.dumps(data))

    return corrupt


def remove_key(key: str) -> Corruption:
    def corrupt(folder: Path) -> None:
        data = json.loads((folder / CARD).read_text())
        del data[key]
        (folder / CARD).write_text(json.dumps(data))

    return corrupt


def write_terms(content: Any) -> Corruption:
    def corrupt(folder: Path) -> None:
        (folder / TERMS).write_text(content if isinstance(content, str) else json.dumps({"terms": content}))
        update_hashes(folder)

    return corrupt


def write_tensors(**changes: Any) -> Corruption:
    def corrupt(folder: Path) -> None:
        tensors: dict[str, Any] = {
            "bias": np.zeros(2, np.float32),
            "weight": np.zeros((2, 3), np.float32),
            "idf": np.ones(3, np.float32),
            **changes,
        }
        write_safetensors(
            folder / TENSORS, {name: np.asarray(array) for name, array in tensors.items() if array is not None}
        )
        update_hashes(folder)

    return corrupt


def change_header(change: Callable[[dict[str, Any]], None]) -> Corruption:
    def corrupt(folder: Path) -> None:
        data = (folder / TENSORS).read_bytes()
        length = int.from_bytes(data[:8], "little")
        entries = json.loads(data[8 : 8 + length])
        change(entries)
        text = json.dumps(entries).encode()
        (folder / TENSORS).write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
        update_hashes(folder)

    return corrupt


def write_bytes(name: str, data: bytes) -> Corruption:
    def corrupt(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return corrupt


def remove_file(name: str) -> Corruption:
    return lambda folder: (folder / name).unlink()


def link_outside(name: str) -> Corruption:
    def corrupt(folder: Path) -> None:
        outside = folder.parent / SECRET
        (folder / name).rename(outside)
        (folder / name).symlink_to(outside)

    return corrupt


def replace_by_pipe(name: str) -> Corruption:
    def corrupt(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return corrupt


def set_length(name: str, length: int) -> Corruption:
    def corrupt(folder: Path) -> None:
        with (folder / name).open("r+b") as file:
            file.truncate(length)

    return corrupt


def flip_bit(folder: Path) -> None:
    """Flip one bit of one weight."""
    data = bytearray((folder / TENSORS).read_bytes())
    data[-5] ^= 1
    (folder / TENSORS).write_bytes(bytes(data))


def reverse_terms(folder: Path) -> None:
    """Reverse the terms, which still match the tensors."""
    data = json.loads((folder / TERMS).read_text())
    (folder / TERMS).write_text(json.dumps({"terms": data["terms"][::-1]}))


NAN, INF, HUGE = np.float32("nan"), np.float32("inf"), np.float32(1e35)

CASES: dict[str, tuple[Corruption, type[ClearheadError], str]] = {
    "no card": (remove_file(CARD), CheckpointError, CARD),
    "no tensors": (remove_file(TENSORS), CheckpointError, TENSORS),
    "no terms": (remove_file(TERMS), CheckpointError, TERMS),
    "card is not JSON": (write_bytes(CARD, b"{"), CheckpointError, "not valid JSON"),
    "card is not text": (write_bytes(CARD, b"\xff\xfe\x00"), CheckpointError, "not UTF-8"),
    "card is a list": (write_bytes(CARD, b"[]"), CheckpointError, "expected an object"),
    "card nests": (write_bytes(CARD, b'{"a":' * 5000 + b"1" + b"}" * 5000), CheckpointError, CARD),
    "card has a duplicate key": (write_bytes(CARD, b'{"format": 1, "format": 1}'), UnsafeError, "duplicate keys"),
    "card is endless": (set_length(CARD, 1 << 30), UnsafeError, "bytes"),
    "card is a pipe": (replace_by_pipe(CARD), UnsafeError, "regular file"),
    "card is a link out": (link_outside(CARD), UnsafeError, "leaves the model folder"),
    "unknown key": (change_card(extra=1), CheckpointError, "'extra'"),
    "unknown setting": (change_settings(tokenizer="x"), CheckpointError, "'tokenizer'"),
    "missing key": (remove_key("outputs"), CheckpointError, "outputs"),
    "newer format": (change_card(format=2), CheckpointError, "upgrade"),
    "format is a text": (change_card(format="1"), CheckpointError, "format"),
    "unknown method": (change_card(method="pickle"), CheckpointError, CARD),
    "method without settings": (change_card(tfidf=None), CheckpointError, "inconsistent"),
    "settings without method": (change_card(method="linear"), CheckpointError, "inconsistent"),
    "another method": (change_card(method="linear", tfidf=None), TensorError, "idf"),
    "no outputs": (change_card(outputs=0), CheckpointError, "inconsistent"),
    "other outputs": (change_card(outputs=3), TensorError, "bias"),
    "huge outputs": (change_card(outputs=10**40), CheckpointError, "expected"),
    "outputs are true": (change_card(outputs=True), CheckpointError, "outputs"),
    "negative inputs": (change_card(inputs=-3), CheckpointError, "inconsistent"),
    "other inputs": (change_card(inputs=4), TensorError, "weight"),
    "strength is 0": (change_card(strength=0.0), CheckpointError, "strength"),
    "strength is NaN": (change_card(strength=float("nan")), CheckpointError, "strength"),
    "strength is infinite": (change_card(strength=float("inf")), CheckpointError, "strength"),
    "long n-grams": (change_settings(ngrams=[1, 10**9]), CheckpointError, "ngrams"),
    "n-grams of three": (change_settings(ngrams=[1, 2, 3]), CheckpointError, "ngrams"),
    "max_terms is negative": (change_settings(max_terms=-1), CheckpointError, "max_terms"),
    "pairs of single texts": (change_settings(pairs=True), CheckpointError, "13 features"),
    "no hashes": (change_card(sha256={}), CheckpointError, "another save"),
    "hash of nonsense": (change_card(sha256={TENSORS: "x", TERMS: "y"}), CheckpointError, "another save"),
    "a bit flipped": (flip_bit, CheckpointError, "damaged"),
    "terms of another save": (reverse_terms, CheckpointError, "another save"),
    "terms are not JSON": (write_terms("["), CheckpointError, TERMS),
    "terms are a number": (write_terms(3), CheckpointError, "no list"),
    "terms are empty": (write_terms([]), CheckpointError, "no list"),
    "terms under another key": (write_terms('{"words": ["aa"]}'), CheckpointError, "no list"),
    "terms twice": (write_terms(["aa", "bb", "aa"]), CheckpointError, "twice"),
    "a term is a number": (write_terms(["aa", "bb", 3]), CheckpointError, "3"),
    "a term is a list": (write_terms(["aa", "bb", ["cc"]]), CheckpointError, "term"),
    "a term is empty": (write_terms(["aa", "bb", ""]), CheckpointError, "characters"),
    "a term is endless": (write_terms(["aa", "bb", "c" * 100_000]), CheckpointError, "characters"),
    "a term with control signs": (write_terms(["aa", "bb", "\x1b[2J" * 99]), CheckpointError, "characters"),
    "too few terms": (write_terms(["aa", "bb"]), CheckpointError, "idf"),
    "too many terms": (write_terms(["aa", "bb", "cc", "dd"]), CheckpointError, "idf"),
    "terms are a link out": (link_outside(TERMS), UnsafeError, "leaves the model folder"),
    "terms are a pipe": (replace_by_pipe(TERMS), UnsafeError, "regular file"),
    "terms are endless": (set_length(TERMS, 1 << 40), UnsafeError, "bytes"),
    "tensors are a link out": (link_outside(TENSORS), UnsafeError, "leaves the model folder"),
    "tensors are a pipe": (replace_by_pipe(TENSORS), UnsafeError, "regular file"),
    "tensors are endless": (set_length(TENSORS, 1 << 42), UnsafeError, "more than its tensors need"),
    "tensors are cut": (set_length(TENSORS, 200), CheckpointError, TENSORS),
    "tensors are empty": (write_bytes(TENSORS, b""), UnsafeError, TENSORS),
    "tensors are a pickle": (write_bytes(TENSORS, b"\x80\x04\x95" + b"0" * 99), UnsafeError, TENSORS),
    "NaN in the weights": (write_tensors(weight=np.array([[0, 0, NAN], [0, 0, 0]])), TensorError, "NaN"),
    "infinite weights": (write_tensors(weight=np.array([[0, 0, -INF], [0, 0, 0]])), TensorError, "infinity"),
    "huge weights": (write_tensors(weight=np.full((2, 3), HUGE)), TensorError, "numbers above"),
    "NaN in the bias": (write_tensors(bias=np.array([NAN, 0])), TensorError, "bias"),
    "NaN in idf": (write_tensors(idf=np.array([1, NAN, 1])), TensorError, "idf"),
    "idf is 0": (write_tensors(idf=np.array([1, 0, 1])), TensorError, "idf outside the range"),
    "idf beyond reason": (write_tensors(idf=np.array([1, 1e6, 1])), TensorError, "idf outside the range"),
    "other size of weights": (write_tensors(weight=np.zeros((3, 2))), TensorError, "(2, 3)"),
    "flat weights": (write_tensors(weight=np.zeros(6)), TensorError, "(2, 3)"),
    "no idf": (write_tensors(idf=None), TensorError, "'idf'"),
    "extra tensor": (write_tensors(more=np.zeros(3)), TensorError, "'more'"),
    "integers": (change_header(lambda h: h["bias"].update(dtype="I32")), TensorError, "I32"),
    "size beyond the file": (
        change_header(lambda h: h["bias"].update(shape=[1 << 50])),
        UnsafeError,
        "the length of the file",
    ),
    "the same bytes twice": (
        change_header(lambda h: h["bias"].update(data_offsets=[8, 16])),
        UnsafeError,
        "same bytes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_hostile_folders_are_refused(name: str, tmp_path: Path) -> None:
    corrupt, error, expected = CASES[name]
    folder = save_small_model(tmp_path / "model")
    load_classic(folder)  # valid before the change
    corrupt(folder)
    with pytest.raises(error) as caught:
        load_classic(folder)
    message = str(caught.value)
    assert expected in message
    assert SECRET not in message
    assert message.isprintable()
    assert len(message) < 400
    assert message.endswith((".", "upgrade"))


def test_majority_without_outputs_is_refused(tmp_path: Path) -> None:
    save_classic(tmp_path, ClassicModel(method="majority", majority=MajorityModel(np.zeros(2, np.float32))))
    write_safetensors(tmp_path / TENSORS, {"bias": np.zeros((0,), np.float32)})
    update_hashes(tmp_path)
    with pytest.raises(TensorError, match="bias"):
        load_classic(tmp_path)


def test_mutated_files_never_fail_otherwise(tmp_path: Path) -> None:
    folder = save_small_model(tmp_path / "model")
    original_files = {name: (folder / name).read_bytes() for name in (CARD, TENSORS, TERMS)}
    rng = random.Random(0)
    refused = 0
    for round_index in range(250):
        for name, data in original_files.items():
            (folder / name).write_bytes(data)
        name = rng.choice(list(original_files))
        mutated = bytearray(original_files[name])
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(len(mutated))
            mutated[position : position + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        (folder / name).write_bytes(bytes(mutated))
        if round_index % 2 and name != CARD:
            update_hashes(folder)
        try:
            model = load_classic(folder)
        except CheckpointError:
            refused += 1
        else:
            assert np.isfinite(model.logits(["aa bb aa", ""])).all()
    assert 100 < refused < 250
