"""Description of a model folder without a network: TF-IDF, word vectors or the majority class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.passport import read_passport
from clearhead.model.describe import Description, size_rows, training_facts, training_rows
from clearhead.predict.loading import load_predictor
from clearhead.predict.predictor import Predictor
from clearhead.predict.scoring import ClassicScorer, VectorScorer

if TYPE_CHECKING:
    from clearhead.classic import ClassicModel
    from clearhead.words import WordVectors


def collect_classic_facts(folder: Path) -> dict[str, Any]:
    """Collect what `clearhead describe` prints, as plain values."""
    predictor, classic, vectors = _load_classic_folder(folder)
    passport = read_passport(folder)
    settings = None if classic.tfidf is None else classic.tfidf.settings
    return {
        "method": predictor.method,
        "task": predictor.task.name,
        "labels": list(predictor.space.names),
        "terms": None if classic.tfidf is None else len(classic.tfidf.terms),
        "tfidf": None if settings is None else vars(settings),
        "strength": None if classic.linear is None else classic.linear.strength,
        "words": None if vectors is None else len(vectors),
        "width": None if vectors is None else vectors.width,
        "parameters": (parameters := _count_parameters(classic) + (0 if vectors is None else int(vectors.matrix.size))),
        "memory_bytes": 4 * parameters,
        "passport": None if passport is None else {"clearhead": passport.clearhead, **training_facts(passport)},
    }


def format_classic_facts(folder: Path) -> list[tuple[str, str]]:
    """Format the facts as rows of a table."""
    facts = collect_classic_facts(folder)
    rows = [("parameters", f"{facts['parameters']:,} ({facts['memory_bytes'] / 1e6:,.2f} MB)")]
    if facts["terms"] is not None:
        rows.insert(0, ("terms", f"{facts['terms']:,}"))
    if facts["words"] is not None:
        rows.insert(0, ("word vectors", f"{facts['words']:,} of width {facts['width']}"))
    if labels := facts["labels"]:
        rows.append(("labels", ", ".join(labels[:12]) + (" ..." if len(labels) > 12 else "")))
    passport = read_passport(folder)
    return rows if passport is None else [*rows, *training_rows(passport)]


def describe_classic(folder: Path, reference: str, disk_bytes: int) -> Description:
    """Describe a model folder as facts and a table."""
    facts = {"reference": reference, "disk_bytes": disk_bytes} | collect_classic_facts(folder)
    return Description(facts=facts, tables=((reference, (*format_classic_facts(folder), *size_rows(disk_bytes))),))


def _load_classic_folder(folder: Path) -> tuple[Predictor, ClassicModel, WordVectors | None]:
    predictor = load_predictor(folder)
    scorer: Any = predictor.scorer
    assert isinstance(scorer, ClassicScorer | VectorScorer)  # all others have an encoder
    return predictor, scorer.classic, scorer.vectors if isinstance(scorer, VectorScorer) else None


def _count_parameters(classic: ClassicModel) -> int:
    """Count the learned parameters."""
    count = int(classic.bias.size)
    if classic.linear is not None:
        count += int(classic.linear.weight.size)
    return count + (0 if classic.tfidf is None else int(classic.tfidf.idf.size))
