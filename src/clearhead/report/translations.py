"""What a report tells of a translator beyond every task's figures: data, lengths, examples and their alignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from clearhead.explain.svg import Plot, index_axis, linear_axis
from clearhead.html import write_cell, write_row, write_table
from clearhead.report.formatting import UNKNOWN, count, cut, figure, interval_text, known, lines, metric_name
from clearhead.report.metric_tables import STEPS
from clearhead.report.part_views import rows_of
from clearhead.report.sections import Section, captioned, paragraph, scroll_box, table

if TYPE_CHECKING:
    from clearhead.metrics.translation import LengthSlice, TranslationScores
    from clearhead.model.alignment import Alignment

MOST_TEXT = 1200  # characters of a text
MOST_WORDS = 60  # of either side of a heat map
MOST_LINKS = 60
NONE = Markup("")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One row that is worth a look."""

    row: int
    source: str
    reference: str
    translation: str
    chrf: float
    aligned: Alignment | None = None


@dataclass(frozen=True, kw_only=True)
class PartTranslations:
    """What is told of one part."""

    scores: TranslationScores
    worst: tuple[Sample, ...] = ()
    best: tuple[Sample, ...] = ()
    unaligned: str = ""  # why no alignments are shown


@dataclass(frozen=True, kw_only=True)
class PartFacts:
    """How much text a part of the data is."""

    name: str
    file: str
    rows: int
    words: tuple[int, int]  # of sources and targets
    tokens: tuple[int, int]


def translation_sections(
    parts: Mapping[str, PartTranslations], facts: Sequence[PartFacts] = (), remarks: Sequence[str] = ()
) -> list[Section]:
    """Sections for a report, in their places; the first part is told in full, the others are folded away."""
    sections = [Section(id="texts", title="The data", html=_facts(facts, remarks), before="curves")] if facts else []
    parts_measured = {name: part for name, part in parts.items() if part.scores.rows}
    contents = {
        "counted": ("How it was counted", "labels", _counted),
        "by-length": ("By length of the source", "labels", _by_length),
        "worst-translations": ("Worst translations", "seeds", _worst),
        "best-translations": ("Best translations", "seeds", _best),
    }
    for id_, (title, before, html) in contents.items():
        pages = [
            (name, page)
            for number, (name, part) in enumerate(parts_measured.items())
            if (page := html(part, name, number))
        ]
        if pages:
            sections.append(Section(id=id_, title=title, html=_folded(pages), before=before))
    return sections


def _folded(pages: Sequence[tuple[str, Markup]]) -> Markup:
    first, *others = pages
    return first[1] + NONE.join(
        Markup('<details class="part"><summary>The same for {}</summary>\n{}</details>\n').format(_rows(name), page)
        for name, page in others
    )


def _facts(facts: Sequence[PartFacts], remarks: Sequence[str]) -> Markup:
    head = ("Part", "Rows", "Source words", "Target words", "Source tokens", "Target tokens", "From")
    rows = [(part.name, count(part.rows), *map(count, (*part.words, *part.tokens)), part.file) for part in facts]
    words, tokens = (sum(sum(getattr(part, name)) for part in facts) for name in ("words", "tokens"))
    page = table(head, rows, label="Rows, words and tokens", numbers=range(1, 6))
    mean = figure(tokens / max(words, 1))
    page += paragraph(f"A word, as blanks part them, is {mean} tokens on average.", note=True)
    return page + NONE.join(paragraph(line[:1].upper() + line[1:] + ".") for line in remarks)


def _counted(translations: PartTranslations, part: str, _: int) -> Markup:
    scores = translations.scores
    precisions = [f"{figure(value)} %" for value in scores.precisions]
    rows = [
        *((metric_name(name), signature) for name, signature in scores.signatures.items()),
        ("right n-grams of 1, 2, 3 and 4 words", ", ".join(precisions)),
        ("words said for each word wanted", figure(scores.ratio)),
        ("penalty for short translations", "none" if scores.brevity >= 1 else figure(scores.brevity)),
    ]
    page = paragraph("BLEU, chrF and chrF++ go from 0 to 100 and are those of sacrebleu, which signs how it counted.")
    return page + table(("What", f"On {_rows(part)}"), rows, label="Signatures and parts of BLEU")


def _by_length(translations: PartTranslations, part: str, number: int) -> Markup:
    slices = [length_slice for length_slice in translations.scores.slices if known(length_slice.value) is not None]
    if not slices:
        return NONE
    few = all(length_slice.small for length_slice in slices)
    head = ("Words of the source", "Rows", "BLEU", "Interval", "chrF", "Words said per word wanted")
    rows = [
        (
            f"{length_slice.name}{' (few rows)' if length_slice.small and not few else ''}",
            count(length_slice.rows),
            figure(length_slice.value),
            interval_text(length_slice.interval.low, length_slice.interval.high, UNKNOWN),
            figure(length_slice.chrf.value),
            figure(length_slice.ratio),
        )
        for length_slice in slices
    ]
    doubt = " All of them have too few rows to say much." if few else ""
    page = paragraph(f"BLEU on {_rows(part)} by the length of the source, the shortest first.{doubt}")
    caption = "BLEU and its interval; from left to right the sources become longer."
    picture = captioned(_picture(slices, number), caption) if len(slices) > 1 else NONE
    return page + picture + table(head, rows, label="BLEU by length", numbers=range(1, 6))


