"""Which source word each word of a translation looked at, read out of cross-attention.

The target is given, so that one pass over a batch tells all of it. A word's row is that of the step that wrote it.
Which layers are asked matters more than anything else: the lower ones look around. In deep decoders the one before the
last agrees best with alignments made by hand (Garg and others, 2019), in shallow ones the last; the mean of the upper
half is near the best of both and needs no choice. The step that reads a word in, which some papers prefer, was worse
here in every layer. A decoder of one layer, and the recurrent ancestor with its one attention, have no choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.batch import Batch, group_by_budget, pad_rows
from clearhead.errors import InputError, MissingExtraError
from clearhead.html import short_repr
from clearhead.progress import Progress, no_progress
from clearhead.text.words import Span, find_word_spans

if TYPE_CHECKING:
    import numpy as np

    from clearhead.model.model import Model
    from clearhead.text.encoding import Encoding

    Array = np.ndarray[Any, Any]

BATCH_TOKENS = 4096  # of sources and targets together, padding counted


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Where each word of a target looked in its source; marks such as the end of a text are no words."""

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    weights: Array  # (target words, source words), float32: each row sums to 1 less what marks were given
    links: tuple[tuple[int, int], ...]  # (source word, target word): the one that each target word looked at most
    layers: tuple[int, ...]  # whose mean it is
    head: int | None  # None: the mean of all heads

    def to_json(self) -> dict[str, Any]:
        """The links and their words, as `translate --json` prints them."""
        return {
            "alignment": [list(link) for link in self.links],
            "source_words": list(self.source_words),
            "target_words": list(self.target_words),
        }

    def __repr__(self) -> str:
        pairs = (f"{self.source_words[s]}–{self.target_words[t]}" for s, t in self.links[:8])
        return short_repr("Alignment", ", ".join(pairs) + (", ..." if len(self.links) > 8 else ""))


class Aligner:
    """One way to align: a model, a layer, and one head or all."""

    def __init__(self, model: Model, layer: int | None = None, head: int | None = None) -> None:
        decoder = model.shape.decoder
        if decoder is None:
            raise InputError("This model has no decoder, so that there is nothing to align.")
        recurrent = decoder.recurrent
        if recurrent is not None and recurrent.score == "none":
            raise InputError("This model has no attention, so that nothing tells which words belong together.")
        layers, heads = (1, 1) if recurrent is not None else (decoder.layers, decoder.heads)
        for name, value, most in (("layer", layer, layers), ("head", head, heads)):
            if value is not None and (type(value) is not int or not 0 <= value < most):
                raise InputError(f"{name} must be from 0 to {most - 1}, and it is {value!r}.")
        try:
            from clearhead.core.cross_attention import compute_cross_attention
        except ImportError:
            raise MissingExtraError("Aligning words", "train") from None
        self.model, self.head, self._compute_attention = model, head, compute_cross_attention
        self.layers = best_alignment_layers(layers) if layer is None else (layer,)
        self.source, self.target = model.tokenizer, model.target_tokenizer or model.tokenizer
        self.limits = (_max_length(model.max_length(), model.shape.stack), _max_length(None, decoder))

    def align(
        self, pairs: Sequence[tuple[str, str]], prefix: str = "", progress: Progress = no_progress
    ) -> list[Alignment]:
        """Texts and their translations."""
        sources = self.source.encode_batch([prefix + source for source, _ in pairs], max_length=self.limits[0])
        targets = self.target.encode_batch([target for _, target in pairs], max_length=self.limits[1])
        found = self.cross_attention([one.ids for one in sources], [one.ids for one in targets], progress)
        made = []
        for (source, target), read, written, looked in zip(pairs, sources, targets, found, strict=True):
            spans = find_word_spans(source, keep_contractions=True), find_word_spans(target, keep_contractions=True)
            weights = merge_tokens(
                looked, map_words_to_tokens(read, spans[0], len(prefix)), map_words_to_tokens(written, spans[1]), spans
            )
            made.append(
                Alignment(
                    source_words=tuple(source[start:end] for start, end in spans[0]),
                    target_words=tuple(target[start:end] for start, end in spans[1]),
                    weights=weights,
                    links=link_words(weights),
                    layers=self.layers,
                    head=self.head,
                )
            )
        return made

    def read(self, text: str) -> Encoding:
        """A source as the model reads it, cut where it ends."""
        return self.source.encode(text, max_length=self.limits[0])

    def cross_attention(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        progress: Progress = no_progress,
    ) -> list[Array]:
        """(target, source) probabilities of each row of ids; targets come without the start, with or without end."""
        import numpy as np

        core, start = self.model.core, self.model.shape.decoder_start_id
        if start is None:
            raise InputError("The folder does not say which token its decoder starts with.")
        sizes = [(len(target), len(source)) for source, target in zip(sources, targets, strict=True)]
        made = [np.zeros(size, np.float32) for size in sizes]
        lengths = np.array([sum(size) for size in sizes], np.int64)
        full = [row for row in lengths.argsort(kind="stable").tolist() if all(sizes[row])]
        done = len(made) - len(full)
        for group in group_by_budget([int(lengths[row]) for row in full], BATCH_TOKENS):
            rows = [full[place] for place in group]
            ids, mask = pad_rows([sources[row] for row in rows], self.model.shape.stack.pad_id or 0)
            shifted = [[start, *targets[row][:-1]] for row in rows]
            target_ids, target_mask = pad_rows(shifted, start)
            batch = Batch(ids=ids, mask=mask, target_ids=target_ids, target_mask=target_mask)
            for row, probs in zip(rows, self._compute_attention(core, batch, self.layers, self.head), strict=True):
                made[row] = probs[: len(targets[row]), : len(sources[row])].astype(np.float32)
            done += len(rows)
            progress("aligning", done, len(made))
        return made


