"""Bounds of a vocabulary and its added tokens: their number, their lengths, their ids and scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from clearhead.errors import TokenizerError
from clearhead.files import to_printable
from clearhead.text.sentencepiece.model_file import MAX_ADDED_TOKENS, MAX_PIECE_LENGTH
from clearhead.text.settings import check_vocabulary

MAX_ADDED_CHARACTERS = 2_000_000  # of them together: five seconds to build the search
MAX_ADDED_BYTES = 4_000_000  # of those that the normalizer changes, as long as it can make them
MAX_LITERAL_LENGTH = 1_000  # characters of a text that a step puts in or searches for
MAX_AFFIX_BYTES = 100  # bytes of an unknown token or an affix, of which every token of a text may hold a copy
MAX_SCORE = 1e9  # of a unigram piece, above or below zero: their sum must stay a number
MAX_WORD_LENGTH = 256  # characters of a word for WordPiece, whose time grows as its square; published ones have 100


def check_added_tokens(tokens: Iterable[tuple[str, bool]], growth: float = 1.0, name: str = "tokenizer.json") -> None:
    """Refuse added tokens, given as content and whether it is normalized, whose search takes too long to build."""
    count, characters, normalized = 0, 0, 0
    for content, is_normalized in tokens:
        count += 1
        characters += len(content)
        normalized += len(content.encode("utf-8", "surrogatepass")) if is_normalized else 0
    if count > MAX_ADDED_TOKENS:
        raise TokenizerError(f"{name}: {count:,} added tokens, more than {MAX_ADDED_TOKENS:,}")
    if characters > MAX_ADDED_CHARACTERS:
        raise TokenizerError(f"{name}: the added tokens have more than {MAX_ADDED_CHARACTERS:,} characters")
    if normalized * growth > MAX_ADDED_BYTES:
        raise TokenizerError(f"{name}: the normalizer can make the added tokens longer than {MAX_ADDED_BYTES:,} bytes")


def check_normalized_tokens(pipeline: Any) -> None:
    """Refuse added tokens of which the normalizer leaves nothing: an empty text is found at every place of a text."""
    if pipeline.normalizer is None:
        return
    for token in pipeline.get_added_tokens_decoder().values():
        if token.normalized and not pipeline.normalizer.normalize_str(token.content):
            raise TokenizerError(
                f"the normalizer leaves nothing of the added token {to_printable(token.content)!r}; set its "
                '"normalized" to false'
            )


def check_special_token(key: str, token: str) -> None:
    """Refuse a special token of the settings that is too long to stand in every encoding, or for every unknown word."""
    most = MAX_AFFIX_BYTES if key == "unk_token" else MAX_LITERAL_LENGTH
    if len(token.encode("utf-8", "surrogatepass")) > most:
        raise TokenizerError(f"tokenizer_config.json: {key} must have at most {most:,} bytes, got {len(token):,}")


def check_scores(pieces: Iterable[tuple[object, object]], name: str = "tokenizer.json") -> None:
    """Refuse unigram scores that are no numbers, or so large that sums of them are none."""
    for piece, score in pieces:
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if not is_number or not abs(score) <= MAX_SCORE:  # type: ignore[arg-type]
            raise TokenizerError(
                f"{name}: the score of the piece {to_printable(piece)!r} must be a number between "
                f"-{MAX_SCORE:,.0f} and "
                f"{MAX_SCORE:,.0f}, got {to_printable(score)}"
            )


def iterate_added_tokens(data: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """The added tokens of a tokenizer.json: content, and whether it is normalized."""
    tokens = data.get("added_tokens")
    for token in tokens if isinstance(tokens, list) else ():  # read_settings reports what is wrong with it
        if isinstance(token, dict) and isinstance(token.get("content"), str):
            yield token["content"], token.get("normalized") is not False


def check_model(model: object) -> None:
    """Refuse a model whose tokens are too long, or whose words are."""
    if not isinstance(model, dict):
        return  # the reader of the vocabulary says what is wrong with it
    for key in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key) is not None:
            check_bytes(model[key], key, MAX_AFFIX_BYTES)
    longest = model.get("max_input_chars_per_word")
    if longest is not None and (type(longest) is not int or not 0 <= longest <= MAX_WORD_LENGTH):
        raise TokenizerError(
            f"tokenizer.json: max_input_chars_per_word must be from 0 to {MAX_WORD_LENGTH}, got {to_printable(longest)}"
        )
    vocab = model.get("vocab")
    if isinstance(vocab, list):
        pieces = (row[0] for row in vocab if isinstance(row, list) and row)
        if any(isinstance(piece, str) and len(piece) > MAX_PIECE_LENGTH for piece in pieces):
            raise TokenizerError(
                f"tokenizer.json: a piece of the vocabulary has more than {MAX_PIECE_LENGTH} characters"
            )


def check_deterministic(model: object) -> None:
    """Refuse a model that gives different ids for the same text, or has ids and scores that are none."""
    if not isinstance(model, dict):
        return
    if model.get("dropout"):
        raise TokenizerError(
            f"tokenizer.json: the model has a dropout of {to_printable(model['dropout'])}, which makes its ids "
            "random; set it "
            "to null"
        )
    vocab = model.get("vocab")
    if isinstance(vocab, dict) and vocab:
        check_vocabulary(vocab, "tokenizer.json")
    elif isinstance(vocab, list):
        check_scores((row[0], row[1]) for row in vocab if isinstance(row, list) and len(row) == 2)


def check_length(text: object, key: str, max_length: int = MAX_LITERAL_LENGTH) -> int:
    """The size in bytes of a text with a limit in characters."""
    if not isinstance(text, str) or len(text) > max_length:
        got = f"{len(text):,} characters" if isinstance(text, str) else type(text).__name__
        raise TokenizerError(f"tokenizer.json: {key} must be a text of at most {max_length:,} characters, got {got}")
    return len(text.encode("utf-8", "surrogatepass"))


def check_bytes(text: object, key: str, max_bytes: int) -> int:
    """The size in bytes of a text with a limit in bytes."""
    size = check_length(text, key)
    if size > max_bytes:
        raise TokenizerError(f"tokenizer.json: {key} must have at most {max_bytes} bytes, got {size:,}")
    return size
