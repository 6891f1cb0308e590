"""Classic models with one interface for all methods: texts or features in, logits out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from clearhead.checkpoint.weights import (
    MAX_HEADER_BYTES,
    MappedTensors,
    StoredTensor,
    read_header,
    resolve_inside,
    write_safetensors,
)
from clearhead.classic.linear import LinearModel
from clearhead.classic.majority import MajorityModel
from clearhead.classic.tfidf import MAX_TERM_LENGTH, MAX_TERMS, Tfidf, TfidfSettings
from clearhead.errors import CheckpointError, InputError, TensorError, UnsafeError
from clearhead.files import decode_dataclass, read_json, to_printable, write_json
from clearhead.metrics.checks import Array, ArrayLike

Method = Literal["tfidf", "linear", "majority"]

FORMAT_VERSION = 1
CARD_FILE, TENSORS_FILE, TERMS_FILE = "classic.json", "classic.safetensors", "terms.json"
MAX_TERMS_BYTES = 256 << 20  # a million terms of 15 letters take 25 MB
MAX_WEIGHT = 1e30  # keeps logits finite


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassicModel:
    """A method and its components: tfidf has terms and a linear model, linear only a linear model, majority neither."""

    method: Method
    tfidf: Tfidf | None = None
    linear: LinearModel | None = None
    majority: MajorityModel | None = None

    def __post_init__(self) -> None:
        methods = {"tfidf": ("tfidf", "linear"), "linear": ("linear",), "majority": ("majority",)}
        if self.method not in methods:
            raise InputError(f"method must be one of {', '.join(methods)}, got {to_printable(self.method, 40)!r}.")
        expected = methods[self.method]
        mismatched = [part for part in methods if (getattr(self, part) is not None) != (part in expected)]
        if mismatched:
            raise InputError(f"A {self.method} model consists of {' and '.join(expected)}; check {mismatched[0]}.")
        if self.tfidf is not None and self.linear is not None and self.tfidf.width != self.linear.inputs:
            raise InputError(
                f"TF-IDF produces {self.tfidf.width} features, but the linear model expects {self.linear.inputs}."
            )

    @property
    def outputs(self) -> int:
        """Number of logits per row."""
        return len(self.bias)

    @property
    def bias(self) -> Array:
        """The logits of a row without any features, (outputs,)."""
        if self.majority is not None:
            return self.majority.bias
        assert self.linear is not None  # checked in __post_init__
        return self.linear.bias

    def logits(
        self, texts: Sequence[str] = (), texts_b: Sequence[str] | None = None, features: ArrayLike | None = None
    ) -> Array:
        """Compute logits (rows, outputs) of texts, or of features if the method is linear."""
        if self.majority is not None:
            return self.majority.logits(len(texts) if features is None else len(np.asarray(features)))
        assert self.linear is not None
        if self.tfidf is not None:
            return self.linear.sparse_logits(self.tfidf.transform(texts, texts_b))
        if features is None:
            raise InputError("A linear model needs features, got only texts; encode them first.")
        return self.linear.logits(features)


@dataclass(frozen=True, kw_only=True)
class ClassicCard:
    """The content of classic.json."""

    format: int
    method: Method
    outputs: int
    inputs: int = 0  # features of a row
    strength: float | None = None
    converged: bool = True
    tfidf: TfidfSettings | None = None
    sha256: dict[str, str] = field(default_factory=dict)  # of the other files, so that files of two saves cannot mix


def save_classic(folder: Path, model: ClassicModel) -> None:
    """Write a model; classic.json, with the hashes of the other files, is written last."""
    tensors = {"bias": model.bias}
    if model.linear is not None:
        tensors["weight"] = model.linear.weight
    if model.tfidf is not None:
        tensors["idf"] = model.tfidf.idf
        write_json(folder / TERMS_FILE, {"terms": list(model.tfidf.terms)})
    write_safetensors(folder / TENSORS_FILE, tensors)
    names = [TENSORS_FILE] if model.tfidf is None else [TENSORS_FILE, TERMS_FILE]
    card = ClassicCard(
        format=FORMAT_VERSION,
        method=model.method,
        outputs=model.outputs,
        inputs=0 if model.linear is None else model.linear.inputs,
        strength=None if model.linear is None else model.linear.strength,
        converged=model.linear is None or model.linear.converged,
        tfidf=None if model.tfidf is None else model.tfidf.settings,
        sha256={name: _file_digest(folder / name) for name in names},
    )
    write_json(folder / CARD_FILE, asdict(card))
    if model.tfidf is None:
        (folder / TERMS_FILE).unlink(missing_ok=True)  # of an earlier save


def load_classic(folder: Path) -> ClassicModel:
    """Load a model that `save_classic` wrote; anything else is an error."""
    card = _read_card(folder)
    expected: dict[str, tuple[int, ...]] = {"bias": (card.outputs,)}
    terms: tuple[str, ...] = ()
    if card.method != "majority":
        expected["weight"] = (card.outputs, card.inputs)
    if card.method == "tfidf":
        terms = _read_terms(folder, card)
        expected["idf"] = (len(terms),)
    arrays = _read_arrays(folder, card, expected)
    if card.method == "majority":
        return ClassicModel(method="majority", majority=MajorityModel(arrays["bias"]))
    linear = LinearModel(arrays["weight"], arrays["bias"], card.strength, card.converged)
    if card.tfidf is None:
        return ClassicModel(method="linear", linear=linear)
    tfidf = Tfidf(terms=terms, idf=arrays["idf"], settings=card.tfidf)
    if tfidf.width != linear.inputs:
        raise CheckpointError(
            f"{TERMS_FILE} has terms for {tfidf.width} features, but {CARD_FILE} specifies "
            f"{to_printable(linear.inputs, 20)}."
        )
    if not ((tfidf.idf > 0.999) & (tfidf.idf < 100)).all():
        raise TensorError(f"{TENSORS_FILE} has an idf outside the range 1 to 100.")
    return ClassicModel(method="tfidf", tfidf=tfidf, linear=linear)


def _read_card(folder: Path) -> ClassicCard:
    stored = read_json(resolve_inside(folder, CARD_FILE), unique_keys=True)
    _check_keys(stored, ClassicCard)
    if isinstance(stored.get("tfidf"), dict):
        _check_keys(stored["tfidf"], TfidfSettings)
    card = decode_dataclass(stored, ClassicCard, CARD_FILE)
    if card.format != FORMAT_VERSION:
        raise CheckpointError(
            f"{CARD_FILE} has format {to_printable(card.format, 20)}, but this version reads {FORMAT_VERSION}; "
            "upgrade Clearhead."
        )
    if (card.tfidf is not None) != (card.method == "tfidf") or card.outputs < 1 or card.inputs < 0:
        raise CheckpointError(f"{CARD_FILE} has inconsistent values for a {card.method} model.")
    if card.strength is not None and not 0 < card.strength < float("inf"):
        raise CheckpointError(f"{CARD_FILE} has strength {card.strength}; expected a number above 0.")
    if card.tfidf is not None:
        try:
            card.tfidf.check()
        except InputError as error:
            raise CheckpointError(f"{CARD_FILE}: {error}") from None
    return card


def _check_keys(stored: dict[str, Any], cls: type[Any]) -> None:
    unknown = sorted(stored.keys() - {known_field.name for known_field in fields(cls)})
    if unknown:
        raise CheckpointError(
            f"{CARD_FILE} has the key {to_printable(unknown[0], 40)!r}, which this version does not support; "
            "upgrade Clearhead."
        )


def _read_terms(folder: Path, card: ClassicCard) -> tuple[str, ...]:
    path = resolve_inside(folder, TERMS_FILE)
    terms = read_json(path, max_bytes=MAX_TERMS_BYTES, unique_keys=True).get("terms")
    if not isinstance(terms, list) or not 1 <= len(terms) <= MAX_TERMS:
        raise CheckpointError(f"{TERMS_FILE} has no list of 1 to {MAX_TERMS:,} terms.")
    for term in terms:
        if not isinstance(term, str) or not 1 <= len(term) <= MAX_TERM_LENGTH:
            raise CheckpointError(
                f"{TERMS_FILE} has {to_printable(term, 40)!r}; expected texts of 1 to {MAX_TERM_LENGTH} characters."
            )
    if len(set(terms)) != len(terms):
        raise CheckpointError(f"{TERMS_FILE} contains a term twice, so its weight is ambiguous.")
    _check_digest(path, card)
    return tuple(terms)


def _read_arrays(folder: Path, card: ClassicCard, expected: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    path = resolve_inside(folder, TENSORS_FILE)
    stored = read_header(path)
    if stored.keys() != expected.keys():
        mismatched = sorted(stored.keys() ^ expected.keys())
        raise TensorError(
            f"{TENSORS_FILE} does not match a {card.method} model: {to_printable(mismatched[0], 40)!r} is missing or "
            "unexpected."
        )
    for name, shape in expected.items():
        _check_tensor(name, stored[name], shape)
    max_bytes = sum(tensor.stop - tensor.start for tensor in stored.values()) + MAX_HEADER_BYTES + 8
    if path.stat().st_size > max_bytes:
        raise UnsafeError(f"{TENSORS_FILE} has {path.stat().st_size:,} bytes, more than its tensors need.")
    _check_digest(path, card)
    mapped = MappedTensors(stored)
    arrays = {name: mapped.array(name) for name in expected}
    for name, array in arrays.items():
        if not (array.min() >= -MAX_WEIGHT and array.max() <= MAX_WEIGHT):  # false for NaN
            raise TensorError(f"{TENSORS_FILE} has NaN, infinity or numbers above {MAX_WEIGHT:g} in {name}.")
    return arrays


def _check_tensor(name: str, stored: StoredTensor, shape: tuple[int, ...]) -> None:
    if stored.dtype != "F32" or stored.size != shape:
        actual = f"{stored.dtype} of shape {to_printable(stored.size, 60)}"
        raise TensorError(f"{TENSORS_FILE} stores {name} as {actual}; expected F32 of shape {to_printable(shape, 60)}.")
    if 0 in shape:
        raise TensorError(f"{TENSORS_FILE} stores {name} without any values.")


def _check_digest(path: Path, card: ClassicCard) -> None:
    if card.sha256.get(path.name) != _file_digest(path):
        raise CheckpointError(
            f"{path.name} does not match its hash in {CARD_FILE}: it is damaged or belongs to another save."
        )


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
