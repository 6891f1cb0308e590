"""Tokenizer settings, merged from tokenizer_config.json, special_tokens_map.json and added_tokens.json.

The order of precedence is that of `transformers` 5: special_tokens_map.json, added_tokens.json and the added tokens of
tokenizer.json are ignored if tokenizer_config.json has an `added_tokens_decoder`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from clearhead.errors import TokenizerError
from clearhead.files import to_printable
from clearhead.text.files import read_optional_json

MAX_TOKEN_ID = 10_000_000  # the library iterates over all ids up to the last; published vocabularies have up to 256,000
MAX_TOKEN_LENGTH = 10_000  # characters per token; published vocabularies have at most a few hundred
SPECIAL_TOKEN_KEYS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
TOKEN_FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")

Token = str | AddedToken


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """Settings other than the vocabulary. Keys that no file defines are absent, so that defaults can apply."""

    options: dict[str, Any]  # options such as do_lower_case
    special_tokens: dict[str, Token | None]  # bos_token, mask_token, ...: only those that a file defines
    model_specific_tokens: dict[str, Token]  # other *_token entries, such as image_token
    extra_tokens: list[Token] | None  # unnamed special tokens; None if no file defines any
    additional_tokens: list[Token] | None  # the same under the name of `transformers` 4; used if `extra_tokens` is None
    added_tokens: dict[int, AddedToken]  # added tokens by id, in order of the ids

    def get_flag(self, name: str, default: bool) -> bool:
        """Return a boolean option."""
        value = self.options.get(name, default)
        if not isinstance(value, bool):
            raise TokenizerError(f"tokenizer_config.json: {name} must be true or false, got {to_printable(value)!r}.")
        return value

    def get_optional_flag(self, name: str) -> bool | None:
        """Return a boolean option, or None if it is null or absent."""
        return None if self.options.get(name) is None else self.get_flag(name, False)

    def get_integer(self, name: str, default: int, *, maximum: int) -> int:
        """Return an integer option between 0 and `maximum`."""
        value = self.options.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
            raise TokenizerError(
                f"tokenizer_config.json: {name} must be an integer from 0 to {maximum}, got {to_printable(value)!r}."
            )
        return value


def read_settings(folder: Path, tokenizer_json: dict[str, Any] | None) -> TokenizerSettings:
    """Read and merge the settings files of a folder."""
    options = read_optional_json(folder / "tokenizer_config.json")
    if tokenizer_json is not None:
        # These two options apply to legacy files only; tokenizer.json has its own post-processor.
        options.pop("add_bos_token", None)
        options.pop("add_eos_token", None)
    if "additional_special_tokens" in options and not options.get("extra_special_tokens"):
        options["extra_special_tokens"] = options.pop("additional_special_tokens")
    model_specific_tokens: dict[str, Token] = {}
    if isinstance(options.get("extra_special_tokens"), dict):
        named_extra = options.pop("extra_special_tokens")
        model_specific_tokens = {
            str(key): parse_token(value, f"extra_special_tokens: {to_printable(key)}")
            for key, value in named_extra.items()
        }
    added_tokens_decoder = options.pop("added_tokens_decoder", None)
    if added_tokens_decoder is not None:
        added_tokens = _parse_added_tokens_decoder(added_tokens_decoder)
    else:
        _merge_special_map(options, read_optional_json(folder / "special_tokens_map.json"))
        added_tokens = _parse_added_tokens(options, read_optional_json(folder / "added_tokens.json"))
        added_tokens |= _parse_tokenizer_json_tokens(tokenizer_json or {})
    tokens_by_content = {token.content: token for token in added_tokens.values()}

    special_tokens: dict[str, Token | None] = {}
    for key in SPECIAL_TOKEN_KEYS:
        if key in options:
            value = options.pop(key)
            token = None if value is None else parse_token(value, f"tokenizer_config.json: {key}")
            special_tokens[key] = token if token is None else tokens_by_content.get(str(token), token)
    for key in [key for key in options if key.endswith("_token") and isinstance(options[key], str | dict | AddedToken)]:
        model_specific_tokens[key] = parse_token(options.pop(key), f"tokenizer_config.json: {to_printable(key)}")
    return TokenizerSettings(
        options=options,
        special_tokens=special_tokens,
        model_specific_tokens=model_specific_tokens,
        extra_tokens=_pop_tokens(options, "extra_special_tokens"),
        additional_tokens=_pop_tokens(options, "additional_special_tokens"),
        added_tokens={token_id: added_tokens[token_id] for token_id in sorted(added_tokens)},
    )


def parse_token(value: object, location: str, *, special: bool | None = None) -> Token:
    """Parse a special token: a string, or an object with its content and flags."""
    if isinstance(value, AddedToken):
        return value
    if isinstance(value, str):
        _check_token_content(value, location)
        return value
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        raise TokenizerError(f'{location} must be a string or an object with "content", got {str(value)[:80]!r}.')
    _check_token_content(value["content"], location)
    flags = {key: value for key, value in value.items() if key in TOKEN_FLAGS and value is not None}
    if invalid_flags := [key for key, value in flags.items() if not isinstance(value, bool)]:
        raise TokenizerError(f"{location}: {', '.join(invalid_flags)} must be true or false.")
    if special is not None:
        flags["special"] = special
    return AddedToken(value["content"], **flags)


def check_vocabulary(ids: dict[Any, Any], name: str) -> dict[str, int]:
    """Check that all tokens are strings and all ids unique integers in range; return the vocabulary."""
    tokens_by_id: dict[int, str] = {}
    if not ids:
        raise TokenizerError(f"{name} contains an empty vocabulary.")
    for token, token_id in ids.items():
        if not isinstance(token, str):
            raise TokenizerError(f"{name}: tokens must be strings, got {to_printable(token)!r}.")
        if len(token) > MAX_TOKEN_LENGTH:
            raise TokenizerError(
                f"{name}: {to_printable(token)!r} has {len(token):,} characters, more than {MAX_TOKEN_LENGTH:,}."
            )
        if not isinstance(token_id, int) or isinstance(token_id, bool) or not 0 <= token_id < MAX_TOKEN_ID:
            raise TokenizerError(
                f"{name}: the id of {to_printable(token)!r} must be an integer from 0 to {MAX_TOKEN_ID - 1:,}, "
                f"got {to_printable(token_id)!r}."
            )
        if token_id in tokens_by_id:
            raise TokenizerError(
                f"{name}: {to_printable(tokens_by_id[token_id])!r} and {to_printable(token)!r} share the id {token_id}."
            )
        tokens_by_id[token_id] = token
    return ids


def select_portable_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are valid in another folder: no paths and no references to code."""
    excluded_keys = ("auto_map", "init_inputs", "name_or_path", "source_spm", "target_spm", "vocab", "merges")
    return {
        key: value
        for key, value in options.items()
        if key not in excluded_keys and not key.endswith(("_file", "_files", "_path"))
    }


