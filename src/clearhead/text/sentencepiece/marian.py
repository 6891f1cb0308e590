"""Marian's tokenizer: a SentencePiece model cuts the text into pieces, and vocab.json numbers them."""

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
    select_savable,
)
from clearhead.text.subwords import METASPACE
from clearhead.text.tokenizer import Tokenizer

MAX_SOURCE_LENGTH = (
    300_000  # characters; models that translate read 512 tokens, and this code takes seconds for a megabyte
)


@dataclass(frozen=True, kw_only=True)
class MarianVocabulary:
    """Which token has which id."""

    ids: dict[str, int]  # vocab.json
    added_tokens: dict[str, int]  # special and added tokens, found in the text before anything else
    special: frozenset[str]
    unk: str
    eos: str

    def token_id(self, token: str) -> int:
        """The id of a token, that of the unknown token if it has none."""
        found = self.added_tokens.get(token)
        return self.ids.get(token, self.ids[self.unk]) if found is None else found


class MarianPipeline:
    """Encodes and decodes one side of a Marian model."""

    kind = "Marian"
    most_text: int | None = MAX_SOURCE_LENGTH

    def __init__(
        self,
        model: SentencePieceModel,
        reader: SentencePieceModel,
        numbers: MarianVocabulary,
        files: dict[str, bytes],
        *,
        name: str,
        clean_up: bool,
    ) -> None:
        self._files = files
        self._numbers = numbers
        self._clean_up = clean_up
        self._normalizer = SentencePieceNormalizer(model, name)
        self._segment = make_segmenter(model, name)
        self._join = make_joiner(reader)
        self._tokens = {i: t for t, i in numbers.ids.items()} | {i: t for t, i in numbers.added_tokens.items()}
        self._split = make_splitter(build_literal_trie(numbers.added_tokens, "tokenizer_config.json"))

    def encode(self, items: Sequence[EncodeInput], *, split: bool) -> list[Encoding]:
        """Encode texts whole, with the end token; `split` says that the texts are lists of words."""
        return [self._encode(item, split) for item in items]

    def ids(
        self, items: Sequence[EncodeInput], *, split: bool, max_length: int | None = None, side: str = "right"
    ) -> list[TokenIds]:
        """Only their ids and segments, cut at `max_length` if there is one."""
        made = (self._encode(item, split) for item in items)  # one by one, for they take much memory
        cut = made if max_length is None else (truncate(encoding, max_length, side=side) for encoding in made)
        return [TokenIds(encoding.ids, encoding.segments, encoding.truncated) for encoding in cut]

    def count(self, text: str) -> int:
        """How many tokens a text alone has."""
        check_text_size(text, max_length=MAX_SOURCE_LENGTH)
        return sum(1 for _ in self._pieces(text, StepBudget(len(text))))

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts alone, without the end token."""
        made = self.encode(texts, split=False)
        return [[one for one, added in zip(e.ids, e.special, strict=True) if not added] for e in made]

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        """Ids back to text."""
        special = self._numbers.special
        out: list[str] = []
        run: list[str] = []
        for index in ids:
            token = self._tokens.get(index)
            if token is None:
                continue
            if token not in special:
                run.append(token)
            elif not skip_special:
                out += [self._join(run), token, " "]
                run = []
        text = "".join([*out, self._join(run)]).replace(METASPACE, " ").strip()
        return clean_up_spaces(text) if self._clean_up else text

    def token_id(self, token: str) -> int | None:
        """The id of a token, None if it has none."""
        return self._numbers.added_tokens.get(token, self._numbers.ids.get(token))

    def vocab(self) -> dict[str, int]:
        """All tokens with their ids, added ones too."""
        return self._numbers.ids | self._numbers.added_tokens

    def size(self) -> int:
        """How many tokens there are, added ones too."""
        return len(self.vocab())

    def files(self) -> dict[str, bytes]:
        """The files as they were read."""
        return dict(self._files)

    def _encode(self, item: EncodeInput, split: bool) -> Encoding:
        if isinstance(item, tuple):
            raise InputError("a translation model takes one text, not a pair")
        whole = item if isinstance(item, str) else "".join(item)
        check_text_size(whole, max_length=MAX_SOURCE_LENGTH)
        budget = StepBudget(len(whole))
        rows: list[tuple[str, tuple[int, int], int]] = []
        for index, word in enumerate(item if split else [str(item)]):
            rows.extend((t, o, index if split else w) for t, o, w in self._pieces(word, budget))
        numbers = self._numbers
        ids = [numbers.token_id(token) for token, _, _ in rows]
        special = {numbers.token_id(token) for token in numbers.special - {numbers.unk}}
        return Encoding(
            ids=[*ids, numbers.token_id(numbers.eos)],
            tokens=[*(token for token, _, _ in rows), numbers.eos],
            offsets=[*(offsets for _, offsets, _ in rows), (0, 0)],
            words=[*(word for _, _, word in rows), None],
            segments=[0] * (len(rows) + 1),
            special=[*(i in special for i in ids), True],
            sides=[*([0] * len(rows)), None],
        )

    def _pieces(self, text: str, budget: StepBudget) -> Iterator[tuple[str, tuple[int, int], int]]:
        """Each piece with its place in the text and the number of its word."""
        start, word = 0, -1
        for part in self._split(text, budget):
            end = start + len(part)
            if part in self._numbers.added_tokens:
                word += 1
                yield part, (start, end), word
            elif part:
                code = _language_code(part)
                if code:
                    word += 1
                    yield code, (start, start + len(code)), word
                for piece, (a, b) in self._plain(part[len(code) :], budget):
                    word += word < 0 or piece.startswith(METASPACE) or a == 0
                    yield piece, (start + len(code) + a, start + len(code) + b), word
            start = end

    def _plain(self, text: str, budget: StepBudget) -> Iterator[tuple[str, tuple[int, int]]]:
        normal, origins = self._normalizer.normalize(text, budget)
        for piece, left, right in self._segment(normal, budget):
            start, end = origins[left], origins[right]
            while start < end and text[start].isspace():
                start += 1  # the blank before a word is no part of it
            yield piece, (start, end)


def load_marian(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both languages of a Marian folder."""
    settings = read_settings(folder, None)
    separate = settings.flag("separate_vocabs", False)
    names = ["source.spm", "target.spm", "vocab.json", *(["target_vocab.json"] if separate else [])]
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise TokenizerError(f"{folder.name}: found no {' and no '.join(missing)}; looked for {', '.join(names)}")
    if settings.options.get("sp_model_kwargs"):
        raise TokenizerError("tokenizer_config.json: sp_model_kwargs would make the ids a matter of chance")
    limits = {name: MAX_MODEL_BYTES if name.endswith(".spm") else MAX_SETTINGS_BYTES for name in names}
    files = {name: read_bytes(folder / name, limit=limit) for name, limit in limits.items()}
    ids = [_numbered(files[name], name) for name in names[2:]]
    specials = _specials(settings)
    tokens = [token for token in specials.values() if token is not None]
    added = _added(settings, ids[0], tokens)
    with wrap_library_errors(f"{folder.name}: source.spm and target.spm cannot be used"):
        models = [parse_model(files[name], name) for name in names[:2]]
        sides = []
        for side, name in enumerate(names[:2]):
            numbers = MarianVocabulary(
                ids=ids[-1] if side else ids[0],
                added_tokens=added,
                special=frozenset(tokens),
                unk=_needed(specials, "unk_token", ids[-1] if side else ids[0]),
                eos=_needed(specials, "eos_token", added),
            )
            # With one vocabulary for both languages, `transformers` always decodes with the source model.
            reader = models[side if separate else 0]
            clean_up = settings.flag("clean_up_tokenization_spaces", False)
            backend = MarianPipeline(models[side], reader, numbers, files, name=name, clean_up=clean_up)
            sides.append(_tokenizer(backend, settings, specials, added))
    return sides[0], sides[1]


