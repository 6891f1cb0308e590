"""The repr of every public value is short and names what matters, however large the value is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead import api
from clearhead.api import deployment, explanation, texts, word_vectors
from clearhead.data import open_source
from clearhead.data.table import encode_rows
from clearhead.explain import beam_tree, decoding_steps, positions
from clearhead.explain.complexity import complexity
from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.tasks.classify.answer import LabelAnswer
from clearhead.tasks.span.answer import SpanAnswer
from clearhead.tasks.tag.answer import TagsAnswer
from tests.decode.texts import load_text_model
from tests.tiny_models import make_sentiment_rows, tiny_gpt, tiny_model, write_csv
from tests.words.planted import royal

MAX_LENGTH = 600  # characters
LABELS = [f"a label with a long name {number}" for number in range(60)]
Make = Callable[[Path], Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows of 60 labels, a TF-IDF model trained on them, a tiny BERT and a tiny GPT."""
    folder = tmp_path_factory.mktemp("reprs")
    rows = [
        row | {"label": LABELS[number % 60]}
        for number, row in enumerate(make_sentiment_rows(600, min_words=40, max_words=60))
    ]
    write_csv(folder / "rows.csv", rows)
    tiny_model(folder / "bert")
    tiny_gpt(folder / "gpt")
    clearhead.train(folder / "rows.csv", output=folder / "words", method="tfidf", report=False)
    return folder


def train_baseline(folder: Path) -> Any:
    return clearhead.train(folder / "rows.csv", output=folder / "counts", method="majority", report=False)


def pretrain_tiny(folder: Path) -> Any:
    texts, held_out = folder / "texts.txt", folder / "held-out.txt"
    for path, seed in ((texts, 0), (held_out, 1)):
        path.write_text("\n\n".join(row["text"] for row in make_sentiment_rows(200, seed=seed)))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    choices: dict[str, Any] = {"max_steps": 3, "batch_size": 4, "max_length": 16, "vocab_size": 80, "config": sizes}
    choices |= {"family": "bert", "objective": "mlm", "threads": 1}
    return clearhead.pretrain(texts, dev=held_out, output=folder / "language", report=False, **choices)


def make_token_table(folder: Path) -> Any:
    predictor = clearhead.load_predictor(folder / "words")
    rows = open_source(folder / "rows.csv")
    columns = predictor.resolve_columns(rows)
    check = predictor.task.rows.check_row
    texts = [check(row, columns, predictor.space) for row in rows.sample(100)]  # type: ignore[arg-type]
    return encode_rows(texts, columns, clearhead.load(folder / "bert/model").tokenizer)  # type: ignore[arg-type]


def load_gpt(folder: Path) -> clearhead.Model:
    return clearhead.load(folder / "gpt/model")


def load_bert(folder: Path, backend: str = "engine") -> clearhead.Model:
    return clearhead.load(folder / "bert/model", backend)


