"""What a model's folder says about decoding: its start and end symbols, what it forces and forbids, its habits.

`generation_config.json` alone counts where there is one, else `config.json`, as in `transformers`. Ids that config.json
does not name are those of the family, then the tokenizer's.
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

# what `transformers` takes where config.json does not say it
FAMILY_IDS: Mapping[str, Mapping[str, int]] = {
    "marian": {"eos_token_id": 0, "forced_eos_token_id": 0},
    "t5": {"eos_token_id": 1},
    "gpt2": {"bos_token_id": 50256, "eos_token_id": 50256},
}
MAX_BAD_WORDS = 1 << 16  # forbidden ones in a file
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
    """All that one run of a decoder follows: the settings, and what the folder adds where they are silent."""

    settings: Decoding
    vocab: int
    start_ids: tuple[int, ...]  # what the decoder of a pair is fed first; nothing in a model without an encoder
    prefix_ids: tuple[int, ...]  # what every answer begins with
    empty_prompt_id: int | None  # what stands for an empty prompt
    pad_id: int | None
    end_ids: tuple[int, ...]
    forced_first: int | None  # as the first word after one token
    forced_last: tuple[int, ...]  # as the last word that max_length allows
    bad_words: tuple[tuple[int, ...], ...]
    suppressed: tuple[int, ...]
    suppressed_first: tuple[int, ...]
    renormalize: bool  # log probabilities sum to one again after all that is forbidden
    min_new_tokens: int
    min_total_tokens: int  # the same counted with the prompt, as a folder does
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
    """Settings, folder and model as one plan; `tokenizer` is that of the answers."""
    if shape.head is None or shape.head.kind not in ("causal", "seq2seq"):
        raise InputError("This model has no language-model head, so it cannot generate.")
    vocab = shape.head.outputs
    said = _GenerationConfig(config, generation, shape.family, vocab)
    prefix = _encode_setting("prefix", settings.prefix, tokenizer, vocab)[0] if settings.prefix else ()
    own = [
        ids for one in settings.bad_words for ids in _encode_setting("bad_words", one, tokenizer, vocab, spaced=True)
    ]
    ends = said.token_ids("eos_token_id")
    if generation is None and "eos_token_id" not in config and not ends and tokenizer is not None:
        ends = () if tokenizer.eos_id is None else (tokenizer.eos_id,)
    blank = said.token_id("bos_token_id")
    if blank is None and tokenizer is not None:
        blank = tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.eos_id
    habits = said.fill_defaults(settings)
    if unread := [name for name in UNSUPPORTED_KEYS if said.value(name) not in (None, 0, 1, False, [])]:
        log.warning("%s asks for %s, which decoding here does not know and leaves out.", said.file, ", ".join(unread))
    return DecodingPlan(
        settings=settings,
        vocab=vocab,
        start_ids=() if shape.decoder is None else (_start_token(said, shape),),
        prefix_ids=prefix,
        empty_prompt_id=None if blank is None or blank >= vocab else blank,
        pad_id=said.token_id("pad_token_id"),
        end_ids=ends,
        forced_first=next(iter(said.vocabulary_ids("forced_bos_token_id")), None),
        forced_last=said.vocabulary_ids("forced_eos_token_id"),
        bad_words=tuple(dict.fromkeys(ids for ids in (*own, *said.bad_words()) if ids not in {(end,) for end in ends})),
        suppressed=said.vocabulary_ids("suppress_tokens"),
        suppressed_first=said.vocabulary_ids("begin_suppress_tokens"),
        renormalize=said.value("renormalize_logits") is True,
        min_new_tokens=min(habits.min_length or 0, settings.max_length),
        min_total_tokens=0 if settings.min_length is not None else said.count("min_length"),
        early_stopping=False if habits.early_stopping is None else habits.early_stopping,
        repetition_penalty=1.0 if habits.repetition_penalty is None else habits.repetition_penalty,
        temperature=1.0 if habits.temperature is None else habits.temperature,
        top_k=habits.top_k or 0,
        top_p=1.0 if habits.top_p is None else habits.top_p,
        min_p=habits.min_p or 0.0,
    )


def _start_token(said: _GenerationConfig, shape: ModelShape) -> int:
    """What a decoder begins with."""
    for found in (said.token_id("decoder_start_token_id"), shape.decoder_start_id, said.token_id("bos_token_id")):
        if found is not None:
            if found >= shape.top.vocab_size:
                raise ConfigError(
                    f"The decoder would start with token {found}, and it knows {shape.top.vocab_size} tokens."
                )
            return found
    raise ConfigError("The folder names no decoder_start_token_id, so the decoder cannot begin.")


def _encode_setting(
    name: str, given: str | tuple[int, ...], tokenizer: Tokenizer | None, vocab: int, *, spaced: bool = False
) -> list[tuple[int, ...]]:
    """Token ids of a text, without the symbols around it; `spaced`: also those after a space, where they differ."""
    made: list[tuple[int, ...]] = []
    if not isinstance(given, str):
        made.append(given)
    elif tokenizer is None:
        raise InputError(f"{name} is a text, and this model has no tokenizer; give token ids.")
    else:
        for text in (given, f" {given}") if spaced else (given,):
            encoding = tokenizer.encode(text)
            made.append(tuple(i for i, special in zip(encoding.ids, encoding.special, strict=True) if not special))
    for ids in made:
        if not ids:
            raise InputError(f"{name} is {given!r}, in which the tokenizer sees no token.")
        if wrong := [one for one in ids if one >= vocab]:
            raise InputError(f"{name} names token {wrong[0]}, and the vocabulary has {vocab} (0 to {vocab - 1}).")
    return list(dict.fromkeys(made))


class _GenerationConfig:
    """The values of a folder by key; one that no file could mean is refused in one sentence."""

    def __init__(
        self, config: Mapping[str, Any], generation: Mapping[str, Any] | None, family: str, vocab: int
    ) -> None:
        family_ids = FAMILY_IDS.get(family, {}) if generation is None else {}
        self.values = {**family_ids, **(config if generation is None else generation)}
        self.file = "config.json" if generation is None else "generation_config.json"
        self.vocab = vocab

    def value(self, key: str) -> Any:
        """Null and absent are the same."""
        return self.values.get(key)

    def token_ids(self, key: str) -> tuple[int, ...]:
        """One token or several, perhaps beyond the vocabulary, where they are never met."""
        found = self.value(key)
        listed: Sequence[Any] = () if found is None else found if isinstance(found, list) else (found,)
        if len(listed) > MAX_BAD_WORDS or not all(type(one) is int and one < MAX_TOKEN_ID for one in listed):
            raise ConfigError(f"{self.file}: {key} is {to_printable(found)}, expected a token id.")
        return tuple(one for one in listed if one >= 0)  # -1 is an old way to say none

    def token_id(self, key: str) -> int | None:
        """One token or none."""
        return next(iter(self.token_ids(key)), None)

    def vocabulary_ids(self, key: str) -> tuple[int, ...]:
        """Those that the decoder could say."""
        return tuple(one for one in self.token_ids(key) if one < self.vocab)

    def bad_words(self) -> list[tuple[int, ...]]:
        """The folder's forbidden words, each a list of ids."""
        found = self.value("bad_words_ids") or []
        fits = (
            isinstance(found, list)
            and len(found) <= MAX_BAD_WORDS
            and all(
                isinstance(word, list) and word and all(type(one) is int and one >= 0 for one in word) for word in found
            )
        )
        if not fits:
            raise ConfigError(f"{self.file}: bad_words_ids is {to_printable(found)}, expected lists of token ids.")
        return [tuple(word) for word in found if max(word) < self.vocab]

    def count(self, key: str) -> int:
        """A whole number, 0 where nothing is said."""
        found = self.value(key) or 0
        if type(found) is not int or found < 0:
            raise ConfigError(f"{self.file}: {key} is {to_printable(found)}, expected a whole number.")
        return min(found, MAX_TOKEN_ID)

    def fill_defaults(self, given: Decoding) -> Decoding:
        """What was left open, as the folder has it; the folder's way to draw counts for samples alone."""
        names = {"min_length": "min_new_tokens", "early_stopping": "early_stopping"}
        names |= {"repetition_penalty": "repetition_penalty"}
        if given.sample:
            names |= {name: name for name in ("temperature", "top_k", "top_p", "min_p")}
        own = {name: getattr(given, name) for name in names}
        found = {ours: self.value(theirs) if own[ours] is None else own[ours] for ours, theirs in names.items()}
        try:
            most = max(given.max_length, self.count("min_new_tokens"))
            return Decoding(sample=given.sample, max_length=most, **found)
        except InputError as error:
            raise ConfigError(f"{self.file}: {to_printable(error, 200)}") from None
