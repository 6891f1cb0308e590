"""From counted words to a vocabulary: byte-pair encoding, WordPiece or unigram, learned by the `tokenizers` library.

The library keeps its words in tables of random order, and so gives other ids (WordPiece), other scores (unigram) or,
where two pairs occur equally often, another vocabulary from the same text. Here the letters are numbered before it
begins and the pieces after it ends, so that the same text gives the same files.
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
MAX_TRAINING_WORDS = (
    20_000_000  # handed to the library one by one, repeated as often as they occur; shares are what matters
)
SCORE_DIGITS = 4  # of a score: beyond is the noise of sums in random order
UNUSED_SCORE_STEP = 1e-4  # between the scores of letters that no segmentation chose
MAX_WORD_LENGTH = 32  # characters that unigram learns from at a time: its work grows faster than their number
MAX_PIECE_LENGTH = 16  # characters, for unigram, as SentencePiece has it


class Alphabet:
    """Which characters a vocabulary keeps: all, or the most frequent."""

    def __init__(self, words: Mapping[str, int], choices: VocabularyPlan) -> None:
        counts: Counter[str] = Counter()
        for word, count in words.items():
            for letter in word:
                counts[letter] += count
        ranked = sorted(counts, key=lambda letter: (-counts[letter], letter))
        self.counts = counts
        self.characters = frozenset(ranked[: choices.characters])
        if choices.split == "byte-level":
            self.characters |= frozenset(pre_tokenizers.ByteLevel.alphabet())

    @property
    def coverage(self) -> float:
        """The share of the text that the kept characters make."""
        total = self.counts.total()
        return (
            sum(count for letter, count in self.counts.items() if letter in self.characters) / total if total else 1.0
        )


def build_preprocessor(choices: VocabularyPlan) -> Pipeline:
    """What happens to a text before the vocabulary is asked: normalising and splitting."""
    pipeline = Pipeline(models.BPE())
    steps = [step for name in choices.normalize for step in _step(name)]
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
    }[choices.split]()
    return pipeline


def count_words(stretches: Mapping[str, int], front: Pipeline) -> Counter[str]:
    """The words that a front makes of counted stretches, counted."""
    words: Counter[str] = Counter()
    with wrap_library_errors("the text cannot be split"):
        for stretch, count in stretches.items():
            normal = stretch if front.normalizer is None else front.normalizer.normalize_str(stretch)
            for word, _ in front.pre_tokenizer.pre_tokenize_str(normal):
                words[word] += count
    return words


def train_vocabulary(words: Mapping[str, int], letters: Alphabet, choices: VocabularyPlan) -> Pipeline:
    """A whole tokenizer with at most `choices.size` tokens."""
    room = choices.size - len(choices.special_tokens) - (len(BYTE_TOKENS) if choices.byte_fallback else 0)
    teach = _unigram if choices.kind == "unigram" else _pairs
    known, part = scale_counts(_kept(words, letters.characters))
    model = teach(known, letters, replace(choices, min_count=max(1, round(choices.min_count / part))), room)
    with wrap_library_errors("the vocabulary cannot be put together"):
        return _complete(model, choices)


def scale_counts(words: Mapping[str, int], most: int = MAX_TRAINING_WORDS) -> tuple[dict[str, int], int]:
    """Words with their counts, all divided by the number that brings them below `most`, and that number."""
    part = -(-sum(words.values()) // most)
    if part <= 1:
        return dict(words), 1
    return {word: less for word, count in words.items() if (less := (count + part // 2) // part)}, part


def _pairs(words: Mapping[str, int], letters: Alphabet, choices: VocabularyPlan, room: int) -> dict[str, Any]:
    """The model of BPE, and of WordPiece, whose pieces are found in the same way."""
    prefix = CONTINUATION if choices.kind == "wordpiece" else None
    suffix = WORD_END if choices.kind == "bpe" and choices.split in ("blanks", "whitespace", "bert") else None
    marked: set[str] = set()
    if prefix is not None:
        marked = {prefix + letter for word in words for letter in word[1:]}
    elif suffix is not None:
        marked = {word[-1] + suffix for word in words}
    _check_room(len(letters.characters) + len(marked), room, choices)
    given = (("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix))
    marks: dict[str, Any] = {name: mark for name, mark in given if mark is not None}
    # letters in their marked form are handed over first, in order: else they are numbered as the words happen to come
    trainer = trainers.BpeTrainer(
        vocab_size=room,
        min_frequency=choices.min_count,
        show_progress=False,
        special_tokens=sorted(marked),
        initial_alphabet=sorted(letters.characters),
        limit_alphabet=len(letters.characters),
        **marks,
    )
    found = _trained(Pipeline(models.BPE(**marks)), trainer, words)
    ids: dict[str, int] = found["vocab"]
    pieces = sorted((piece for piece in ids if piece not in choices.special_tokens), key=lambda piece: ids[piece])
    vocab = _numbered(pieces, choices)
    if choices.kind == "wordpiece":
        return {
            "type": "WordPiece",
            "vocab": vocab,
            "unk_token": choices.named_tokens["unk"],
            "continuing_subword_prefix": CONTINUATION,
            "max_input_chars_per_word": 100,
        }
    unknown = None if choices.split == "byte-level" else choices.named_tokens["unk"]
    model = {"dropout": None, "unk_token": unknown, "fuse_unk": unknown is not None, "ignore_merges": False}
    model |= {"continuing_subword_prefix": None, "end_of_word_suffix": suffix, "byte_fallback": choices.byte_fallback}
    return {"type": "BPE", **model, "vocab": vocab, "merges": found["merges"]}


def _unigram(words: Mapping[str, int], letters: Alphabet, choices: VocabularyPlan, room: int) -> dict[str, Any]:
    _check_room(len(letters.characters), room, choices)
    unknown = choices.named_tokens["unk"]
    trainer = trainers.UnigramTrainer(
        vocab_size=room + 1,  # its own unknown piece is among our special tokens
        show_progress=False,
        special_tokens=[unknown],
        unk_token=unknown,
        initial_alphabet=sorted(letters.characters),
        max_piece_length=MAX_PIECE_LENGTH,
    )
    frequent: Counter[str] = Counter()
    for word, count in words.items():
        for start in range(0, len(word) if count >= choices.min_count else 0, MAX_WORD_LENGTH):
            frequent[word[start : start + MAX_WORD_LENGTH]] += count
    found = _trained(Pipeline(models.Unigram()), trainer, frequent)
    scores = {piece: score for piece, score in found["vocab"] if piece not in choices.special_tokens}
    rare = _stepped({piece: score for piece, score in scores.items() if len(piece) == 1})
    # the library puts them in random order; here the more frequent letter gets the higher score
    ranked = sorted(rare, key=lambda piece: (-letters.counts[piece], piece))
    scores |= dict(zip(ranked, sorted(rare.values(), reverse=True), strict=True))
    rounded = {piece: round(score, SCORE_DIGITS) for piece, score in scores.items()}
    pieces = sorted(rounded, key=lambda piece: (-rounded[piece], piece))
    vocab = _numbered(pieces, choices)
    listed = [[piece, rounded.get(piece, 0.0)] for piece in vocab]
    return {"type": "Unigram", "unk_id": vocab[unknown], "vocab": listed, "byte_fallback": choices.byte_fallback}


def _stepped(scores: Mapping[str, float]) -> dict[str, float]:
    """The letters that no segmentation chose, to which the library gives scores in steps of STEP."""
    ranked = sorted(scores, key=lambda letter: scores[letter])
    runs: list[list[str]] = [[]]
    for before, letter in zip([None, *ranked], ranked, strict=False):
        if before is not None and abs(scores[letter] - scores[before] - UNUSED_SCORE_STEP) > UNUSED_SCORE_STEP * 1e-3:
            runs.append([])
        runs[-1].append(letter)
    return {letter: scores[letter] for letter in max(runs, key=len)}


def _numbered(pieces: list[str], choices: VocabularyPlan) -> dict[str, int]:
    """Ids in order: special tokens, bytes, pieces, and those special tokens that come last."""
    between = [*(BYTE_TOKENS if choices.byte_fallback else ()), *pieces]
    tokens = dict.fromkeys([*choices.first, *(token for token in between if token not in choices.last), *choices.last])
    return {token: place for place, token in enumerate(tokens)}


def _trained(pipeline: Pipeline, trainer: Any, words: Mapping[str, int]) -> dict[str, Any]:
    """The library's model of these words; without a pre-tokenizer, what is handed over is one word."""
    with wrap_library_errors("the vocabulary cannot be learned"):
        pipeline.train_from_iterator(_batches(words), trainer)
    model: dict[str, Any] = json.loads(pipeline.to_str())["model"]
    return model