def _picture(slices: Sequence[LengthSlice], number: int) -> Markup:
    """BLEU over the slices, with a band from the low to the high ends of the intervals."""
    ends = [
        end
        for length_slice in slices
        for end in (length_slice.value, length_slice.interval.low, length_slice.interval.high)
        if known(end) is not None
    ]
    description = "; ".join(f"{length_slice.name} words: {figure(length_slice.value)}" for length_slice in slices)
    x, y = index_axis(1, len(slices), "slice of the sources, the shortest first"), linear_axis(ends, "BLEU", zero=True)
    plot = Plot(f"by-length-{number}", "BLEU by the length of the source", description, x, y)
    banded = [
        (index, length_slice)
        for index, length_slice in enumerate(slices, 1)
        if known(length_slice.interval.low) is not None
    ]
    if len(banded) > 1:
        low = [(float(index), length_slice.interval.low) for index, length_slice in banded]
        plot.band(low, [(float(index), length_slice.interval.high) for index, length_slice in banded], "band")
    plot.line([(float(index), length_slice.value) for index, length_slice in enumerate(slices, 1)], "curve")
    for index, length_slice in enumerate(slices, 1):
        about = f"{length_slice.name} words: {figure(length_slice.value)}, {count(length_slice.rows)} rows"
        plot.dot((float(index), length_slice.value), 3.5, "dot", about)
    return plot.svg()


def _worst(translations: PartTranslations, part: str, number: int) -> Markup:
    text = f"The lowest chrF of {_rows(part)}, each row by itself. A reference is one right translation among many: "
    text += "a low figure can be a good translation, or a wrong reference."
    return _samples(translations.worst, translations, text, f"w{number}")


def _best(translations: PartTranslations, part: str, number: int) -> Markup:
    return _samples(
        translations.best, translations, f"The highest chrF of {_rows(part)}, the longer sources first.", f"b{number}"
    )


def _samples(samples: Sequence[Sample], translations: PartTranslations, text: str, key: str) -> Markup:
    if not samples:
        return NONE
    page = paragraph(text)
    if any(sample.aligned is not None for sample in samples):
        looks = "the darker, the more a word (row) looked at a source word (column) when it was written"
        page += paragraph(f"Alignments are attention: {looks}.", note=True)
    elif translations.unaligned:
        page += paragraph(f"No alignments are shown: {translations.unaligned}", note=True)
    return page + NONE.join(_card(sample, f"{key}-{sample.row}") for sample in samples)


def _card(sample: Sample, key: str) -> Markup:
    texts = (("Source", sample.source), ("Reference", sample.reference), ("Translation", sample.translation))
    paragraphs = NONE.join(
        Markup('<p class="words{}" dir="auto"><span class="where">{}</span> {}</p>\n').format(
            " second" if name != "Source" else "", name, lines(cut(text, MOST_TEXT))
        )
        for name, text in texts
    )
    return Markup(
        '<article class="case" id="{}" aria-label="Row {}">\n<p class="which"><span class="where">Row {}</span> '
        "<span>chrF <strong>{}</strong></span>{}</p>\n{}{}</article>\n"
    ).format(
        f"case-{key}",
        count(sample.row),
        count(sample.row),
        figure(sample.chrf),
        Markup(' <strong class="badge">exactly right</strong>') if sample.translation == sample.reference else NONE,
        paragraphs,
        NONE if sample.aligned is None else heat(sample.aligned),
    )


def heat(aligned: Alignment) -> Markup:
    """The weights of an alignment as a table of colors, folded away, and its links as words."""
    sources, targets = aligned.source_words, aligned.target_words
    if not sources or not targets:
        return NONE
    pairs = ", ".join(f"{targets[target]} – {sources[source]}" for source, target in aligned.links[:MOST_LINKS])
    more = " …" if len(aligned.links) > MOST_LINKS else ""
    note = paragraph(f"{pairs}{more}", note=True)
    if len(sources) > MOST_WORDS or len(targets) > MOST_WORDS:
        return Markup("<details><summary>Alignment</summary>\n{}</details>\n").format(note)
    head = [Markup("<span><bdi>{}</bdi></span>").format(_word(word)) for word in sources]
    rows = (
        write_row(
            [
                write_cell(Markup("<bdi>{}</bdi>").format(_word(word)), "row"),
                *(write_cell("", class_=f"r{sum(float(share) >= step for step in STEPS)}") for share in weights),
            ]
        )
        for word, weights in zip(targets, aligned.weights, strict=True)
    )
    heads = [write_cell(""), *(write_cell(word, "col") for word in head)]
    matrix = Markup(write_table(rows, heads, separator="\n", class_="heat aligned"))  # noqa: S704
    return Markup("<details><summary>Alignment</summary>\n{}{}</details>\n").format(
        scroll_box(matrix, "Alignment"), note
    )


def _word(word: str) -> str:
    return lines(cut(word, 24))


def _rows(part: str) -> str:
    """Which rows are told of."""
    return rows_of(part, "texts")
