"""Word splitting: the only module that splits text into words.

The functions differ on purpose. Each implements a published rule (scikit-learn's) or the word unit of one feature,
and saved models, runs and reported results depend on its word boundaries. A span is (start, end) in characters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

Span = tuple[int, int]

# scripts without spaces between words: every character is a word
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
# variation selectors, skin tones and tags, which belong to the preceding emoji
VARIATION_MARKS = "\ufe0e\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
CONTRACTION_ENDINGS = "s|t|d|m|ll|re|ve"  # separate words if they follow an apostrophe
APOSTROPHES = ("'", "’")
# the code points between these ranges are Chinese characters or unassigned
COMBINING_MARK_RANGES = (range(0x20000), range(0xE0000, 0xE1000))

# Thai, Lao, Burmese, Khmer, kana and Chinese, for occlusion
UNSPACED_CLASS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
CHUNK = re.compile(rf"[{UNSPACED_CLASS}][\u0300-\u036f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]*|[^\s{UNSPACED_CLASS}]+")
TFIDF_WORD = re.compile(r"\b\w\w+\b")  # scikit-learn's default token_pattern; never read from a file
SHINGLE_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff]|[^\\W\u3040-\u30ff\u3400-\u9fff]+")
COMPOUND = re.compile(r"\w+(?:['’-]\w+)*")
ASCII_VECTOR_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# BERT's pipeline splits at Chinese characters and underscores
LONG_WORD = re.compile("[^\\W_\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{32}")
WORD_WITH_WHITESPACE = re.compile(r"\s*\S+|\s+")


def find_word_spans(text: str, *, keep_inner_punctuation: bool = False, keep_contractions: bool = False) -> list[Span]:
    """Return the word spans for tagging: runs of letters, and single symbols; whitespace is not part of a word.

    `keep_inner_punctuation` keeps words such as U.S., Rolls-Royce, O'Neil and 3.5 whole, as in tagged corpora;
    `keep_contractions` also keeps contractions such as don't whole.
    """
    if keep_contractions:
        return _join_contractions(text, find_word_spans(text, keep_inner_punctuation=True))
    pattern = _compile_word_pattern(keep_inner_punctuation=keep_inner_punctuation)
    return [match.span() for match in pattern.finditer(text)]


def _join_contractions(text: str, spans: list[Span]) -> list[Span]:
    joined_spans: list[Span] = []
    for start, end in spans:
        word_start = joined_spans[-1][0] if joined_spans and joined_spans[-1][1] == start else start
        is_inner_apostrophe = (
            text[start:end] in APOSTROPHES and text[start - 1].isalnum() and text[end : end + 1].isalnum()
        )
        follows_apostrophe = text[start - 1] in APOSTROPHES and text[start].isalnum() and start - word_start > 1
        if word_start < start and (is_inner_apostrophe or follows_apostrophe):
            joined_spans[-1] = (word_start, end)
        else:
            joined_spans.append((start, end))
    return joined_spans


def find_chunk_spans(text: str) -> list[Span]:
    """Return spans between whitespace, including punctuation; in scripts without spaces, single characters."""
    return [match.span() for match in CHUNK.finditer(text)]


def find_compound_spans(text: str) -> list[Span]:
    """Return spans of letters, digits and underscores, joined by apostrophes and hyphens."""
    return [match.span() for match in COMPOUND.finditer(text)]


def split_tfidf_words(text: str) -> list[str]:
    """Split text like scikit-learn's TfidfVectorizer: runs of two or more letters, digits or underscores."""
    words: list[str] = TFIDF_WORD.findall(text)
    return words


def split_shingle_words(text: str) -> list[str]:
    """Split text into the words of near-duplicate detection; each Chinese character or kana is a word."""
    words: list[str] = SHINGLE_WORD.findall(text)
    return words


def split_vector_words(text: str) -> list[str]:
    """Split NFC-normalized text into the words of static vectors: letters, digits and their marks, with apostrophes."""
    if text.isascii():
        return ASCII_VECTOR_WORD.findall(text)
    return _compile_vector_word().findall(unicodedata.normalize("NFC", text).replace("’", "'"))


def split_words_with_whitespace(text: str) -> list[str]:
    """Split text into words with their leading whitespace; joined, they equal the text."""
    words: list[str] = WORD_WITH_WHITESPACE.findall(text)
    return words


def has_long_word(text: str) -> bool:
    """Whether a word has at least 32 letters; `tokenizers` takes quadratic time in the length of a word."""
    return LONG_WORD.search(text) is not None


def find_word(text: str, word: str) -> list[Span]:
    """Return the spans of a standalone word: exact matches, or else matches in any case; all apostrophes are equal."""
    apostrophes = f"[{''.join(APOSTROPHES)}]"
    pattern = rf"(?<!\w){re.sub(apostrophes, apostrophes, re.escape(word.strip()))}(?!\w)"
    matches = list(re.finditer(pattern, text)) or list(re.finditer(pattern, text, re.IGNORECASE))
    return [match.span() for match in matches]


def extend_over_punctuation(text: str, span: Span) -> Span:
    """Extend a span over adjacent punctuation."""
    start, end = span
    while start and not text[start - 1].isspace() and not text[start - 1].isalnum():
        start -= 1
    while end < len(text) and not text[end].isspace() and not text[end].isalnum():
        end += 1
    return start, end


@cache
def _compile_word_pattern(*, keep_inner_punctuation: bool) -> re.Pattern[str]:
    combining_marks = _join_ranges(
        [code for codes in COMBINING_MARK_RANGES for code in codes if _is_combining_mark(code)]
    )
    unspaced = "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSPACED_RANGES)
    letters = f"(?:[^\\W_{unspaced}][{combining_marks}\u200c\u200d]*)+"
    flag = "[\U0001f1e6-\U0001f1ff]{2}"
    symbol = f"\\S[{combining_marks}{VARIATION_MARKS}]*"
    if keep_inner_punctuation:
        inner_punctuation = f"[-._/&@]|['’](?!(?:{CONTRACTION_ENDINGS})\\b)|(?<=\\d)[,:](?=\\d)"
        letters = f"(?:[^\\W\\d_{unspaced}]\\.){{2,}}(?!\\w)|{letters}(?:(?:{inner_punctuation}){letters})*"
    # zero-width joiners combine several emoji into one, such as a family
    return re.compile(f"{letters}|{flag}|{symbol}(?:\u200d{symbol})*")


@cache
def _compile_vector_word() -> re.Pattern[str]:
    """Compile the pattern of a word with combining marks, such as Hindi vowel signs and accents."""
    combining_marks = "".join(
        chr(code) for code in range(0x300, 0x12000) if unicodedata.category(chr(code)) in ("Mn", "Mc")
    )
    letter = rf"[^\W_][{combining_marks}]*"
    return re.compile(rf"(?:{letter})+(?:'(?:{letter})+)*")


def _is_combining_mark(code: int) -> bool:
    return unicodedata.category(chr(code)) in ("Mn", "Mc", "Me")


def _join_ranges(codes: list[int]) -> str:
    """Format code points as the content of a character class."""
    runs: list[Span] = []
    for code in codes:
        if runs and runs[-1][1] == code - 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return "".join(f"{chr(first)}-{chr(last)}" if first != last else chr(first) for first, last in runs)
