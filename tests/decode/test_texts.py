"""Texts in, texts out: results, stop texts, forbidden words, streams, and what bad input gets."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import clearhead
from clearhead import ClearheadError
from clearhead.batch import Batch
from clearhead.decode import Decoding, Generated
from clearhead.decode.settings import FORMER_NAMES
from clearhead.errors import ConfigError, InputError
from clearhead.model.generation import TextGenerator
from tests.core.networks import model_of
from tests.decode.pairs import ours, sources
from tests.decode.texts import TITLES, VOCAB, Script, spoken

HARD = "naïve 👍🏽 東京, déjà 🏳️‍🌈 vu"


def scripted(text: str, prompt: str = "The old") -> Any:
    """GPT-2 that answers a prompt with a text and its end symbol."""
    model = spoken("gpt2")
    words = [*model.tokenizer.encode(text).ids, 0]
    runner = Script(model.shape, words, len(model.tokenizer.encode(prompt).ids))
    return replace(model, runner=cast(Any, runner)), prompt


@pytest.mark.parametrize("family", TITLES)
@pytest.mark.parametrize("runtime", ["core", "engine"])
def test_texts(family: str, runtime: str) -> None:
    model = spoken(family, runtime)
    texts = ["The old lighthouse keeper wrote a letter.", "Rain fell on the harbour", "", "☃☃☃ qqq"]
    if family == "openai-gpt":  # no symbol stands for the beginning of a text
        texts.remove("")
    done: list[tuple[int, int]] = []
    found = model.generate(
        texts, num_beams=3, num_return_sequences=2, max_length=9, progress=lambda *at: done.append(at)
    )
    assert done[-1] == (len(texts), len(texts))
    assert [one.source for one in found] == texts
    for one in found:
        assert isinstance(one, Generated)
        assert one.text == one.best[0].text == str(one)
        assert one.best[0].ids == one.ids
        assert len(one.best) == 2
        assert one.best[0].score >= one.best[1].score
        assert one.stopped in ("end", "length")
        tokenizer = model.target_tokenizer or model.tokenizer
        assert one.text == tokenizer.decode(one.ids)
        assert "<table>" in one._repr_html_()
    alone = model.generate(texts[1:2], num_beams=3, num_return_sequences=2, max_length=9)[0]
    assert alone.ids == found[1].ids
    ids = [model.tokenizer.encode(text).ids for text in texts]
    assert [row.tolist() for row in model.generate_ids(ids, num_beams=3, max_length=9)] == [
        list(one.ids) for one in found
    ]


def test_a_page_shows_no_markup_of_a_text() -> None:
    model, prompt = scripted("<script>alert(1)</script>")
    page = model.generate([prompt], max_length=40)[0]._repr_html_()
    assert "<script>" not in page


@pytest.mark.parametrize("text", [HARD, "plain words", "👍", " leading and trailing "])
def test_streams_are_the_text(text: str) -> None:
    model, prompt = scripted(text)
    pieces = list(model.generate_stream(prompt, max_length=90))
    assert "".join(pieces) == text == model.generate([prompt], max_length=90)[0].text
    assert all("\ufffd" not in piece for piece in pieces)
    assert all(pieces)
    assert len(pieces) > 1 or text == "👍"


@pytest.mark.parametrize("family", TITLES)
@pytest.mark.parametrize("choices", [{}, {"sample": True, "seed": 5}, {"repetition_penalty": 2.0}], ids=str)
def test_streams_of_every_family(family: str, choices: dict[str, Any]) -> None:
    model = spoken(family)
    for text in ("Rain fell on the harbour", "A model reads words"):
        pieces = list(model.generate_stream(text, max_length=25, **choices))
        assert "".join(pieces) == model.generate([text], max_length=25, **choices)[0].text


def test_a_stream_is_lazy() -> None:
    """The first piece is there before the last word is asked for."""
    model, prompt = scripted("one two three four five six seven eight nine ten")
    stream = model.generate_stream(prompt, max_length=90)
    assert next(stream)
    before = model.runner.steps
    rest = len(list(stream))
    assert rest > 3
    assert model.runner.steps - before >= rest - 1


@pytest.mark.parametrize("stop", [" vu", "東京", ["zzz", "déjà"], "京, d"])
def test_stop_texts(stop: Any) -> None:
    model, prompt = scripted(HARD)
    first = min(HARD.find(one) for one in ([stop] if isinstance(stop, str) else stop) if one in HARD)
    found = model.generate([prompt], max_length=90, stop=stop)[0]
    assert found.text == HARD[:first]
    assert found.stopped == "stop"
    assert model.tokenizer.decode(found.ids).startswith(HARD[: first + 1])
    assert len(found.ids) < len(model.tokenizer.encode(HARD).ids) + 1
    pieces = list(model.generate_stream(prompt, max_length=90, stop=stop))
    assert "".join(pieces) == HARD[:first]
    assert all(piece in HARD for piece in pieces)


def test_stop_texts_in_a_beam() -> None:
    model, prompt = scripted("alpha beta gamma delta")
    found = model.generate([prompt], num_beams=3, max_length=40, stop="gam")[0]
    assert found.text == "alpha beta "
    assert found.stopped == "stop"


def test_forbidden_words_and_prefix() -> None:
    model, prompt = scripted("the keeper keeps writing letters")
    said = model.generate([prompt], max_length=30)[0]
    assert "letters" in said.text
    without = model.generate([prompt], max_length=30, bad_words=["letters", "zzz"])[0]
    assert "letters" not in without.text
    begun = spoken("t5").generate(["Rain fell"], max_length=5, prefix="The old", num_beams=2)[0]
    assert begun.text.startswith("The old")
    assert len(begun.ids) <= 5 + len(spoken("t5").tokenizer.encode("The old").ids) - 1


def test_a_long_source_is_cut_and_counted() -> None:
    model = spoken("t5")
    with pytest.warns(clearhead.TruncationWarning, match="1 of 2 texts are longer than 512 tokens"):
        found = model.generate(["word " * 3000, "short"], max_length=3)
    assert found[0].truncated > 0
    assert found[1].truncated == 0
    assert "cut off" in found[0]._repr_html_()


def test_positions_end_cleanly() -> None:
    """64 places: a prompt of 60 leaves 5 words, whatever else is in the batch; one of 65 is refused."""
    model = ours("gpt2", "engine", 0)
    rows: list[list[int]] = [[5 + n % 50 for n in range(size)] for size in (60, 3, 64, 30)]
    found = model.generate_ids(rows, max_length=40, min_length=40)
    assert [len(row) for row in found] == [5, 40, 1, 35]
    for row, answer in zip(rows, found, strict=True):
        assert model.generate_ids([row], max_length=40, min_length=40)[0].tolist() == answer.tolist()
    with pytest.raises(InputError, match="has 64 positions"):
        model.generate_ids([[5] * 65])
    with pytest.raises(InputError, match="The prompt of row 1 has 66 tokens, but the model has 64 positions"):
        model.generate_ids([[5] * 3, [5] * 60], prefix=[6] * 6)
    with pytest.raises(InputError, match="has 96 positions"):
        spoken("gpt2").generate(["word " * 400])


@pytest.mark.parametrize("choices", [{}, {"sample": True}, {"num_beams": 3}], ids=str)
def test_when_every_word_is_forbidden(choices: dict[str, Any]) -> None:
    model = ours("gpt2", "engine", 0)
    assert [len(row) for row in model.generate_ids([[5, 6]], bad_words=[*range(60)], **choices)] == [1]  # an end
    none = replace(model, generation={"eos_token_id": None})
    assert [len(row) for row in none.generate_ids([[5, 6], [7]], bad_words=[*range(60)], **choices)] == [0, 0]
    writer = TextGenerator(none, bad_words=[*range(60)], **choices)
    assert writer.decoder.generate(writer._check_rows([[5, 6]], None))[0][0].stopped == "blocked"


def test_empty_input() -> None:
    gpt, marian = ours("gpt2", "engine", 0), ours("marian", "engine", 2)
    assert gpt.generate_ids([[], [0]], max_length=7)[0].tolist() == gpt.generate_ids([[0]], max_length=7)[0].tolist()
    assert [len(row) > 0 for row in marian.generate_ids([[], [5, 6]], max_length=3)] == [False, True]
    assert spoken("gpt2").generate([]) == []
    with pytest.raises(InputError, match="prompt is empty"):
        replace(gpt, generation={}).generate_ids([[]])


BAD: list[tuple[dict[str, Any], str]] = [
    ({"num_beams": 0}, "num_beams must be an integer >= 1, got 0"),
    ({"num_beams": "4"}, "num_beams must be an integer"),
    ({"num_beams": 2.0}, "num_beams must be an integer"),
    ({"max_length": 0}, "max_length must be"),
    ({"max_length": 3, "min_length": 4}, r"min_length \(4\) must not be greater than max_length \(3\)"),
    ({"length_penalty": float("nan")}, "length_penalty must be a number"),
    ({"early_stopping": "sometimes"}, "early_stopping must be"),
    ({"num_return_sequences": 2}, r"num_return_sequences \(2\) must not be greater than num_beams \(1\)"),
    ({"num_beams": 4, "num_beam_groups": 3}, r"num_beams is 4, which is not divisible by num_beam_groups \(3\)"),
    ({"num_beams": 4, "diversity_penalty": 1.0}, "diversity_penalty requires num_beam_groups"),
    ({"num_beams": 4, "sample": True}, "sample cannot be combined with beam search"),
    ({"temperature": 0.5}, "temperature requires sample"),
    ({"sample": True, "temperature": 0.0}, "temperature must be a number"),
    ({"sample": True, "top_p": 1.5}, "top_p must be a number from 0 to 1"),
    ({"sample": "yes"}, "sample must be true or false"),
    ({"coverage_penalty": 1.0}, "coverage_penalty requires beam search, but num_beams is 1"),
    ({"repetition_penalty": -1.0}, "repetition_penalty must be"),
    ({"prefix": [60]}, "prefix names token 60, and the vocabulary has 60"),
    ({"prefix": "text"}, "no tokenizer; give token ids"),
    ({"bad_words": [[]]}, "bad_words must be a text or token ids"),
    ({"bad_words": [[-1]]}, "bad_words must be"),
    ({"stop": ["a"]}, "no tokenizer"),
    ({"stop": [""]}, "stop must be one or more non-empty texts"),
    ({"seed": -1}, "seed must be"),
    ({"length": 4}, "Unknown decoding setting 'length', expected one of: num_beams, "),
]


@pytest.mark.parametrize(("choices", "sentence"), BAD, ids=lambda one: one if isinstance(one, str) else None)
def test_bad_settings(choices: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ours("gpt2", "engine", 0).generate_ids([[5]], **choices)


FORMER: dict[str, Any] = {"beam": 4, "best": 2, "groups": 2, "diversity": 0.5, "no_repeat_ngram": 3, "forbidden": ["a"]}
CURRENT: dict[str, Any] = {FORMER_NAMES[name]: value for name, value in FORMER.items()}


def test_former_names_of_settings_warn() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = Decoding(**FORMER)
    assert [str(warning.message).rpartition("use ")[2] for warning in caught] == [f"{name}." for name in CURRENT]
    assert settings == Decoding(**CURRENT)
    with pytest.warns(DeprecationWarning, match="use num_beam_groups"):
        assert settings.groups == 2  # type: ignore[attr-defined]
    model = ours("gpt2", "engine", 0)
    with pytest.warns(DeprecationWarning, match="use num_beams"):
        rows = model.generate_ids([[5, 6]], beam=4, max_length=6)
    assert [row.tolist() for row in rows] == [
        row.tolist() for row in model.generate_ids([[5, 6]], num_beams=4, max_length=6)
    ]
    with pytest.raises(InputError, match="beam is the former name of num_beams"):
        Decoding(beam=2, num_beams=2)  # type: ignore[call-arg]


def test_bad_input() -> None:
    model = spoken("gpt2")
    with pytest.raises(InputError, match="put it in a list"):
        model.generate("one text")
    with pytest.raises(InputError, match=r"texts\[1\] is int"):
        model.generate(["a", 3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="expects a single text"):
        model.generate_stream(["a"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="num_beams=1"):
        model.generate_stream("a", num_beams=2)
    with pytest.raises(InputError, match="has 96 positions"):
        model.generate_stream("word " * 400)
    for ids in ([5, 6], [[VOCAB]], [["a"]], [[1.5]], [[[1]]]):
        with pytest.raises(ClearheadError):
            model.generate_ids(ids)
    with pytest.raises(InputError, match="mask must have shape"):
        model.generate_ids([[5, 6]], [[1]])
    with pytest.raises(InputError, match="no language-model head"):
        model_of("bert").generate_ids([[5]])


@pytest.mark.parametrize(
    "said",
    [
        {"eos_token_id": "<b>"},
        {"eos_token_id": [1.5]},
        {"bad_words_ids": [[]]},
        {"bad_words_ids": "x"},
        {"min_length": -4},
        {"early_stopping": 7},
        {"eos_token_id": 1 << 70},
        {"pad_token_id": True},
        {"repetition_penalty": 0},
        {"forced_eos_token_id": {}},
    ],
    ids=str,
)
def test_a_folder_that_says_the_impossible(said: dict[str, Any]) -> None:
    model = replace(ours("marian", "engine", 2), generation=said)
    with pytest.raises(ConfigError, match=r"generation_config\.json"):
        model.generate_ids([[5, 6]])


def test_what_is_left_out_is_said(caplog: pytest.LogCaptureFixture) -> None:
    model = ours("marian", "engine", 2)
    said = {**(model.generation or {}), "typical_p": 0.9, "diversity_penalty": 0.0, "min_length": 1 << 70}
    assert len(replace(model, generation=said).generate_ids([[5, 6]], max_length=4)[0]) == 4
    assert "asks for typical_p, which decoding here does not know" in caplog.text
    assert "diversity_penalty" not in caplog.text


def test_without_a_generation_config() -> None:
    """Older folders have it all in config.json; what is not there is the family's."""
    model = ours("marian", "engine", 2)
    old = replace(model, generation=None, config={**model.config, "forced_eos_token_id": 9, "bad_words_ids": [[30]]})
    rows = old.generate_ids(*sources("marian", 2), num_beams=2, max_length=6)
    assert all(row[-1] in (0, 9) for row in rows)
    bare = {key: value for key, value in model.config.items() if key not in ("eos_token_id", "forced_eos_token_id")}
    rows = replace(model, generation=None, config=bare).generate_ids(*sources("marian", 2), max_length=6)
    assert all(row[-1] == 0 for row in rows)


