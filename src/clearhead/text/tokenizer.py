"""The tokenizer converts text to ids and back, and counts the tokens that truncation removes."""

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
GENERIC_CLASS = "PreTrainedTokenizerFast"  # `transformers` uses it if tokenizer.json defines the tokenizer completely
MODEL_INPUT_NAMES = ["input_ids", "token_type_ids", "attention_mask"]


class TokenizerBackend(Protocol):
    """Interface of a tokenizer implementation: a `tokenizers` pipeline or Marian's two SentencePiece models."""

    kind: str

    @property
    def max_text_length(self) -> int | None: ...
    def encode(self, items: Sequence[EncodeInput], *, split: bool) -> list[Encoding]: ...
    def encode_ids(
        self, items: Sequence[EncodeInput], *, split: bool, max_length: int | None = None, side: str = "right"
    ) -> list[TokenIds]: ...
    def count_tokens(self, text: str) -> int: ...
    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]: ...
    def decode(self, ids: list[int], *, skip_special: bool) -> str: ...
    def token_id(self, token: str) -> int | None: ...
    def vocab(self) -> dict[str, int]: ...
    def size(self) -> int: ...
    def files(self) -> dict[str, bytes]: ...


class Tokenizer:
    """Convert text to token ids and back. Immutable after loading, therefore thread-safe."""

    def __init__(
        self,
        backend: TokenizerBackend,
        *,
        special_tokens: dict[str, str | None],
        config: dict[str, Any],
        max_length: int | None,
        truncation_side: str = "right",
        notes: tuple[str, ...] = (),
    ) -> None:
        self._backend = backend
        self._special_tokens = {key: token for key, token in special_tokens.items() if token is not None}
        self._config = config
        self._truncation_side = truncation_side
        self.max_length = max_length  # the longest input of the model in tokens, None if the files do not define it
        self.notes = notes  # warnings about the tokenizer files, as full sentences

    def encode(self, text: TextInput, second: TextInput | None = None, *, max_length: int | None = None) -> Encoding:
        """Encode a text or a text pair. A list of strings is a text that is already split into words."""
        return self.encode_batch([text if second is None else (text, second)], max_length=max_length)[0]

    def encode_batch(self, items: Iterable[EncodeInput], *, max_length: int | None = None) -> list[Encoding]:
        """Encode texts, or tuples of two texts, in parallel."""
        if max_length is None:
            return self._encode_by_input_type(list(items), self._backend.encode)
        check_count(max_length, "max_length", minimum=1)
        side = self._truncation_side

        def encode(batch: list[EncodeInput], *, split: bool) -> list[Encoding]:
            if split or not any(is_long(item, max_length) for item in batch):
                return [
                    truncate(encoding, max_length, side=side) for encoding in self._backend.encode(batch, split=split)
                ]
            return [encode_long_text(self._backend, item, max_length, side) for item in batch]

        return self._encode_by_input_type(list(items), encode)

    def encode_ids(self, items: Iterable[EncodeInput], *, max_length: int | None = None) -> list[TokenIds]:
        """Encode texts to ids and segments only; about twice as fast as `encode_batch`."""
        if max_length is None:
            return self._encode_by_input_type(list(items), self._backend.encode_ids)
        check_count(max_length, "max_length", minimum=1)
        side = self._truncation_side

        def encode(batch: list[EncodeInput], *, split: bool) -> list[TokenIds]:
            if split or not any(is_huge(item) for item in batch):
                return self._backend.encode_ids(batch, split=split, max_length=max_length, side=side)
            return [encode_long_text_ids(self._backend, item, max_length, side) for item in batch]

        return self._encode_by_input_type(list(items), encode)

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts to ids without adding special tokens."""
        return self._backend.encode_plain(texts)

    def windows(
        self,
        text: TextInput,
        second: TextInput | None = None,
        *,
        max_length: int,
        stride: int = 0,
        only: str | None = None,
    ) -> list[Encoding]:
        """Encode a text as overlapping windows that cover every token.

        In a pair, the window slides over the second text, or over the text that `only` names ("first" or "second").
        """
        only = only or ("first" if second is None else "second")
        if only not in ("first", "second") or (only == "second" and second is None):
            raise InputError(f"only must be 'first', or 'second' for a text pair, got {only!r}.")
        encoding = self.encode(text, second)
        return split_into_windows(encoding, max_length=max_length, stride=stride, side=0 if only == "first" else 1)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Convert ids to text. Ids that are not in the vocabulary are skipped."""
        try:
            token_ids = [operator.index(token_id) for token_id in ids]
        except TypeError as error:
            raise InputError(f"ids must be integers: {error}.") from error
        if out_of_range := [token_id for token_id in token_ids if not 0 <= token_id < 2**32]:
            raise InputError(f"Token ids must be between 0 and 2**32 - 1, got {out_of_range[0]}.")
        return self._backend.decode(token_ids, skip_special=skip_special)

    def decode_batch(self, batch: Iterable[Iterable[int]], *, skip_special: bool = True) -> list[str]:
        """Convert lists of ids to texts."""
        return [self.decode(ids, skip_special=skip_special) for ids in batch]

    def token_id(self, token: str) -> int | None:
        """Return the id of a token, or None if it is not in the vocabulary."""
        return self._backend.token_id(token)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens of ids as spelled in the vocabulary, and `<id>` for ids that are not in it."""
        return [self._tokens_by_id.get(token_id, f"<{token_id}>") for token_id in ids]

    @cached_property
    def _tokens_by_id(self) -> dict[int, str]:
        return {token_id: token for token, token_id in self.vocab.items()}

    @cached_property
    def vocab(self) -> dict[str, int]:
        """All tokens and their ids."""
        return self._backend.vocab()

    @cached_property
    def vocab_size(self) -> int:
        """Number of tokens, including added ones."""
        return self._backend.size()

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The named special tokens, such as {'cls_token': '[CLS]'}."""
        return dict(self._special_tokens)

    @property
    def bos_token(self) -> str | None:
        """Token at the beginning of a sequence."""
        return self._special_tokens.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        """Token at the end of a sequence."""
        return self._special_tokens.get("eos_token")

    @property
    def unk_token(self) -> str | None:
        """Token for unknown words or characters."""
        return self._special_tokens.get("unk_token")

    @property
    def sep_token(self) -> str | None:
        """Separator between two texts and after the last one."""
        return self._special_tokens.get("sep_token")

    @property
    def pad_token(self) -> str | None:
        """Padding token."""
        return self._special_tokens.get("pad_token")

    @property
    def cls_token(self) -> str | None:
        """Classification token, whose vector represents the whole text."""
        return self._special_tokens.get("cls_token")

    @property
    def mask_token(self) -> str | None:
        """Mask token of masked language modeling."""
        return self._special_tokens.get("mask_token")

    @property
    def bos_id(self) -> int | None:
        """The id of `bos_token`."""
        return self._get_special_id("bos_token")

    @property
    def eos_id(self) -> int | None:
        """The id of `eos_token`."""
        return self._get_special_id("eos_token")

    @property
    def unk_id(self) -> int | None:
        """The id of `unk_token`."""
        return self._get_special_id("unk_token")

    @property
    def sep_id(self) -> int | None:
        """The id of `sep_token`."""
        return self._get_special_id("sep_token")

    @property
    def pad_id(self) -> int | None:
        """The id of `pad_token`."""
        return self._get_special_id("pad_token")

    @property
    def cls_id(self) -> int | None:
        """The id of `cls_token`."""
        return self._get_special_id("cls_token")

    @property
    def mask_id(self) -> int | None:
        """The id of `mask_token`."""
        return self._get_special_id("mask_token")

    @property
    def config(self) -> dict[str, Any]:
        """Contents of tokenizer_config.json."""
        return dict(self._config)

    def files(self) -> dict[str, bytes]:
        """Return the vocabulary files by name."""
        return self._backend.files()

    def save(self, folder: Path) -> None:
        """Save the tokenizer in a folder that `load_tokenizer` and `transformers` can read."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, data in self._backend.files().items():
                write_atomic(folder / name, data)
            write_json(folder / "tokenizer_config.json", self._config)
            write_json(folder / "special_tokens_map.json", dict(self._special_tokens))
        except OSError as error:
            raise TokenizerError(f"The tokenizer cannot be saved in {folder}: {error.strerror or error}.") from error
        except ClearheadError as error:
            raise TokenizerError(f"The tokenizer cannot be saved. {error}") from error

    def copy_for_model(self, max_length: int | None, *, segments: bool) -> Tokenizer:
        """Return a copy for another model, with the maximum length and segment inputs that `transformers` needs."""
        base_config = {key: value for key, value in self._config.items() if key != "model_max_length"}
        if base_config.get("tokenizer_class") == GENERIC_CLASS:  # other classes define their own inputs
            base_config["model_input_names"] = [
                name for name in MODEL_INPUT_NAMES if segments or name != "token_type_ids"
            ]
        config = base_config if max_length is None else base_config | {"model_max_length": max_length}
        special_tokens: dict[str, str | None] = dict(self._special_tokens)
        return Tokenizer(
            self._backend,
            special_tokens=special_tokens,
            config=config,
            max_length=max_length,
            truncation_side=self._truncation_side,
            notes=self.notes,
        )

    def golden(self) -> dict[str, list[int]]:
        """Return the ids of a few difficult texts; a changed tokenizer produces other ids."""
        return {text: encoding.ids for text, encoding in zip(PROBES, self.encode_batch(PROBES), strict=True)}

    def __repr__(self) -> str:
        special_tokens = " ".join(
            f"{key.removesuffix('_token')}={token}" for key, token in self._special_tokens.items()
        )
        return f"Tokenizer({self._backend.kind}, {self.vocab_size} tokens, {special_tokens or 'no special tokens'})"

    def _get_special_id(self, key: str) -> int | None:
        token = self._special_tokens.get(key)
        return None if token is None else self.token_id(token)

    def _encode_by_input_type(
        self, items: list[EncodeInput], encode: Callable[..., list[EncodingT]]
    ) -> list[EncodingT]:
        """Call `encode` once for the texts and once for the lists of words, and return the results in input order."""
        split_flags = [_is_split(item, f"text {i}" if len(items) > 1 else "the text") for i, item in enumerate(items)]
        encodings: list[EncodingT | None] = [None] * len(items)
        for is_split in {False, True} & set(split_flags):
            indices = [i for i, flag in enumerate(split_flags) if flag is is_split]
            for i, encoding in zip(indices, encode([items[i] for i in indices], split=is_split), strict=True):
                encodings[i] = encoding
        return [encoding for encoding in encodings if encoding is not None]


def _is_split(item: object, name: str) -> bool:
    """Check an input and return whether it consists of lists of words rather than strings."""
    texts = item if isinstance(item, tuple) else (item,)
    if isinstance(item, tuple) and len(item) != 2:
        raise InputError(f"{name} is a tuple of {len(item)} texts, expected a pair; pass words as a list.")
    for text in texts:
        check_text(text, name)
        for word in text if isinstance(text, list) else [text]:
            if not word.isascii():
                check_surrogates(word, name)
    split_flags = {isinstance(text, list) for text in texts}
    if len(split_flags) > 1:
        raise InputError(f"{name} is a pair of a string and a list of words; pass two strings or two lists.")
    return split_flags.pop()
