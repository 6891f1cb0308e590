"""Every public value prints as a few short lines that name what matters, however much it holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead import api
from clearhead.api import deployment, explanation, texts
from clearhead.api import word_vectors as ancestors
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

MOST = 600  # letters
LABELS = [f"a label with a long name {number}" for number in range(60)]
Make = Callable[[Path], Any]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows of sixty labels, models that were trained on them, a tiny BERT and a tiny GPT."""
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


def trained(place: Path) -> Any:
    return clearhead.train(place / "rows.csv", output=place / "counts", method="majority", report=False)


def pretrained(place: Path) -> Any:
    texts, held_out = place / "texts.txt", place / "held-out.txt"
    for path, seed in ((texts, 0), (held_out, 1)):
        path.write_text("\n\n".join(row["text"] for row in make_sentiment_rows(200, seed=seed)))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    choices: dict[str, Any] = {"max_steps": 3, "batch_size": 4, "max_length": 16, "vocab_size": 80, "config": sizes}
    choices |= {"family": "bert", "objective": "mlm", "threads": 1}
    return clearhead.pretrain(texts, dev=held_out, output=place / "language", report=False, **choices)


def table(place: Path) -> Any:
    predictor = clearhead.load_predictor(place / "words")
    rows = open_source(place / "rows.csv")
    columns = predictor.resolve_columns(rows)
    check = predictor.task.rows.check_row
    texts = [check(row, columns, predictor.space) for row in rows.sample(100)]  # type: ignore[arg-type]
    return encode_rows(texts, columns, clearhead.load(place / "bert/model").tokenizer)  # type: ignore[arg-type]


def gpt(place: Path) -> clearhead.Model:
    return clearhead.load(place / "gpt/model")


def bert(place: Path, backend: str = "engine") -> clearhead.Model:
    return clearhead.load(place / "bert/model", backend)


TEXT = "the film was great and the music " * 3
# what each value must name; made by the public functions, on little data
VALUES: dict[str, tuple[Make, tuple[str, ...]]] = {
    "Run": (trained, ("classify", "majority", "accuracy", " to ", "counts", "rows")),
    "Evaluation": (
        lambda place: clearhead.evaluate(place / "words", place / "rows.csv"),
        ("classify", "accuracy", " to ", "600 rows"),
    ),
    "Ladder": (
        lambda place: clearhead.ladder(place / "rows.csv", output=place / "ladder", methods=["majority", "tfidf"]),
        ("classify", "recommended", "accuracy", " to ", "ladder"),
    ),
    "Prediction": (lambda place: clearhead.predict_text(place / "words", TEXT), ("label=a label", "probability=")),
    "PredictionSummary": (
        lambda place: clearhead.predict_file(place / "words", place / "rows.csv", place / "answers.csv"),
        ("600 rows", "answers.csv"),
    ),
    "Predictor": (lambda place: clearhead.load_predictor(place / "words"), ("classify", "tfidf", "60 labels", "words")),
    "Inspection": (
        lambda place: clearhead.inspect(place / "rows.csv", model=None, estimate=False),
        ("600 rows", "rows.csv", "60 labels", "findings"),
    ),
    "Model": (bert, ("bert", "width")),
    "Tokenizer": (lambda place: bert(place).tokenizer, ("tokens",)),
    "Encoding": (lambda place: bert(place).tokenizer.encode(TEXT), ("tokens", "[CLS]")),
    "Output": (lambda place: bert(place).run([[2, 5, 6, 3]]), ("hidden", "last")),
    "Trace": (lambda place: bert(place, "core").trace("the film was great"), ("tokens", "layers", "heads")),
    "LayerTrace": (lambda place: bert(place, "core").trace("the film").layers[0], ("layer 0", "heads")),
    "GeneratedText": (
        lambda place: gpt(place).generate([TEXT[:30]], num_beams=2, num_return_sequences=2)[0],
        ("score", "stopped"),
    ),
    "Hypothesis": (lambda place: gpt(place).generate([TEXT[:30]], max_length=20)[0].best[0], ("score", "stopped")),
    "Decoding": (
        lambda _: clearhead.Decoding(num_beams=4, num_return_sequences=2, stop=("end",)),
        ("num_beams=4", "num_return_sequences=2", "stop="),
    ),
    "Quantized": (
        lambda place: clearhead.quantize(place / "bert/model", [TEXT, "a"], output=place / "int8", min_cosine=0.1),
        ("cosine", "int8"),
    ),
    "LearnedTokenizer": (
        lambda _: learn_tokenizer(
            [row["text"] for row in make_sentiment_rows(100)], kind="bpe", use="gpt", vocab_size=300
        ),
        ("bpe", "tokens"),
    ),
    "LearnedWords": (
        lambda place: clearhead.word2vec(
            [row["text"].split() for row in make_sentiment_rows(100)],
            output=place / "vectors",
            width=4,
            epochs=1,
            min_count=1,
        ),
        ("words", "width 4"),
    ),
    "WordVectors": (lambda _: royal(), ("words", "width")),
    "Contrast": (
        lambda place: clearhead.contrast(bert(place), "the film was great", "a film with music", "film"),
        ("'film'", "cosine"),
    ),
    "Complexity": (
        lambda _: complexity(lengths=(8, 16), widths=(8,), repeats=5, threads=1),
        ("lengths 8 to 16", "widths 8"),
    ),
    "Bench": (
        lambda place: clearhead.bench(place / "bert/model", [TEXT], runtimes=["engine"], threads=1, seconds=0.05),
        ("1 texts", "engine", "texts/s"),
    ),
    "PretrainResult": (pretrained, ("bert", "mlm", "parameters", "loss", " to ", "language")),
    "LocalModel": (lambda _: clearhead.models()[0], ("name=",)),
    "TokenTable": (table, ("100 rows", "tokens")),
    "BeamTree": (lambda place: beam_tree(gpt(place), "the film", num_beams=2, max_length=4), ("beam 2", "hypotheses")),
    "DecodedText": (lambda place: decoding_steps(gpt(place), "the film", max_length=4), ("steps",)),
    "Positions": (lambda place: positions(bert(place)), ("learned", "table")),
    "Description": (lambda place: clearhead.describe(place / "bert/model"), ("bert", "architecture", "size on disk")),
    "Explanation": (
        lambda place: clearhead.explain(bert(place), "the film was great"),
        ("attention", "tokens", "layers"),
    ),
    "Vectors": (
        lambda place: clearhead.embed(place / "bert/model", [TEXT, "a"], place / "vectors.npy"),
        ("2 texts", "32 numbers", "vectors.npy"),
    ),
    "Continuation": (lambda place: clearhead.generate(gpt(place), TEXT[:30], max_length=4)[0], ("the film", "score")),
    "Translation": (
        lambda _: clearhead.translate(load_text_model("marian"), TEXT, max_length=4)[0],
        ("of 'the film was great", "score"),
    ),
    "OutputSummary": (
        lambda place: clearhead.generate(gpt(place), ["the film"], place / "written.txt", max_length=4),
        ("1 texts", "written.txt"),
    ),
    "WordAnswers": (
        lambda _: clearhead.words(royal(), "king", similar=("man", "woman")),
        ("king", "queen", "cosine"),
    ),
}
FEW = ("Guess",)  # values of a few numbers


