"""A tag for every word: names in a text, parts of speech, aspects of a review.

BERT answers from every token: a linear layer over the last hidden state of the first piece of each word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.data.table import TokenTable
from clearhead.tasks.beside import tag_parts
from clearhead.tasks.encoded import Encoded
from clearhead.tasks.looked import pick_tags
from clearhead.tasks.occlusion import watch_tags
from clearhead.tasks.ragged import Ragged
from clearhead.tasks.tag.alignment import INHERITS, TAG_FORM
from clearhead.tasks.tag.columns import columns
from clearhead.tasks.tag.rows import TagCounter
from clearhead.tasks.tag.sequences import best_tags
from clearhead.tasks.task import Answers, Details, Reading, Task

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]

OUTSIDE = "O"
MOST_SQUARE = 100
LENIENT = "iob"  # of other people's models: an I- may begin an entity, as IOB1 has it


def collect(values: Array, data: Encoded) -> Ragged:
    """(words, outputs) of each row, out of those of all tokens."""
    import numpy as np

    return words(values[data.marked(np.arange(len(data)))["reads"]], data)


def words(values: Array, data: Encoded) -> Ragged:
    """The same out of the words that are read.

    Infinity stands for a word inside the token of an earlier one, NaN for a word of which no token is left.
    """
    import numpy as np

    places = data.marks.places[data.places]
    made = np.where(places.values[:, None] == INHERITS, np.inf, np.nan) * np.ones((1, values.shape[1]), np.float32)
    made[places.values >= 0] = values
    return Ragged(values=made.astype(np.float32), bounds=places.bounds)


def read(logits: Ragged, space: LabelSpace, reading: Reading) -> Answers:
    """The most probable tags that may stand in this order."""
    import numpy as np

    from clearhead.metrics import apply_temperature

    values = np.asarray(logits.values, np.float64)
    known = np.isfinite(values[:, 0])
    probs = np.zeros_like(values)
    outside = space.ids.get(OUTSIDE, 0)
    probs[:, outside] = 1.0
    if OUTSIDE not in space.ids:
        probs[:] = 1 / len(space)  # nothing is known of a word without a token
    if known.any():
        probs[known] = apply_temperature(values[known], reading.temperature)
    counts = np.bincount(logits.owners[known], minlength=len(logits))
    clear = Ragged(values=np.log(np.maximum(probs[known], 1e-30)), bounds=np.concatenate([[0], np.cumsum(counts)]))
    labels = np.full(len(values), outside)
    labels[known] = best_tags(clear, space.names, lenient=space.scheme == LENIENT).values
    _fill(labels, probs, values, logits.bounds, space)
    bounds = logits.bounds
    answers = Answers(labels=Ragged(values=labels, bounds=bounds), probs=Ragged(values=probs, bounds=bounds))
    if reading.abstain_below is None:
        return answers
    return replace(answers, abstained=confidence(answers) < reading.abstain_below)


def _fill(labels: Array, probs: Array, values: Array, bounds: Array, space: LabelSpace) -> None:
    """Words that no token stands for: inside an earlier word's token they go on with it, and gaps are closed."""
    import numpy as np

    plain = space.scheme == "plain"
    inside = {name: space.ids.get(name if plain else f"I-{name[2:]}") for name in space.names}
    starts = set(bounds[:-1].tolist())
    for place in np.flatnonzero(~np.isfinite(values[:, 0])).tolist():
        if place in starts:
            continue
        goes_on = inside[space.names[labels[place - 1]]]
        after = place + 1
        gap = after < len(labels) and after not in starts and labels[after] == goes_on
        if goes_on is not None and (np.isposinf(values[place, 0]) or (gap and not plain)):
            labels[place] = goes_on
            probs[place] = 0.0
            probs[place, goes_on] = 1.0  # no more and no less sure than what it belongs to


def confidence(answers: Answers) -> Array:
    """How sure a row is: the probability of its least sure tag."""
    import numpy as np

    labels, probs = answers.labels, answers.probs
    own = probs.values[np.arange(len(labels.values)), labels.values]
    made = np.ones(len(labels))
    np.minimum.at(made, labels.owners, own)
    return made


def right(answers: Answers, targets: Ragged) -> Array:
    """Whether every word of a row has its tag."""
    import numpy as np

    wrong = np.bincount(targets.owners, weights=answers.labels.values != targets.values, minlength=len(targets))
    return np.asarray(wrong == 0)


def fit(logits: Ragged, targets: Ragged, space: LabelSpace) -> Reading:
    """The temperature that makes the probabilities of words honest."""
    import numpy as np

    from clearhead.metrics import fit_temperature

    known = np.isfinite(logits.values[:, 0])
    if int(known.sum()) < 10 or len(space) < 2:
        return Reading()
    return Reading(temperature=float(fit_temperature(logits.values[known], targets.values[known])))


