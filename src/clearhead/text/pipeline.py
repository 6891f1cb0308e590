"""A pipeline of the `tokenizers` library behind the few calls that a Tokenizer needs."""

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
from clearhead.text.token_counter import MODELS, WordTokenCounter, build_word_token_counter, group_words_by_frequency

MAX_BATCH_CHARACTERS = (
    1_000_000  # characters of texts that the library holds as tokens together: some hundred bytes for each
)
LONG_TEXT = 16_384  # characters of a text whose words are worth counting
CHARACTERS_PER_TOKEN = (
    16  # characters of the first words for each token that is read, at first; most tokens have three to five
)
PREFIX_GROWTH = 8  # of the first words where they do not suffice
MAX_UNCHECKED_CHARACTERS = 1_500  # fewer need no look at their size, however much a pipeline makes them grow
# A text, or a text already split into words; a tuple is a pair of one kind.
TextInput = str | list[str]
EncodeInput = TextInput | tuple[TextInput, TextInput]
EncodeInputT = TypeVar("EncodeInputT", bound=EncodeInput)


class RustPipeline:
    """Encodes and decodes with a `tokenizers.Tokenizer` that is never changed after loading."""

    most_text: int | None = None  # characters that are tokenized at once: as many as for any text

    def __init__(self, pipeline: Any, *, clean_up: bool = False, growth: float = 1.0) -> None:
        self.pipeline = pipeline
        self.growth = growth  # how many times longer the pipeline can make a text, in bytes
        # Cutting and padding are never done behind the caller's back, whatever the file asks for.
        pipeline.no_truncation()
        pipeline.no_padding()
        self.kind = type(pipeline.model).__name__
        # `transformers` tidies spaces before punctuation on request, but not for BPE, where it would lose some.
        self.clean_up = clean_up and self.kind != "BPE"

    def encode(self, items: Sequence[EncodeInput], *, split: bool) -> list[Encoding]:
        """Encode texts or pairs whole, with special tokens; `split` says that the texts are lists of words."""
        with wrap_library_errors("the tokenizer failed on this text"):
            self._check(items)
            return [
                _as_encoding(e)
                for some in split_batches(items)
                for e in self.pipeline.encode_batch(some, is_pretokenized=split)
            ]

    def ids(
        self, items: Sequence[EncodeInput], *, split: bool, max_length: int | None = None, side: str = "right"
    ) -> list[TokenIds]:
        """The same ids and segments, without tracking where each came from; cut at `max_length` if there is one."""
        with wrap_library_errors("the tokenizer failed on this text"):
            self._check(items)
            long: dict[int, TokenIds] = {}
            if max_length is not None and side == "right" and not split:
                at = [place for place, item in enumerate(items) if _is_long(item)]
                if at and (reader := self._word_reader) is not None:
                    long = {place: self._ids_of_first_words(reader, items[place], max_length) for place in at}
            short = [
                TokenIds(e.ids, e.type_ids)
                if max_length is None or len(e) <= max_length
                else _cut_ids(e, max_length, side)
                for some in split_batches([item for place, item in enumerate(items) if place not in long])
                for e in self.pipeline.encode_batch_fast(some, is_pretokenized=split)
            ]
            if not long:
                return short
            rest = iter(short)
            return [long[place] if place in long else next(rest) for place in range(len(items))]

    @cached_property
    def _word_reader(self) -> WordTokenCounter | None:
        return build_word_token_counter(json.loads(self.pipeline.to_str())) if self.kind in MODELS else None

    def _ids_of_first_words(self, reader: WordTokenCounter, item: EncodeInput, max_length: int) -> TokenIds:
        """The first tokens of a text or a pair from its first words, and how many follow."""
        texts = [str(part) for part in item] if isinstance(item, tuple) else [str(item)]
        size = max(LONG_TEXT, CHARACTERS_PER_TOKEN * max_length)
        while True:
            heads = [reader.take_first_words(text, size) for text in texts]
            raw = self.pipeline.encode_batch_fast([tuple(heads) if isinstance(item, tuple) else heads[0]])[0]
            sides = raw.sequence_ids
            found = [sides.count(place) for place in range(len(texts))]
            rests = [text[len(head) :] for head, text in zip(heads, texts, strict=True)]
            if all(not rest or one >= max_length for rest, one in zip(rests, found, strict=True)):
                break
            size *= PREFIX_GROWTH
        beyond = [self._count(rest) for rest in rests]
        whole = [first + more for first, more in zip(found, beyond, strict=True)]
        if len(raw) + sum(beyond) <= max_length:
            return TokenIds(raw.ids, raw.type_ids)
        return _cut_ids(raw, max_length, "right", whole)

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts alone, with nothing around them."""
        with wrap_library_errors("the tokenizer failed on this text"):
            self._check(texts)
            return [
                e.ids
                for some in split_batches(texts)
                for e in self.pipeline.encode_batch_fast(some, add_special_tokens=False)
            ]

    def count(self, text: str) -> int:
        """How many tokens a text alone has."""
        with wrap_library_errors("the tokenizer failed on this text"):
            self._check([text])
            return self._count(text)

    def _count(self, text: str) -> int:
        reader = self._word_reader if len(text) > LONG_TEXT else None
        if reader is None:
            return len(self.pipeline.encode_batch_fast([text], add_special_tokens=False)[0])
        quick, count = [], 0
        normalizer, splitter = self.pipeline.normalizer, self.pipeline.pre_tokenizer
        for times, words in group_words_by_frequency(text):
            if reader.is_slow(words):
                normal = words if normalizer is None else normalizer.normalize_str(words)
                if not reader.has_added_token(words) and not reader.has_added_token(normal):
                    count += times * reader.count_tokens([word for word, _ in splitter.pre_tokenize_str(normal)])
                    continue
            quick.append((times, words))
        found = self.pipeline.encode_batch_fast([words for _, words in quick], add_special_tokens=False)
        return count + sum(times * len(one) for (times, _), one in zip(quick, found, strict=True))

    def _check(self, items: Sequence[EncodeInput]) -> None:
        for item in items:
            for part in item if isinstance(item, tuple) else (item,):
                if _characters(part) > MAX_UNCHECKED_CHARACTERS:
                    whole = part if isinstance(part, str) else "".join(part)
                    check_text_size(whole, self.growth, self.pipeline.normalizer)

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        """Ids back to text."""
        with wrap_library_errors("the tokenizer failed to decode these ids"):
            text: str = self.pipeline.decode(ids, skip_special_tokens=skip_special)
        return clean_up_spaces(text) if self.clean_up else text

    def token_id(self, token: str) -> int | None:
        """The id of a token, None if it has none."""
        found: int | None = self.pipeline.token_to_id(token)
        return found

    def vocab(self) -> dict[str, int]:
        """All tokens with their ids, added ones too."""
        found: dict[str, int] = self.pipeline.get_vocab(with_added_tokens=True)
        return found

    def size(self) -> int:
        """How many tokens there are, added ones too."""
        found: int = self.pipeline.get_vocab_size(with_added_tokens=True)
        return found

    def files(self) -> dict[str, bytes]:
        """The vocabulary and the pipeline as files."""
        return {"tokenizer.json": self.pipeline.to_str(pretty=True).encode()}


def split_batches(items: Sequence[EncodeInputT]) -> Iterator[list[EncodeInputT]]:
    """The items in their order, as many at a time as memory allows; a long one stands alone."""
    some: list[EncodeInputT] = []
    size = 0
    for item in items:
        characters = sum(map(_characters, item)) if isinstance(item, tuple) else _characters(item)
        if some and size + characters > MAX_BATCH_CHARACTERS:
            yield some
            some, size = [], 0
        some.append(item)
        size += characters
    if some:
        yield some


def _characters(text: TextInput) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text))


def add_tokens(pipeline: Any, settings: TokenizerSettings, specials: SpecialTokens, extra: list[Token]) -> None:
    """Give every added and special token an id, in the order that `transformers` does."""
    wanted: list[Token] = list(settings.added.values())
    known = {token.content for token in pipeline.get_added_tokens_decoder().values()} | {str(t) for t in wanted}
    names = [token for token in (specials | settings.model_specific).values() if token is not None]
    for token in [*names, *extra]:
        if str(token) not in known:
            known.add(str(token))
            wanted.append(token)
    named = {str(token) for token in names}
    full = []
    for token in wanted:
        if isinstance(token, str):
            token = AddedToken(token, special=True)
        elif not token.special and str(token) in named:
            token.special = True
        full.append(token)
    pipeline.add_tokens(full)


def build_default_template(pipeline: Any, settings: TokenizerSettings, specials: SpecialTokens) -> Any:
    """The post-processor of a kind that has none: the text alone, with bos and eos if the settings ask for them."""
    ends = [specials.get(f"{n}_token") if settings.flag(f"add_{n}_token", False) else None for n in ("bos", "eos")]

    def template(name: str, segment: int) -> str:
        before, after = (f"{token}:{segment}" if token is not None else "" for token in ends)
        return f"{before} ${name}:{segment} {after}".strip()

    return processors.TemplateProcessing(
        single=template("A", 0),
        pair=f"{template('A', 0)} {template('B', 1)}",
        special_tokens=[(str(token), pipeline.token_to_id(str(token))) for token in ends if token is not None],
    )


def check_text(text: object, where: str = "the text") -> None:
    """Refuse what is neither a string nor a list of strings."""
    if isinstance(text, str):
        return
    if not isinstance(text, list):
        raise InputError(f"{where} must be a string or a list of words, not {type(text).__name__}")
    for index, word in enumerate(text):
        if not isinstance(word, str):
            raise InputError(f"{where} must be a list of words, but word {index} is of type {type(word).__name__}")


def check_surrogates(text: str, where: str) -> None:
    """Refuse half surrogate pairs, which no UTF-8 text holds and the library cannot take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} holds half a surrogate pair at character {error.start}, which is not text; "
            "decode its source with errors='replace'"
        ) from None