def _tokenizer(
    backend: MarianPipeline, settings: TokenizerSettings, specials: dict[str, str | None], added: dict[str, int]
) -> Tokenizer:
    flags = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)
    decoder = {
        str(i): flags | {"content": t, "special": t in specials.values(), "normalized": t not in specials.values()}
        for t, i in added.items()
    }
    named = {k: v for k, v in specials.items() if v is not None}
    config = (
        select_savable(settings.options)
        | named
        | {"tokenizer_class": "MarianTokenizer", "added_tokens_decoder": decoder}
    )
    return Tokenizer(
        backend,
        specials=specials,
        config=config,
        max_length=resolve_max_length(settings.options, default=512),
        truncation_side=resolve_truncation_side(settings.options, {}),
    )


def _numbered(data: bytes, name: str) -> dict[str, int]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{name} is not UTF-8 text: byte {error.start} cannot be read") from error
    ids = parse_json_object(text, name)
    if len(ids) > MAX_PIECES:
        raise TokenizerError(f"{name} holds {len(ids):,} tokens, more than {MAX_PIECES:,}")
    if (longest := max(map(len, ids), default=0)) > MAX_PIECE_LENGTH:
        raise TokenizerError(f"{name}: a token has {longest:,} characters, more than {MAX_PIECE_LENGTH}")
    return check_vocabulary(ids, name)


def _specials(settings: TokenizerSettings) -> dict[str, str | None]:
    defaults = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}
    found = {key: settings.special_tokens.get(key, defaults.get(key)) for key in SPECIAL_TOKEN_KEYS}
    extra = settings.extra if settings.extra is not None else settings.additional or []
    if extra:
        raise TokenizerError("tokenizer_config.json: a Marian tokenizer takes no further special tokens")
    return {key: None if token is None else str(token) for key, token in found.items()}


def _needed(specials: dict[str, str | None], key: str, ids: dict[str, int]) -> str:
    token = specials[key]
    if token is None or token not in ids:
        raise TokenizerError(f"the vocabulary lacks the {key} {to_printable(token)!r}")
    return token


def _added(settings: TokenizerSettings, ids: dict[str, int], specials: list[str]) -> dict[str, int]:
    """The tokens that are found in the text before anything else, with their ids."""
    if odd := [t.content for t in settings.added.values() if t.lstrip or t.rstrip or t.single_word]:
        raise TokenizerError(
            f"a Marian tokenizer takes no added tokens that strip blanks or want whole words: {to_printable(odd)}"
        )
    added = {token.content: index for index, token in settings.added.items()}
    total = len(ids | added)
    for token in dict.fromkeys(specials):
        if token not in added:
            added[token] = ids.get(token, total)
            total += token not in ids
    return added


def _language_code(text: str) -> str:
    """A prefix such as >>fr<<, which tells a model of many languages where to go."""
    end = text.find("<<") if text.startswith(">>") else -1
    return text[: end + 2] if end >= 0 else ""
