"""Generating texts: results, stop texts, forbidden words, streams and invalid input."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import clearhead
from clearhead import ClearheadError
from clearhead.batch import Batch
from clearhead.decode import Decoding, GeneratedText
from clearhead.decode.settings import FORMER_NAMES
from clearhead.errors import ConfigError, InputError
from clearhead.model.generation import TextGenerator
from tests.core.networks import model_of
from tests.decode.pairs import load_model, make_sources
from tests.decode.texts import ARCHITECTURES, VOCAB, ScriptedRunner, load_text_model

UNICODE_TEXT = "naïve 👍🏽 東京, déjà 🏳️‍🌈 vu"


def make_scripted_model(text: str, prompt: str = "The old") -> Any:
    """Make a GPT-2 that answers a prompt with a text and the end token."""
    model = load_text_model("gpt2")
    token_ids = [*model.tokenizer.encode(text).ids, 0]
    runner = ScriptedRunner(model.shape, token_ids, len(model.tokenizer.encode(prompt).ids))
    return replace(model, runner=cast(Any, runner)), prompt


@pytest.mark.parametrize("family", ARCHITECTURES)
@pytest.mark.parametrize("runtime", ["core", "engine"])
def test_texts(family: str, runtime: str) -> None:
    model = load_text_model(family, runtime)
    texts = ["The old lighthouse keeper wrote a letter.", "Rain fell on the harbour", "", "☃☃☃ qqq"]
    if family == "openai-gpt":  # has no start token
        texts.remove("")
    progress_calls: list[tuple[int, int]] = []
    results = model.generate(
        texts,
        num_beams=3,
        num_return_sequences=2,
        max_length=9,
        progress=lambda *progress_call: progress_calls.append(progress_call),
    )
    assert progress_calls[-1] == (len(texts), len(texts))
    assert [result.source for result in results] == texts
    for result in results:
        assert isinstance(result, GeneratedText)
        assert result.text == result.best[0].text == str(result)
        assert result.best[0].ids == result.ids
        assert len(result.best) == 2
        assert result.best[0].score >= result.best[1].score
        assert result.stopped in ("end", "length")
        tokenizer = model.target_tokenizer or model.tokenizer
        assert result.text == tokenizer.decode(result.ids)
        assert "<table>" in result._repr_html_()
    single = model.generate(texts[1:2], num_beams=3, num_return_sequences=2, max_length=9)[0]
    assert single.ids == results[1].ids
    ids = [model.tokenizer.encode(text).ids for text in texts]
    assert [row.tolist() for row in model.generate_ids(ids, num_beams=3, max_length=9)] == [
        list(result.ids) for result in results
    ]


def test_a_page_shows_no_markup_of_a_text() -> None:
    model, prompt = make_scripted_model("<script>alert(1)</script>")
    page = model.generate([prompt], max_length=40)[0]._repr_html_()
    assert "<script>" not in page


@pytest.mark.parametrize("text", [UNICODE_TEXT, "plain words", "👍", " leading and trailing "])
def test_streams_are_the_text(text: str) -> None:
    model, prompt = make_scripted_model(text)
    parts = list(model.generate_stream(prompt, max_length=90))
    assert "".join(parts) == text == model.generate([prompt], max_length=90)[0].text
    assert all("\ufffd" not in part for part in parts)
    assert all(parts)
    assert len(parts) > 1 or text == "👍"


@pytest.mark.parametrize("family", ARCHITECTURES)
@pytest.mark.parametrize("choices", [{}, {"sample": True, "seed": 5}, {"repetition_penalty": 2.0}], ids=str)
def test_streams_of_every_family(family: str, choices: dict[str, Any]) -> None:
    model = load_text_model(family)
    for text in ("Rain fell on the harbour", "A model reads words"):
        parts = list(model.generate_stream(text, max_length=25, **choices))
        assert "".join(parts) == model.generate([text], max_length=25, **choices)[0].text


def test_a_stream_is_lazy() -> None:
    """The first part is available before the last token is computed."""
    model, prompt = make_scripted_model("one two three four five six seven eight nine ten")
    stream = model.generate_stream(prompt, max_length=90)
    assert next(stream)
    steps_before = model.runner.steps
    remaining_count = len(list(stream))
    assert remaining_count > 3
    assert model.runner.steps - steps_before >= remaining_count - 1


@pytest.mark.parametrize("stop", [" vu", "東京", ["zzz", "déjà"], "京, d"])
def test_stop_texts(stop: Any) -> None:
    model, prompt = make_scripted_model(UNICODE_TEXT)
    stop_position = min(
        UNICODE_TEXT.find(stop_text)
        for stop_text in ([stop] if isinstance(stop, str) else stop)
        if stop_text in UNICODE_TEXT
    )
    result = model.generate([prompt], max_length=90, stop=stop)[0]
    assert result.text == UNICODE_TEXT[:stop_position]
    assert result.stopped == "stop"
    assert model.tokenizer.decode(result.ids).startswith(UNICODE_TEXT[: stop_position + 1])
    assert len(result.ids) < len(model.tokenizer.encode(UNICODE_TEXT).ids) + 1
    parts = list(model.generate_stream(prompt, max_length=90, stop=stop))
    assert "".join(parts) == UNICODE_TEXT[:stop_position]
    assert all(part in UNICODE_TEXT for part in parts)


def test_stop_texts_in_a_beam() -> None:
    model, prompt = make_scripted_model("alpha beta gamma delta")
    result = model.generate([prompt], num_beams=3, max_length=40, stop="gam")[0]
    assert result.text == "alpha beta "
    assert result.stopped == "stop"


def test_forbidden_words_and_prefix() -> None:
    model, prompt = make_scripted_model("the keeper keeps writing letters")
    result = model.generate([prompt], max_length=30)[0]
    assert "letters" in result.text
    result_without = model.generate([prompt], max_length=30, bad_words=["letters", "zzz"])[0]
    assert "letters" not in result_without.text
    prefixed = load_text_model("t5").generate(["Rain fell"], max_length=5, prefix="The old", num_beams=2)[0]
    assert prefixed.text.startswith("The old")
    assert len(prefixed.ids) <= 5 + len(load_text_model("t5").tokenizer.encode("The old").ids) - 1


def test_a_long_source_is_cut_and_counted() -> None:
    model = load_text_model("t5")
    with pytest.warns(clearhead.TruncationWarning, match="1 of 2 texts are longer than 512 tokens"):
        results = model.generate(["word " * 3000, "short"], max_length=3)
    assert results[0].truncated > 0
    assert results[1].truncated == 0
    assert "source tokens were truncated" in results[0]._repr_html_()


def test_positions_end_cleanly() -> None:
    """With 64 positions, a prompt of 60 leaves 5 tokens in any batch; a prompt of 65 is an error."""
    model = load_model("gpt2", "engine", 0)
    rows: list[list[int]] = [[5 + position % 50 for position in range(size)] for size in (60, 3, 64, 30)]
    answers = model.generate_ids(rows, max_length=40, min_length=40)
    assert [len(row) for row in answers] == [5, 40, 1, 35]
    for row, answer in zip(rows, answers, strict=True):
        assert model.generate_ids([row], max_length=40, min_length=40)[0].tolist() == answer.tolist()
    with pytest.raises(InputError, match="has 64 positions"):
        model.generate_ids([[5] * 65])
    with pytest.raises(InputError, match="The prompt of row 1 has 66 tokens, but the model has 64 positions"):
        model.generate_ids([[5] * 3, [5] * 60], prefix=[6] * 6)
    with pytest.raises(InputError, match="has 96 positions"):
        load_text_model("gpt2").generate(["word " * 400])


@pytest.mark.parametrize("choices", [{}, {"sample": True}, {"num_beams": 3}], ids=str)
def test_when_every_word_is_forbidden(choices: dict[str, Any]) -> None:
    model = load_model("gpt2", "engine", 0)
    assert [len(row) for row in model.generate_ids([[5, 6]], bad_words=[*range(60)], **choices)] == [1]  # an end
    without_end = replace(model, generation={"eos_token_id": None})
    assert [len(row) for row in without_end.generate_ids([[5, 6], [7]], bad_words=[*range(60)], **choices)] == [0, 0]
    writer = TextGenerator(without_end, bad_words=[*range(60)], **choices)
    assert writer.decoder.generate(writer._check_rows([[5, 6]], None))[0][0].stopped == "blocked"


def test_empty_input() -> None:
    gpt, marian = load_model("gpt2", "engine", 0), load_model("marian", "engine", 2)
    assert gpt.generate_ids([[], [0]], max_length=7)[0].tolist() == gpt.generate_ids([[0]], max_length=7)[0].tolist()
    assert [len(row) > 0 for row in marian.generate_ids([[], [5, 6]], max_length=3)] == [False, True]
    assert load_text_model("gpt2").generate([]) == []
    with pytest.raises(InputError, match="prompt is empty"):
        replace(gpt, generation={}).generate_ids([[]])


INVALID_SETTINGS: list[tuple[dict[str, Any], str]] = [
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
    ({"prefix": [60]}, "prefix contains token 60, but the vocabulary has 60 tokens"),
    ({"prefix": "text"}, "no tokenizer; pass token ids"),
    ({"bad_words": [[]]}, "bad_words must be a text or token ids"),
    ({"bad_words": [[-1]]}, "bad_words must be"),
    ({"stop": ["a"]}, "no tokenizer"),
    ({"stop": [""]}, "stop must be one or more non-empty texts"),
    ({"seed": -1}, "seed must be"),
    ({"length": 4}, "Unknown decoding setting 'length', expected one of: num_beams, "),
]


@pytest.mark.parametrize(
    ("choices", "message"), INVALID_SETTINGS, ids=lambda value: value if isinstance(value, str) else None
)
def test_bad_settings(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model("gpt2", "engine", 0).generate_ids([[5]], **choices)


FORMER_SETTINGS: dict[str, Any] = {
    "beam": 4,
    "best": 2,
    "groups": 2,
    "diversity": 0.5,
    "no_repeat_ngram": 3,
    "forbidden": ["a"],
}
CURRENT_SETTINGS: dict[str, Any] = {FORMER_NAMES[name]: value for name, value in FORMER_SETTINGS.items()}


def test_former_names_of_settings_warn() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = Decoding(**FORMER_SETTINGS)
    assert [str(warning.message).rpartition("use ")[2] for warning in caught] == [
        f"{name}." for name in CURRENT_SETTINGS
    ]
    assert settings == Decoding(**CURRENT_SETTINGS)
    with pytest.warns(DeprecationWarning, match="use num_beam_groups"):
        assert settings.groups == 2  # type: ignore[attr-defined]
    model = load_model("gpt2", "engine", 0)
    with pytest.warns(DeprecationWarning, match="use num_beams"):
        rows = model.generate_ids([[5, 6]], beam=4, max_length=6)
    assert [row.tolist() for row in rows] == [
        row.tolist() for row in model.generate_ids([[5, 6]], num_beams=4, max_length=6)
    ]
    with pytest.raises(InputError, match="beam is the former name of num_beams"):
        Decoding(beam=2, num_beams=2)  # type: ignore[call-arg]


def test_bad_input() -> None:
    model = load_text_model("gpt2")
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
    "stored",
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
def test_invalid_settings_of_a_folder(stored: dict[str, Any]) -> None:
    model = replace(load_model("marian", "engine", 2), generation=stored)
    with pytest.raises(ConfigError, match=r"generation_config\.json"):
        model.generate_ids([[5, 6]])


def test_unsupported_settings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    model = load_model("marian", "engine", 2)
    stored = {**(model.generation or {}), "typical_p": 0.9, "diversity_penalty": 0.0, "min_length": 1 << 70}
    assert len(replace(model, generation=stored).generate_ids([[5, 6]], max_length=4)[0]) == 4
    assert "sets typical_p, which Clearhead does not support" in caplog.text
    assert "diversity_penalty" not in caplog.text


def test_without_a_generation_config() -> None:
    """Older folders have all settings in config.json; missing ones are those of the family."""
    model = load_model("marian", "engine", 2)
    old_model = replace(
        model, generation=None, config={**model.config, "forced_eos_token_id": 9, "bad_words_ids": [[30]]}
    )
    rows = old_model.generate_ids(*make_sources("marian", 2), num_beams=2, max_length=6)
    assert all(row[-1] in (0, 9) for row in rows)
    config_without_end = {
        key: value for key, value in model.config.items() if key not in ("eos_token_id", "forced_eos_token_id")
    }
    rows = replace(model, generation=None, config=config_without_end).generate_ids(
        *make_sources("marian", 2), max_length=6
    )
    assert all(row[-1] == 0 for row in rows)


@pytest.mark.parametrize("runtime", ["core", "engine"])
def test_coverage(runtime: str) -> None:
    """Hypotheses that attend to every source token win; their scores include the coverage penalty."""
    model = load_model("marian", runtime, 2)
    ids, mask = make_sources("marian", 2)
    options: dict[str, Any] = {"num_beams": 5, "num_return_sequences": 5, "max_length": 5, "early_stopping": "never"}
    without_penalty, with_penalty = (
        TextGenerator(model, **options),
        TextGenerator(model, **options, coverage_penalty=2.0),
    )
    rows = without_penalty._check_rows(ids, mask)
    single_answers = [with_penalty.decoder.generate([row])[0] for row in rows]
    difference_count = 0
    for row, plain_answers, penalized_answers, single in zip(
        rows, without_penalty.decoder.generate(rows), with_penalty.decoder.generate(rows), single_answers, strict=True
    ):
        plain_scores = {tuple(answer.ids): answer.score for answer in plain_answers}
        for answer in penalized_answers:
            if tuple(answer.ids) in plain_scores:
                decoder_ids = [1, *answer.ids[:-1]]
                core = model.core
                state = core.start(Batch(ids=np.array([row.real_ids])))
                _, _, attention = core.step_with_attention(state, np.array([decoder_ids]))
                penalty = 2.0 * np.log(np.clip(attention[0].sum(0), 1e-9, 1.0)).sum()
                assert answer.score == pytest.approx(plain_scores[tuple(answer.ids)] + penalty, abs=1e-4)
        difference_count += [answer.ids for answer in plain_answers] != [answer.ids for answer in penalized_answers]
        assert [answer.ids for answer in single] == [answer.ids for answer in penalized_answers]
    assert difference_count
    with pytest.raises(InputError, match="needs a source"):
        load_model("gpt2", runtime, 0).generate_ids([[5]], num_beams=2, coverage_penalty=1.0)


def test_settings_are_flags() -> None:
    """Every field has a default, and settings with the same fields are equal."""
    assert Decoding() == Decoding(num_beams=1)
    assert Decoding(bad_words=["a", 3, [4, 5]], stop="x").bad_words == ("a", (3,), (4, 5))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        Decoding().num_beams = 2  # type: ignore[misc]
