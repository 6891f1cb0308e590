"""Parity fixtures: a tiny `transformers` model with random weights, and the same model loaded by clearhead."""

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
    """Import transformers without log messages and progress bars."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def perturb_weights(model: Any, seed: int = 0, scale: float = 0.1) -> Any:
    """Add noise to every parameter, including norms and biases, so that swapped tensors change the output."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:  # Marian computes these
                parameter.add_(torch.randn(parameter.shape, generator=generator) * scale)
        for name, buffer in model.named_buffers():
            if name == "final_logits_bias":
                buffer.add_(torch.randn(buffer.shape, generator=generator))
    return model.eval()


def make_reference(class_name: str, config: Mapping[str, Any], seed: int = 0) -> Any:
    """Make a transformers model with these config keys and perturbed weights."""
    model_class = getattr(import_transformers(), class_name)
    torch.manual_seed(seed)
    return perturb_weights(model_class(model_class.config_class(**config)), seed)


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """A ragged batch of ids; the mask is True at real tokens."""

    ids: Array
    mask: Array
    segments: Array | None = None
    target_ids: Array | None = None
    target_mask: Array | None = None

    def to_transformers(self, *, choices: bool = False) -> dict[str, torch.Tensor]:
        """Return the keyword arguments of transformers; multiple choice adds a leading dimension."""
        arrays = {
            "input_ids": self.ids,
            "attention_mask": self.mask.astype(np.int64),
            "token_type_ids": self.segments,
            "decoder_input_ids": self.target_ids,
            "decoder_attention_mask": None if self.target_mask is None else self.target_mask.astype(np.int64),
        }
        tensors = {name: torch.tensor(array) for name, array in arrays.items() if array is not None}
        return {name: tensor[None] for name, tensor in tensors.items()} if choices else tensors

    def to_clearhead(self, *, choices: bool = False) -> dict[str, Any]:
        """Return the keyword arguments of `Model.run`."""
        arrays = {
            "ids": self.ids,
            "mask": self.mask,
            "segments": self.segments,
            "target_ids": self.target_ids,
            "target_mask": self.target_mask,
        }
        present = {name: array for name, array in arrays.items() if array is not None}
        return {name: array[None] for name, array in present.items()} if choices else present


def make_token_batch(
    vocab: int,
    lengths: tuple[int, ...],
    *,
    pad: int = 0,
    seed: int = 0,
    segments: int = 0,
    targets: tuple[int, ...] = (),
    target_vocab: int | None = None,
    pad_left: bool = False,
) -> TokenBatch:
    """Make random ids, padded on the right or left; the first five ids are reserved for special tokens."""
    rng = np.random.default_rng(seed)

    def rectangle(row_lengths: tuple[int, ...], max_id: int) -> tuple[Array, Array]:
        positions = np.arange(max(row_lengths))[None]
        lengths = np.array(row_lengths)[:, None]
        mask = positions >= max(row_lengths) - lengths if pad_left else positions < lengths
        ids = np.where(mask, rng.integers(5, max_id, mask.shape), pad)
        return ids, mask

    ids, mask = rectangle(lengths, vocab)
    segment_ids: Array | None = np.array(rng.integers(0, segments, ids.shape)) if segments else None
    if not targets:
        return TokenBatch(ids=ids, mask=mask, segments=segment_ids)
    target_ids, target_mask = rectangle(targets, target_vocab or vocab)
    return TokenBatch(ids=ids, mask=mask, segments=segment_ids, target_ids=target_ids, target_mask=target_mask)


def compute_reference_outputs(model: Any, batch: TokenBatch, *, choices: bool = False) -> dict[str, Any]:
    """Compute the outputs of transformers under clearhead's names: lists of arrays for hidden states, or arrays."""
    with torch.no_grad():
        outputs = model(**batch.to_transformers(choices=choices), output_hidden_states=True)
    expected: dict[str, Any] = {}
    is_seq2seq = "decoder_hidden_states" in outputs
    expected["hidden"] = [
        _to_array(h) for h in (outputs.encoder_hidden_states if is_seq2seq else outputs.hidden_states)
    ]
    if is_seq2seq:
        expected["target_hidden"] = [_to_array(h) for h in outputs.decoder_hidden_states]
    if outputs.get("pooler_output") is not None:
        expected["pooled"] = _to_array(outputs.pooler_output)
    for name in ("prediction_logits", "logits"):
        if name in outputs:
            expected["logits"] = _to_array(outputs[name])
    if "start_logits" in outputs:
        expected["logits"] = _to_array(torch.stack([outputs.start_logits, outputs.end_logits], -1))
    for name in ("seq_relationship_logits", "sop_logits"):
        if name in outputs:
            expected["next_sentence"] = _to_array(outputs[name])
    return expected


def compute_differences(expected: Mapping[str, Any], got: Output, batch: TokenBatch) -> dict[str, float]:
    """Compute the largest difference of each output at unpadded positions; shapes must be equal."""
    differences = {}
    for name, values in expected.items():
        actual = getattr(got, name)
        assert actual is not None, f"{name} is absent"
        pairs = list(zip(values, actual, strict=True)) if isinstance(values, list) else [(values, actual)]
        mask = batch.target_mask if name != "hidden" and batch.target_mask is not None else batch.mask
        differences[name] = max(_max_difference(a, b, mask) for a, b in pairs)
    return differences


def _max_difference(a: Array, b: Array, mask: Array) -> float:
    assert a.shape == b.shape, f"{a.shape} against {b.shape}"
    if a.ndim >= 2 and a.shape[: mask.ndim] == mask.shape:
        a, b = a[mask], b[mask]
    assert np.isfinite(a).all()
    assert np.isfinite(b).all()
    return float(np.abs(a - b).max())


def assert_equal(expected: Mapping[str, Any], got: Output, batch: TokenBatch, tolerance: float = TOLERANCE) -> None:
    """Assert that every output is within the tolerance."""
    differences = compute_differences(expected, got, batch)
    assert differences
    assert all(value <= tolerance for value in differences.values()), differences


@contextmanager
def save_reference(model: Any, **options: Any) -> Iterator[Path]:
    """Save a model with transformers in a temporary folder."""
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder, **options)
        yield Path(folder)


# Marian's waves are computed again; DeBERTa makes a norm for distances even where it has none
IGNORED_TENSORS = ("embed_positions.weight", "encoder.LayerNorm.weight", "encoder.LayerNorm.bias")


def load_in_transformers(folder: Path, class_name: str) -> Any:
    """Load a folder with transformers; no tensor may be missing, unexpected or mismatched."""
    model, loading_info = getattr(import_transformers(), class_name).from_pretrained(folder, output_loading_info=True)
    missing = [name for name in loading_info["missing_keys"] if not name.endswith(IGNORED_TENSORS)]
    assert not missing, missing
    assert not any(loading_info[key] for key in ("unexpected_keys", "mismatched_keys")), loading_info
    return model.eval()


def load_in_clearhead(model: Any, **options: Any) -> Model:
    """Load a transformers model with clearhead."""
    with save_reference(model) as folder:
        return clearhead.load(folder, "core", **options)


def _to_array(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy()