def _batches(words: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    for word in sorted(words):
        count = words[word]
        while count:
            some = min(count, BATCH_SIZE - len(batch))
            batch.extend(repeat(word, some))
            count -= some
            if len(batch) == BATCH_SIZE:
                yield batch
                batch = []
    if batch:
        yield batch


def _kept(words: Mapping[str, int], letters: frozenset[str]) -> Counter[str]:
    """Words without the characters that are not kept, which part them."""
    made: Counter[str] = Counter()
    for word, count in words.items():
        if letters.issuperset(word):
            made[word] += count
            continue
        for part in "".join(letter if letter in letters else "\n" for letter in word).split("\n"):
            if part:
                made[part] += count
    return made


class VocabularyTooSmallError(InputError):
    """A vocabulary has no room for what it must hold; `need` tokens would do."""

    def __init__(self, need: int, said: str) -> None:
        super().__init__(said)
        self.min_size = need


def _check_room(letters: int, room: int, choices: VocabularyPlan) -> None:
    if letters <= room:
        return
    others = [f"{len(choices.special_tokens):,} special tokens"] + ["256 bytes"] * choices.byte_fallback
    need = choices.size - room + letters
    fewer = setting("characters", "SHARE")
    less = "" if choices.split == "byte-level" else f", or keep fewer characters with {fewer}"
    raise VocabularyTooSmallError(
        need,
        f"size {choices.size:,} is too small for {' and '.join(others)} and {letters:,} forms of single characters; "
        f"give at least {need:,}{less}.",
    )


def _complete(model: dict[str, Any], choices: VocabularyPlan) -> Pipeline:
    """The model with everything around it, as tokenizer.json has it."""
    front = build_preprocessor(choices)
    front.decoder = _decoder(choices)
    data = json.loads(front.to_str()) | {"model": model}
    pipeline = Pipeline.from_str(json.dumps(data))
    pipeline.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in choices.special_tokens])
    data = json.loads(pipeline.to_str())
    data["post_processor"] = _around(pipeline, choices)
    return Pipeline.from_str(json.dumps(data))


