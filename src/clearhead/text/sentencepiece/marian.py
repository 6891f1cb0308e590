"""Marian's tokenizer: a SentencePiece model splits text into pieces, and vocab.json maps them to ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.errors import InputError, TokenizerError
from clearhead.files import to_printable
from clearhead.text.encoding import Encoding, TokenIds, truncate
from clearhead.text.files import MAX_SETTINGS_BYTES, parse_json_object, read_bytes, wrap_library_errors
from clearhead.text.limits.pipeline_limits import check_text_size
from clearhead.text.pipeline import EncodeInput, clean_up_spaces
from clearhead.text.sentencepiece.decoder import make_joiner
from clearhead.text.sentencepiece.model_file import (
    MAX_MODEL_BYTES,
    MAX_PIECE_LENGTH,
    MAX_PIECES,
    SentencePieceModel,
    parse_model,
)
from clearhead.text.sentencepiece.normalizer import SentencePieceNormalizer
from clearhead.text.sentencepiece.segmenter import make_segmenter
from clearhead.text.sentencepiece.trie import StepBudget, build_literal_trie, make_splitter
from clearhead.text.settings import (
    SPECIAL_TOKEN_KEYS,
    TokenizerSettings,
    check_vocabulary,
    read_settings,
    resolve_max_length,
    resolve_truncation_side,
    select_portable_options,
)
from clearhead.text.subwords import METASPACE
from clearhead.text.tokenizer import Tokenizer

MAX_SOURCE_LENGTH = 300_000  # characters; segmentation takes seconds per megabyte, and models read up to 512 tokens


@dataclass(frozen=True, kw_only=True)
class MarianVocabulary:
    """Mapping of tokens to ids."""

    ids: dict[str, int]  # vocab.json
    added_tokens: dict[str, int]  # special and added tokens, matched before the text is segmented
    special_tokens: frozenset[str]
    unk_token: str
    eos_token: str

    def token_id(self, token: str) -> int:
        """Return the id of a token, or that of the unknown token."""
        added_id = self.added_tokens.get(token)
        return self.ids.get(token, self.ids[self.unk_token]) if added_id is None else added_id


class MarianPipeline:
    """Backend for the source or target language of a Marian model."""

    kind = "Marian"
    max_text_length: int | None = MAX_SOURCE_LENGTH

    def __init__(
        self,
        model: SentencePieceModel,
        decoder_model: SentencePieceModel,
        vocabulary: MarianVocabulary,
        files: dict[str, bytes],
        *,
        name: str,
        clean_up: bool,
    ) -> None:
        self._files = files
        self._vocabulary = vocabulary
        self._clean_up = clean_up
        self._normalizer = SentencePieceNormalizer(model, name)
        self._segment = make_segmenter(model, name)
        self._join = make_joiner(decoder_model)
        self._tokens_by_id = {token_id: token for token, token_id in vocabulary.ids.items()} | {
            token_id: token for token, token_id in vocabulary.added_tokens.items()
        }
        self._split = make_splitter(build_literal_trie(vocabulary.added_tokens, "tokenizer_config.json"))

    def encode(self, items: Sequence[EncodeInput], *, split: bool) -> list[Encoding]:
        """Encode texts with the end token, without truncation; with `split`, texts are lists of words."""
        return [self._encode_item(item, split) for item in items]

    def encode_ids(
        self, items: Sequence[EncodeInput], *, split: bool, max_length: int | None = None, side: str = "right"
    ) -> list[TokenIds]:
        """Encode texts to ids and segments, truncated to `max_length`."""
        encodings = (self._encode_item(item, split) for item in items)  # lazily, because encodings need much memory
        truncated = (
            encodings if max_length is None else (truncate(encoding, max_length, side=side) for encoding in encodings)
        )
        return [TokenIds(encoding.ids, encoding.segments, encoding.truncated) for encoding in truncated]

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text without the end token."""
        check_text_size(text, max_length=MAX_SOURCE_LENGTH)
        return sum(1 for _ in self._iter_pieces(text, StepBudget(len(text))))

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts to ids without special tokens."""
        encodings = self.encode(texts, split=False)
        return [
            [token_id for token_id, is_special in zip(encoding.ids, encoding.special, strict=True) if not is_special]
            for encoding in encodings
        ]

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        """Convert ids to text."""
        special = self._vocabulary.special_tokens
        texts: list[str] = []
        token_run: list[str] = []
        for token_id in ids:
            token = self._tokens_by_id.get(token_id)
            if token is None:
                continue
            if token not in special:
                token_run.append(token)
            elif not skip_special:
                texts += [self._join(token_run), token, " "]
                token_run = []
        text = "".join([*texts, self._join(token_run)]).replace(METASPACE, " ").strip()
        return clean_up_spaces(text) if self._clean_up else text

    def token_id(self, token: str) -> int | None:
        """Return the id of a token, or None if it is not in the vocabulary."""
        return self._vocabulary.added_tokens.get(token, self._vocabulary.ids.get(token))

    def vocab(self) -> dict[str, int]:
        """Return all tokens and their ids, including added tokens."""
        return self._vocabulary.ids | self._vocabulary.added_tokens

    def size(self) -> int:
        """Return the number of tokens, including added tokens."""
        return len(self.vocab())

    def files(self) -> dict[str, bytes]:
        """Return the files from which the tokenizer was loaded."""
        return dict(self._files)

    def _encode_item(self, item: EncodeInput, split: bool) -> Encoding:
        if isinstance(item, tuple):
            raise InputError("A translation model expects a single text, got a pair.")
        text = item if isinstance(item, str) else "".join(item)
        check_text_size(text, max_length=MAX_SOURCE_LENGTH)
        budget = StepBudget(len(text))
        pieces: list[tuple[str, tuple[int, int], int]] = []
        for item_word_index, word in enumerate(item if split else [str(item)]):
            pieces.extend(
                (token, offsets, item_word_index if split else word_index)
                for token, offsets, word_index in self._iter_pieces(word, budget)
            )
        vocabulary = self._vocabulary
        ids = [vocabulary.token_id(token) for token, _, _ in pieces]
        special_ids = {vocabulary.token_id(token) for token in vocabulary.special_tokens - {vocabulary.unk_token}}
        return Encoding(
            ids=[*ids, vocabulary.token_id(vocabulary.eos_token)],
            tokens=[*(token for token, _, _ in pieces), vocabulary.eos_token],
            offsets=[*(offsets for _, offsets, _ in pieces), (0, 0)],
            words=[*(word for _, _, word in pieces), None],
            segments=[0] * (len(pieces) + 1),
            special=[*(token_id in special_ids for token_id in ids), True],
            sides=[*([0] * len(pieces)), None],
        )

    def _iter_pieces(self, text: str, budget: StepBudget) -> Iterator[tuple[str, tuple[int, int], int]]:
        """Yield each piece with its offsets in the text and its word index."""
        start, word_index = 0, -1
        for part in self._split(text, budget):
            end = start + len(part)
            if part in self._vocabulary.added_tokens:
                word_index += 1
                yield part, (start, end), word_index
            elif part:
                language_code = _find_language_code(part)
                text_start = start + len(language_code)
                if language_code:
                    word_index += 1
                    yield language_code, (start, text_start), word_index
                for piece, (piece_start, piece_end) in self._segment_plain(part[len(language_code) :], budget):
                    word_index += word_index < 0 or piece.startswith(METASPACE) or piece_start == 0
                    yield piece, (text_start + piece_start, text_start + piece_end), word_index
            start = end

    def _segment_plain(self, text: str, budget: StepBudget) -> Iterator[tuple[str, tuple[int, int]]]:
        normalized, origins = self._normalizer.normalize(text, budget)
        for piece, normalized_start, normalized_end in self._segment(normalized, budget):
            start, end = origins[normalized_start], origins[normalized_end]
            while start < end and text[start].isspace():
                start += 1  # offsets exclude the space before a word
            yield piece, (start, end)


def load_marian(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Load the source and target tokenizers of a Marian folder."""
    settings = read_settings(folder, None)
    has_separate_vocabs = settings.get_flag("separate_vocabs", False)
    file_names = ["source.spm", "target.spm", "vocab.json", *(["target_vocab.json"] if has_separate_vocabs else [])]
    if missing := [name for name in file_names if not (folder / name).is_file()]:
        raise TokenizerError(f"{folder.name}: {' and '.join(missing)} not found; expected {', '.join(file_names)}.")
    if settings.options.get("sp_model_kwargs"):
        raise TokenizerError(
            "tokenizer_config.json: sp_model_kwargs is not supported, because sampling makes ids random."
        )
    limits = {name: MAX_MODEL_BYTES if name.endswith(".spm") else MAX_SETTINGS_BYTES for name in file_names}
    files = {name: read_bytes(folder / name, limit=limit) for name, limit in limits.items()}
    vocabularies = [_parse_vocabulary(files[name], name) for name in file_names[2:]]
    special_tokens = _resolve_special_tokens(settings)
    special_contents = [token for token in special_tokens.values() if token is not None]
    added_tokens = _resolve_added_tokens(settings, vocabularies[0], special_contents)
    with wrap_library_errors(f"{folder.name}: source.spm and target.spm cannot be used"):
        models = [parse_model(files[name], name) for name in file_names[:2]]
        tokenizers = []
        for side, name in enumerate(file_names[:2]):
            vocabulary = MarianVocabulary(
                ids=vocabularies[-1] if side else vocabularies[0],
                added_tokens=added_tokens,
                special_tokens=frozenset(special_contents),
                unk_token=_require_token(special_tokens, "unk_token", vocabularies[-1] if side else vocabularies[0]),
                eos_token=_require_token(special_tokens, "eos_token", added_tokens),
            )
            # With a shared vocabulary, `transformers` always decodes with the source model.
            decoder_model = models[side if has_separate_vocabs else 0]
            clean_up = settings.get_flag("clean_up_tokenization_spaces", False)
            backend = MarianPipeline(models[side], decoder_model, vocabulary, files, name=name, clean_up=clean_up)
            tokenizers.append(_make_tokenizer(backend, settings, special_tokens, added_tokens))
    return tokenizers[0], tokenizers[1]


