"""Train a BPE, WordPiece or unigram vocabulary from word counts with the `tokenizers` library.

The library iterates over hash tables in random order, so the same text can result in different ids (WordPiece),
scores (unigram) or, if two pairs are equally frequent, vocabularies. To make training deterministic, characters get
their ids before training, and pieces after it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Pipeline

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.text.files import wrap_library_errors
from clearhead.text.subwords import CONTINUATION, METASPACE, WORD_END
from clearhead.text.vocabulary.options import VocabularyPlan

BYTE_TOKENS = tuple(f"<0x{number:02X}>" for number in range(256))
BATCH_SIZE = 10_000
MAX_TRAINING_WORDS = 20_000_000  # passed to the library, with repetitions; larger counts are scaled down
SCORE_DIGITS = 4  # further digits depend on the random order of summation
UNUSED_CHARACTER_STEP = 1e-4  # difference between the scores of characters that no segmentation uses
MAX_UNIGRAM_WORD_LENGTH = 32  # characters of a unigram training word, because the work grows superlinearly
MAX_UNIGRAM_PIECE_LENGTH = 16  # characters of a unigram piece, as in SentencePiece


class Alphabet:
    """The characters that a vocabulary keeps: all, or the most frequent ones."""

    def __init__(self, words: Mapping[str, int], plan: VocabularyPlan) -> None:
        counts: Counter[str] = Counter()
        for word, count in words.items():
            for character in word:
                counts[character] += count
        ranked = sorted(counts, key=lambda character: (-counts[character], character))
        self.counts = counts
        self.characters = frozenset(ranked[: plan.characters])
        if plan.split == "byte-level":
            self.characters |= frozenset(pre_tokenizers.ByteLevel.alphabet())

    @property
    def coverage(self) -> float:
        """Share of the text that consists of kept characters."""
        total = self.counts.total()
        kept = sum(count for character, count in self.counts.items() if character in self.characters)
        return kept / total if total else 1.0


def build_preprocessor(plan: VocabularyPlan) -> Pipeline:
    """Build a pipeline with the normalizer and pre-tokenizer of a plan."""
    pipeline = Pipeline(models.BPE())
    steps = [step for name in plan.normalize for step in _make_normalizers(name)]
    if steps:
        pipeline.normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(steps)
    pipeline.pre_tokenizer = {
        "byte-level": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
        "metaspace": lambda: pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement=METASPACE, prepend_scheme="always")]
        ),
        "blanks": pre_tokenizers.WhitespaceSplit,
        "whitespace": pre_tokenizers.Whitespace,
        "bert": pre_tokenizers.BertPreTokenizer,
    }[plan.split]()
    return pipeline


def count_words(chunk_counts: Mapping[str, int], preprocessor: Pipeline) -> Counter[str]:
    """Preprocess counted chunks and return the counts of their words."""
    words: Counter[str] = Counter()
    with wrap_library_errors("The text cannot be split"):
        for chunk, count in chunk_counts.items():
            normalized = chunk if preprocessor.normalizer is None else preprocessor.normalizer.normalize_str(chunk)
            for word, _ in preprocessor.pre_tokenizer.pre_tokenize_str(normalized):
                words[word] += count
    return words


def train_vocabulary(words: Mapping[str, int], alphabet: Alphabet, plan: VocabularyPlan) -> Pipeline:
    """Train a complete tokenizer with at most `plan.size` tokens."""
    max_pieces = plan.size - len(plan.special_tokens) - (len(BYTE_TOKENS) if plan.byte_fallback else 0)
    train_model = _train_unigram if plan.kind == "unigram" else _train_merges
    training_words, divisor = scale_counts(_split_at_other_characters(words, alphabet.characters))
    scaled_plan = replace(plan, min_count=max(1, round(plan.min_count / divisor)))
    model = train_model(training_words, alphabet, scaled_plan, max_pieces)
    with wrap_library_errors("The tokenizer cannot be built from the trained vocabulary"):
        return _build_tokenizer(model, plan)


def scale_counts(words: Mapping[str, int], max_words: int = MAX_TRAINING_WORDS) -> tuple[dict[str, int], int]:
    """Divide counts by the smallest integer that reduces their sum to `max_words`; return counts and divisor."""
    divisor = -(-sum(words.values()) // max_words)
    if divisor <= 1:
        return dict(words), 1
    return {word: scaled for word, count in words.items() if (scaled := (count + divisor // 2) // divisor)}, divisor


def _train_merges(
    words: Mapping[str, int], alphabet: Alphabet, plan: VocabularyPlan, max_pieces: int
) -> dict[str, Any]:
    """Train a BPE model, or a WordPiece model, whose pieces also result from merges."""
    prefix = CONTINUATION if plan.kind == "wordpiece" else None
    suffix = WORD_END if plan.kind == "bpe" and plan.split in ("blanks", "whitespace", "bert") else None
    marked_characters: set[str] = set()
    if prefix is not None:
        marked_characters = {prefix + character for word in words for character in word[1:]}
    elif suffix is not None:
        marked_characters = {word[-1] + suffix for word in words}
    _check_capacity(len(alphabet.characters) + len(marked_characters), max_pieces, plan)
    affixes = (("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix))
    affix_options: dict[str, Any] = {name: affix for name, affix in affixes if affix is not None}
    # marked characters are passed first, sorted, because the library would assign their ids in order of occurrence
    trainer = trainers.BpeTrainer(
        vocab_size=max_pieces,
        min_frequency=plan.min_count,
        show_progress=False,
        special_tokens=sorted(marked_characters),
        initial_alphabet=sorted(alphabet.characters),
        limit_alphabet=len(alphabet.characters),
        **affix_options,
    )
    model = _train_model(Pipeline(models.BPE(**affix_options)), trainer, words)
    ids: dict[str, int] = model["vocab"]
    pieces = sorted((piece for piece in ids if piece not in plan.special_tokens), key=lambda piece: ids[piece])
    vocab = _assign_ids(pieces, plan)
    if plan.kind == "wordpiece":
        return {
            "type": "WordPiece",
            "vocab": vocab,
            "unk_token": plan.named_tokens["unk"],
            "continuing_subword_prefix": CONTINUATION,
            "max_input_chars_per_word": 100,
        }
    unk_token = None if plan.split == "byte-level" else plan.named_tokens["unk"]
    model_data = {"dropout": None, "unk_token": unk_token, "fuse_unk": unk_token is not None, "ignore_merges": False}
    model_data |= {"continuing_subword_prefix": None, "end_of_word_suffix": suffix, "byte_fallback": plan.byte_fallback}
    return {"type": "BPE", **model_data, "vocab": vocab, "merges": model["merges"]}


def _train_unigram(
    words: Mapping[str, int], alphabet: Alphabet, plan: VocabularyPlan, max_pieces: int
) -> dict[str, Any]:
    _check_capacity(len(alphabet.characters), max_pieces, plan)
    unk_token = plan.named_tokens["unk"]
    trainer = trainers.UnigramTrainer(
        vocab_size=max_pieces + 1,  # the library also counts the unknown token
        show_progress=False,
        special_tokens=[unk_token],
        unk_token=unk_token,
        initial_alphabet=sorted(alphabet.characters),
        max_piece_length=MAX_UNIGRAM_PIECE_LENGTH,
    )
    segment_counts: Counter[str] = Counter()
    for word, count in words.items():
        for start in range(0, len(word) if count >= plan.min_count else 0, MAX_UNIGRAM_WORD_LENGTH):
            segment_counts[word[start : start + MAX_UNIGRAM_WORD_LENGTH]] += count
    model = _train_model(Pipeline(models.Unigram()), trainer, segment_counts)
    scores = {piece: score for piece, score in model["vocab"] if piece not in plan.special_tokens}
    unused_scores = _find_unused_characters({piece: score for piece, score in scores.items() if len(piece) == 1})
    # the library orders them randomly; here more frequent characters get higher scores
    ranked = sorted(unused_scores, key=lambda piece: (-alphabet.counts[piece], piece))
    scores |= dict(zip(ranked, sorted(unused_scores.values(), reverse=True), strict=True))
    rounded_scores = {piece: round(score, SCORE_DIGITS) for piece, score in scores.items()}
    pieces = sorted(rounded_scores, key=lambda piece: (-rounded_scores[piece], piece))
    vocab = _assign_ids(pieces, plan)
    vocab_rows = [[piece, rounded_scores.get(piece, 0.0)] for piece in vocab]
    return {"type": "Unigram", "unk_id": vocab[unk_token], "vocab": vocab_rows, "byte_fallback": plan.byte_fallback}


def _find_unused_characters(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the characters that no segmentation uses, which the library scores in equal steps."""
    ranked = sorted(scores, key=lambda character: scores[character])
    runs: list[list[str]] = [[]]
    for previous, character in zip([None, *ranked], ranked, strict=False):
        if (
            previous is not None
            and abs(scores[character] - scores[previous] - UNUSED_CHARACTER_STEP) > UNUSED_CHARACTER_STEP * 1e-3
        ):
            runs.append([])
        runs[-1].append(character)
    return {character: scores[character] for character in max(runs, key=len)}


