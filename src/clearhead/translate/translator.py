"""The model of a translation run: a new one with a vocabulary of its own, or a checkpoint that is taught further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from clearhead.translate.dataset import Pair, Texts

if TYPE_CHECKING:
    from clearhead.jobs.events import RunEvents
    from clearhead.text import Tokenizer

VOCABULARY = "vocabulary"  # the folder of a run's own tokenizers
SIZES = {"tiny": 4000, "mini": 6000, "small": 8000, "base": 16000, "big": 32000}  # tokens, unless it is said
PRESET = "small"
EXAMPLE = '{"dropout": 0.3}'  # of keys of its config.json
ROOM = 2000  # tokens of a vocabulary that has room for the 256 bytes, so that no letter is ever unknown
LONGEST = 256  # tokens of a text to learn from, unless it is said


@dataclass(frozen=True, kw_only=True)
class Tongues:
    """A tokenizer for what is read and one for what is written; they may be the same."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """Whether both languages have one vocabulary."""
        return self.source is self.target


def is_new(plan: RunPlan) -> bool:
    """Whether a model is made from nothing: no checkpoint was named."""
    return plan.model == "default"


def planned_shape(plan: RunPlan) -> ModelShape:
    """The architecture of a new model, whose vocabulary is not known yet."""
    family = FAMILIES[plan.family or "transformer"]
    if (plan.preset or PRESET) not in family.presets:
        raise InputError(f"{family.title} has no preset {plan.preset!r}; it has {', '.join(family.presets)}.")
    said = parse_config_option(plan.config, EXAMPLE)
    return new_shape(family.model_type, plan.preset or PRESET, said, "seq2seq")[1]


def make_model(plan: RunPlan, texts: Texts, folder: Path, events: RunEvents) -> Model:
    """What is trained: the checkpoint that was named, or a new model."""
    if not is_new(plan):
        if plan.family or plan.preset or plan.config or plan.vocab_size:
            raise InputError("family, preset, config and vocabulary make a new model; a checkpoint has its own.")
        return _checkpoint(plan, events)
    return _new(plan, _tongues(plan, texts, folder, events), parse_config_option(plan.config, EXAMPLE))


def _checkpoint(plan: RunPlan, events: RunEvents) -> Model:
    model = load(plan.model, "core", head="seq2seq", device=plan.device, progress=events.download)
    if model.shape.decoder is None or model.source_tokenizer is None:
        raise InputError(f"{plan.model} cannot learn to translate: it needs an encoder, a decoder and a tokenizer.")
    return model


def _tongues(plan: RunPlan, texts: Texts, folder: Path, events: RunEvents) -> Tongues:
    """The vocabularies of a run: learned from its training rows once, and then kept."""

    place, size = folder / VOCABULARY, plan.vocab_size or SIZES[plan.preset or PRESET]
    rows = texts.parts["train"]
    kinds = (
        {"shared": [text for pair in rows for text in (pair.source, pair.target)]}
        if plan.shared
        else {
            "source": [pair.source for pair in rows],
            "target": [pair.target for pair in rows],
        }
    )
    made = {}
    for name, lines in kinds.items():
        if not (place / name).exists():
            split = "metaspace" if plan.pieces != "wordpiece" else "blanks"  # both give back what they read
            single = plan.pieces == "characters"
            try:
                learned = learn_tokenizer(
                    iter(lines),
                    place / name,
                    kind="bpe" if single else plan.pieces,
                    use="transformer",
                    vocab_size=size,
                    split=split,
                    normalize="nfc",
                    byte_fallback=plan.pieces != "wordpiece" and size >= ROOM,
                    min_count=MAX_VOCABULARY_SIZE
                    if single
                    else None,  # no two letters stand together so often: none are merged
                )
            except VocabularyTooSmallError as error:
                why = f"A vocabulary of {size:,} has no room for the letters of these rows"
                raise InputError(f"{why}; say at least {setting('vocab_size', error.min_size)}.") from None
            about = f"{learned.vocabulary:,} tokens, {learned.tokens_per_word:.2f} a word"
            events.message(f"vocabulary ({name}): {about}")
        made[name] = load_tokenizer(place / name, "transformer", {"model_type": "transformer"}).source
    both = made.get("shared")
    return Tongues(source=both or made["source"], target=both or made["target"])


def _new(plan: RunPlan, tongues: Tongues, said: dict[str, Any]) -> Model:
    family = plan.family or "transformer"
    target = tongues.target
    config: dict[str, Any] = {
        "vocab_size": tongues.source.vocab_size,
        "pad_token_id": tongues.source.pad_id,
        "eos_token_id": target.eos_id,
        "decoder_start_token_id": target.bos_id,
    }
    if not tongues.shared:
        config["target_vocab_size"] = target.vocab_size
    model = create(
        family,
        plan.preset or PRESET,
        config=config | said,
        head="seq2seq",
        tokenizer=tongues.source,
        device=plan.device,
        seed=plan.settings.seed,
    )
    return model if tongues.shared else replace(model, target_tokenizer=target)


def encode(model: Model, pairs: Sequence[Pair], plan: RunPlan) -> tuple[ParallelDataset, int]:
    """Rows as the network learns from them, and how many were left out because a side is too long."""
    import numpy as np

    target = model.target_tokenizer or model.tokenizer
    most = plan.max_length or min(LONGEST, model.max_length() or LONGEST)
    read = model.tokenizer.encode_ids([plan.prefix + pair.source for pair in pairs], max_length=most)
    written = target.encode_ids([pair.target for pair in pairs], max_length=most)
    sources, targets = [one.ids for one in read], [one.ids for one in written]
    kept = [row for row in range(len(pairs)) if not read[row].truncated and not written[row].truncated]
    if not kept:
        longest = setting("max_length", "N")
        raise InputError(f"Every row is longer than {most} tokens; say how long they may be with {longest}.")
    start = model.shape.decoder_start_id
    if start is None:
        raise InputError(f"{model.reference} does not say which token its decoder starts with.")
    made = ParallelDataset(
        source=pack_token_ids([sources[row] for row in kept]),
        target=pack_token_ids([targets[row] for row in kept]),
        start_id=start,
        row_numbers=np.array([pairs[row].number for row in kept]),
    )
    return made, len(pairs) - len(kept)