def _is_long(item: EncodeInput) -> bool:
    return max(map(len, item if isinstance(item, tuple) else (item,))) > LONG_TEXT


def _cut_ids(raw: Any, max_length: int, side: str, whole: Sequence[int] | None = None) -> TokenIds:
    """The tokens that are kept; `whole` says how many each text has where these are only the first."""
    sides = raw.sequence_ids
    kept = compute_kept_positions(sides, max_length, side, whole)
    ids, segments = raw.ids, raw.type_ids
    beyond = 0 if whole is None else sum(whole) - len(sides) + sides.count(None)
    return TokenIds([ids[i] for i in kept], [segments[i] for i in kept], len(ids) + beyond - max_length)


def _as_encoding(raw: Any) -> Encoding:
    return Encoding(
        ids=raw.ids,
        tokens=raw.tokens,
        offsets=raw.offsets,
        words=raw.word_ids,
        segments=raw.type_ids,
        special=[mark == 1 for mark in raw.special_tokens_mask],
        sides=raw.sequence_ids,
    )


def clean_up_spaces(text: str) -> str:
    """Take back the blanks that joining tokens puts before punctuation."""
    for loose, tight in _TIDY:
        text = text.replace(loose, tight)
    return text


_MARKS = (".", "?", "!", ",")
_SHORT = ("n't", "'m", "'s", "'ve", "'re")
_TIDY = [*((f" {m}", m) for m in _MARKS), (" ' ", "'"), *((f" {s}", s) for s in _SHORT)]
