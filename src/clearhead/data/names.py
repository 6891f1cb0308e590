"""Usual names of columns, best first."""

from __future__ import annotations

TEXT_NAMES = (
    "text",
    "sentence",
    "review",
    "body",
    "content",
    "message",
    "document",
    "comment",
    "tweet",
    "utterance",
    "question",
    "query",
    "passage",
    "context",
    "description",
    "review_body",
    "review_text",
    "abstract",
    "article",
    "post",
    "sms",
    "prompt",
    "input",
    "txt",
    "title",
    "headline",
    "subject",
    "summary",
)

PAIR_NAMES = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("text_a", "text_b"),
    ("text", "text_b"),
    ("first", "second"),
    ("s1", "s2"),
    ("q1", "q2"),
    ("question", "sentence"),
    ("question", "passage"),
    ("question", "context"),
    ("1_string", "2_string"),
    ("question", "answer"),
    ("query", "passage"),
    ("query", "document"),
    ("query", "text"),
    ("claim", "evidence"),
    ("text", "aspect"),
    ("sentence", "aspect"),
    ("review", "aspect"),
    ("text", "target"),
    ("sentence", "target"),
)

# pairs of which neither name is ever a label: two texts, even if they are short
TEXT_PAIR_NAMES = frozenset(
    pair for pair in PAIR_NAMES if not {"aspect", "answer", "target", "first", "second", "s1", "q1"} & set(pair)
)

LABEL_NAMES = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
    "intent",
    "gold_label",
    "label_text",
    "topic",
    "tag",
    "tags",
    "categories",
    "classes",
    "polarity",
    "emotion",
    "emotions",
    "entailment",
    "coarse",
    "coarse_label",
    "is_duplicate",
    "is_spam",
    "spam",
    "type",
    "score",
    "similarity",
    "relatedness",
    "similarity_score",
    "rating",
    "stars",
    "y",
    "output",
    "grade",
    "answer",
)

NUMBER_NAMES = (
    "score",
    "similarity",
    "relatedness",
    "similarity_score",
    "rating",
    "stars",
    "grade",
    "target",
    "y",
    "label",
)

ID_NAMES = ("id", "_id", "idx", "uid", "uuid", "guid", "example_id", "row_id", "text_id")

SPLIT_NAMES = ("split", "set", "subset", "partition", "fold", "part")

SPLIT_ALIASES = {
    "train": "train",
    "training": "train",
    "trn": "train",
    "dev": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "develop": "dev",
    "development": "dev",
    "eval": "dev",
    "test": "test",
    "testing": "test",
    "tst": "test",
    "heldout": "test",
    "held-out": "test",
    "holdout": "test",
}

KNOWN_NAMES = frozenset(
    (
        *TEXT_NAMES,
        *LABEL_NAMES,
        *ID_NAMES,
        *SPLIT_NAMES,
        *(name for pair in PAIR_NAMES for name in pair),
        "index",
        "name",
        "date",
    )
)


def normalize_name(name: str) -> str:
    """Normalize a column name for comparison: `Review Text` and `#review-text` become `review_text`."""
    return name.strip().lstrip("#").strip().casefold().replace(" ", "_").replace("-", "_")
