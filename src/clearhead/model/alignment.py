"""Word alignment of translations, computed from cross-attention.

The target is given, so one pass over a batch computes the attention of all target tokens. The row of a token is that of
the decoding step that predicts it. The choice of layers matters most: lower layers attend diffusely. In deep decoders
the penultimate layer agrees best with manual alignments (Garg et al., 2019), in shallow ones the last layer; the mean
of the upper half is close to the best of both and needs no choice. Using the step that reads a token, as some papers
do, was worse in every layer. A decoder with one layer, or a recurrent model with one attention, has no choice.
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

BATCH_TOKENS = 4096  # source and target tokens per batch, including padding


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Attention of each target word to the source words; special tokens are not words."""

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    weights: Array  # (target words, source words), float32: each row sums to 1 minus the attention to special tokens
    links: tuple[tuple[int, int], ...]  # (source word, target word): the most attended source word of each target word
    layers: tuple[int, ...]  # the layers that were averaged
    head: int | None  # None: the mean of all heads

    def to_json(self) -> dict[str, Any]:
        """Return the links and their words, as `translate --json` prints them."""
        return {
            "alignment": [list(link) for link in self.links],
            "source_words": list(self.source_words),
            "target_words": list(self.target_words),
        }

    def __repr__(self) -> str:
        pairs = (f"{self.source_words[s]}–{self.target_words[t]}" for s, t in self.links[:8])
        return short_repr("Alignment", ", ".join(pairs) + (", ..." if len(self.links) > 8 else ""))


class Aligner:
    """Aligns texts with a model, using one layer or the default layers, and one head or all."""

    def __init__(self, model: Model, layer: int | None = None, head: int | None = None) -> None:
        decoder = model.shape.decoder
        if decoder is None:
            raise InputError("This model has no decoder, so it cannot align words.")
        recurrent = decoder.recurrent
        if recurrent is not None and recurrent.score == "none":
            raise InputError("This model has no attention, so it cannot align words.")
        layers, heads = (1, 1) if recurrent is not None else (decoder.layers, decoder.heads)
        for name, value, count in (("layer", layer, layers), ("head", head, heads)):
            if value is not None and (type(value) is not int or not 0 <= value < count):
                raise InputError(f"{name} must be an integer from 0 to {count - 1}, got {value!r}.")
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
        """Align pairs of source and target texts."""
        sources = self.source.encode_batch([prefix + source for source, _ in pairs], max_length=self.limits[0])
        targets = self.target.encode_batch([target for _, target in pairs], max_length=self.limits[1])
        attentions = self.cross_attention(
            [encoding.ids for encoding in sources], [encoding.ids for encoding in targets], progress
        )
        alignments = []
        for (source, target), source_encoding, target_encoding, attention in zip(
            pairs, sources, targets, attentions, strict=True
        ):
            spans = find_word_spans(source, keep_contractions=True), find_word_spans(target, keep_contractions=True)
            weights = merge_tokens(
                attention,
                map_words_to_tokens(source_encoding, spans[0], len(prefix)),
                map_words_to_tokens(target_encoding, spans[1]),
                spans,
            )
            alignments.append(
                Alignment(
                    source_words=tuple(source[start:end] for start, end in spans[0]),
                    target_words=tuple(target[start:end] for start, end in spans[1]),
                    weights=weights,
                    links=link_words(weights),
                    layers=self.layers,
                    head=self.head,
                )
            )
        return alignments

    def encode_source(self, text: str) -> Encoding:
        """Encode a source as the model reads it, truncated to its maximum length."""
        return self.source.encode(text, max_length=self.limits[0])

    def cross_attention(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        progress: Progress = no_progress,
    ) -> list[Array]:
        """Compute (target, source) attention for each row of ids; targets have no start token."""
        import numpy as np

        core, start = self.model.core, self.model.shape.decoder_start_id
        if start is None:
            raise InputError("The config has no decoder_start_token_id.")
        sizes = [(len(target), len(source)) for source, target in zip(sources, targets, strict=True)]
        matrices = [np.zeros(size, np.float32) for size in sizes]
        lengths = np.array([sum(size) for size in sizes], np.int64)
        non_empty = [row for row in lengths.argsort(kind="stable").tolist() if all(sizes[row])]
        done = len(matrices) - len(non_empty)
        for group in group_by_budget([int(lengths[row]) for row in non_empty], BATCH_TOKENS):
            rows = [non_empty[index] for index in group]
            ids, mask = pad_rows([sources[row] for row in rows], self.model.shape.stack.pad_id or 0)
            shifted = [[start, *targets[row][:-1]] for row in rows]
            target_ids, target_mask = pad_rows(shifted, start)
            batch = Batch(ids=ids, mask=mask, target_ids=target_ids, target_mask=target_mask)
            for row, probs in zip(rows, self._compute_attention(core, batch, self.layers, self.head), strict=True):
                matrices[row] = probs[: len(targets[row]), : len(sources[row])].astype(np.float32)
            done += len(rows)
            progress("aligning", done, len(matrices))
        return matrices