@pytest.mark.parametrize("runtime", ["core", "engine"])
def test_coverage(runtime: str) -> None:
    """Of finished hypotheses the one that looked at every source word wins; the score says by how much."""
    model = ours("marian", runtime, 2)
    ids, mask = sources("marian", 2)
    how: dict[str, Any] = {"num_beams": 5, "num_return_sequences": 5, "max_length": 5, "early_stopping": "never"}
    plain, judged = TextGenerator(model, **how), TextGenerator(model, **how, coverage_penalty=2.0)
    rows = plain._check_rows(ids, mask)
    alone = [judged.decoder.generate([row])[0] for row in rows]
    differs = 0
    for row, one, other, by_itself in zip(
        rows, plain.decoder.generate(rows), judged.decoder.generate(rows), alone, strict=True
    ):
        known = {tuple(answer.ids): answer.score for answer in one}
        for answer in other:
            if tuple(answer.ids) in known:
                said = [1, *answer.ids[:-1]]
                seen = model.core
                state = seen.start(Batch(ids=np.array([row.real_ids])))
                _, _, looked = seen.step_with_attention(state, np.array([said]))
                lost = 2.0 * np.log(np.clip(looked[0].sum(0), 1e-9, 1.0)).sum()
                assert answer.score == pytest.approx(known[tuple(answer.ids)] + lost, abs=1e-4)
        differs += [answer.ids for answer in one] != [answer.ids for answer in other]
        assert [answer.ids for answer in by_itself] == [answer.ids for answer in other]
    assert differs
    with pytest.raises(InputError, match="needs a source"):
        ours("gpt2", runtime, 0).generate_ids([[5]], num_beams=2, coverage_penalty=1.0)


def test_settings_are_flags() -> None:
    """Every field has a plain default, and one value equals another with the same fields."""
    assert Decoding() == Decoding(num_beams=1)
    assert Decoding(bad_words=["a", 3, [4, 5]], stop="x").bad_words == ("a", (3,), (4, 5))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        Decoding().num_beams = 2  # type: ignore[misc]
