"""A classic model as one value: whichever method made it, texts or features go in and logits come out."""

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
from clearhead.classic.tfidf import LONGEST, MOST_TERMS, Tfidf, TfidfSettings
from clearhead.errors import CheckpointError, InputError, TensorError, UnsafeError
from clearhead.files import decode_dataclass, read_json, to_printable, write_json
from clearhead.metrics.checks import Array, ArrayLike

Method = Literal["tfidf", "linear", "majority"]

FORMAT = 1
CARD, TENSORS, TERMS = "classic.json", "classic.safetensors", "terms.json"
MOST_TERMS_FILE = 256 << 20  # a million terms of 15 letters take 25 MB
LARGEST = 1e30  # of any weight, so that logits stay finite


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassicModel:
    """A method and its parts: tfidf has terms and a linear model, linear only the latter, majority neither."""

    method: Method
    tfidf: Tfidf | None = None
    linear: LinearModel | None = None
    majority: MajorityModel | None = None

    def __post_init__(self) -> None:
        parts = {"tfidf": ("tfidf", "linear"), "linear": ("linear",), "majority": ("majority",)}
        if self.method not in parts:
            raise InputError(f"method is {to_printable(self.method, 40)!r}; expected one of {', '.join(parts)}.")
        wrong = [part for part in parts if (getattr(self, part) is not None) != (part in parts[self.method])]
        if wrong:
            raise InputError(f"a {self.method} model consists of {' and '.join(parts[self.method])}; check {wrong[0]}.")
        if self.tfidf is not None and self.linear is not None and self.tfidf.width != self.linear.inputs:
            raise InputError(f"TF-IDF gives {self.tfidf.width} features, and the weights take {self.linear.inputs}.")

    @property
    def outputs(self) -> int:
        """How many logits a row has."""
        return len(self.bias)

    @property
    def bias(self) -> Array:
        """(outputs,) what a row without any features gets."""
        if self.majority is not None:
            return self.majority.bias
        assert self.linear is not None  # checked when it was made
        return self.linear.bias

    def logits(
        self, texts: Sequence[str] = (), texts_b: Sequence[str] | None = None, features: ArrayLike | None = None
    ) -> Array:
        """(rows, outputs) for texts, or for features where the method is linear."""
        if self.majority is not None:
            return self.majority.logits(len(texts) if features is None else len(np.asarray(features)))
        assert self.linear is not None
        if self.tfidf is not None:
            return self.linear.sparse_logits(self.tfidf.transform(texts, texts_b))
        if features is None:
            raise InputError("a linear model reads features, and only texts came: encode them first.")
        return self.linear.logits(features)


@dataclass(frozen=True, kw_only=True)
class ClassicCard:
    """What classic.json says."""

    format: int
    method: Method
    outputs: int
    inputs: int = 0  # features of a row
    strength: float | None = None
    converged: bool = True
    tfidf: TfidfSettings | None = None
    sha256: dict[str, str] = field(default_factory=dict)  # of the files beside it: those of two saves never mix


def save_classic(folder: Path, model: ClassicModel) -> None:
    """Write a model; classic.json comes last and vouches for the other files."""
    tensors = {"bias": model.bias}
    if model.linear is not None:
        tensors["weight"] = model.linear.weight
    if model.tfidf is not None:
        tensors["idf"] = model.tfidf.idf
        write_json(folder / TERMS, {"terms": list(model.tfidf.terms)})
    write_safetensors(folder / TENSORS, tensors)
    names = [TENSORS] if model.tfidf is None else [TENSORS, TERMS]
    card = ClassicCard(
        format=FORMAT,
        method=model.method,
        outputs=model.outputs,
        inputs=0 if model.linear is None else model.linear.inputs,
        strength=None if model.linear is None else model.linear.strength,
        converged=model.linear is None or model.linear.converged,
        tfidf=None if model.tfidf is None else model.tfidf.settings,
        sha256={name: _file_digest(folder / name) for name in names},
    )
    write_json(folder / CARD, asdict(card))
    if model.tfidf is None:
        (folder / TERMS).unlink(missing_ok=True)  # of an earlier save


