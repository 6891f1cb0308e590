"""Tokenizer backend based on the `tokenizers` library."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

from tokenizers import AddedToken, processors

from clearhead.errors import InputError
from clearhead.text.encoding import Encoding, TokenIds, compute_kept_positions
from clearhead.text.files import wrap_library_errors
from clearhead.text.limits.pipeline_limits import check_text_size
from clearhead.text.recipes import SpecialTokens
from clearhead.text.settings import Token, TokenizerSettings
from clearhead.text.token_counter import (
    WORD_MODELS,
    WordTokenCounter,
    build_word_token_counter,
    group_words_by_frequency,
)

MAX_BATCH_CHARACTERS = 1_000_000  # tokenized in one call, as the library needs over a hundred bytes per token
LONG_TEXT_LENGTH = 16_384  # characters; the words of longer texts are counted
CHARACTERS_PER_TOKEN = 16  # initial prefix length per requested token; most tokens have three to five characters
PREFIX_GROWTH = 8  # factor by which a prefix that is too short grows
MAX_UNCHECKED_CHARACTERS = 1_500  # shorter texts stay within the limits, whatever the pipeline does
# A text, or a text that is already split into words. A tuple is a pair of texts of the same type.
TextInput = str | list[str]
EncodeInput = TextInput | tuple[TextInput, TextInput]
EncodeInputT = TypeVar("EncodeInputT", bound=EncodeInput)


class RustPipeline:
    """Backend for a `tokenizers.Tokenizer`, which is not modified after loading."""

    max_text_length: int | None = None  # characters that can be tokenized at once; None for the general limit

    def __init__(self, pipeline: Any, *, clean_up: bool = False, growth: float = 1.0) -> None:
        self.pipeline = pipeline
        self.growth = growth  # maximum factor by which the pipeline lengthens a text, in bytes
        # Truncation and padding settings of the file are ignored.
        pipeline.no_truncation()
        pipeline.no_padding()
        self.kind = type(pipeline.model).__name__
        # On request, `transformers` removes spaces before punctuation, except for BPE, where this would be lossy.
        self.clean_up = clean_up and self.kind != "BPE"

    def encode(self, items: Sequence[EncodeInput], *, split: bool) -> list[Encoding]:
        """Encode texts or pairs with special tokens, without truncation; with `split`, texts are lists of words."""
        with wrap_library_errors("The tokenizer failed on this text"):
            self._check_sizes(items)
            return [
                _make_encoding(library_encoding)
                for batch in split_batches(items)
                for library_encoding in self.pipeline.encode_batch(batch, is_pretokenized=split)
            ]

    def encode_ids(
        self, items: Sequence[EncodeInput], *, split: bool, max_length: int | None = None, side: str = "right"
    ) -> list[TokenIds]:
        """Encode texts or pairs to ids and segments, without offsets, truncated to `max_length`."""
        with wrap_library_errors("The tokenizer failed on this text"):
            self._check_sizes(items)
            long_ids: dict[int, TokenIds] = {}
            if max_length is not None and side == "right" and not split:
                long_indices = [index for index, item in enumerate(items) if _is_long(item)]
                if long_indices and (counter := self._word_counter) is not None:
                    long_ids = {
                        index: self._encode_first_words(counter, items[index], max_length) for index in long_indices
                    }
            short_ids = [
                TokenIds(library_encoding.ids, library_encoding.type_ids)
                if max_length is None or len(library_encoding) <= max_length
                else _truncate_ids(library_encoding, max_length, side)
                for batch in split_batches([item for index, item in enumerate(items) if index not in long_ids])
                for library_encoding in self.pipeline.encode_batch_fast(batch, is_pretokenized=split)
            ]
            if not long_ids:
                return short_ids
            short_iterator = iter(short_ids)
            return [long_ids[index] if index in long_ids else next(short_iterator) for index in range(len(items))]

    @cached_property
    def _word_counter(self) -> WordTokenCounter | None:
        return build_word_token_counter(json.loads(self.pipeline.to_str())) if self.kind in WORD_MODELS else None

    def _encode_first_words(self, counter: WordTokenCounter, item: EncodeInput, max_length: int) -> TokenIds:
        """Encode the first words of a text or a pair, and count the tokens that follow."""
        texts = [str(text) for text in item] if isinstance(item, tuple) else [str(item)]
        size = max(LONG_TEXT_LENGTH, CHARACTERS_PER_TOKEN * max_length)
        while True:
            prefixes = [counter.get_first_words(text, size) for text in texts]
            library_encoding = self.pipeline.encode_batch_fast(
                [tuple(prefixes) if isinstance(item, tuple) else prefixes[0]]
            )[0]
            sides = library_encoding.sequence_ids
            counts = [sides.count(side) for side in range(len(texts))]
            remainders = [text[len(prefix) :] for prefix, text in zip(prefixes, texts, strict=True)]
            if all(not remainder or count >= max_length for remainder, count in zip(remainders, counts, strict=True)):
                break
            size *= PREFIX_GROWTH
        extra_counts = [self._count_unchecked(remainder) for remainder in remainders]
        full_counts = [count + extra_count for count, extra_count in zip(counts, extra_counts, strict=True)]
        if len(library_encoding) + sum(extra_counts) <= max_length:
            return TokenIds(library_encoding.ids, library_encoding.type_ids)
        return _truncate_ids(library_encoding, max_length, "right", full_counts)

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts to ids without special tokens."""
        with wrap_library_errors("The tokenizer failed on this text"):
            self._check_sizes(texts)
            return [
                library_encoding.ids
                for batch in split_batches(texts)
                for library_encoding in self.pipeline.encode_batch_fast(batch, add_special_tokens=False)
            ]

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text without special tokens."""
        with wrap_library_errors("The tokenizer failed on this text"):
            self._check_sizes([text])
            return self._count_unchecked(text)

    def _count_unchecked(self, text: str) -> int:
        counter = self._word_counter if len(text) > LONG_TEXT_LENGTH else None
        if counter is None:
            return len(self.pipeline.encode_batch_fast([text], add_special_tokens=False)[0])
        fast_groups, count = [], 0
        normalizer, pre_tokenizer = self.pipeline.normalizer, self.pipeline.pre_tokenizer
        for frequency, words in group_words_by_frequency(text):
            if counter.has_slow_words(words):
                normalized = words if normalizer is None else normalizer.normalize_str(words)
                if not counter.has_added_token(words) and not counter.has_added_token(normalized):
                    count += frequency * counter.count_tokens(
                        [word for word, _ in pre_tokenizer.pre_tokenize_str(normalized)]
                    )
                    continue
            fast_groups.append((frequency, words))
        encodings = self.pipeline.encode_batch_fast([words for _, words in fast_groups], add_special_tokens=False)
        return count + sum(
            frequency * len(encoding) for (frequency, _), encoding in zip(fast_groups, encodings, strict=True)
        )

    def _check_sizes(self, items: Sequence[EncodeInput]) -> None:
        for item in items:
            for text_input in item if isinstance(item, tuple) else (item,):
                if _count_characters(text_input) > MAX_UNCHECKED_CHARACTERS:
                    text = text_input if isinstance(text_input, str) else "".join(text_input)
                    check_text_size(text, self.growth, self.pipeline.normalizer)

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        """Convert ids to text."""
        with wrap_library_errors("The tokenizer failed to decode these ids"):
            text: str = self.pipeline.decode(ids, skip_special_tokens=skip_special)
        return clean_up_spaces(text) if self.clean_up else text

    def token_id(self, token: str) -> int | None:
        """Return the id of a token, or None if it is not in the vocabulary."""
        token_id: int | None = self.pipeline.token_to_id(token)
        return token_id

    def vocab(self) -> dict[str, int]:
        """Return all tokens and their ids, including added tokens."""
        vocab: dict[str, int] = self.pipeline.get_vocab(with_added_tokens=True)
        return vocab

    def size(self) -> int:
        """Return the number of tokens, including added tokens."""
        size: int = self.pipeline.get_vocab_size(with_added_tokens=True)
        return size

    def files(self) -> dict[str, bytes]:
        """Return the files of the tokenizer by name."""
        return {"tokenizer.json": self.pipeline.to_str(pretty=True).encode()}


def split_batches(items: Sequence[EncodeInputT]) -> Iterator[list[EncodeInputT]]:
    """Yield batches of consecutive items with a limited number of characters; longer items form their own batch."""
    batch: list[EncodeInputT] = []
    size = 0
    for item in items:
        characters = sum(map(_count_characters, item)) if isinstance(item, tuple) else _count_characters(item)
        if batch and size + characters > MAX_BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += characters
    if batch:
        yield batch


def _count_characters(text: TextInput) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text))


def add_tokens(
    pipeline: Any, settings: TokenizerSettings, special_tokens_by_key: SpecialTokens, extra_tokens: list[Token]
) -> None:
    """Add the added and special tokens to the pipeline, in the order of `transformers`."""
    new_tokens: list[Token] = list(settings.added_tokens.values())
    known_contents = {token.content for token in pipeline.get_added_tokens_decoder().values()} | {
        str(token) for token in new_tokens
    }
    special_tokens = [
        token for token in (special_tokens_by_key | settings.model_specific_tokens).values() if token is not None
    ]
    for token in [*special_tokens, *extra_tokens]:
        if str(token) not in known_contents:
            known_contents.add(str(token))
            new_tokens.append(token)
    special_contents = {str(token) for token in special_tokens}
    added_tokens = []
    for token in new_tokens:
        if isinstance(token, str):
            token = AddedToken(token, special=True)
        elif not token.special and str(token) in special_contents:
            token.special = True
        added_tokens.append(token)
    pipeline.add_tokens(added_tokens)


def build_default_template(pipeline: Any, settings: TokenizerSettings, special_tokens: SpecialTokens) -> Any:
    """Build the default post-processor, which adds bos and eos if the settings request them."""
    boundary_tokens = [
        special_tokens.get(f"{name}_token") if settings.get_flag(f"add_{name}_token", False) else None
        for name in ("bos", "eos")
    ]

    def format_template(name: str, segment: int) -> str:
        before, after = (f"{token}:{segment}" if token is not None else "" for token in boundary_tokens)
        return f"{before} ${name}:{segment} {after}".strip()

    return processors.TemplateProcessing(
        single=format_template("A", 0),
        pair=f"{format_template('A', 0)} {format_template('B', 1)}",
        special_tokens=[
            (str(token), pipeline.token_to_id(str(token))) for token in boundary_tokens if token is not None
        ],
    )


def check_text(text: object, name: str = "the text") -> None:
    """Raise an InputError unless the text is a string or a list of strings."""
    if isinstance(text, str):
        return
    if not isinstance(text, list):
        raise InputError(f"{name} must be a string or a list of words, got {type(text).__name__}.")
    for index, word in enumerate(text):
        if not isinstance(word, str):
            raise InputError(f"{name} must be a list of words, but word {index} has type {type(word).__name__}.")


def check_surrogates(text: str, name: str) -> None:
    """Raise an InputError for unpaired surrogates, which are not valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} contains an unpaired surrogate at character {error.start}, which is not valid text; "
            "decode its source with errors='replace'."
        ) from None


