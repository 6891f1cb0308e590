"""Former names of keyword arguments: accepted for one release, with a warning at the line of the caller."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead import api
from clearhead.errors import InputError
from clearhead.jobs.events import RunEvents
from clearhead.train.finish import Run
from tests.planted import write_planted_text
from tests.task_rows import make_questions
from tests.tiny_models import make_sentiment_rows, tiny_gpt, tiny_model

Call = Callable[[dict[str, Any]], Any]
TEXTS = ["the film was good", "a bad plot", "we saw the actor"]
BASELINE: dict[str, Any] = {"method": "majority", "report": False}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gpt(tmp_path_factory.mktemp("gpt"))


def call_with_former(call: Call, former: str, current: str, value: object) -> Any:
    """Call with a former keyword, check its warning, and return what the call returns."""
    with pytest.warns(DeprecationWarning, match=f"^{former} is deprecated .*; use {current}\\.$") as caught:
        returned = call({former: value})
    assert [warning.filename for warning in caught if warning.category is DeprecationWarning] == [__file__]
    with pytest.raises(InputError, match=f"{former} is the former name of {current}; set only {current}"):
        call({former: value, current: value})
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        call({current: value})
    return returned


def test_told_of_inspect(encoder: Path) -> None:
    stages: list[str] = []
    call_with_former(
        lambda keywords: api.inspect(make_sentiment_rows(40), model=str(encoder), **keywords),
        "told",
        "progress",
        lambda stage, *_: stages.append(stage),
    )
    assert stages


def test_told_of_training(tmp_path: Path) -> None:
    text = write_planted_text(tmp_path / "text.txt", 30, 4)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    choices: dict[str, Any] = {"max_steps": 1, "max_length": 16, "vocab_size": 80, "config": sizes, "threads": 1}
    rows = make_sentiment_rows(60)
    folders = iter(range(100))
    calls: list[Call] = [
        lambda keywords: api.train(rows, output=tmp_path / f"{next(folders)}", **BASELINE, **keywords),
        lambda keywords: api.ladder(rows, output=tmp_path / f"{next(folders)}", methods="majority", **keywords),
        lambda keywords: api.pretrain(
            text, output=tmp_path / f"{next(folders)}", report=False, objective="mlm", **choices, **keywords
        ),
    ]
    for call in calls:
        messages: list[str] = []
        call_with_former(call, "told", "events", RunEvents(message=messages.append))
        assert messages


def test_told_of_evaluate_and_predict_file(tfidf_run: Run, tmp_path: Path) -> None:
    rows = make_sentiment_rows(30)
    reports: list[int] = []
    evaluation = call_with_former(
        lambda keywords: api.evaluate(tfidf_run.folder, rows, **keywords), "told", "progress", reports.append
    )
    assert evaluation.metrics == api.evaluate(tfidf_run.folder, rows).metrics
    assert reports
    outputs = iter(range(100))
    counts: list[tuple[int, int | None]] = []
    summary = call_with_former(
        lambda keywords: api.predict_file(tfidf_run.folder, rows, tmp_path / f"{next(outputs)}.csv", **keywords),
        "told",
        "progress",
        lambda done, total: counts.append((done, total)),
    )
    assert summary.rows == 30
    assert counts


def test_best_of_ask(encoder: Path, tmp_path: Path) -> None:
    choices: dict[str, Any] = {"method": "head", "epochs": 1, "batch_size": 16, "report": False, "max_length": 24}
    rows = make_questions(40)
    folder = clearhead.train(rows, task="span", model=str(encoder), output=tmp_path / "run", **choices).folder
    predictor = clearhead.load_predictor(folder)
    answer = call_with_former(
        lambda keywords: api.ask(predictor, "was it", "a film today and it was great", **keywords), "best", "top", 3
    )
    assert len(answer.nbest) == 3
    assert answer == api.ask(predictor, "was it", "a film today and it was great", top=3)


@pytest.mark.parametrize(
    ("former", "current", "value"),
    [("told", "progress", lambda *_: None), ("allowed", "max_drop", 2.0), ("least_cosine", "min_cosine", 0.1)],
)
def test_quantize(former: str, current: str, value: Any, encoder: Path, tmp_path: Path) -> None:
    outputs = iter(range(100))
    options: dict[str, Any] = {} if current == "min_cosine" else {"min_cosine": 0.1}
    quantized = call_with_former(
        lambda keywords: api.quantize(encoder, TEXTS, output=tmp_path / f"{next(outputs)}", **options | keywords),
        former,
        current,
        value,
    )
    assert quantized.verdict.allowed == 0.1


def test_the_former_limit_of_quantize_is_obeyed(encoder: Path, tmp_path: Path) -> None:
    former: dict[str, Any] = {"least_cosine": 1.0}
    with (
        pytest.warns(DeprecationWarning, match="least_cosine is deprecated"),
        pytest.raises(clearhead.ClearheadError, match="mean cosine"),
    ):
        api.quantize(encoder, TEXTS, output=tmp_path / "int8", **former)
    assert not (tmp_path / "int8").exists()


def test_learn_tokenizer() -> None:
    texts = [row["text"] for row in make_sentiment_rows(100)]
    learned = call_with_former(
        lambda keywords: api.learn_tokenizer(texts, kind="bpe", use="gpt", **keywords), "size", "vocab_size", 300
    )
    assert learned.size == 300
    assert learned.to_json() == api.learn_tokenizer(texts, kind="bpe", use="gpt", vocab_size=300).to_json()
    learned = call_with_former(
        lambda keywords: api.learn_tokenizer(kind="bpe", use="gpt", vocab_size=300, **keywords), "given", "files", texts
    )
    assert learned.lines == 100


def test_word2vec() -> None:
    sentences = [row["text"].split() for row in make_sentiment_rows(60)]
    options: dict[str, Any] = {"width": 4, "epochs": 1, "min_count": 1}
    learned = call_with_former(
        lambda keywords: api.word2vec(sentences, **options, **keywords), "rate", "learning_rate", 0.1
    )
    expected = api.word2vec(sentences, learning_rate=0.1, **options)
    assert (learned.vectors.matrix == expected.vectors.matrix).all()
    other = api.word2vec(sentences, learning_rate=0.01, **options)
    assert (learned.vectors.matrix != other.vectors.matrix).any()


def test_decoding_settings(gpt: Path) -> None:
    model = clearhead.load(gpt)
    short: dict[str, Any] = {"max_length": 4}
    settings: list[tuple[str, str, Any]] = [
        ("beam", "num_beams", 2),
        ("no_repeat_ngram", "no_repeat_ngram_size", 2),
        ("forbidden", "bad_words", ("good",)),
    ]
    for former, current, value in settings:
        continued = call_with_former(
            lambda keywords: api.generate(model, "the film", **short, **keywords), former, current, value
        )
        keywords: dict[str, Any] = {current: value}
        assert continued == api.generate(model, "the film", **short, **keywords)
    streamed = call_with_former(
        lambda keywords: list(api.generate_stream(model, "the film", **short, **keywords)),
        "no_repeat_ngram",
        "no_repeat_ngram_size",
        1,
    )
    assert streamed == list(api.generate_stream(model, "the film", no_repeat_ngram_size=1, **short))
    explanation = call_with_former(
        lambda keywords: api.explain(model, "the film", show="beams", **short, **keywords), "beam", "num_beams", 2
    )
    assert explanation.to_json() == api.explain(model, "the film", show="beams", num_beams=2, **short).to_json()