@pytest.mark.parametrize("name", VALUES)
def test_values_print_in_a_few_lines(name: str, place: Path) -> None:
    make, words = VALUES[name]
    value = make(place)
    public = getattr(clearhead, name, None)  # Prediction: each task has a type of its own
    assert type(value).__name__ == name or (isinstance(public, type) and isinstance(value, public))
    for printed in (repr(value), str(value)):
        assert 0 < len(printed.replace(str(place), "")) < MOST, len(printed)
    for word in words:
        assert word in repr(value), repr(value)


def test_every_value_of_a_public_function_is_here() -> None:
    returned = set()
    for module in (api, ancestors, deployment, explanation, texts):
        for name, function in vars(module).items():
            if name in clearhead.__all__ and callable(function):
                hints = getattr(function, "__annotations__", {})
                returned |= {word.strip("[]") for word in str(hints["return"]).replace("[", " ").split()}
    known = {*VALUES, *FEW, "list", "Path", "Array", "Iterator"}
    assert {name for name in returned if name[:1].isupper()} - known == set()
    public = {name for name in clearhead.__all__ if dataclasses.is_dataclass(getattr(clearhead, name))}
    assert public - known == set()


def test_values_that_a_file_named_stay_on_one_line() -> None:
    made = LabelAnswer(row=1, label="a\nb\x1b[2J" + "x" * 10_000, probability=0.5)
    assert len(repr(made)) < 200
    assert repr(made).isprintable()
    spans = SpanAnswer(row=1, answer="y" * 5000, nbest=())
    assert len(repr(spans)) < 200


def test_no_spans_and_no_answer_are_said() -> None:
    assert "no spans" in repr(TagsAnswer(row=1, spans=(), tags=("O",)))
    assert "answer=''" in repr(SpanAnswer(row=1, answer=""))
    assert "abstained" in repr(clearhead.Prediction(row=1, abstained=True))
