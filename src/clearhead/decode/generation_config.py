"""Decoding settings of a model folder: start and end tokens, forced and forbidden tokens, and defaults.

They come from `generation_config.json` if it exists, else from `config.json`, as in `transformers`. Ids that
config.json does not specify are those of the family, then those of the tokenizer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.decode.settings import Decoding, EarlyStopping
from clearhead.errors import ConfigError, InputError
from clearhead.files import to_printable
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    from clearhead.text import Tokenizer

# defaults of `transformers` for keys that config.json does not specify
FAMILY_IDS: Mapping[str, Mapping[str, int]] = {
    "marian": {"eos_token_id": 0, "forced_eos_token_id": 0},
    "t5": {"eos_token_id": 1},
    "gpt2": {"bos_token_id": 50256, "eos_token_id": 50256},
}
MAX_BAD_WORDS = 1 << 16  # in a file
MAX_TOKEN_ID = 1 << 31
UNSUPPORTED_KEYS = (
    "diversity_penalty",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "epsilon_cutoff",
    "eta_cutoff",
    "exponential_decay_length_penalty",
    "guidance_scale",
    "penalty_alpha",
    "sequence_bias",
    "stop_strings",
    "top_h",
    "typical_p",
)
log = logging.getLogger("clearhead")


@dataclass(frozen=True, kw_only=True)
class DecodingPlan:
    """Resolved settings of a decoder: those of the caller, completed from the model folder."""

    settings: Decoding
    vocab: int
    start_ids: tuple[int, ...]  # first decoder input of an encoder-decoder; empty for a decoder-only model
    prefix_ids: tuple[int, ...]  # beginning of every answer
    empty_prompt_id: int | None  # replaces an empty prompt
    pad_id: int | None
    end_ids: tuple[int, ...]
    forced_first: int | None  # first new token, after a prompt of one token
    forced_last: tuple[int, ...]  # tokens allowed as the last one within max_length
    bad_words: tuple[tuple[int, ...], ...]
    suppressed: tuple[int, ...]
    suppressed_first: tuple[int, ...]
    renormalize: bool  # normalize log probabilities after tokens were forbidden
    min_new_tokens: int
    min_total_tokens: int  # including the prompt, as in min_length of a folder
    early_stopping: EarlyStopping
    repetition_penalty: float
    temperature: float
    top_k: int
    top_p: float
    min_p: float


def resolve_plan(
    settings: Decoding,
    shape: ModelShape,
    config: Mapping[str, Any],
    generation: Mapping[str, Any] | None,
    tokenizer: Tokenizer | None,
) -> DecodingPlan:
    """Resolve settings, model folder and model to a plan; `tokenizer` is that of the answers."""
    if shape.head is None or shape.head.kind not in ("causal", "seq2seq"):
        raise InputError("This model has no language-model head, so it cannot generate.")
    vocab = shape.head.outputs
    stored = _GenerationConfig(config, generation, shape.family, vocab)
    prefix_ids = _encode_setting("prefix", settings.prefix, tokenizer, vocab)[0] if settings.prefix else ()
    requested_bad_words = [
        ids
        for word in settings.bad_words
        for ids in _encode_setting("bad_words", word, tokenizer, vocab, also_spaced=True)
    ]
    end_ids = stored.token_ids("eos_token_id")
    if generation is None and "eos_token_id" not in config and not end_ids and tokenizer is not None:
        end_ids = () if tokenizer.eos_id is None else (tokenizer.eos_id,)
    empty_prompt_id = stored.token_id("bos_token_id")
    if empty_prompt_id is None and tokenizer is not None:
        empty_prompt_id = tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.eos_id
    bad_words = (*requested_bad_words, *stored.bad_words())
    defaults = stored.fill_defaults(settings)
    if unsupported := [name for name in UNSUPPORTED_KEYS if stored.value(name) not in (None, 0, 1, False, [])]:
        log.warning("%s sets %s, which Clearhead does not support and ignores.", stored.file, ", ".join(unsupported))
    return DecodingPlan(
        settings=settings,
        vocab=vocab,
        start_ids=() if shape.decoder is None else (_start_token(stored, shape),),
        prefix_ids=prefix_ids,
        empty_prompt_id=None if empty_prompt_id is None or empty_prompt_id >= vocab else empty_prompt_id,
        pad_id=stored.token_id("pad_token_id"),
        end_ids=end_ids,
        forced_first=next(iter(stored.vocabulary_ids("forced_bos_token_id")), None),
        forced_last=stored.vocabulary_ids("forced_eos_token_id"),
        bad_words=tuple(dict.fromkeys(ids for ids in bad_words if ids not in {(end_id,) for end_id in end_ids})),
        suppressed=stored.vocabulary_ids("suppress_tokens"),
        suppressed_first=stored.vocabulary_ids("begin_suppress_tokens"),
        renormalize=stored.value("renormalize_logits") is True,
        min_new_tokens=min(defaults.min_length or 0, settings.max_length),
        min_total_tokens=0 if settings.min_length is not None else stored.count("min_length"),
        early_stopping=False if defaults.early_stopping is None else defaults.early_stopping,
        repetition_penalty=1.0 if defaults.repetition_penalty is None else defaults.repetition_penalty,
        temperature=1.0 if defaults.temperature is None else defaults.temperature,
        top_k=defaults.top_k or 0,
        top_p=1.0 if defaults.top_p is None else defaults.top_p,
        min_p=defaults.min_p or 0.0,
    )


def _start_token(stored: _GenerationConfig, shape: ModelShape) -> int:
    """Find the start token of a decoder."""
    for token_id in (
        stored.token_id("decoder_start_token_id"),
        shape.decoder_start_id,
        stored.token_id("bos_token_id"),
    ):
        if token_id is not None:
            if token_id >= shape.top.vocab_size:
                vocab = shape.top.vocab_size
                raise ConfigError(f"The start token {token_id} is outside the decoder's vocabulary of {vocab} tokens.")
            return token_id
    raise ConfigError("decoder_start_token_id is missing in the model folder, so decoding cannot start.")


def _encode_setting(
    name: str, value: str | tuple[int, ...], tokenizer: Tokenizer | None, vocab: int, *, also_spaced: bool = False
) -> list[tuple[int, ...]]:
    """Encode a text without special tokens; `also_spaced` adds the ids of the text after a space, if they differ."""
    encodings: list[tuple[int, ...]] = []
    if not isinstance(value, str):
        encodings.append(value)
    elif tokenizer is None:
        raise InputError(f"{name} is a text, but this model has no tokenizer; pass token ids.")
    else:
        for text in (value, f" {value}") if also_spaced else (value,):
            encoding = tokenizer.encode(text)
            ids_and_flags = zip(encoding.ids, encoding.special, strict=True)
            encodings.append(tuple(token_id for token_id, is_special in ids_and_flags if not is_special))
    for ids in encodings:
        if not ids:
            raise InputError(f"{name} is {value!r}, which the tokenizer splits into no tokens.")
        if unknown_ids := [token_id for token_id in ids if token_id >= vocab]:
            raise InputError(
                f"{name} contains token {unknown_ids[0]}, but the vocabulary has {vocab} tokens (0 to {vocab - 1})."
            )
    return list(dict.fromkeys(encodings))


class _GenerationConfig:
    """Checked values of a model folder's configuration, by key."""

    def __init__(
        self, config: Mapping[str, Any], generation: Mapping[str, Any] | None, family: str, vocab: int
    ) -> None:
        family_ids = FAMILY_IDS.get(family, {}) if generation is None else {}
        self.values = {**family_ids, **(config if generation is None else generation)}
        self.file = "config.json" if generation is None else "generation_config.json"
        self.vocab = vocab

    def value(self, key: str) -> Any:
        """The value of a key; None if it is null or missing."""
        return self.values.get(key)

    def token_ids(self, key: str) -> tuple[int, ...]:
        """One or more token ids; ids outside the vocabulary are allowed, since they never occur."""
        stored = self.value(key)
        ids: Sequence[Any] = () if stored is None else stored if isinstance(stored, list) else (stored,)
        if len(ids) > MAX_BAD_WORDS or not all(type(token_id) is int and token_id < MAX_TOKEN_ID for token_id in ids):
            raise ConfigError(f"{self.file}: {key} is {to_printable(stored)}, expected a token id.")
        return tuple(token_id for token_id in ids if token_id >= 0)  # old folders use -1 for none

    def token_id(self, key: str) -> int | None:
        """The first token id, or None."""
        return next(iter(self.token_ids(key)), None)

    def vocabulary_ids(self, key: str) -> tuple[int, ...]:
        """The token ids that are in the vocabulary."""
        return tuple(token_id for token_id in self.token_ids(key) if token_id < self.vocab)

    def bad_words(self) -> list[tuple[int, ...]]:
        """Forbidden token sequences of the folder."""
        stored = self.value("bad_words_ids") or []
        is_valid = (
            isinstance(stored, list)
            and len(stored) <= MAX_BAD_WORDS
            and all(
                isinstance(word, list) and word and all(type(token_id) is int and token_id >= 0 for token_id in word)
                for word in stored
            )
        )
        if not is_valid:
            raise ConfigError(f"{self.file}: bad_words_ids is {to_printable(stored)}, expected lists of token ids.")
        return [tuple(word) for word in stored if max(word) < self.vocab]

    def count(self, key: str) -> int:
        """A non-negative integer, 0 if it is missing."""
        stored = self.value(key) or 0
        if type(stored) is not int or stored < 0:
            raise ConfigError(f"{self.file}: {key} is {to_printable(stored)}, expected an integer >= 0.")
        return min(stored, MAX_TOKEN_ID)

    def fill_defaults(self, settings: Decoding) -> Decoding:
        """Fill settings that are None from the folder; its sampling settings apply only if sampling is requested."""
        keys = {"min_length": "min_new_tokens", "early_stopping": "early_stopping"}
        keys |= {"repetition_penalty": "repetition_penalty"}
        if settings.sample:
            keys |= {name: name for name in ("temperature", "top_k", "top_p", "min_p")}
        requested = {name: getattr(settings, name) for name in keys}
        values = {name: self.value(key) if requested[name] is None else requested[name] for name, key in keys.items()}
        try:
            max_length = max(settings.max_length, self.count("min_new_tokens"))
            return Decoding(sample=settings.sample, max_length=max_length, **values)
        except InputError as error:
            raise ConfigError(f"{self.file}: {to_printable(error, 200)}") from None