def load_classic(folder: Path) -> ClassicModel:
    """Read a model that `save_classic` wrote; whatever else it may be is refused with the reason."""
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
            f"{TERMS} makes {tfidf.width} features, and {CARD} says {to_printable(linear.inputs, 20)}."
        )
    if not ((tfidf.idf > 0.999) & (tfidf.idf < 100)).all():
        raise TensorError(f"{TENSORS} has an idf out of its range, 1 to 100.")
    return ClassicModel(method="tfidf", tfidf=tfidf, linear=linear)


def _read_card(folder: Path) -> ClassicCard:
    data = read_json(resolve_inside(folder, CARD), unique_keys=True)
    _refuse_unknown_keys(data, ClassicCard)
    if isinstance(data.get("tfidf"), dict):
        _refuse_unknown_keys(data["tfidf"], TfidfSettings)
    card = decode_dataclass(data, ClassicCard, CARD)
    if card.format != FORMAT:
        raise CheckpointError(
            f"{CARD} has format {to_printable(card.format, 20)}, and this version reads {FORMAT}: upgrade."
        )
    if (card.tfidf is not None) != (card.method == "tfidf") or card.outputs < 1 or card.inputs < 0:
        raise CheckpointError(f"{CARD} says things that do not go together about a {card.method} model.")
    if card.strength is not None and not 0 < card.strength < float("inf"):
        raise CheckpointError(f"{CARD} has strength {card.strength}; expected a number above 0.")
    if card.tfidf is not None:
        try:
            card.tfidf.check()
        except InputError as error:
            raise CheckpointError(f"{CARD}: {error}") from None
    return card


def _refuse_unknown_keys(data: dict[str, Any], kind: type[Any]) -> None:
    others = sorted(data.keys() - {known.name for known in fields(kind)})
    if others:
        raise CheckpointError(
            f"{CARD} has the key {to_printable(others[0], 40)!r}, which this version does not know: upgrade."
        )


def _read_terms(folder: Path, card: ClassicCard) -> tuple[str, ...]:
    path = resolve_inside(folder, TERMS)
    terms = read_json(path, max_bytes=MOST_TERMS_FILE, unique_keys=True).get("terms")
    if not isinstance(terms, list) or not 1 <= len(terms) <= MOST_TERMS:
        raise CheckpointError(f"{TERMS} has no list of 1 to {MOST_TERMS:,} terms.")
    for term in terms:
        if not isinstance(term, str) or not 1 <= len(term) <= LONGEST:
            raise CheckpointError(
                f"{TERMS} has {to_printable(term, 40)!r}; a term is a text of 1 to {LONGEST} letters."
            )
    if len(set(terms)) != len(terms):
        raise CheckpointError(f"{TERMS} has a term twice, so it is not clear which weight counts.")
    _check_digest(path, card)
    return tuple(terms)


def _read_arrays(folder: Path, card: ClassicCard, expected: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    path = resolve_inside(folder, TENSORS)
    stored = read_header(path)
    if stored.keys() != expected.keys():
        wrong = sorted(stored.keys() ^ expected.keys())
        raise TensorError(f"{TENSORS} and a {card.method} model disagree about {to_printable(wrong[0], 40)!r}.")
    for name, size in expected.items():
        _check_tensor(name, stored[name], size)
    most = sum(tensor.stop - tensor.start for tensor in stored.values()) + MAX_HEADER_BYTES + 8
    if path.stat().st_size > most:
        raise UnsafeError(f"{TENSORS} has {path.stat().st_size:,} bytes, more than its tensors take.")
    _check_digest(path, card)
    mapped = MappedTensors(stored)
    arrays = {name: mapped.array(name) for name in expected}
    for name, array in arrays.items():
        if not (array.min() >= -LARGEST and array.max() <= LARGEST):  # NaN is neither
            raise TensorError(f"{TENSORS} has NaN, infinity or numbers above {LARGEST:g} in {name}.")
    return arrays


def _check_tensor(name: str, stored: StoredTensor, size: tuple[int, ...]) -> None:
    if stored.dtype != "F32" or stored.size != size:
        found = f"{stored.dtype} of size {to_printable(stored.size, 60)}"
        raise TensorError(f"{TENSORS} stores {name} as {found}; expected F32 of {to_printable(size, 60)}.")
    if 0 in size:
        raise TensorError(f"{TENSORS} stores {name} without any numbers.")


def _check_digest(path: Path, card: ClassicCard) -> None:
    if card.sha256.get(path.name) != _file_digest(path):
        raise CheckpointError(
            f"{path.name} is not the file that {CARD} was saved with: it is damaged or of another save."
        )


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
