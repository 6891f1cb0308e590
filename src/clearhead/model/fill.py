"""The most likely tokens at each mask of a text: what `Model.fill` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.batch import check_finite
from clearhead.checkpoint.hub import format_fill_models
from clearhead.errors import InputError
from clearhead.model.inputs import encode_untruncated

if TYPE_CHECKING:
    from clearhead.model.model import Model


@dataclass(frozen=True)
class Guess:
    """A candidate token for a mask, with its probability."""

    token: str
    probability: float
    id: int


def fill(model: Model, text: str, top: int) -> list[list[Guess]]:
    """Predict the `top` most likely tokens of each mask, most likely first."""
    import numpy as np

    if model.shape.head is None or model.shape.head.kind != "masked":
        raise InputError(
            f"This model has no masked-word head; on this machine, these have one: {format_fill_models()}."
        )
    if top < 1:
        raise InputError(f"top must be an integer >= 1, got {top}.")
    mask_token, mask_id = model.tokenizer.mask_token, model.tokenizer.mask_id
    if mask_token is None or mask_id is None:
        raise InputError("This model's tokenizer has no mask token.")
    encoding = encode_untruncated(model.tokenizer, model.shape, text.replace("[MASK]", mask_token))
    masks = [index for index, token in enumerate(encoding.ids) if token == mask_id]
    if not masks:
        raise InputError(f"The text has no {mask_token} to fill.")
    segments = [encoding.segments] if model.shape.stack.segments > 1 else None
    logits = np.asarray(model.run([encoding.ids], None, segments, hidden=False).logits)[0, masks]
    check_finite(logits)
    guesses = []
    for scores in logits.astype(np.float64):
        probs = np.exp(scores - scores.max())
        probs /= probs.sum()
        best = np.argsort(-probs)[:top]
        words = [model.tokenizer.decode([i], skip_special=False).strip() for i in best]
        guesses.append([Guess(word, float(probs[i]), int(i)) for word, i in zip(words, best, strict=True)])
    return guesses
