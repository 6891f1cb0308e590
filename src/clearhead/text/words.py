"""Words of a text, for every purpose that needs them: the only module that splits text into words.

The functions differ on purpose. Each of them is a published rule (scikit-learn's) or the unit of one capability, and
saved models, runs and numbers depend on its borders. A span is (start, end) in characters of the text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

Span = tuple[int, int]

# scripts that put no space between words: every character is a word of its own
UNSPACED_RANGES = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x2E80, 0x2FDF),
    (0x3005, 0x3007),
    (0x3041, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x20000, 0x3FFFF),
)
VARIATION_MARKS = (
    "\ufe0e\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"  # variants and skins: part of the sign before
)
CONTRACTION_ENDINGS = "s|t|d|m|ll|re|ve"  # after an apostrophe: a word of its own in all lists of words
APOSTROPHES = ("'", "’")
MARK_RANGES = (range(0x20000), range(0xE0000, 0xE1000))  # between them are Chinese characters, then nothing

# for occlusion: Thai and Lao, Burmese, Khmer, kana, Chinese
UNSPACED_CLASS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
CHUNK = re.compile(rf"[{UNSPACED_CLASS}][\u0300-\u036f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]*|[^\s{UNSPACED_CLASS}]+")
TFIDF_WORD = re.compile(r"\b\w\w+\b")  # scikit-learn's token_pattern; never read from a file
SHINGLE_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff]|[^\\W\u3040-\u30ff\u3400-\u9fff]+")
COMPOUND = re.compile(r"\w+(?:['’-]\w+)*")
ASCII_VECTOR_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# Chinese letters and underscores are words of their own to BERT's pipeline
LONG_WORD = re.compile("[^\\W_\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{32}")
BLANKS_AND_WORD = re.compile(r"\s*\S+|\s+")


def find_word_spans(text: str, *, joined: bool = False, contractions: bool = False) -> list[Span]:
    """Words as a tagger sees them: runs of letters, and single signs; white space belongs to none.

    `joined`: as lists of words have them, with signs inside: U.S., Rolls-Royce, O'Neil, 3.5. `contractions`: the same,
    and don't is one word, not two.
    """
    if contractions:
        return _join_contractions(text, find_word_spans(text, joined=True))
    return [match.span() for match in _word_pattern(joined=joined).finditer(text)]


def _join_contractions(text: str, spans: list[Span]) -> list[Span]:
    words: list[Span] = []
    for start, end in spans:
        first = words[-1][0] if words and words[-1][1] == start else start
        is_inner = text[start:end] in APOSTROPHES and text[start - 1].isalnum() and text[end : end + 1].isalnum()
        is_after = text[start - 1] in APOSTROPHES and text[start].isalnum() and start - first > 1
        if first < start and (is_inner or is_after):
            words[-1] = (first, end)
        else:
            words.append((start, end))
    return words


def find_chunk_spans(text: str) -> list[Span]:
    """What stands between blanks, signs included; in scripts without spaces, each character with its marks."""
    return [match.span() for match in CHUNK.finditer(text)]


def find_compound_spans(text: str) -> list[Span]:
    """Runs of letters, digits and underscores; apostrophes and hyphens join them."""
    return [match.span() for match in COMPOUND.finditer(text)]


def split_tfidf_words(text: str) -> list[str]:
    """The words that scikit-learn's TfidfVectorizer counts: two letters, digits or underscores and more."""
    words: list[str] = TFIDF_WORD.findall(text)
    return words


def split_shingle_words(text: str) -> list[str]:
    """The words that near duplicates are compared by; a Chinese character or a kana is a word."""
    words: list[str] = SHINGLE_WORD.findall(text)
    return words


def split_vector_words(text: str) -> list[str]:
    """The words that have vectors: letters and digits with their marks, and what an apostrophe joins; NFC."""
    if text.isascii():
        return ASCII_VECTOR_WORD.findall(text)
    return _vector_word().findall(unicodedata.normalize("NFC", text).replace("’", "'"))


def split_words_with_blanks(text: str) -> list[str]:
    """Every word with the blanks before it; together they are the text."""
    words: list[str] = BLANKS_AND_WORD.findall(text)
    return words


def has_long_word(text: str) -> bool:
    """Whether a word has 32 letters or more: the time of `tokenizers` grows as the square of a word."""
    return LONG_WORD.search(text) is not None


def find_word(text: str, word: str) -> list[Span]:
    """Where a word stands by itself: as it is written, or else in upper or lower case; any apostrophe will do."""
    apostrophes = f"[{''.join(APOSTROPHES)}]"
    pattern = rf"(?<!\w){re.sub(apostrophes, apostrophes, re.escape(word.strip()))}(?!\w)"
    matches = list(re.finditer(pattern, text)) or list(re.finditer(pattern, text, re.IGNORECASE))
    return [match.span() for match in matches]


def extend_over_punctuation(text: str, span: Span) -> Span:
    """A word with the signs around it that no blank parts from it."""
    start, end = span
    while start and not text[start - 1].isspace() and not text[start - 1].isalnum():
        start -= 1
    while end < len(text) and not text[end].isspace() and not text[end].isalnum():
        end += 1
    return start, end


@cache
def _word_pattern(*, joined: bool) -> re.Pattern[str]:
    marks = _ranges([code for codes in MARK_RANGES for code in codes if _is_mark(code)])
    solid = "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSPACED_RANGES)
    letters = f"(?:[^\\W_{solid}][{marks}\u200c\u200d]*)+"
    flag = "[\U0001f1e6-\U0001f1ff]{2}"
    sign = f"\\S[{marks}{VARIATION_MARKS}]*"
    if joined:
        inside = f"[-._/&@]|['’](?!(?:{CONTRACTION_ENDINGS})\\b)|(?<=\\d)[,:](?=\\d)"
        letters = f"(?:[^\\W\\d_{solid}]\\.){{2,}}(?!\\w)|{letters}(?:(?:{inside}){letters})*"
    return re.compile(f"{letters}|{flag}|{sign}(?:\u200d{sign})*")  # a family is several people in one sign


@cache
def _vector_word() -> re.Pattern[str]:
    """With the marks of letters: the vowel signs of Hindi, accents that no letter has in it."""
    marks = "".join(chr(code) for code in range(0x300, 0x12000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
    letter = rf"[^\W_][{marks}]*"
    return re.compile(rf"(?:{letter})+(?:'(?:{letter})+)*")


def _is_mark(code: int) -> bool:
    return unicodedata.category(chr(code)) in ("Mn", "Mc", "Me")


def _ranges(codes: list[int]) -> str:
    """A character class of codes, without its brackets."""
    runs: list[Span] = []
    for code in codes:
        if runs and runs[-1][1] == code - 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return "".join(f"{chr(first)}-{chr(last)}" if first != last else chr(first) for first, last in runs)
