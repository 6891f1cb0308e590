"""Session fixtures: one tiny encoder and a few runs, which no test changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearhead.api import train
from clearhead.train import network
from clearhead.train.finish import Run
from tests.rows import QUICK, make_multilabel_rows, make_pair_rows, make_scored_rows
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a two-layer BERT with a vocabulary of about thirty words."""
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 rows with a positive or a negative word, as CSV."""
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", make_sentiment_rows(200))


@pytest.fixture(scope="session")
def fine_tuned_run(tiny: str, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A network fine-tuned on the reviews; the best epoch is selected on 20 dev rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "MIN_DEV_ROWS", 20)
        return train(reviews, output=tmp_path_factory.mktemp("runs") / "fitted", model=tiny, epochs=8, **QUICK)


@pytest.fixture(scope="session")
def tfidf_run(reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A TF-IDF model of the reviews, which trains in milliseconds."""
    return train(reviews, output=tmp_path_factory.mktemp("runs") / "words", method="tfidf")


@pytest.fixture(scope="session")
def multilabel_run(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A network for multi-label classification."""
    return train(
        make_multilabel_rows(240), output=tmp_path_factory.mktemp("runs") / "several", model=tiny, epochs=8, **QUICK
    )


@pytest.fixture(scope="session")
def pair_run(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A network for pairs of texts."""
    return train(make_pair_rows(200), output=tmp_path_factory.mktemp("runs") / "pair", model=tiny, epochs=8, **QUICK)


@pytest.fixture(scope="session")
def regression_run(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A regression network for numbers with mean 1000 and standard deviation 300."""
    return train(
        make_scored_rows(160), output=tmp_path_factory.mktemp("runs") / "number", model=tiny, epochs=10, **QUICK
    )