def _decoder(choices: VocabularyPlan) -> Any:
    if choices.kind == "wordpiece":
        # the library tidies up what words cut at signs look like, which would change texts cut at blanks alone
        return decoders.WordPiece(prefix=CONTINUATION, cleanup=choices.split != "blanks")
    if choices.split == "byte-level":
        return decoders.ByteLevel()
    if choices.split != "metaspace":
        return decoders.BPEDecoder(suffix=WORD_END)
    if not choices.byte_fallback:
        return decoders.Metaspace(replacement=METASPACE, prepend_scheme="always")
    steps = [decoders.Replace(METASPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    return decoders.Sequence(steps)


def _around(pipeline: Pipeline, choices: VocabularyPlan) -> dict[str, Any] | None:
    """What is put around one text or two; written as data, so that no name of a token is read as a template."""
    trimmed = None
    if choices.split == "byte-level":  # a token's characters do not include the blank before it
        trimmed = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    if choices.single == ("A",):
        return trimmed

    def part(name: str, segment: int) -> dict[str, Any]:
        if name in ("A", "B"):
            return {"Sequence": {"id": name, "type_id": segment}}
        return {"SpecialToken": {"id": choices.named_tokens[name], "type_id": segment}}

    used = {choices.named_tokens[name] for name, _ in choices.pair if name not in ("A", "B")}
    template = {
        "type": "TemplateProcessing",
        "single": [part(name, 0) for name in choices.single],
        "pair": [part(name, segment) for name, segment in choices.pair],
        "special_tokens": {
            token: {"id": token, "ids": [pipeline.token_to_id(token)], "tokens": [token]} for token in sorted(used)
        },
    }
    return template if trimmed is None else {"type": "Sequence", "processors": [trimmed, template]}


def _step(name: str) -> list[Any]:
    made: dict[str, Callable[[], list[Any]]] = {
        "nfc": lambda: [normalizers.NFC()],
        "nfkc": lambda: [normalizers.NFKC()],
        "lowercase": lambda: [normalizers.Lowercase()],
        "strip-accents": lambda: [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()],
        "bert": lambda: [normalizers.BertNormalizer(lowercase=True)],
        "bert-cased": lambda: [normalizers.BertNormalizer(lowercase=False)],
    }
    return made[name]()
