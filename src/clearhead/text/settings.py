"""The settings beside a vocabulary: tokenizer_config.json, special_tokens_map.json and added_tokens.json as one value.

The order of precedence is that of `transformers` 5: special_tokens_map.json and added_tokens.json, and the added tokens
of tokenizer.json, count only when tokenizer_config.json has no `added_tokens_decoder`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from clearhead.errors import TokenizerError
from clearhead.files import to_printable
from clearhead.text.files import read_optional_json

MAX_TOKEN_ID = (
    10_000_000  # the largest vocabularies in use have 256,000; the library walks through all ids up to the last
)
MAX_TOKEN_LENGTH = 10_000  # characters of a token of a vocabulary; published ones have a few hundred
SPECIAL_TOKEN_KEYS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
TOKEN_FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")

Token = str | AddedToken


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """What the files say beside the vocabulary; a key that no file names is absent, so that defaults can apply."""

    options: dict[str, Any]  # switches such as do_lower_case
    special_tokens: dict[str, Token | None]  # bos_token, mask_token, ...: only those a file names
    model_specific: dict[str, Token]  # further *_token entries, e.g. image_token
    extra: list[Token] | None  # special tokens without a name; None if no file names any
    additional: list[Token] | None  # their name before version 5; used when `extra` is None
    added: dict[int, AddedToken]  # in order of the ids

    def flag(self, name: str, default: bool) -> bool:
        """A switch that is true or false."""
        value = self.options.get(name, default)
        if not isinstance(value, bool):
            raise TokenizerError(f"tokenizer_config.json: {name} must be true or false, not {to_printable(value)!r}")
        return value

    def optional_flag(self, name: str) -> bool | None:
        """A switch that may be left open."""
        return None if self.options.get(name) is None else self.flag(name, False)

    def integer(self, name: str, default: int, *, maximum: int) -> int:
        """A whole number from 0 up to `most`."""
        value = self.options.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
            raise TokenizerError(
                f"tokenizer_config.json: {name} must be a whole number from 0 to {maximum}, not {to_printable(value)!r}"
            )
        return value


def read_settings(folder: Path, tokenizer_json: dict[str, Any] | None) -> TokenizerSettings:
    """Merge the settings files of a folder."""
    options = read_optional_json(folder / "tokenizer_config.json")
    if tokenizer_json is not None:
        # These two describe legacy files only; tokenizer.json has a post-processor of its own.
        options.pop("add_bos_token", None)
        options.pop("add_eos_token", None)
    if "additional_special_tokens" in options and not options.get("extra_special_tokens"):
        options["extra_special_tokens"] = options.pop("additional_special_tokens")
    specific: dict[str, Token] = {}
    if isinstance(options.get("extra_special_tokens"), dict):
        named_extra = options.pop("extra_special_tokens")
        specific = {str(k): parse_token(v, f"extra_special_tokens: {to_printable(k)}") for k, v in named_extra.items()}
    decoder = options.pop("added_tokens_decoder", None)
    if decoder is not None:
        added = _from_decoder(decoder)
    else:
        _merge_special_map(options, read_optional_json(folder / "special_tokens_map.json"))
        added = _from_added_file(options, read_optional_json(folder / "added_tokens.json"))
        added |= _from_tokenizer_json(tokenizer_json or {})
    by_content = {token.content: token for token in added.values()}

    named: dict[str, Token | None] = {}
    for key in SPECIAL_TOKEN_KEYS:
        if key in options:
            value = options.pop(key)
            token = None if value is None else parse_token(value, f"tokenizer_config.json: {key}")
            named[key] = token if token is None else by_content.get(str(token), token)
    for key in [k for k in options if k.endswith("_token") and isinstance(options[k], str | dict | AddedToken)]:
        specific[key] = parse_token(options.pop(key), f"tokenizer_config.json: {to_printable(key)}")
    return TokenizerSettings(
        options=options,
        special_tokens=named,
        model_specific=specific,
        extra=_pop_list(options, "extra_special_tokens"),
        additional=_pop_list(options, "additional_special_tokens"),
        added={i: added[i] for i in sorted(added)},
    )


def parse_token(value: object, where: str, *, special: bool | None = None) -> Token:
    """A special token as files write it: a string, or an object with its content and flags."""
    if isinstance(value, AddedToken):
        return value
    if isinstance(value, str):
        _check_content(value, where)
        return value
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        raise TokenizerError(f"{where} must be a string or an object with a content, not {str(value)[:80]!r}")
    _check_content(value["content"], where)
    flags = {k: v for k, v in value.items() if k in TOKEN_FLAGS and v is not None}
    if wrong := [k for k, v in flags.items() if not isinstance(v, bool)]:
        raise TokenizerError(f"{where}: {', '.join(wrong)} must be true or false")
    if special is not None:
        flags["special"] = special
    return AddedToken(value["content"], **flags)


def check_vocabulary(ids: dict[Any, Any], name: str) -> dict[str, int]:
    """A vocabulary in which every token is a string and every id is a number of its own."""
    seen: dict[int, str] = {}
    if not ids:
        raise TokenizerError(f"{name} holds an empty vocabulary")
    for token, index in ids.items():
        if not isinstance(token, str):
            raise TokenizerError(f"{name}: {to_printable(token)!r} is no token")
        if len(token) > MAX_TOKEN_LENGTH:
            raise TokenizerError(
                f"{name}: {to_printable(token)!r} has {len(token):,} characters, more than {MAX_TOKEN_LENGTH:,}"
            )
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < MAX_TOKEN_ID:
            raise TokenizerError(
                f"{name}: the id of {to_printable(token)!r} must be an integer from 0 to {MAX_TOKEN_ID - 1:,}, "
                f"got {to_printable(index)!r}"
            )
        if index in seen:
            raise TokenizerError(
                f"{name}: {to_printable(seen[index])!r} and {to_printable(token)!r} have the same id {index}"
            )
        seen[index] = token
    return ids


def select_savable(options: dict[str, Any]) -> dict[str, Any]:
    """The settings that mean something in another folder: no paths, no references to code."""
    dropped = ("auto_map", "init_inputs", "name_or_path", "source_spm", "target_spm", "vocab", "merges")
    return {k: v for k, v in options.items() if k not in dropped and not k.endswith(("_file", "_files", "_path"))}


def resolve_max_length(options: dict[str, Any], default: int | None = None) -> int | None:
    """The longest input the model was made for, unless it is the very large number that stands for none."""
    value = options.get("model_max_length", default)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1_000_000 else None


def resolve_truncation_side(options: dict[str, Any], tokenizer_json: dict[str, Any]) -> str:
    """The end at which a text is cut, if it is."""
    truncation = tokenizer_json.get("truncation")
    direction = truncation.get("direction") if isinstance(truncation, dict) else None
    side = options.get("truncation_side", str(direction or "right").lower())
    if side not in ("left", "right"):
        raise TokenizerError(
            f"tokenizer_config.json: truncation_side must be left or right, not {to_printable(side)!r}"
        )
    return str(side)


def _check_content(content: str, where: str) -> None:
    if not content.isascii() and any("\ud800" <= c <= "\udfff" for c in content):
        raise TokenizerError(f"{where} holds half a surrogate pair, which is not text")


def _from_decoder(decoder: object) -> dict[int, AddedToken]:
    if not isinstance(decoder, dict):
        raise TokenizerError("tokenizer_config.json: added_tokens_decoder must be an object of id and token")
    return {
        _as_id(key, "tokenizer_config.json: added_tokens_decoder"): _full(value, f"added_tokens_decoder[{key!r}]")
        for key, value in decoder.items()
    }


def _merge_special_map(options: dict[str, Any], special_map: dict[str, Any]) -> None:
    for key, value in special_map.items():
        where = f"special_tokens_map.json: {to_printable(key)}"
        if key == "extra_special_tokens" and isinstance(value, list):
            before = options.get(key) or []
            if not isinstance(before, list):
                raise TokenizerError(f"tokenizer_config.json: {key} must be a list, as in special_tokens_map.json")
            known = list(before)
            options[key] = known + [t for t in (parse_token(v, where, special=True) for v in value) if t not in known]
        elif key in ("extra_special_tokens", "additional_special_tokens"):
            options[key] = value
        elif key.endswith("_token") and value is not None:
            options[key] = parse_token(value, where, special=True if isinstance(value, dict) else None)
        elif key in SPECIAL_TOKEN_KEYS:
            options[key] = None


def _from_added_file(options: dict[str, Any], added: dict[str, Any]) -> dict[int, AddedToken]:
    special = {str(_content(options[key])) for key in SPECIAL_TOKEN_KEYS if options.get(key)}
    extra = options.get("extra_special_tokens")
    special |= {str(_content(token)) for token in (extra if isinstance(extra, list) else [])}
    found = {}
    for content, index in added.items():
        _check_content(content, "added_tokens.json")
        is_special = content in special
        found[_as_id(index, "added_tokens.json")] = AddedToken(content, normalized=not is_special, special=is_special)
    return found


def _from_tokenizer_json(data: dict[str, Any]) -> dict[int, AddedToken]:
    tokens = data.get("added_tokens") or []
    if not isinstance(tokens, list) or not all(isinstance(t, dict) for t in tokens):
        raise TokenizerError("tokenizer.json: added_tokens must be a list of objects")
    return {
        _as_id(t.get("id"), "tokenizer.json: added_tokens"): _full(t, "tokenizer.json: added_tokens") for t in tokens
    }


def _full(value: object, where: str) -> AddedToken:
    if not isinstance(value, dict):
        raise TokenizerError(f"{where} must be an object with a content, not {str(value)[:80]!r}")
    token = parse_token(value, where)
    return AddedToken(token) if isinstance(token, str) else token


def _pop_list(options: dict[str, Any], key: str) -> list[Token] | None:
    value = options.pop(key, None)
    if value is not None and not isinstance(value, list):
        raise TokenizerError(f"tokenizer_config.json: {key} must be a list, not {str(value)[:80]!r}")
    return None if value is None else [parse_token(token, f"tokenizer_config.json: {key}") for token in value]


def _content(value: object) -> object:
    return value["content"] if isinstance(value, dict) and "content" in value else value


def _as_id(value: object, where: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 11:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise TokenizerError(f"{where}: {str(value)[:80]!r} is no token id")
    return value
