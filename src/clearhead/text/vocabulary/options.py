"""What a vocabulary is for: its special tokens in the order of their ids, what stands around a text, usual choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.text.settings import SPECIAL_TOKEN_KEYS

MODEL_KINDS = ("bpe", "unigram", "wordpiece")
SPLITS = {  # how a text is cut before the vocabulary is asked, the usual way of each kind first
    "bpe": ("byte-level", "metaspace", "blanks", "whitespace", "bert"),
    "unigram": ("metaspace", "byte-level"),
    "wordpiece": ("bert", "blanks", "whitespace"),
}
DEFAULT_NORMALIZERS = {"bpe": (), "unigram": ("nfkc",), "wordpiece": ("bert",)}
NORMALIZERS = ("none", "nfc", "nfkc", "lowercase", "strip-accents", "bert", "bert-cased")
MAX_VOCABULARY_SIZE = 10_000_000  # the largest vocabularies in use have 256,000 tokens
MAX_SPECIAL_TOKEN_BYTES = (
    100  # bytes of a special token; nobody writes longer ones, and a longer unknown token is not loaded
)


@dataclass(frozen=True, kw_only=True)
class VocabularyPreset:
    """A way to use a vocabulary."""

    kind: str  # unless another is asked for
    special_tokens: Mapping[str, str]  # by the name that transformers has for it, without _token
    first: tuple[str, ...]  # names in the order of their ids, from 0
    last: tuple[str, ...] = ()  # names whose ids are the highest
    additional_tokens: tuple[str, ...] = ()  # tokens without a name, after everything else
    single: tuple[str, ...] = ("A",)  # names, and A for the text
    pair: tuple[tuple[str, int], ...] = (("A", 0), ("B", 1))  # the same for two texts, with their segments


@dataclass(frozen=True, kw_only=True)
class VocabularyPlan:
    """All that is decided before learning."""

    kind: str
    use: str
    named_tokens: dict[str, str]
    first: tuple[str, ...]  # tokens with the lowest ids, in order
    last: tuple[str, ...]  # tokens with the highest
    single: tuple[str, ...]
    pair: tuple[tuple[str, int], ...]
    size: int
    normalize: tuple[str, ...]
    split: str
    min_count: int
    characters: int | None  # most different characters that are kept
    byte_fallback: bool

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """Every special token once."""
        return (*self.first, *self.last)


_ROUND = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
_PAIRED = (("A", 0), ("eos", 0), ("B", 0), ("eos", 0))

PRESETS = {
    "bert": VocabularyPreset(
        kind="wordpiece",
        special_tokens={"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
        first=("pad", "unk", "cls", "sep", "mask"),
        single=("cls", "A", "sep"),
        pair=(("cls", 0), ("A", 0), ("sep", 0), ("B", 1), ("sep", 1)),
    ),
    "roberta": VocabularyPreset(
        kind="bpe",
        special_tokens=_ROUND | {"cls": "<s>", "sep": "</s>", "mask": "<mask>"},
        first=("bos", "pad", "eos", "unk", "mask"),  # its positions count from the id of <pad>, which is 1
        single=("bos", "A", "eos"),
        pair=(("bos", 0), ("A", 0), ("eos", 0), ("eos", 0), ("B", 0), ("eos", 0)),
    ),
    "gpt": VocabularyPreset(
        kind="bpe",
        special_tokens={"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"},
        first=("eos",),
        pair=(("A", 0), ("B", 0)),
    ),
    "transformer": VocabularyPreset(
        kind="bpe", special_tokens=_ROUND, first=("pad", "unk", "bos", "eos"), single=("A", "eos"), pair=_PAIRED
    ),
    "marian": VocabularyPreset(
        kind="unigram",
        special_tokens={"eos": "</s>", "unk": "<unk>", "pad": "<pad>"},
        first=("eos", "unk"),
        last=("pad",),  # its decoder starts with <pad>, by custom the last id
        single=("A", "eos"),
        pair=_PAIRED,
    ),
    "t5": VocabularyPreset(
        kind="unigram",
        special_tokens={"pad": "<pad>", "eos": "</s>", "unk": "<unk>"},
        first=("pad", "eos", "unk"),
        additional_tokens=tuple(f"<extra_id_{number}>" for number in reversed(range(100))),
        single=("A", "eos"),
        pair=_PAIRED,
    ),
    "plain": VocabularyPreset(kind="bpe", special_tokens=_ROUND, first=("pad", "unk", "bos", "eos")),
}
DEFAULT_PRESETS = {"bpe": "gpt", "unigram": "transformer", "wordpiece": "bert"}  # the use of a kind, when none is said


@dataclass(frozen=True, kw_only=True)
class VocabularyOptions:
    """What a caller asks for; None where the use decides."""

    kind: str | None = None
    use: str | None = None
    size: int = 8000
    special: Sequence[str] = ()
    normalize: str | Sequence[str] | None = None
    split: str | None = None
    min_count: int | None = None
    characters: int | None = None
    byte_fallback: bool = False


def resolve_plan(wishes: VocabularyOptions) -> VocabularyPlan:
    """Complete and check what is asked for."""
    kind, use = _kind_and_use(wishes.kind, wishes.use)
    split = wishes.split or SPLITS[kind][0]
    if split not in SPLITS[kind]:
        raise InputError(
            f"split must be one of {', '.join(SPLITS[kind])} for {kind}, and it is {to_printable(split)!r}."
        )
    if wishes.byte_fallback and (kind == "wordpiece" or split != "metaspace"):
        raise InputError("Byte fallback is for bpe and unigram with split metaspace; byte-level has all bytes anyway.")
    for name in ("size", "min_count", "characters"):
        value = getattr(wishes, name)
        if value is not None and (type(value) is not int or not 1 <= value <= MAX_VOCABULARY_SIZE):
            raise InputError(f"{name} must be a whole number from 1 to {MAX_VOCABULARY_SIZE:,}, and it is {value!r}.")
    if wishes.characters is not None and split == "byte-level":
        raise InputError("A limit of characters means nothing for byte-level, whose characters are the 256 bytes.")
    plan = PRESETS[use]
    named = dict(plan.special_tokens)
    if use == "gpt" and split != "byte-level":
        named["unk"] = "<unk>"  # else an unknown letter would read as the end of the text
    named, more = _renamed(named, wishes.special)
    names = [*plan.first, *(name for name in named if name not in (*plan.first, *plan.last))]
    first = list(dict.fromkeys([named[name] for name in names] + more))
    last = [token for token in (*(named[name] for name in plan.last), *plan.additional_tokens) if token not in first]
    return VocabularyPlan(
        kind=kind,
        use=use,
        named_tokens=named,
        first=tuple(first),
        last=tuple(last),
        single=plan.single,
        pair=plan.pair,
        size=wishes.size,
        normalize=_steps(wishes.normalize, kind),
        split=split,
        min_count=wishes.min_count or (1 if kind == "unigram" else 2),
        characters=wishes.characters,
        byte_fallback=wishes.byte_fallback,
    )


def _kind_and_use(kind: str | None, use: str | None) -> tuple[str, str]:
    if kind is not None and kind not in MODEL_KINDS:
        raise InputError(f"kind must be one of {', '.join(MODEL_KINDS)}, and it is {to_printable(kind)!r}.")
    if use is not None and use not in PRESETS:
        raise InputError(f"A tokenizer can be for {', '.join(PRESETS)}, not for {to_printable(use)!r}.")
    use = use or DEFAULT_PRESETS[kind or "bpe"]
    return kind or PRESETS[use].kind, use


def _steps(given: str | Sequence[str] | None, kind: str) -> tuple[str, ...]:
    if given is None:
        return DEFAULT_NORMALIZERS[kind]
    steps = [step.strip() for step in given.split(",")] if isinstance(given, str) else list(given)
    if wrong := [step for step in steps if step not in NORMALIZERS]:
        raise InputError(
            f"normalize takes {', '.join(NORMALIZERS)}, commas between them, and not {to_printable(wrong[0])!r}."
        )
    return tuple(step for step in steps if step != "none")


def _renamed(named: dict[str, str], special: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Special tokens with other names (`mask=<m>`), and those that come on top."""
    if isinstance(special, str):
        special = [special]
    more: list[str] = []
    for given in special:
        name, sign, token = given.partition("=") if isinstance(given, str) else ("", "", "")
        named_one = bool(sign) and f"{name}_token" in SPECIAL_TOKEN_KEYS
        _check_special(token if named_one else given)
        if named_one:
            named[name] = token
        else:
            more.append(given)
    if twice := {token for token in more if more.count(token) > 1 or token in named.values()}:
        raise InputError(f"The special token {to_printable(min(twice))!r} is there twice; name it once.")
    taken = {token: name for name, token in named.items()}
    if taken.get(named.get("pad", "")) not in (None, "pad"):
        raise InputError(
            f"The special token {to_printable(named['pad'])!r} cannot be the padding and something else, too."
        )
    return named, more


def _check_special(token: object) -> None:
    if not isinstance(token, str):
        raise InputError(f"A special token must be a string, and one is of type {type(token).__name__}.")
    if (
        not token
        or token != "".join(token.split())
        or len(token.encode("utf-8", "surrogatepass")) > MAX_SPECIAL_TOKEN_BYTES
    ):
        raise InputError(
            f"The special token {to_printable(token, 40)!r} must have 1 to {MAX_SPECIAL_TOKEN_BYTES} bytes and no "
            "blanks among them."
        )
    if any("\ud800" <= letter <= "\udfff" or not letter.isprintable() for letter in token):
        raise InputError(f"The special token {to_printable(token, 40)!r} holds characters that cannot be printed.")
