"""Marks never change the text that they are in, whatever they overlap and whatever it says."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from clearhead.report.annotated_text import cut_excerpt, marked_text, name_important_words, shade_text
from clearhead.report.formatting import escape_lines
from clearhead.tasks.examples import LabeledSpan, WordImportance
from tests.report.samples import HOSTILE

TEXTS = st.one_of(st.text(max_size=60), st.text("<>&\"'ab \n", max_size=40), st.sampled_from(HOSTILE[:9]))
KINDS = st.sampled_from(["true", "predicted", "both"])
MARKS = st.lists(
    st.builds(LabeledSpan, start=st.integers(-3, 70), end=st.integers(-3, 70), label=st.text(max_size=12), kind=KINDS),
    max_size=8,
)


def seen(html: str) -> str:
    """What the eye reads: no tags, and nothing that only a screen reader says."""
    without = re.sub(r'<span class="aside">[^<]*</span>', "", html)
    return unescape(re.sub(r"<[^<>]*>", "", without))


def mark(start: int, end: int, label: str = "PER", kind: str = "true") -> LabeledSpan:
    return LabeledSpan(start=start, end=end, label=label, kind=kind)  # type: ignore[arg-type]


@given(TEXTS, MARKS)
def test_the_visible_text_is_the_text(text: str, marks: list[LabeledSpan]) -> None:
    made = str(marked_text(text, marks))
    assert seen(made) == escape_lines(text)
    if not any(re.match(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", sign) for sign in text) and text.isascii():
        assert seen(made) == text
    assert made.count("<mark") == made.count("</mark>")
    assert set(re.findall(r"</?([a-z]+)", made)) <= {"mark", "span"}
    assert set(re.findall(r" ([a-z-]+)=\"", made)) <= {"class", "data-label", "aria-hidden"}


@given(TEXTS, MARKS)
def test_every_character_has_the_marks_that_cover_it(text: str, marks: list[LabeledSpan]) -> None:
    made = str(marked_text(text, marks))
    kinds: list[str] = []
    for kind, inside, outside in re.findall(
        r'<mark class="is-(\w+)">([^<]*)</mark>|<span[^>]*>[^<]*</span>|([^<]+)', made
    ):
        kinds += [kind] * len(unescape(inside)) + [""] * len(unescape(outside))
    at = 0
    good = [m for m in dict.fromkeys(marks) if 0 <= m.start < m.end <= len(text)]
    for place, sign in enumerate(text):
        over = {m.kind for m in good if m.start <= place < m.end}
        true, said = bool(over & {"true", "both"}), bool(over & {"predicted", "both"})
        expected = "both" if true and said else "true" if true else "answered" if said else ""
        width = len(escape_lines(sign))
        assert set(kinds[at : at + width]) == {expected}
        at += width


def test_overlapping_and_nested_marks_are_told() -> None:
    text = "Anna of Green Gables"
    made = str(marked_text(text, [mark(0, 4), mark(0, 20, "WORK", "predicted"), mark(8, 20, "LOC", "both")]))
    told = re.findall(r'<span class="aside">([^<]*)</span>', made)
    assert told == ["[predicted WORK: ", "[true PER: ", "]", "[true and predicted LOC: ", "]", "]"]
    assert re.findall(r'data-label="(\w+)"', made) == ["PER", "LOC", "WORK"]
    assert '<mark class="is-both">Anna</mark>' in made
    assert '<mark class="is-answered"> of </mark>' in made


@given(st.text(min_size=1, max_size=200), MARKS, st.integers(4, 60))
def test_long_texts_are_shown_around_their_marks(text: str, marks: list[LabeledSpan], most: int) -> None:
    piece, moved, begin = cut_excerpt(text, marks, most)
    assert text[begin:].startswith(piece)
    assert len(piece) == min(most, len(text))
    left = len(text) > most
    good = [m for m in marks if 0 <= m.start < m.end <= len(text)]
    kept = {text[m.start : m.end] for m in good}
    assert all(piece[m.start : m.end] in kept for m in moved if 0 <= m.start < m.end <= len(piece))
    first = min(good, key=lambda m: m.start, default=None)
    if left and first is not None and first.end - first.start <= most // 2:
        assert moved


def test_labels_cannot_break_out() -> None:
    for word in HOSTILE:
        made = str(marked_text("some text", [mark(0, 4, word)]))
        assert "<script" not in made
        assert "<img" not in made
        assert len(made) < 2000
        assert seen(made) == "some text"


WEIGHTS = st.floats(-1, 1, allow_nan=False)
WORDS = st.lists(
    st.builds(WordImportance, start=st.integers(-3, 70), end=st.integers(-3, 70), weight=WEIGHTS), max_size=6
)


@given(TEXTS, MARKS, WORDS)
def test_words_that_mattered_go_with_marks(text: str, marks: list[LabeledSpan], words: list[WordImportance]) -> None:
    strongest = max((abs(word.weight) for word in words), default=0.0)
    made = str(marked_text(text, marks, words, strongest=strongest))
    assert seen(made) == escape_lines(text)
    chips = re.compile(r'data-label="([^"]*)"')
    assert chips.findall(made) == chips.findall(str(marked_text(text, marks)))
    assert set(re.findall(r" ([a-z-]+)=\"", made)) <= {"class", "data-label", "aria-hidden", "title"}


def test_a_word_that_mattered_in_an_entity_has_both_lines() -> None:
    words = [
        WordImportance(start=0, end=4, weight=0.4),
        WordImportance(start=5, end=7, weight=-0.4),
        WordImportance(start=8, end=12, weight=0.001),
    ]
    made = str(marked_text("Anna in York", [mark(0, 4), mark(8, 12, "LOC", "predicted")], words, strongest=0.4))
    assert '<mark class="is-true above for3" title="+0.400">Anna</mark>' in made
    assert '<mark class="above against3" title="−0.400">in</mark>' in made
    assert '<mark class="is-answered">York</mark>' in made


@given(TEXTS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), WEIGHTS), max_size=8))
def test_shades_do_not_change_the_text(text: str, spans: list[tuple[int, int, float]]) -> None:
    words = [WordImportance(start=start, end=end, weight=weight) for start, end, weight in spans]
    strongest = max((abs(word.weight) for word in words), default=0.0)
    assert seen(str(shade_text(text, words, strongest=strongest))) == escape_lines(text)


def test_shades_say_how_much_and_which_way() -> None:
    words = [
        WordImportance(start=0, end=3, weight=0.5),
        WordImportance(start=4, end=7, weight=-0.1),
        WordImportance(start=8, end=11, weight=0.01),
    ]
    made = str(shade_text("one two six", words, strongest=0.5))
    assert '<mark class="for3" title="+0.500">one</mark>' in made
    assert '<mark class="against1" title="−0.100">two</mark>' in made
    assert "six</mark>" not in made
    said = name_important_words("one, two six", None, [WordImportance(start=0, end=4, weight=0.5), words[1]], 0.5)
    assert said == [("for", ["“one” 0.500"]), ("against", ["“tw” 0.100"])]
    second = [WordImportance(start=0, end=3, weight=0.3, in_second_text=True)]
    assert name_important_words("first", "two", second, 0.3) == [("for", ["“two” 0.300"])]
