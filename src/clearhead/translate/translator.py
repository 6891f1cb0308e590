"""The model of a translation run: a new model with its own tokenizers, or a checkpoint that is trained further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.families import FAMILIES
from clearhead.families.family import parse_config_option
from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.jobs.plan import RunPlan
from clearhead.model import Model
from clearhead.model.loading import create, load, new_shape
from clearhead.shape import ModelShape
from clearhead.tasks.parallel import ParallelDataset, pack_token_ids
from clearhead.text import load_tokenizer
from clearhead.text.vocabulary.options import MAX_VOCABULARY_SIZE
from clearhead.text.vocabulary.trainer import VocabularyTooSmallError
from clearhead.translate.dataset import Pair, ParallelTexts

if TYPE_CHECKING:
    from clearhead.jobs.events import RunEvents
    from clearhead.text import Tokenizer

TOKENIZER_FOLDER = "vocabulary"  # subfolder with the tokenizers of a run
VOCAB_SIZES = {"tiny": 4000, "mini": 6000, "small": 8000, "base": 16000, "big": 32000}  # unless vocab_size is set
DEFAULT_PRESET = "small"
CONFIG_EXAMPLE = '{"dropout": 0.3}'  # for error messages
MIN_BYTE_FALLBACK_SIZE = 2000  # smallest vocabulary with the 256 bytes, which leave no character unknown
DEFAULT_MAX_LENGTH = 256  # tokens of a training text, unless max_length is set


def is_new_model(plan: RunPlan) -> bool:
    """Whether the run trains a new model: no checkpoint was given."""
    return plan.model == "default"


def resolve_shape(plan: RunPlan) -> ModelShape:
    """Return the shape of a new model before its vocabulary exists."""
    family = FAMILIES[plan.family or "transformer"]
    if (plan.preset or DEFAULT_PRESET) not in family.presets:
        raise InputError(f"{family.title} has no preset {plan.preset!r}; it has {', '.join(family.presets)}.")
    overrides = parse_config_option(plan.config, CONFIG_EXAMPLE)
    return new_shape(family.model_type, plan.preset or DEFAULT_PRESET, overrides, "seq2seq")[1]


def make_model(plan: RunPlan, texts: ParallelTexts, folder: Path, events: RunEvents) -> Model:
    """Load the given checkpoint, or create a new model."""
    if not is_new_model(plan):
        if plan.family or plan.preset or plan.config or plan.vocab_size:
            raise InputError("family, preset, config and vocab_size are for new models; a checkpoint has its own.")
        return _load_checkpoint(plan, events)
    source, target = _make_tokenizers(plan, texts, folder, events)
    return _create_model(plan, source, target, parse_config_option(plan.config, CONFIG_EXAMPLE))


def _load_checkpoint(plan: RunPlan, events: RunEvents) -> Model:
    model = load(plan.model, "core", head="seq2seq", device=plan.device, progress=events.download)
    if model.shape.decoder is None or model.source_tokenizer is None:
        raise InputError(
            f"{plan.model} cannot be trained to translate: it needs an encoder, a decoder and a tokenizer."
        )
    return model


def _make_tokenizers(
    plan: RunPlan, texts: ParallelTexts, folder: Path, events: RunEvents
) -> tuple[Tokenizer, Tokenizer]:
    """Train the source and the target tokenizer (or a shared one) on the training rows once; later runs load them."""
    parent, vocab_size = folder / TOKENIZER_FOLDER, plan.vocab_size or VOCAB_SIZES[plan.preset or DEFAULT_PRESET]
    rows = texts.parts["train"]
    training_texts = (
        {"shared": [text for pair in rows for text in (pair.source, pair.target)]}
        if plan.shared
        else {
            "source": [pair.source for pair in rows],
            "target": [pair.target for pair in rows],
        }
    )
    tokenizers = {}
    for name, texts_of_side in training_texts.items():
        if not (parent / name).exists():
            split = "metaspace" if plan.pieces != "wordpiece" else "blanks"  # both are lossless
            is_character_level = plan.pieces == "characters"
            try:
                learned = learn_tokenizer(
                    iter(texts_of_side),
                    parent / name,
                    kind="bpe" if is_character_level else plan.pieces,
                    use="transformer",
                    vocab_size=vocab_size,
                    split=split,
                    normalize="nfc",
                    byte_fallback=plan.pieces != "wordpiece" and vocab_size >= MIN_BYTE_FALLBACK_SIZE,
                    min_count=MAX_VOCABULARY_SIZE
                    if is_character_level
                    else None,  # no pair is this frequent: nothing is merged
                )
            except VocabularyTooSmallError as error:
                problem = f"A vocabulary of {vocab_size:,} tokens is too small for the characters of these rows"
                raise InputError(f"{problem}; use at least {setting('vocab_size', error.min_size)}.") from None
            size = f"{learned.vocabulary:,} tokens, {learned.tokens_per_word:.2f} per word"
            events.message(f"vocabulary ({name}): {size}")
        tokenizers[name] = load_tokenizer(parent / name, "transformer", {"model_type": "transformer"}).source
    if plan.shared:
        return tokenizers["shared"], tokenizers["shared"]
    return tokenizers["source"], tokenizers["target"]


def _create_model(plan: RunPlan, source: Tokenizer, target: Tokenizer, overrides: dict[str, Any]) -> Model:
    family = plan.family or "transformer"
    config: dict[str, Any] = {
        "vocab_size": source.vocab_size,
        "pad_token_id": source.pad_id,
        "eos_token_id": target.eos_id,
        "decoder_start_token_id": target.bos_id,
    }
    if target is not source:
        config["target_vocab_size"] = target.vocab_size
    model = create(
        family,
        plan.preset or DEFAULT_PRESET,
        config=config | overrides,
        head="seq2seq",
        tokenizer=source,
        device=plan.device,
        seed=plan.settings.seed,
    )
    return model if target is source else replace(model, target_tokenizer=target)


def encode_pairs(model: Model, pairs: Sequence[Pair], plan: RunPlan) -> tuple[ParallelDataset, int]:
    """Tokenize the training rows, and count those that are skipped because a text is too long."""
    import numpy as np

    target_tokenizer = model.target_tokenizer or model.tokenizer
    max_length = plan.max_length or min(DEFAULT_MAX_LENGTH, model.max_length() or DEFAULT_MAX_LENGTH)
    encoded_sources = model.tokenizer.encode_ids([plan.prefix + pair.source for pair in pairs], max_length=max_length)
    encoded_targets = target_tokenizer.encode_ids([pair.target for pair in pairs], max_length=max_length)
    sources, targets = [encoding.ids for encoding in encoded_sources], [encoding.ids for encoding in encoded_targets]
    kept_rows = [
        row for row in range(len(pairs)) if not encoded_sources[row].truncated and not encoded_targets[row].truncated
    ]
    if not kept_rows:
        option = setting("max_length", "N")
        raise InputError(f"Every row is longer than {max_length} tokens; raise the limit with {option}.")
    start = model.shape.decoder_start_id
    if start is None:
        raise InputError(f"The config of {model.reference} does not define a decoder start token.")
    dataset = ParallelDataset(
        source=pack_token_ids([sources[row] for row in kept_rows]),
        target=pack_token_ids([targets[row] for row in kept_rows]),
        start_id=start,
        row_numbers=np.array([pairs[row].number for row in kept_rows]),
    )
    return dataset, len(pairs) - len(kept_rows)
