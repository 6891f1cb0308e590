"""Difficult texts whose ids distinguish one tokenizer from another."""

from __future__ import annotations

# Each text covers a known difference between tokenizers: case, accents (composed and decomposed), scripts without
# spaces, joined emoji, direction marks, invisible characters, repeated spaces, long words, and special tokens in text.
PROBES = (
    "The quick brown fox doesn't jump over 3.14 lazy dogs -- it's 'late'!",
    "Straße, naïve café, NAÏVE CAFÉ; cafe\u0301 e\u0323\u0302",
    "東京は晴れ。北京欢迎你，한국어 텍스트",
    "👩‍👩‍👧‍👦 🏳️‍🌈 e\u200bf \u200e\u202bשלום עולם\u202c",
    "  two  spaces\tand a tab\nand a line\u00a0end  ",
    "supercalifragilisticexpialidocious" * 4,
    "[CLS] [MASK] <mask> </s> <s> <unk> [UNK] <|endoftext|> <extra_id_0> >>fr<<",
    "x^2 + y_1 != \\alpha{} // C++ #include <stdio.h> ﬁ ﬀ ² ½ Ⅳ ㌀",
    "\x00\x01\u0007 \ufeff \ufffd",
    "",
)