def _is_long(item: EncodeInput) -> bool:
    return max(map(len, item if isinstance(item, tuple) else (item,))) > LONG_TEXT_LENGTH


def _truncate_ids(
    library_encoding: Any, max_length: int, side: str, full_counts: Sequence[int] | None = None
) -> TokenIds:
    """Truncate an encoding; `full_counts` are the token counts of the complete texts if only prefixes were encoded."""
    sides = library_encoding.sequence_ids
    positions = compute_kept_positions(sides, max_length, side, full_counts)
    ids, segments = library_encoding.ids, library_encoding.type_ids
    unencoded_count = 0 if full_counts is None else sum(full_counts) - len(sides) + sides.count(None)
    return TokenIds(
        [ids[i] for i in positions], [segments[i] for i in positions], len(ids) + unencoded_count - max_length
    )


def _make_encoding(library_encoding: Any) -> Encoding:
    return Encoding(
        ids=library_encoding.ids,
        tokens=library_encoding.tokens,
        offsets=library_encoding.offsets,
        words=library_encoding.word_ids,
        segments=library_encoding.type_ids,
        special=[flag == 1 for flag in library_encoding.special_tokens_mask],
        sides=library_encoding.sequence_ids,
    )


def clean_up_spaces(text: str) -> str:
    """Remove the spaces before punctuation and contractions that joining tokens creates."""
    for spaced, unspaced in _SPACE_REPLACEMENTS:
        text = text.replace(spaced, unspaced)
    return text


_PUNCTUATION = (".", "?", "!", ",")
_CONTRACTIONS = ("n't", "'m", "'s", "'ve", "'re")
_SPACE_REPLACEMENTS = [*((f" {m}", m) for m in _PUNCTUATION), (" ' ", "'"), *((f" {s}", s) for s in _CONTRACTIONS)]
