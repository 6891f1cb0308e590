"""Report sections of a translation model: data, score details, lengths, examples and alignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from clearhead.explain.svg import Plot, index_axis, linear_axis
from clearhead.html import write_cell, write_row, write_table
from clearhead.report.formatting import (
    UNKNOWN,
    escape_lines,
    finite_number,
    format_count,
    format_figure,
    format_interval,
    metric_name,
    truncate,
)
from clearhead.report.metric_tables import SHADE_STEPS
from clearhead.report.part_views import describe_rows
from clearhead.report.sections import Section, figure_with_caption, paragraph, scroll_box, table

if TYPE_CHECKING:
    from clearhead.metrics.translation import LengthSlice, TranslationScores
    from clearhead.model.alignment import Alignment

MAX_TEXT_CHARACTERS = 1200  # characters of a text
MAX_WORDS = 60  # of source or target in a heat map
MAX_LINKS = 60
EMPTY = Markup("")


@dataclass(frozen=True, kw_only=True)
class TranslationSample:
    """One translated row."""

    row: int
    source: str
    reference: str
    translation: str
    chrf: float
    aligned: Alignment | None = None


@dataclass(frozen=True, kw_only=True)
class PartTranslations:
    """The translations of one part."""

    scores: TranslationScores
    worst: tuple[TranslationSample, ...] = ()
    best: tuple[TranslationSample, ...] = ()
    unaligned: str = ""  # why alignments are missing


@dataclass(frozen=True, kw_only=True)
class PartFacts:
    """The amount of text in one part of the data."""

    name: str
    file: str
    rows: int
    words: tuple[int, int]  # of sources and targets
    tokens: tuple[int, int]


def translation_sections(
    parts: Mapping[str, PartTranslations], facts: Sequence[PartFacts] = (), remarks: Sequence[str] = ()
) -> list[Section]:
    """Return the report sections of a translation model; all parts but the first are collapsed."""
    sections = (
        [Section(id="texts", title="Dataset", html=_facts_table(facts, remarks), before="curves")] if facts else []
    )
    parts_measured = {name: part for name, part in parts.items() if part.scores.rows}
    contents = {
        "counted": ("Score details", "labels", _score_details),
        "by-length": ("By source length", "labels", _scores_by_length),
        "worst-translations": ("Worst translations", "seeds", _worst_samples),
        "best-translations": ("Best translations", "seeds", _best_samples),
    }
    for id_, (title, before, html) in contents.items():
        pages = [
            (name, page)
            for number, (name, part) in enumerate(parts_measured.items())
            if (page := html(part, name, number))
        ]
        if pages:
            sections.append(Section(id=id_, title=title, html=_fold_parts(pages), before=before))
    return sections


def _fold_parts(pages: Sequence[tuple[str, Markup]]) -> Markup:
    first, *others = pages
    return first[1] + EMPTY.join(
        Markup('<details class="part"><summary>Results on {}</summary>\n{}</details>\n').format(
            _describe_rows(name), page
        )
        for name, page in others
    )


def _facts_table(facts: Sequence[PartFacts], remarks: Sequence[str]) -> Markup:
    head = ("Part", "Rows", "Source words", "Target words", "Source tokens", "Target tokens", "From")
    rows = [
        (part.name, format_count(part.rows), *map(format_count, (*part.words, *part.tokens)), part.file)
        for part in facts
    ]
    words, tokens = (sum(sum(getattr(part, name)) for part in facts) for name in ("words", "tokens"))
    page = table(head, rows, label="Rows, words and tokens", numbers=range(1, 6))
    mean = format_figure(tokens / max(words, 1))
    page += paragraph(f"A whitespace-separated word has {mean} tokens on average.", note=True)
    return page + EMPTY.join(paragraph(line[:1].upper() + line[1:] + ".") for line in remarks)


def _score_details(translations: PartTranslations, part: str, _: int) -> Markup:
    scores = translations.scores
    precisions = [f"{format_figure(value)} %" for value in scores.precisions]
    rows = [
        *((metric_name(name), signature) for name, signature in scores.signatures.items()),
        ("n-gram precision (1, 2, 3, 4)", ", ".join(precisions)),
        ("length ratio (translation to reference)", format_figure(scores.ratio)),
        ("brevity penalty", "none" if scores.brevity >= 1 else format_figure(scores.brevity)),
    ]
    page = paragraph("BLEU, chrF and chrF++ range from 0 to 100 and equal those of sacrebleu with these signatures.")
    return page + table(("Score", f"On {_describe_rows(part)}"), rows, label="Signatures and parts of BLEU")


def _scores_by_length(translations: PartTranslations, part: str, number: int) -> Markup:
    slices = [
        length_slice for length_slice in translations.scores.slices if finite_number(length_slice.value) is not None
    ]
    if not slices:
        return EMPTY
    few = all(length_slice.small for length_slice in slices)
    head = ("Words of the source", "Rows", "BLEU", "Interval", "chrF", "Length ratio")
    rows = [
        (
            f"{length_slice.name}{' (few rows)' if length_slice.small and not few else ''}",
            format_count(length_slice.rows),
            format_figure(length_slice.value),
            format_interval(length_slice.interval.low, length_slice.interval.high, UNKNOWN),
            format_figure(length_slice.chrf.value),
            format_figure(length_slice.ratio),
        )
        for length_slice in slices
    ]
    doubt = " All groups have too few rows for reliable figures." if few else ""
    page = paragraph(f"BLEU on {_describe_rows(part)} by source length, shortest first.{doubt}")
    caption = "BLEU with its interval; sources get longer from left to right."
    picture = figure_with_caption(_length_picture(slices, number), caption) if len(slices) > 1 else EMPTY
    return page + picture + table(head, rows, label="BLEU by length", numbers=range(1, 6))


def _length_picture(slices: Sequence[LengthSlice], number: int) -> Markup:
    """Draw BLEU by source length, with its intervals as a band."""
    ends = [
        end
        for length_slice in slices
        for end in (length_slice.value, length_slice.interval.low, length_slice.interval.high)
        if finite_number(end) is not None
    ]
    description = "; ".join(
        f"{length_slice.name} words: {format_figure(length_slice.value)}" for length_slice in slices
    )
    x, y = index_axis(1, len(slices), "sources by length, shortest first"), linear_axis(ends, "BLEU", zero=True)
    plot = Plot(f"by-length-{number}", "BLEU by source length", description, x, y)
    banded = [
        (index, length_slice)
        for index, length_slice in enumerate(slices, 1)
        if finite_number(length_slice.interval.low) is not None
    ]
    if len(banded) > 1:
        low = [(float(index), length_slice.interval.low) for index, length_slice in banded]
        plot.band(low, [(float(index), length_slice.interval.high) for index, length_slice in banded], "band")
    plot.line([(float(index), length_slice.value) for index, length_slice in enumerate(slices, 1)], "curve")
    for index, length_slice in enumerate(slices, 1):
        tooltip = (
            f"{length_slice.name} words: {format_figure(length_slice.value)}, {format_count(length_slice.rows)} rows"
        )
        plot.dot((float(index), length_slice.value), 3.5, "dot", tooltip)
    return plot.svg()


def _worst_samples(translations: PartTranslations, part: str, number: int) -> Markup:
    text = f"The lowest chrF of {_describe_rows(part)}, computed per row. A reference is only one of many "
    text += "correct translations: a low score can mean a good translation or a wrong reference."
    return _sample_cards(translations.worst, translations, text, f"w{number}")


def _best_samples(translations: PartTranslations, part: str, number: int) -> Markup:
    return _sample_cards(
        translations.best,
        translations,
        f"The highest chrF of {_describe_rows(part)}, longer sources first.",
        f"b{number}",
    )


def _sample_cards(samples: Sequence[TranslationSample], translations: PartTranslations, text: str, key: str) -> Markup:
    if not samples:
        return EMPTY
    page = paragraph(text)
    if any(sample.aligned is not None for sample in samples):
        page += paragraph(
            "Alignments show cross-attention: the darker the cell, the more attention the target word (row) "
            "pays to the source word (column).",
            note=True,
        )
    elif translations.unaligned:
        page += paragraph(f"No alignments are shown: {translations.unaligned}", note=True)
    return page + EMPTY.join(_sample_card(sample, f"{key}-{sample.row}") for sample in samples)


def _sample_card(sample: TranslationSample, key: str) -> Markup:
    texts = (("Source", sample.source), ("Reference", sample.reference), ("Translation", sample.translation))
    paragraphs = EMPTY.join(
        Markup('<p class="words{}" dir="auto"><span class="where">{}</span> {}</p>\n').format(
            " second" if name != "Source" else "", name, escape_lines(truncate(text, MAX_TEXT_CHARACTERS))
        )
        for name, text in texts
    )
    return Markup(
        '<article class="case" id="{}" aria-label="Row {}">\n<p class="which"><span class="where">Row {}</span> '
        "<span>chrF <strong>{}</strong></span>{}</p>\n{}{}</article>\n"
    ).format(
        f"case-{key}",
        format_count(sample.row),
        format_count(sample.row),
        format_figure(sample.chrf),
        Markup(' <strong class="badge">exact match</strong>') if sample.translation == sample.reference else EMPTY,
        paragraphs,
        EMPTY if sample.aligned is None else alignment_table(sample.aligned),
    )


def alignment_table(aligned: Alignment) -> Markup:
    """Render an alignment as a collapsed heat map, with its links as text."""
    sources, targets = aligned.source_words, aligned.target_words
    if not sources or not targets:
        return EMPTY
    pairs = ", ".join(f"{targets[target]} – {sources[source]}" for source, target in aligned.links[:MAX_LINKS])
    ellipsis = " …" if len(aligned.links) > MAX_LINKS else ""
    note = paragraph(f"{pairs}{ellipsis}", note=True)
    if len(sources) > MAX_WORDS or len(targets) > MAX_WORDS:
        return Markup("<details><summary>Alignment</summary>\n{}</details>\n").format(note)
    head = [Markup("<span><bdi>{}</bdi></span>").format(_shorten_word(word)) for word in sources]
    rows = (
        write_row(
            [
                write_cell(Markup("<bdi>{}</bdi>").format(_shorten_word(word)), "row"),
                *(
                    write_cell("", class_=f"r{sum(float(weight) >= step for step in SHADE_STEPS)}")
                    for weight in weights
                ),
            ]
        )
        for word, weights in zip(targets, aligned.weights, strict=True)
    )
    heads = [write_cell(""), *(write_cell(word, "col") for word in head)]
    matrix = Markup(write_table(rows, heads, separator="\n", class_="heat aligned"))  # noqa: S704
    return Markup("<details><summary>Alignment</summary>\n{}{}</details>\n").format(
        scroll_box(matrix, "Alignment"), note
    )


def _shorten_word(word: str) -> str:
    return escape_lines(truncate(word, 24))


def _describe_rows(part: str) -> str:
    """Name the rows of a part in a sentence."""
    return describe_rows(part, "texts")