def resolve_max_length(options: dict[str, Any], default: int | None = None) -> int | None:
    """Return the maximum input length, or None if it is undefined or a placeholder for "unlimited"."""
    value = options.get("model_max_length", default)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1_000_000 else None


def resolve_truncation_side(options: dict[str, Any], tokenizer_json: dict[str, Any]) -> str:
    """Return the side on which texts are truncated: "left" or "right"."""
    truncation = tokenizer_json.get("truncation")
    direction = truncation.get("direction") if isinstance(truncation, dict) else None
    side = options.get("truncation_side", str(direction or "right").lower())
    if side not in ("left", "right"):
        raise TokenizerError(
            f"tokenizer_config.json: truncation_side must be left or right, got {to_printable(side)!r}."
        )
    return str(side)


def _check_token_content(content: str, location: str) -> None:
    if not content.isascii() and any("\ud800" <= character <= "\udfff" for character in content):
        raise TokenizerError(f"{location} contains an unpaired surrogate, which is not valid text.")


def _parse_added_tokens_decoder(added_tokens_decoder: object) -> dict[int, AddedToken]:
    if not isinstance(added_tokens_decoder, dict):
        raise TokenizerError("tokenizer_config.json: added_tokens_decoder must map ids to tokens.")
    return {
        _parse_token_id(key, "tokenizer_config.json: added_tokens_decoder"): _parse_added_token(
            value, f"added_tokens_decoder[{key!r}]"
        )
        for key, value in added_tokens_decoder.items()
    }


