"""The Tokenizer: text to ids and back, nothing cut without a count."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from clearhead.errors import ClearheadError, InputError, TokenizerError
from clearhead.text.encoding import Encoding, TokenIds, check_count, split_into_windows, truncate
from clearhead.text.files import write_atomic, write_json
from clearhead.text.long_texts import encode_long_text, encode_long_text_ids, is_huge, is_long
from clearhead.text.pipeline import EncodeInput, TextInput, check_surrogates, check_text
from clearhead.text.probes import PROBES

EncodingT = TypeVar("EncodingT", Encoding, TokenIds)
GENERIC_CLASS = "PreTrainedTokenizerFast"  # a tokenizer of `transformers` that is all in its tokenizer.json
MODEL_INPUT_NAMES = ["input_ids", "token_type_ids", "attention_mask"]


class TokenizerBackend(Protocol):
    """What turns text into tokens: a pipeline of the `tokenizers` library, or Marian's two files."""

    kind: str

    @property
    def most_text(self) -> int | None: ...
    def encode(self, items: Sequence[EncodeInput], *, split: bool) -> list[Encoding]: ...
    def ids(
        self, items: Sequence[EncodeInput], *, split: bool, max_length: int | None = None, side: str = "right"
    ) -> list[TokenIds]: ...
    def count(self, text: str) -> int: ...
    def pieces(self, texts: Sequence[str]) -> list[list[int]]: ...
    def decode(self, ids: list[int], *, skip_special: bool) -> str: ...
    def token_id(self, token: str) -> int | None: ...
    def vocab(self) -> dict[str, int]: ...
    def size(self) -> int: ...
    def files(self) -> dict[str, bytes]: ...