def best_alignment_layers(layers: int) -> tuple[int, ...]:
    """Return the decoder layers whose cross-attention aligns best: the upper half."""
    return tuple(range(layers // 2, layers))


def map_words_to_tokens(encoding: Encoding, spans: Sequence[Span], offset: int = 0) -> list[list[int]]:
    """List the tokens of each word; the first `offset` characters of the encoded text are a prefix without words."""
    word_tokens: list[list[int]] = [[] for _ in spans]
    word = 0
    for token, (start, end) in enumerate(encoding.offsets):
        if encoding.special[token] or encoding.sides[token] is None or end <= start:
            continue
        start, end = start - offset, end - offset
        while word < len(spans) and spans[word][1] <= start:
            word += 1
        for index in range(word, len(spans)):  # a token may span several words
            if spans[index][0] >= end:
                break
            word_tokens[index].append(token)
    return word_tokens


def merge_tokens(
    attention: Array, source_words: Sequence[Sequence[int]], target_words: Sequence[Sequence[int]], spans: Any
) -> Array:
    """Merge tokens to words: average the tokens of a target word, sum those of a source word."""
    import numpy as np

    merged = np.zeros((len(spans[1]), len(spans[0])), np.float32)
    for target, rows in enumerate(target_words):
        if rows and len(source_words):
            merged[target] = sum_columns(average_rows(attention, [rows]), source_words)[0]
    return merged


def average_rows(probs: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Average the rows of each group: a target word attends like the mean of its tokens."""
    import numpy as np

    return np.stack([probs[list(group)].mean(0) for group in groups])


def sum_columns(probs: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Sum the columns of each group: a source word receives the attention of all its tokens."""
    import numpy as np

    return np.stack([probs[:, list(group)].sum(1) for group in groups], 1)


def link_words(weights: Array) -> tuple[tuple[int, int], ...]:
    """Link each target word to the source word with the highest attention: (source, target) pairs."""
    if not weights.size:
        return ()
    best = weights.argmax(1)
    return tuple((int(best[row]), row) for row in range(len(weights)) if weights[row, best[row]] > 0)


def check_pairs(sources: Iterable[str], targets: Iterable[str]) -> list[tuple[str, str]]:
    """Pair each source with its target, and check their types and number."""
    if isinstance(sources, str) or isinstance(targets, str):
        raise InputError("align expects lists of texts, got a single text; put it in a list.")
    sources, targets = list(sources), list(targets)
    if len(sources) != len(targets):
        raise InputError(f"align expects one target per source, got {len(sources)} sources and {len(targets)} targets.")
    pairs = list(zip(sources, targets, strict=True))
    for row, pair in enumerate(pairs):
        for name, text in zip(("sources", "targets"), pair, strict=True):
            if not isinstance(text, str):
                raise InputError(f"{name}[{row}] is {type(text).__name__}, expected a text.")
    return pairs


def _max_length(limit: int | None, stack: Any) -> int | None:
    limits = (limit, None if stack.positions == "none" else stack.max_length)
    return min((value for value in limits if value is not None), default=None)