TEXT = "the film was great and the music " * 3
# name of the type -> a function that creates a value with little data, and words that its repr must contain
VALUES: dict[str, tuple[Make, tuple[str, ...]]] = {
    "Run": (train_baseline, ("classify", "majority", "accuracy", " to ", "counts", "rows")),
    "Evaluation": (
        lambda folder: clearhead.evaluate(folder / "words", folder / "rows.csv"),
        ("classify", "accuracy", " to ", "600 rows"),
    ),
    "Ladder": (
        lambda folder: clearhead.ladder(folder / "rows.csv", output=folder / "ladder", methods=["majority", "tfidf"]),
        ("classify", "recommended", "accuracy", " to ", "ladder"),
    ),
    "Prediction": (lambda folder: clearhead.predict_text(folder / "words", TEXT), ("label=a label", "probability=")),
    "PredictionSummary": (
        lambda folder: clearhead.predict_file(folder / "words", folder / "rows.csv", folder / "answers.csv"),
        ("600 rows", "answers.csv"),
    ),
    "Predictor": (
        lambda folder: clearhead.load_predictor(folder / "words"),
        ("classify", "tfidf", "60 labels", "words"),
    ),
    "Inspection": (
        lambda folder: clearhead.inspect(folder / "rows.csv", model=None, estimate=False),
        ("600 rows", "rows.csv", "60 labels", "findings"),
    ),
    "Model": (load_bert, ("bert", "width")),
    "Tokenizer": (lambda folder: load_bert(folder).tokenizer, ("tokens",)),
    "Encoding": (lambda folder: load_bert(folder).tokenizer.encode(TEXT), ("tokens", "[CLS]")),
    "Output": (lambda folder: load_bert(folder).run([[2, 5, 6, 3]]), ("hidden", "last")),
    "Trace": (lambda folder: load_bert(folder, "core").trace("the film was great"), ("tokens", "layers", "heads")),
    "LayerTrace": (lambda folder: load_bert(folder, "core").trace("the film").layers[0], ("layer 0", "heads")),
    "GeneratedText": (
        lambda folder: load_gpt(folder).generate([TEXT[:30]], num_beams=2, num_return_sequences=2)[0],
        ("score", "stopped"),
    ),
    "Hypothesis": (
        lambda folder: load_gpt(folder).generate([TEXT[:30]], max_length=20)[0].best[0],
        ("score", "stopped"),
    ),
    "Decoding": (
        lambda _: clearhead.Decoding(num_beams=4, num_return_sequences=2, stop=("end",)),
        ("num_beams=4", "num_return_sequences=2", "stop="),
    ),
    "Quantized": (
        lambda folder: clearhead.quantize(folder / "bert/model", [TEXT, "a"], output=folder / "int8", min_cosine=0.1),
        ("cosine", "int8"),
    ),
    "LearnedTokenizer": (
        lambda _: learn_tokenizer(
            [row["text"] for row in make_sentiment_rows(100)], kind="bpe", use="gpt", vocab_size=300
        ),
        ("bpe", "tokens"),
    ),
    "LearnedWords": (
        lambda folder: clearhead.word2vec(
            [row["text"].split() for row in make_sentiment_rows(100)],
            output=folder / "vectors",
            width=4,
            epochs=1,
            min_count=1,
        ),
        ("words", "width 4"),
    ),
    "WordVectors": (lambda _: royal(), ("words", "width")),
    "Contrast": (
        lambda folder: clearhead.contrast(load_bert(folder), "the film was great", "a film with music", "film"),
        ("'film'", "cosine"),
    ),
    "Complexity": (
        lambda _: complexity(lengths=(8, 16), widths=(8,), repeats=5, threads=1),
        ("lengths 8 to 16", "widths 8"),
    ),
    "Bench": (
        lambda folder: clearhead.bench(folder / "bert/model", [TEXT], runtimes=["engine"], threads=1, seconds=0.05),
        ("1 texts", "engine", "texts/s"),
    ),
    "PretrainResult": (pretrain_tiny, ("bert", "mlm", "parameters", "loss", " to ", "language")),
    "LocalModel": (lambda _: clearhead.models()[0], ("name=",)),
    "TokenTable": (make_token_table, ("100 rows", "tokens")),
    "BeamTree": (
        lambda folder: beam_tree(load_gpt(folder), "the film", num_beams=2, max_length=4),
        ("beam 2", "hypotheses"),
    ),
    "DecodedText": (lambda folder: decoding_steps(load_gpt(folder), "the film", max_length=4), ("steps",)),
    "Positions": (lambda folder: positions(load_bert(folder)), ("learned", "table")),
    "Description": (lambda folder: clearhead.describe(folder / "bert/model"), ("bert", "architecture", "size on disk")),
    "Explanation": (
        lambda folder: clearhead.explain(load_bert(folder), "the film was great"),
        ("attention", "tokens", "layers"),
    ),
    "Vectors": (
        lambda folder: clearhead.embed(folder / "bert/model", [TEXT, "a"], folder / "vectors.npy"),
        ("2 texts", "32 numbers", "vectors.npy"),
    ),
    "Continuation": (
        lambda folder: clearhead.generate(load_gpt(folder), TEXT[:30], max_length=4)[0],
        ("the film", "score"),
    ),
    "Translation": (
        lambda _: clearhead.translate(load_text_model("marian"), TEXT, max_length=4)[0],
        ("of 'the film was great", "score"),
    ),
    "OutputSummary": (
        lambda folder: clearhead.generate(load_gpt(folder), ["the film"], folder / "written.txt", max_length=4),
        ("1 texts", "written.txt"),
    ),
    "WordAnswers": (
        lambda _: clearhead.words(royal(), "king", similar=("man", "woman")),
        ("king", "queen", "cosine"),
    ),
}
SMALL_VALUES = ("Guess",)  # values of a few numbers


@pytest.mark.parametrize("name", VALUES)
def test_values_print_in_a_few_lines(name: str, folder: Path) -> None:
    make, words = VALUES[name]
    value = make(folder)
    public = getattr(clearhead, name, None)  # Prediction: each task has a type of its own
    assert type(value).__name__ == name or (isinstance(public, type) and isinstance(value, public))
    for printed in (repr(value), str(value)):
        assert 0 < len(printed.replace(str(folder), "")) < MAX_LENGTH, len(printed)
    for word in words:
        assert word in repr(value), repr(value)


def test_every_public_value_is_tested() -> None:
    returned = set()
    for module in (api, word_vectors, deployment, explanation, texts):
        for name, function in vars(module).items():
            if name in clearhead.__all__ and callable(function):
                hints = getattr(function, "__annotations__", {})
                returned |= {word.strip("[]") for word in str(hints["return"]).replace("[", " ").split()}
    tested = {*VALUES, *SMALL_VALUES, "list", "Path", "Array", "Iterator"}
    assert {name for name in returned if name[:1].isupper()} - tested == set()
    public = {name for name in clearhead.__all__ if dataclasses.is_dataclass(getattr(clearhead, name))}
    assert public - tested == set()


def test_values_that_a_file_named_stay_on_one_line() -> None:
    answer = LabelAnswer(row=1, label="a\nb\x1b[2J" + "x" * 10_000, probability=0.5)
    assert len(repr(answer)) < 200
    assert repr(answer).isprintable()
    spans = SpanAnswer(row=1, answer="y" * 5000, nbest=())
    assert len(repr(spans)) < 200


def test_missing_spans_and_answers_are_visible() -> None:
    assert "no spans" in repr(TagsAnswer(row=1, spans=(), tags=("O",)))
    assert "answer=''" in repr(SpanAnswer(row=1, answer=""))
    assert "abstained" in repr(clearhead.Prediction(row=1, abstained=True))