class Tokenizer:
    """Text to ids and back; safe to use from many threads, for nothing in it changes after loading."""

    def __init__(
        self,
        backend: TokenizerBackend,
        *,
        specials: dict[str, str | None],
        config: dict[str, Any],
        max_length: int | None,
        truncation_side: str = "right",
        notes: tuple[str, ...] = (),
    ) -> None:
        self._backend = backend
        self._specials = {key: token for key, token in specials.items() if token is not None}
        self._config = config
        self._truncation_side = truncation_side
        self.max_length = max_length  # the longest input its model was made for, if the files say so
        self.notes = notes  # what people should know about these files, in whole sentences

    def encode(self, text: TextInput, second: TextInput | None = None, *, max_length: int | None = None) -> Encoding:
        """Encode a text or a pair; a list of strings is a text already split into words."""
        return self.encode_batch([text if second is None else (text, second)], max_length=max_length)[0]

    def encode_batch(self, items: Iterable[EncodeInput], *, max_length: int | None = None) -> list[Encoding]:
        """Encode many texts, or tuples of two, in parallel."""
        if max_length is None:
            return self._whole(list(items), self._backend.encode)
        check_count(max_length, "max_length", minimum=1)
        side = self._truncation_side

        def encode(some: list[EncodeInput], *, split: bool) -> list[Encoding]:
            if split or not any(is_long(item, max_length) for item in some):
                return [truncate(one, max_length, side=side) for one in self._backend.encode(some, split=split)]
            return [encode_long_text(self._backend, item, max_length, side) for item in some]

        return self._whole(list(items), encode)

    def encode_ids(self, items: Iterable[EncodeInput], *, max_length: int | None = None) -> list[TokenIds]:
        """The ids and segments of many texts, in about half the time of whole encodings."""
        if max_length is None:
            return self._whole(list(items), self._backend.ids)
        check_count(max_length, "max_length", minimum=1)
        side = self._truncation_side

        def encode(some: list[EncodeInput], *, split: bool) -> list[TokenIds]:
            if split or not any(is_huge(item) for item in some):
                return self._backend.ids(some, split=split, max_length=max_length, side=side)
            return [encode_long_text_ids(self._backend, item, max_length, side) for item in some]

        return self._whole(list(items), encode)

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts without the special tokens that stand around them."""
        return self._backend.pieces(texts)

    def windows(
        self,
        text: TextInput,
        second: TextInput | None = None,
        *,
        max_length: int,
        stride: int = 0,
        only: str | None = None,
    ) -> list[Encoding]:
        """Overlapping windows that together hold every token; of a pair, slide over the second text or `only` one."""
        only = only or ("first" if second is None else "second")
        if only not in ("first", "second") or (only == "second" and second is None):
            raise InputError(f"only={only!r}: windows slide over the 'first' text, or the 'second' if there is one")
        encoding = self.encode(text, second)
        return split_into_windows(encoding, max_length=max_length, stride=stride, side=0 if only == "first" else 1)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Ids back to text; an id that the vocabulary does not have stands for nothing."""
        try:
            numbers = [operator.index(i) for i in ids]
        except TypeError as error:
            raise InputError(f"ids must be whole numbers: {error}") from error
        if wrong := [i for i in numbers if not 0 <= i < 2**32]:
            raise InputError(f"{wrong[0]} is no token id")
        return self._backend.decode(numbers, skip_special=skip_special)

    def decode_batch(self, batch: Iterable[Iterable[int]], *, skip_special: bool = True) -> list[str]:
        """Many lists of ids back to texts."""
        return [self.decode(ids, skip_special=skip_special) for ids in batch]

    def token_id(self, token: str) -> int | None:
        """The id of a token, None if the vocabulary lacks it."""
        return self._backend.token_id(token)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids as the vocabulary spells them; an id that it does not have is shown as a number."""
        return [self._tokens_by_id.get(one, f"<{one}>") for one in ids]

    @cached_property
    def _tokens_by_id(self) -> dict[int, str]:
        return {number: token for token, number in self.vocab.items()}

    @cached_property
    def vocab(self) -> dict[str, int]:
        """All tokens with their ids."""
        return self._backend.vocab()

    @cached_property
    def vocab_size(self) -> int:
        """How many tokens there are, added ones too."""
        return self._backend.size()

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The named special tokens, such as {'cls_token': '[CLS]'}."""
        return dict(self._specials)

    @property
    def bos_token(self) -> str | None:
        """What opens a text, if anything does."""
        return self._specials.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        """What ends a text, if anything does."""
        return self._specials.get("eos_token")

    @property
    def unk_token(self) -> str | None:
        """What stands for the unknown."""
        return self._specials.get("unk_token")

    @property
    def sep_token(self) -> str | None:
        """What stands between two texts and after the last."""
        return self._specials.get("sep_token")

    @property
    def pad_token(self) -> str | None:
        """What fills short rows of a batch."""
        return self._specials.get("pad_token")

    @property
    def cls_token(self) -> str | None:
        """What stands for the whole text."""
        return self._specials.get("cls_token")

    @property
    def mask_token(self) -> str | None:
        """What stands for a word to be guessed."""
        return self._specials.get("mask_token")

    @property
    def bos_id(self) -> int | None:
        """The id of `bos_token`."""
        return self._named_id("bos_token")

    @property
    def eos_id(self) -> int | None:
        """The id of `eos_token`."""
        return self._named_id("eos_token")

    @property
    def unk_id(self) -> int | None:
        """The id of `unk_token`."""
        return self._named_id("unk_token")

    @property
    def sep_id(self) -> int | None:
        """The id of `sep_token`."""
        return self._named_id("sep_token")

    @property
    def pad_id(self) -> int | None:
        """The id of `pad_token`."""
        return self._named_id("pad_token")

    @property
    def cls_id(self) -> int | None:
        """The id of `cls_token`."""
        return self._named_id("cls_token")

    @property
    def mask_id(self) -> int | None:
        """The id of `mask_token`."""
        return self._named_id("mask_token")

    @property
    def config(self) -> dict[str, Any]:
        """What tokenizer_config.json says of it."""
        return dict(self._config)

    def files(self) -> dict[str, bytes]:
        """Its vocabulary as files, by name."""
        return self._backend.files()

    def save(self, folder: Path) -> None:
        """Write files from which `load_tokenizer` and `transformers` make the same tokenizer."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, data in self._backend.files().items():
                write_atomic(folder / name, data)
            write_json(folder / "tokenizer_config.json", self._config)
            write_json(folder / "special_tokens_map.json", dict(self._specials))
        except OSError as error:
            raise TokenizerError(f"the tokenizer cannot be saved in {folder}: {error.strerror or error}") from error
        except ClearheadError as error:
            raise TokenizerError(f"the tokenizer cannot be saved: {error}") from error

    def copy_for_model(self, max_length: int | None, *, segments: bool) -> Tokenizer:
        """The same tokenizer for another model, with what `transformers` must know of it: its length, its segments."""
        kept = {key: value for key, value in self._config.items() if key != "model_max_length"}
        if kept.get("tokenizer_class") == GENERIC_CLASS:  # of a class with a name it is known
            kept["model_input_names"] = [name for name in MODEL_INPUT_NAMES if segments or name != "token_type_ids"]
        config = kept if max_length is None else kept | {"model_max_length": max_length}
        specials: dict[str, str | None] = dict(self._specials)
        return Tokenizer(
            self._backend,
            specials=specials,
            config=config,
            max_length=max_length,
            truncation_side=self._truncation_side,
            notes=self.notes,
        )

    def golden(self) -> dict[str, list[int]]:
        """The ids of a few hard texts: a tokenizer that has changed gives others."""
        return {text: encoding.ids for text, encoding in zip(PROBES, self.encode_batch(PROBES), strict=True)}

    def __repr__(self) -> str:
        specials = " ".join(f"{key.removesuffix('_token')}={token}" for key, token in self._specials.items())
        return f"Tokenizer({self._backend.kind}, {self.vocab_size} tokens, {specials or 'no special tokens'})"

    def _named_id(self, key: str) -> int | None:
        token = self._specials.get(key)
        return None if token is None else self.token_id(token)

    def _whole(self, items: list[EncodeInput], encode: Callable[..., list[EncodingT]]) -> list[EncodingT]:
        """Encode everything uncut; texts and lists of words may be mixed."""
        split = [_is_split(item, f"text {i}" if len(items) > 1 else "the text") for i, item in enumerate(items)]
        found: list[EncodingT | None] = [None] * len(items)
        for kind in {False, True} & set(split):
            at = [i for i, s in enumerate(split) if s is kind]
            for i, encoding in zip(at, encode([items[i] for i in at], split=kind), strict=True):
                found[i] = encoding
        return [encoding for encoding in found if encoding is not None]


def _is_split(item: object, where: str) -> bool:
    """Whether an item is made of words rather than of text; refuses everything else."""
    parts = item if isinstance(item, tuple) else (item,)
    if isinstance(item, tuple) and len(item) != 2:
        raise InputError(f"{where} is a tuple of {len(item)}, but a pair has two texts; words come as a list")
    for part in parts:
        check_text(part, where)
        for word in part if isinstance(part, list) else [part]:
            if not word.isascii():
                check_surrogates(word, where)
    kinds = {isinstance(part, list) for part in parts}
    if len(kinds) > 1:
        raise InputError(f"{where} is a pair of a string and a list of words; give both in the same form")
    return kinds.pop()