def _make_tokenizer(
    backend: MarianPipeline,
    settings: TokenizerSettings,
    special_tokens: dict[str, str | None],
    added_tokens: dict[str, int],
) -> Tokenizer:
    flags = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)
    added_tokens_decoder = {
        str(token_id): flags
        | {
            "content": token,
            "special": token in special_tokens.values(),
            "normalized": token not in special_tokens.values(),
        }
        for token, token_id in added_tokens.items()
    }
    defined_tokens = {key: token for key, token in special_tokens.items() if token is not None}
    config = (
        select_portable_options(settings.options)
        | defined_tokens
        | {"tokenizer_class": "MarianTokenizer", "added_tokens_decoder": added_tokens_decoder}
    )
    return Tokenizer(
        backend,
        special_tokens=special_tokens,
        config=config,
        max_length=resolve_max_length(settings.options, default=512),
        truncation_side=resolve_truncation_side(settings.options, {}),
    )


def _parse_vocabulary(data: bytes, name: str) -> dict[str, int]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{name} is not UTF-8 text: invalid byte at position {error.start}.") from error
    ids = parse_json_object(text, name)
    if len(ids) > MAX_PIECES:
        raise TokenizerError(f"{name} has {len(ids):,} tokens, more than the maximum of {MAX_PIECES:,}.")
    if (longest := max(map(len, ids), default=0)) > MAX_PIECE_LENGTH:
        raise TokenizerError(
            f"{name}: a token has {longest:,} characters, more than the maximum of {MAX_PIECE_LENGTH}."
        )
    return check_vocabulary(ids, name)