def best_alignment_layers(layers: int) -> tuple[int, ...]:
    """The decoder layers whose cross-attention aligns best: the upper half."""
    return tuple(range(layers // 2, layers))


def map_words_to_tokens(encoding: Encoding, spans: Sequence[Span], before: int = 0) -> list[list[int]]:
    """The tokens of each word; `before` characters of the text that was encoded come first and are no words."""
    made: list[list[int]] = [[] for _ in spans]
    word = 0
    for token, (start, end) in enumerate(encoding.offsets):
        if encoding.special[token] or encoding.sides[token] is None or end <= start:
            continue
        start, end = start - before, end - before
        while word < len(spans) and spans[word][1] <= start:
            word += 1
        for place in range(word, len(spans)):  # a token may reach over several words
            if spans[place][0] >= end:
                break
            made[place].append(token)
    return made


def merge_tokens(looked: Array, read: Sequence[Sequence[int]], written: Sequence[Sequence[int]], spans: Any) -> Array:
    """Tokens as words: the mean over the pieces of a target word, the sum over those of a source word."""
    import numpy as np

    made = np.zeros((len(spans[1]), len(spans[0])), np.float32)
    for target, rows in enumerate(written):
        if rows and len(read):
            made[target] = sum_columns(average_rows(looked, [rows]), read)[0]
    return made


def average_rows(probs: Array, groups: Sequence[Sequence[int]]) -> Array:
    """The rows of each group as their mean: a word that was written in pieces looked where its pieces did."""
    import numpy as np

    return np.stack([probs[list(group)].mean(0) for group in groups])


def sum_columns(probs: Array, groups: Sequence[Sequence[int]]) -> Array:
    """The columns of each group as their sum: a word that was read in pieces gets what its pieces got."""
    import numpy as np

    return np.stack([probs[:, list(group)].sum(1) for group in groups], 1)


def link_words(weights: Array) -> tuple[tuple[int, int], ...]:
    """(source, target) of every target word that looked at any source word."""
    if not weights.size:
        return ()
    best = weights.argmax(1)
    return tuple((int(best[row]), row) for row in range(len(weights)) if weights[row, best[row]] > 0)


def check_pairs(sources: Iterable[str], targets: Iterable[str]) -> list[tuple[str, str]]:
    """Each source with its target, or one sentence for what cannot be paired."""
    if isinstance(sources, str) or isinstance(targets, str):
        raise InputError("align takes lists of texts, and it was given one text; put it in a list.")
    sources, targets = list(sources), list(targets)
    if len(sources) != len(targets):
        raise InputError(f"There are {len(sources)} sources and {len(targets)} targets; give one target for each.")
    pairs = list(zip(sources, targets, strict=True))
    for row, pair in enumerate(pairs):
        for name, text in zip(("sources", "targets"), pair, strict=True):
            if not isinstance(text, str):
                raise InputError(f"{name}[{row}] is {type(text).__name__}, expected a text.")
    return pairs


def _max_length(given: int | None, stack: Any) -> int | None:
    known = (given, None if stack.positions == "none" else stack.max_length)
    return min((one for one in known if one is not None), default=None)