def spans_of(tags: Sequence[str], scheme: str | None) -> list[tuple[int, int, str]]:
    """The entities of one row: first word, one past the last, type; of plain tags, every word."""
    from clearhead.metrics import entities

    if scheme == "plain":
        return [(place, place + 1, tag) for place, tag in enumerate(tags)]
    return entities(tags)


def row_spans(rows: Ragged, space: LabelSpace) -> list[list[tuple[int, int, str]]]:
    """The entities of every row."""
    return [spans_of([space.names[tag] for tag in row], space.scheme) for row in rows]


def measure(answers: Answers, targets: Ragged, space: LabelSpace, n: int) -> dict[str, Interval]:
    """Precision, recall and F1 of whole entities and the accuracy of words; of plain tags, those of words alone."""
    from clearhead.metrics import accuracy, bootstrap, f1, measure_entities

    groups = targets.owners
    true, said = targets.values, answers.labels.values
    made = {"accuracy": bootstrap(accuracy, true, said, n=n, groups=groups)}
    if space.scheme == "plain":
        return made | {"f1_macro": bootstrap(f1, true, said, n=n, groups=groups)}
    return measure_entities(_counts(answers, targets, space), n=n) | made


def _counts(answers: Answers, targets: Ragged, space: LabelSpace) -> Any:
    from clearhead.metrics import entity_counts

    return entity_counts(row_spans(targets, space), row_spans(answers.labels, space))


def details(answers: Answers, targets: Ragged, space: LabelSpace) -> Details:
    """Scores by type of entity; of plain tags, by tag and against each other."""
    from clearhead.metrics import confusion, entity_table, label_table

    true, said = targets.values, answers.labels.values
    if space.scheme != "plain":
        table = tuple(entity_table(_counts(answers, targets, space)))
        return Details(label_scores=table, probs=answers.probs.values, truth=true)
    square = None
    if len(space) <= MOST_SQUARE:
        square = tuple(tuple(int(count) for count in row) for row in confusion(true, said, len(space)))
    table = tuple(label_table(true, said, space.names))
    return Details(confusion=square, label_scores=table, probs=answers.probs.values, truth=true)


def weights(data: Encoded) -> Array:
    """Every word counts alike, so that a row counts by its words."""
    import numpy as np

    places = data.marks.places[data.places]
    return np.bincount(places.owners, weights=places.values >= 0, minlength=len(data))


def baseline(data: Encoded) -> float:
    """The entropy of the tags."""
    import numpy as np

    counts = np.bincount(data.targets.values)
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())


def floor(data: Encoded) -> float:
    """No entity is found by one who says O throughout."""
    return 0.0


def strata(targets: Ragged, space: LabelSpace) -> tuple[Array, str]:
    """Rows go by the rarest type of tag in them."""
    import numpy as np

    made = np.zeros((len(targets), len(space)), np.uint8)
    made[targets.owners, targets.values] = 1
    if OUTSIDE in space.ids:
        made[:, space.ids[OUTSIDE]] = 0
    return made, "multilabel"


def unread(table: TokenTable) -> tuple[str, Array]:
    """Rows with a tag that no token can say: on a word that the tokenizer drops, or joins with the one before."""
    import numpy as np

    assert table.space is not None
    places, targets, space = table.marks.places, table.labels, table.space
    reached = np.where(places.values >= 0, targets.values, space.ids.get(OUTSIDE, -1))
    lone = np.where(places.values >= 0, 0.0, np.where(places.values == INHERITS, np.inf, np.nan))
    _fill(reached, np.zeros((len(reached), len(space))), lone[:, None], targets.bounds, space)
    what = "a tag on a word without a token of its own: it cannot be learned"
    return what, np.unique(targets.owners[reached != targets.values])


TAG = Task(
    name="tag",
    about="a tag for every word: names, parts of speech",
    head="tag",
    second=False,
    kinds=("tags",),
    outputs=lambda space: space.names,
    objective=lambda space: "tags",
    read=read,
    fit=fit,
    measure=measure,
    confidence=confidence,
    right=right,
    main=lambda space: "accuracy" if space.scheme == "plain" else "f1",
    methods=("finetune", "head", "features"),
    form=TAG_FORM,
    columns=columns,
    counter=TagCounter,
    collect=collect,
    words=words,
    weights=weights,
    baseline=baseline,
    floor=floor,
    strata=strata,
    details=details,
    parts=tag_parts,
    picks=pick_tags,
    watch=watch_tags,
    unread=unread,
    metrics=lambda space: (
        ("accuracy", "f1_macro") if space.scheme == "plain" else ("f1", "precision", "recall", "f1_macro", "accuracy")
    ),
    long=(None, 64),
)
