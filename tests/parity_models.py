"""Twins: a tiny model of `transformers` with random weights, and the same one here, read from the folder it saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import clearhead
from clearhead import Model
from clearhead.batch import Output

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-5


@cache
def import_transformers() -> Any:
    """transformers itself, quiet."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def perturb_weights(theirs: Any, seed: int = 0, by: float = 0.1) -> Any:
    """Every parameter moved at random, norms and biases too, so that no name can be swapped unseen."""
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "embed_positions" not in name:  # Marian computes these
                parameter.add_(torch.randn(parameter.shape, generator=draws) * by)
        for name, buffer in theirs.named_buffers():
            if name == "final_logits_bias":
                buffer.add_(torch.randn(buffer.shape, generator=draws))
    return theirs.eval()


def make_reference(title: str, config: Mapping[str, Any], seed: int = 0) -> Any:
    """A model of transformers with these config keys and stirred weights."""
    kind = getattr(import_transformers(), title)
    torch.manual_seed(seed)
    return perturb_weights(kind(kind.config_class(**config)), seed)


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """A ragged batch of ids; the mask is True at real tokens."""

    ids: Array
    mask: Array
    segments: Array | None = None
    target_ids: Array | None = None
    target_mask: Array | None = None

    def theirs(self, *, choices: bool = False) -> dict[str, torch.Tensor]:
        """As keyword arguments of transformers; multiple choice has one question more around it."""
        named = {
            "input_ids": self.ids,
            "attention_mask": self.mask.astype(np.int64),
            "token_type_ids": self.segments,
            "decoder_input_ids": self.target_ids,
            "decoder_attention_mask": None if self.target_mask is None else self.target_mask.astype(np.int64),
        }
        made = {name: torch.tensor(array) for name, array in named.items() if array is not None}
        return {name: tensor[None] for name, tensor in made.items()} if choices else made

    def ours(self, *, choices: bool = False) -> dict[str, Any]:
        """As keyword arguments of `Model.run`."""
        named = {
            "ids": self.ids,
            "mask": self.mask,
            "segments": self.segments,
            "target_ids": self.target_ids,
            "target_mask": self.target_mask,
        }
        made = {name: array for name, array in named.items() if array is not None}
        return {name: array[None] for name, array in made.items()} if choices else made


def make_token_batch(
    vocab: int,
    lengths: tuple[int, ...],
    *,
    pad: int = 0,
    seed: int = 0,
    segments: int = 0,
    targets: tuple[int, ...] = (),
    target_vocab: int | None = None,
    left: bool = False,
) -> TokenBatch:
    """Random ids, padded on the right or the left; the first five ids are left to special tokens."""
    draws = np.random.default_rng(seed)

    def rectangle(sizes: tuple[int, ...], most: int) -> tuple[Array, Array]:
        places = np.arange(max(sizes))[None]
        ends = np.array(sizes)[:, None]
        mask = places >= max(sizes) - ends if left else places < ends
        ids = np.where(mask, draws.integers(5, most, mask.shape), pad)
        return ids, mask

    ids, mask = rectangle(lengths, vocab)
    kinds: Array | None = np.array(draws.integers(0, segments, ids.shape)) if segments else None
    if not targets:
        return TokenBatch(ids=ids, mask=mask, segments=kinds)
    target_ids, target_mask = rectangle(targets, target_vocab or vocab)
    return TokenBatch(ids=ids, mask=mask, segments=kinds, target_ids=target_ids, target_mask=target_mask)


def compute_reference_outputs(theirs: Any, given: TokenBatch, *, choices: bool = False) -> dict[str, Any]:
    """What transformers says, under our names: lists of arrays for hidden states, arrays for the rest."""
    with torch.no_grad():
        said = theirs(**given.theirs(choices=choices), output_hidden_states=True)
    made: dict[str, Any] = {}
    paired = "decoder_hidden_states" in said
    made["hidden"] = [_to_array(h) for h in (said.encoder_hidden_states if paired else said.hidden_states)]
    if paired:
        made["target_hidden"] = [_to_array(h) for h in said.decoder_hidden_states]
    if said.get("pooler_output") is not None:
        made["pooled"] = _to_array(said.pooler_output)
    for name in ("prediction_logits", "logits"):
        if name in said:
            made["logits"] = _to_array(said[name])
    if "start_logits" in said:
        made["logits"] = _to_array(torch.stack([said.start_logits, said.end_logits], -1))
    for name in ("seq_relationship_logits", "sop_logits"):
        if name in said:
            made["next_sentence"] = _to_array(said[name])
    return made


def compute_differences(expected: Mapping[str, Any], got: Output, given: TokenBatch) -> dict[str, float]:
    """The largest difference of each kind of output, at real positions; shapes must agree."""
    made = {}
    for name, values in expected.items():
        mine = getattr(got, name)
        assert mine is not None, f"{name} is absent"
        pairs = list(zip(values, mine, strict=True)) if isinstance(values, list) else [(values, mine)]
        mask = given.target_mask if name != "hidden" and given.target_mask is not None else given.mask
        made[name] = max(_max_difference(a, b, mask) for a, b in pairs)
    return made


def _max_difference(a: Array, b: Array, mask: Array) -> float:
    assert a.shape == b.shape, f"{a.shape} against {b.shape}"
    if a.ndim >= 2 and a.shape[: mask.ndim] == mask.shape:
        a, b = a[mask], b[mask]
    assert np.isfinite(a).all()
    assert np.isfinite(b).all()
    return float(np.abs(a - b).max())


def assert_equal(expected: Mapping[str, Any], got: Output, given: TokenBatch, tolerance: float = TOLERANCE) -> None:
    """Every kind of output within the tolerance."""
    found = compute_differences(expected, got, given)
    assert found
    assert all(value <= tolerance for value in found.values()), found


@contextmanager
def save_reference(theirs: Any, **how: Any) -> Iterator[Path]:
    """The folder that transformers makes of a model."""
    with TemporaryDirectory() as made:
        theirs.save_pretrained(made, **how)
        yield Path(made)


# Marian's waves are computed again; DeBERTa makes a norm for distances even where it has none
IGNORED_TENSORS = ("embed_positions.weight", "encoder.LayerNorm.weight", "encoder.LayerNorm.bias")


def load_in_transformers(folder: Path, title: str) -> Any:
    """What transformers reads from a folder of ours: nothing may be missing, left over or of another size."""
    model, found = getattr(import_transformers(), title).from_pretrained(folder, output_loading_info=True)
    missing = [name for name in found["missing_keys"] if not name.endswith(IGNORED_TENSORS)]
    assert not missing, missing
    assert not any(found[key] for key in ("unexpected_keys", "mismatched_keys")), found
    return model.eval()


def load_in_clearhead(theirs: Any, **how: Any) -> Model:
    """The same model here."""
    with save_reference(theirs) as folder:
        return clearhead.load(folder, "core", **how)


def _to_array(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy()
