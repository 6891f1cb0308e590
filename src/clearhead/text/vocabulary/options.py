"""Options and presets of vocabularies: special tokens in the order of their ids, templates and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.text.settings import SPECIAL_TOKEN_KEYS

MODEL_KINDS = ("bpe", "unigram", "wordpiece")
PRE_TOKENIZERS = {  # pre-tokenizers of each kind, the default first
    "bpe": ("byte-level", "metaspace", "blanks", "whitespace", "bert"),
    "unigram": ("metaspace", "byte-level"),
    "wordpiece": ("bert", "blanks", "whitespace"),
}
DEFAULT_NORMALIZERS = {"bpe": (), "unigram": ("nfkc",), "wordpiece": ("bert",)}
NORMALIZERS = ("none", "nfc", "nfkc", "lowercase", "strip-accents", "bert", "bert-cased")
MAX_VOCABULARY_SIZE = 10_000_000  # the largest published vocabularies have 256,000 tokens
MAX_SPECIAL_TOKEN_BYTES = 100  # tokenizers with a longer unknown token are not loaded


@dataclass(frozen=True, kw_only=True)
class VocabularyPreset:
    """Defaults of a vocabulary for one type of model."""

    kind: str  # default kind
    special_tokens: Mapping[str, str]  # by their `transformers` name without _token
    leading: tuple[str, ...]  # names of the tokens with the lowest ids, from 0
    trailing: tuple[str, ...] = ()  # names of the tokens with the highest ids
    additional_tokens: tuple[str, ...] = ()  # unnamed tokens after all others
    single_template: tuple[str, ...] = ("A",)  # of one text: token names, and A for the text
    pair_template: tuple[tuple[str, int], ...] = (("A", 0), ("B", 1))  # of two texts, with segments


@dataclass(frozen=True, kw_only=True)
class VocabularyPlan:
    """Resolved options of vocabulary training."""

    kind: str
    use: str
    named_tokens: dict[str, str]
    leading_tokens: tuple[str, ...]  # tokens with the lowest ids, in order
    trailing_tokens: tuple[str, ...]  # tokens with the highest ids
    single_template: tuple[str, ...]
    pair_template: tuple[tuple[str, int], ...]
    size: int
    normalize: tuple[str, ...]
    split: str
    min_count: int
    characters: int | None  # maximum number of distinct characters
    byte_fallback: bool

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """All special tokens."""
        return (*self.leading_tokens, *self.trailing_tokens)


_ANGLE_TOKENS = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
_EOS_PAIR = (("A", 0), ("eos", 0), ("B", 0), ("eos", 0))

PRESETS = {
    "bert": VocabularyPreset(
        kind="wordpiece",
        special_tokens={"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
        leading=("pad", "unk", "cls", "sep", "mask"),
        single_template=("cls", "A", "sep"),
        pair_template=(("cls", 0), ("A", 0), ("sep", 0), ("B", 1), ("sep", 1)),
    ),
    "roberta": VocabularyPreset(
        kind="bpe",
        special_tokens=_ANGLE_TOKENS | {"cls": "<s>", "sep": "</s>", "mask": "<mask>"},
        leading=("bos", "pad", "eos", "unk", "mask"),  # position ids start after the id of <pad>, which is 1
        single_template=("bos", "A", "eos"),
        pair_template=(("bos", 0), ("A", 0), ("eos", 0), ("eos", 0), ("B", 0), ("eos", 0)),
    ),
    "gpt": VocabularyPreset(
        kind="bpe",
        special_tokens={"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"},
        leading=("eos",),
        pair_template=(("A", 0), ("B", 0)),
    ),
    "transformer": VocabularyPreset(
        kind="bpe",
        special_tokens=_ANGLE_TOKENS,
        leading=("pad", "unk", "bos", "eos"),
        single_template=("A", "eos"),
        pair_template=_EOS_PAIR,
    ),
    "marian": VocabularyPreset(
        kind="unigram",
        special_tokens={"eos": "</s>", "unk": "<unk>", "pad": "<pad>"},
        leading=("eos", "unk"),
        trailing=("pad",),  # the decoder starts with <pad>, by convention the last id
        single_template=("A", "eos"),
        pair_template=_EOS_PAIR,
    ),
    "t5": VocabularyPreset(
        kind="unigram",
        special_tokens={"pad": "<pad>", "eos": "</s>", "unk": "<unk>"},
        leading=("pad", "eos", "unk"),
        additional_tokens=tuple(f"<extra_id_{number}>" for number in reversed(range(100))),
        single_template=("A", "eos"),
        pair_template=_EOS_PAIR,
    ),
    "plain": VocabularyPreset(kind="bpe", special_tokens=_ANGLE_TOKENS, leading=("pad", "unk", "bos", "eos")),
}
DEFAULT_PRESETS = {"bpe": "gpt", "unigram": "transformer", "wordpiece": "bert"}  # default use of each kind


@dataclass(frozen=True, kw_only=True)
class VocabularyOptions:
    """Options of vocabulary training as requested; None selects the default of the use."""

    kind: str | None = None
    use: str | None = None
    size: int = 8000
    special: Sequence[str] = ()
    normalize: str | Sequence[str] | None = None
    split: str | None = None
    min_count: int | None = None
    characters: int | None = None
    byte_fallback: bool = False


def resolve_vocabulary_plan(options: VocabularyOptions) -> VocabularyPlan:
    """Validate options and fill in defaults."""
    kind, use = _resolve_kind_and_use(options.kind, options.use)
    split = options.split or PRE_TOKENIZERS[kind][0]
    if split not in PRE_TOKENIZERS[kind]:
        choices = ", ".join(PRE_TOKENIZERS[kind])
        raise InputError(f"split must be one of {choices} for {kind}, got {to_printable(split)!r}.")
    if options.byte_fallback and (kind == "wordpiece" or split != "metaspace"):
        raise InputError(
            "byte_fallback requires bpe or unigram with split metaspace; byte-level always includes all bytes."
        )
    for name in ("size", "min_count", "characters"):
        value = getattr(options, name)
        if value is not None and (type(value) is not int or not 1 <= value <= MAX_VOCABULARY_SIZE):
            raise InputError(f"{name} must be an integer from 1 to {MAX_VOCABULARY_SIZE:,}, got {value!r}.")
    if options.characters is not None and split == "byte-level":
        raise InputError("characters cannot be limited with split byte-level, whose characters are the 256 bytes.")
    preset = PRESETS[use]
    named_tokens = dict(preset.special_tokens)
    if use == "gpt" and split != "byte-level":
        named_tokens["unk"] = "<unk>"  # otherwise unknown characters would map to the end of the text
    named_tokens, additional_tokens = _apply_special_tokens(named_tokens, options.special)
    preset_names = (*preset.leading, *preset.trailing)
    leading_names = [*preset.leading, *(name for name in named_tokens if name not in preset_names)]
    leading_tokens = list(dict.fromkeys([named_tokens[name] for name in leading_names] + additional_tokens))
    trailing_tokens = [
        token
        for token in (*(named_tokens[name] for name in preset.trailing), *preset.additional_tokens)
        if token not in leading_tokens
    ]
    return VocabularyPlan(
        kind=kind,
        use=use,
        named_tokens=named_tokens,
        leading_tokens=tuple(leading_tokens),
        trailing_tokens=tuple(trailing_tokens),
        single_template=preset.single_template,
        pair_template=preset.pair_template,
        size=options.size,
        normalize=_resolve_normalizers(options.normalize, kind),
        split=split,
        min_count=options.min_count or (1 if kind == "unigram" else 2),
        characters=options.characters,
        byte_fallback=options.byte_fallback,
    )


def _resolve_kind_and_use(kind: str | None, use: str | None) -> tuple[str, str]:
    if kind is not None and kind not in MODEL_KINDS:
        raise InputError(f"kind must be one of {', '.join(MODEL_KINDS)}, got {to_printable(kind)!r}.")
    if use is not None and use not in PRESETS:
        raise InputError(f"use must be one of {', '.join(PRESETS)}, got {to_printable(use)!r}.")
    use = use or DEFAULT_PRESETS[kind or "bpe"]
    return kind or PRESETS[use].kind, use


def _resolve_normalizers(normalize: str | Sequence[str] | None, kind: str) -> tuple[str, ...]:
    if normalize is None:
        return DEFAULT_NORMALIZERS[kind]
    steps = [step.strip() for step in normalize.split(",")] if isinstance(normalize, str) else list(normalize)
    if unknown_steps := [step for step in steps if step not in NORMALIZERS]:
        raise InputError(
            f"normalize must be a comma-separated list of {', '.join(NORMALIZERS)}, "
            f"got {to_printable(unknown_steps[0])!r}."
        )
    return tuple(step for step in steps if step != "none")


def _apply_special_tokens(named_tokens: dict[str, str], special: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Apply special tokens: `mask=<m>` sets a named token, all others are additional tokens."""
    if isinstance(special, str):
        special = [special]
    additional_tokens: list[str] = []
    for entry in special:
        name, separator, token = entry.partition("=") if isinstance(entry, str) else ("", "", "")
        is_named = bool(separator) and f"{name}_token" in SPECIAL_TOKEN_KEYS
        _check_special_token(token if is_named else entry)
        if is_named:
            named_tokens[name] = token
        else:
            additional_tokens.append(entry)
    all_tokens = [*additional_tokens, *set(named_tokens.values())]
    if duplicates := {token for token in additional_tokens if all_tokens.count(token) > 1}:
        raise InputError(f"The special token {to_printable(min(duplicates))!r} occurs more than once.")
    names_by_token = {token: name for name, token in named_tokens.items()}
    if names_by_token.get(named_tokens.get("pad", "")) not in (None, "pad"):
        raise InputError(f"The padding token {to_printable(named_tokens['pad'])!r} cannot have a second role.")
    return named_tokens, additional_tokens


def _check_special_token(token: object) -> None:
    if not isinstance(token, str):
        raise InputError(f"Special tokens must be strings, got {type(token).__name__}.")
    if (
        not token
        or token != "".join(token.split())
        or len(token.encode("utf-8", "surrogatepass")) > MAX_SPECIAL_TOKEN_BYTES
    ):
        raise InputError(
            f"The special token {to_printable(token, 40)!r} must have 1 to {MAX_SPECIAL_TOKEN_BYTES} bytes without "
            "whitespace."
        )
    if any("\ud800" <= character <= "\udfff" or not character.isprintable() for character in token):
        raise InputError(f"The special token {to_printable(token, 40)!r} contains characters that are not printable.")
