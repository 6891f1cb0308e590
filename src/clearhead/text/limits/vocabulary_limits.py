"""Limits for vocabularies and added tokens: number, lengths, ids and scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from clearhead.errors import TokenizerError
from clearhead.files import to_printable
from clearhead.text.sentencepiece.model_file import MAX_ADDED_TOKENS, MAX_PIECE_LENGTH
from clearhead.text.settings import check_vocabulary

MAX_ADDED_CHARACTERS = 2_000_000  # in total: the library needs five seconds to build the search
MAX_ADDED_BYTES = 4_000_000  # of normalized added tokens, at their maximum length after normalization
MAX_LITERAL_LENGTH = 1_000  # characters of a string that a step inserts or searches for
MAX_AFFIX_BYTES = 100  # of an unknown token or an affix, which every token of a text may repeat
MAX_SCORE = 1e9  # absolute score of a unigram piece, so that sums stay finite
MAX_WORD_LENGTH = 256  # characters per WordPiece word, whose time is quadratic; published vocabularies have 100


def check_added_tokens(tokens: Iterable[tuple[str, bool]], growth: float = 1.0, name: str = "tokenizer.json") -> None:
    """Raise a TokenizerError if the search for added tokens, pairs of content and is_normalized, is too expensive."""
    count, characters, normalized_bytes = 0, 0, 0
    for content, is_normalized in tokens:
        count += 1
        characters += len(content)
        normalized_bytes += len(content.encode("utf-8", "surrogatepass")) if is_normalized else 0
    if count > MAX_ADDED_TOKENS:
        raise TokenizerError(f"{name} has {count:,} added tokens, more than the maximum of {MAX_ADDED_TOKENS:,}.")
    if characters > MAX_ADDED_CHARACTERS:
        raise TokenizerError(f"{name}: the added tokens have more than {MAX_ADDED_CHARACTERS:,} characters.")
    if normalized_bytes * growth > MAX_ADDED_BYTES:
        raise TokenizerError(f"{name}: the added tokens can exceed {MAX_ADDED_BYTES:,} bytes after normalization.")


def check_normalized_tokens(pipeline: Any) -> None:
    """Raise a TokenizerError for added tokens that are empty after normalization, as they would match everywhere."""
    if pipeline.normalizer is None:
        return
    for token in pipeline.get_added_tokens_decoder().values():
        if token.normalized and not pipeline.normalizer.normalize_str(token.content):
            raise TokenizerError(
                f"The added token {to_printable(token.content)!r} is empty after normalization; set its "
                '"normalized" to false.'
            )


def check_special_token(key: str, token: str) -> None:
    """Raise a TokenizerError for a special token that is too long to repeat in every encoding or for unknown words."""
    max_bytes = MAX_AFFIX_BYTES if key == "unk_token" else MAX_LITERAL_LENGTH
    if (size := len(token.encode("utf-8", "surrogatepass"))) > max_bytes:
        raise TokenizerError(f"tokenizer_config.json: {key} must have at most {max_bytes:,} bytes, got {size:,}.")


def check_scores(pieces: Iterable[tuple[object, object]], name: str = "tokenizer.json") -> None:
    """Raise a TokenizerError for unigram scores that are not numbers, or so large that sums may overflow."""
    for piece, score in pieces:
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if not is_number or not abs(score) <= MAX_SCORE:  # type: ignore[arg-type]
            raise TokenizerError(
                f"{name}: the score of the piece {to_printable(piece)!r} must be a number between "
                f"-{MAX_SCORE:,.0f} and "
                f"{MAX_SCORE:,.0f}, got {to_printable(score)}."
            )


def iter_added_tokens(data: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the added tokens of a tokenizer.json as pairs of content and is_normalized."""
    tokens = data.get("added_tokens")
    for token in tokens if isinstance(tokens, list) else ():  # read_settings reports other types
        if isinstance(token, dict) and isinstance(token.get("content"), str):
            yield token["content"], token.get("normalized") is not False


def check_model_sizes(model: object) -> None:
    """Raise a TokenizerError if the unknown token, affixes, words or pieces of a model are too long."""
    if not isinstance(model, dict):
        return  # reported when the vocabulary is read
    for key in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key) is not None:
            check_byte_size(model[key], key, MAX_AFFIX_BYTES)
    max_word_length = model.get("max_input_chars_per_word")
    if max_word_length is not None and (
        type(max_word_length) is not int or not 0 <= max_word_length <= MAX_WORD_LENGTH
    ):
        raise TokenizerError(
            f"tokenizer.json: max_input_chars_per_word must be from 0 to {MAX_WORD_LENGTH}, "
            f"got {to_printable(max_word_length)}."
        )
    vocab = model.get("vocab")
    if isinstance(vocab, list):
        pieces = (row[0] for row in vocab if isinstance(row, list) and row)
        if any(isinstance(piece, str) and len(piece) > MAX_PIECE_LENGTH for piece in pieces):
            raise TokenizerError(
                f"tokenizer.json: a piece of the vocabulary has more than {MAX_PIECE_LENGTH} characters."
            )


def check_deterministic(model: object) -> None:
    """Raise a TokenizerError for models with dropout, which makes ids random, or with invalid ids or scores."""
    if not isinstance(model, dict):
        return
    if model.get("dropout"):
        raise TokenizerError(
            f"tokenizer.json: the model has a dropout of {to_printable(model['dropout'])}, which makes ids "
            "random; set it to null."
        )
    vocab = model.get("vocab")
    if isinstance(vocab, dict) and vocab:
        check_vocabulary(vocab, "tokenizer.json")
    elif isinstance(vocab, list):
        check_scores((row[0], row[1]) for row in vocab if isinstance(row, list) and len(row) == 2)


def check_length(text: object, key: str, max_length: int = MAX_LITERAL_LENGTH) -> int:
    """Return the size of a string in bytes, or raise a TokenizerError if it has too many characters."""
    if not isinstance(text, str) or len(text) > max_length:
        actual = f"{len(text):,} characters" if isinstance(text, str) else type(text).__name__
        raise TokenizerError(
            f"tokenizer.json: {key} must be a string of at most {max_length:,} characters, got {actual}."
        )
    return len(text.encode("utf-8", "surrogatepass"))


def check_byte_size(text: object, key: str, max_bytes: int) -> int:
    """Return the size of a string in bytes, or raise a TokenizerError if it is too large."""
    size = check_length(text, key)
    if size > max_bytes:
        raise TokenizerError(f"tokenizer.json: {key} must have at most {max_bytes} bytes, got {size:,}.")
    return size