def _resolve_special_tokens(settings: TokenizerSettings) -> dict[str, str | None]:
    defaults = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}
    special_tokens = {key: settings.special_tokens.get(key, defaults.get(key)) for key in SPECIAL_TOKEN_KEYS}
    extra_tokens = settings.extra_tokens if settings.extra_tokens is not None else settings.additional_tokens or []
    if extra_tokens:
        raise TokenizerError("tokenizer_config.json: a Marian tokenizer does not support additional special tokens.")
    return {key: None if token is None else str(token) for key, token in special_tokens.items()}


def _require_token(special_tokens: dict[str, str | None], key: str, ids: dict[str, int]) -> str:
    token = special_tokens[key]
    if token is None or token not in ids:
        raise TokenizerError(f"The {key} {to_printable(token)!r} is not in the vocabulary.")
    return token


def _resolve_added_tokens(
    settings: TokenizerSettings, ids: dict[str, int], special_tokens: list[str]
) -> dict[str, int]:
    """Return the special and added tokens with their ids."""
    if unsupported := [
        token.content for token in settings.added_tokens.values() if token.lstrip or token.rstrip or token.single_word
    ]:
        raise TokenizerError(
            "A Marian tokenizer does not support added tokens with lstrip, rstrip or single_word: "
            f"{to_printable(unsupported)}."
        )
    added_ids = {token.content: token_id for token_id, token in settings.added_tokens.items()}
    next_id = len(ids | added_ids)
    for token in dict.fromkeys(special_tokens):
        if token not in added_ids:
            added_ids[token] = ids.get(token, next_id)
            next_id += token not in ids
    return added_ids


def _find_language_code(text: str) -> str:
    """Return a prefix such as >>fr<<, which selects the target language of a multilingual model."""
    end = text.find("<<") if text.startswith(">>") else -1
    return text[: end + 2] if end >= 0 else ""