def _assign_ids(pieces: list[str], plan: VocabularyPlan) -> dict[str, int]:
    """Assign ids to leading special tokens, bytes, pieces and trailing special tokens, in this order."""
    ordinary_tokens = [*(BYTE_TOKENS if plan.byte_fallback else ()), *pieces]
    trailing_tokens = plan.trailing_tokens
    leading_tokens = [*plan.leading_tokens, *(token for token in ordinary_tokens if token not in trailing_tokens)]
    tokens = dict.fromkeys([*leading_tokens, *trailing_tokens])
    return {token: token_id for token_id, token in enumerate(tokens)}


def _train_model(pipeline: Pipeline, trainer: Any, words: Mapping[str, int]) -> dict[str, Any]:
    """Run a trainer on words and return the model as JSON data. Without a pre-tokenizer, each input is a word."""
    with wrap_library_errors("The vocabulary cannot be trained"):
        pipeline.train_from_iterator(_iter_batches(words), trainer)
    model: dict[str, Any] = json.loads(pipeline.to_str())["model"]
    return model


def _iter_batches(words: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    for word in sorted(words):
        count = words[word]
        while count:
            repeats = min(count, BATCH_SIZE - len(batch))
            batch.extend(repeat(word, repeats))
            count -= repeats
            if len(batch) == BATCH_SIZE:
                yield batch
                batch = []
    if batch:
        yield batch


def _split_at_other_characters(words: Mapping[str, int], characters: frozenset[str]) -> Counter[str]:
    """Split words at characters outside the alphabet and return the counts of the parts."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        if characters.issuperset(word):
            counts[word] += count
            continue
        for segment in "".join(character if character in characters else "\n" for character in word).split("\n"):
            if segment:
                counts[segment] += count
    return counts


class VocabularyTooSmallError(InputError):
    """The vocabulary size is too small for special tokens, bytes and characters; `min_size` would suffice."""

    def __init__(self, min_size: int, message: str) -> None:
        super().__init__(message)
        self.min_size = min_size


def _check_capacity(character_count: int, max_pieces: int, plan: VocabularyPlan) -> None:
    if character_count <= max_pieces:
        return
    fixed_tokens = [f"{len(plan.special_tokens):,} special tokens"] + ["256 bytes"] * plan.byte_fallback
    min_size = plan.size - max_pieces + character_count
    characters_setting = setting("characters", "SHARE")
    hint = "" if plan.split == "byte-level" else f", or limit the characters with {characters_setting}"
    raise VocabularyTooSmallError(
        min_size,
        f"size {plan.size:,} is too small for {' and '.join(fixed_tokens)} and {character_count:,} single-character "
        f"tokens; use at least {min_size:,}{hint}.",
    )


def _build_tokenizer(model: dict[str, Any], plan: VocabularyPlan) -> Pipeline:
    """Build a tokenizer from a model and the preprocessing, decoder and post-processor of a plan."""
    preprocessor = build_preprocessor(plan)
    preprocessor.decoder = _make_decoder(plan)
    data = json.loads(preprocessor.to_str()) | {"model": model}
    pipeline = Pipeline.from_str(json.dumps(data))
    pipeline.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in plan.special_tokens])
    data = json.loads(pipeline.to_str())
    data["post_processor"] = _make_post_processor(pipeline, plan)
    return Pipeline.from_str(json.dumps(data))


def _make_decoder(plan: VocabularyPlan) -> Any:
    if plan.kind == "wordpiece":
        # cleanup joins punctuation to words, which must not happen if text is split only at whitespace
        return decoders.WordPiece(prefix=CONTINUATION, cleanup=plan.split != "blanks")
    if plan.split == "byte-level":
        return decoders.ByteLevel()
    if plan.split != "metaspace":
        return decoders.BPEDecoder(suffix=WORD_END)
    if not plan.byte_fallback:
        return decoders.Metaspace(replacement=METASPACE, prepend_scheme="always")
    return decoders.Sequence(
        [decoders.Replace(METASPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )


def _make_post_processor(pipeline: Pipeline, plan: VocabularyPlan) -> dict[str, Any] | None:
    """Make the post-processor as JSON data, so that token contents are not parsed as templates."""
    byte_level = None
    if plan.split == "byte-level":  # token offsets exclude the space before a word
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    if plan.single_template == ("A",):
        return byte_level

    def make_element(name: str, segment: int) -> dict[str, Any]:
        if name in ("A", "B"):
            return {"Sequence": {"id": name, "type_id": segment}}
        return {"SpecialToken": {"id": plan.named_tokens[name], "type_id": segment}}

    special_tokens = {plan.named_tokens[name] for name, _ in plan.pair_template if name not in ("A", "B")}
    template = {
        "type": "TemplateProcessing",
        "single": [make_element(name, 0) for name in plan.single_template],
        "pair": [make_element(name, segment) for name, segment in plan.pair_template],
        "special_tokens": {
            token: {"id": token, "ids": [pipeline.token_to_id(token)], "tokens": [token]}
            for token in sorted(special_tokens)
        },
    }
    return template if byte_level is None else {"type": "Sequence", "processors": [byte_level, template]}


def _make_normalizers(name: str) -> list[Any]:
    factories: dict[str, Callable[[], list[Any]]] = {
        "nfc": lambda: [normalizers.NFC()],
        "nfkc": lambda: [normalizers.NFKC()],
        "lowercase": lambda: [normalizers.Lowercase()],
        "strip-accents": lambda: [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()],
        "bert": lambda: [normalizers.BertNormalizer(lowercase=True)],
        "bert-cased": lambda: [normalizers.BertNormalizer(lowercase=False)],
    }
    return factories[name]()