def _merge_special_map(options: dict[str, Any], special_map: dict[str, Any]) -> None:
    for key, value in special_map.items():
        location = f"special_tokens_map.json: {to_printable(key)}"
        if key == "extra_special_tokens" and isinstance(value, list):
            existing_tokens = options.get(key) or []
            if not isinstance(existing_tokens, list):
                raise TokenizerError(f"tokenizer_config.json: {key} must be a list, as in special_tokens_map.json.")
            extra_tokens = list(existing_tokens)
            options[key] = extra_tokens + [
                token
                for token in (parse_token(entry, location, special=True) for entry in value)
                if token not in extra_tokens
            ]
        elif key in ("extra_special_tokens", "additional_special_tokens"):
            options[key] = value
        elif key.endswith("_token") and value is not None:
            options[key] = parse_token(value, location, special=True if isinstance(value, dict) else None)
        elif key in SPECIAL_TOKEN_KEYS:
            options[key] = None


def _parse_added_tokens(options: dict[str, Any], ids_by_content: dict[str, Any]) -> dict[int, AddedToken]:
    special_contents = {str(_get_token_content(options[key])) for key in SPECIAL_TOKEN_KEYS if options.get(key)}
    extra_tokens = options.get("extra_special_tokens")
    special_contents |= {
        str(_get_token_content(token)) for token in (extra_tokens if isinstance(extra_tokens, list) else [])
    }
    added_tokens = {}
    for content, token_id in ids_by_content.items():
        _check_token_content(content, "added_tokens.json")
        is_special = content in special_contents
        added_tokens[_parse_token_id(token_id, "added_tokens.json")] = AddedToken(
            content, normalized=not is_special, special=is_special
        )
    return added_tokens


def _parse_tokenizer_json_tokens(data: dict[str, Any]) -> dict[int, AddedToken]:
    tokens = data.get("added_tokens") or []
    if not isinstance(tokens, list) or not all(isinstance(token, dict) for token in tokens):
        raise TokenizerError("tokenizer.json: added_tokens must be a list of objects.")
    return {
        _parse_token_id(token.get("id"), "tokenizer.json: added_tokens"): _parse_added_token(
            token, "tokenizer.json: added_tokens"
        )
        for token in tokens
    }


def _parse_added_token(value: object, location: str) -> AddedToken:
    if not isinstance(value, dict):
        raise TokenizerError(f'{location} must be an object with "content", got {str(value)[:80]!r}.')
    token = parse_token(value, location)
    return AddedToken(token) if isinstance(token, str) else token


def _pop_tokens(options: dict[str, Any], key: str) -> list[Token] | None:
    value = options.pop(key, None)
    if value is not None and not isinstance(value, list):
        raise TokenizerError(f"tokenizer_config.json: {key} must be a list, got {str(value)[:80]!r}.")
    return None if value is None else [parse_token(token, f"tokenizer_config.json: {key}") for token in value]


def _get_token_content(value: object) -> object:
    return value["content"] if isinstance(value, dict) and "content" in value else value


def _parse_token_id(value: object, location: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 11:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise TokenizerError(f"{location}: expected a token id, got {str(value)[:80]!r}.")
    return value
