"""The model of a pre-training run: a new model with its own tokenizer, or a checkpoint that is trained further."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.checkpoint.hub import locate
from clearhead.errors import InputError
from clearhead.families import FAMILIES
from clearhead.families.family import Family, parse_config_option
from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.model import Model
from clearhead.model.loading import create, load, load_tokenizers, new_shape
from clearhead.pretrain.plan import CONFIG_EXAMPLE, DEFAULT_PRESET, PretrainPlan
from clearhead.pretraining.masking import MASKED_TOKENS
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.registry import DEFAULT_OBJECTIVES, OBJECTIVES
from clearhead.text import load_tokenizer
from clearhead.text.vocabulary.trainer import VocabularyTooSmallError

if TYPE_CHECKING:
    from clearhead.jobs.events import RunEvents
    from clearhead.text import Tokenizer
    from clearhead.training.objectives.pretraining import ElectraPair

TOKENIZER_FOLDER = "vocabulary"
GENERATOR_FOLDER = "generator"  # subfolder of an ELECTRA model with its generator, which fills masks
VOCAB_SIZES = {"tiny": 4000, "mini": 12000, "small": 16000}
LARGE_VOCAB_SIZE = 30_000  # of larger models
TOKENIZER_USES = {
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "mpnet": "roberta",
    "gpt2": "gpt",
    "openai-gpt": "gpt",
    "t5": "t5",
    "marian": "transformer",
    "transformer": "transformer",
    "rnn": "transformer",
}
SENTINELS = tuple(f"<extra_id_{number}>" for number in range(100))
GENERATOR_DIVISOR = 4  # ELECTRA's generator is narrower by this factor; a stronger one makes a poor training signal


def resolve_objective(plan: PretrainPlan, family: Family, model: Model | None = None) -> PretrainObjective:
    """Return the requested objective or the default of the family; refuse one that the family has no head for."""
    name = plan.objective or DEFAULT_OBJECTIVES.get(family.model_type, "mlm")
    if plan.objective is None and model is not None and model.head == "masked":
        name = "mlm"  # a checkpoint keeps its head
    objective = OBJECTIVES[name]
    if plan.masking != "tokens" and objective.find_problem is not MASKED_TOKENS.find_problem:
        raise InputError(f"masking applies only to objectives that mask tokens; {name} does not.")
    if not any(head in family.heads for head in objective.heads):
        supported = [
            objective.name for objective in OBJECTIVES.values() if any(head in family.heads for head in objective.heads)
        ]
        raise InputError(
            f"{family.title} does not support {objective.title} ({name}); it supports {', '.join(supported)}."
        )
    return objective


def select_head(objective: PretrainObjective, family: Family) -> str:
    """Return the first head of the objective that the family has."""
    return next(head for head in objective.heads if head in family.heads)


def make_tokenizer(plan: PretrainPlan, texts: Iterable[str], folder: Path, events: RunEvents) -> Tokenizer:
    """Load the given tokenizer, or train one on the text and store it in the run folder."""
    family = plan.family or "bert"
    if plan.tokenizer is not None:
        location = Path(plan.tokenizer)
        is_described = any((location / name).exists() for name in ("config.json", "tokenizer.json", "modules.json"))
        if location.is_dir() and not is_described:  # e.g. only a vocab.txt: the family determines its format
            return load_tokenizer(location, family, {"model_type": family}).source
        return load_tokenizers(plan.tokenizer)[0]
    tokenizer_folder, tokenizer_use = folder / TOKENIZER_FOLDER, TOKENIZER_USES.get(family, "bert")
    vocab_size = plan.vocab_size or VOCAB_SIZES.get(plan.preset or DEFAULT_PRESET, LARGE_VOCAB_SIZE)
    if not tokenizer_folder.exists():
        try:
            learned = learn_tokenizer(
                texts,
                tokenizer_folder,
                use=tokenizer_use,
                vocab_size=vocab_size,
                special=SENTINELS if tokenizer_use == "transformer" else (),
                normalize="bert-cased" if plan.cased and tokenizer_use == "bert" else None,
                progress=events.progress,
            )
        except VocabularyTooSmallError as error:
            problem = f"A vocabulary of {vocab_size:,} tokens is too small for the characters of this text"
            raise InputError(f"{problem}; use at least {setting('vocab_size', error.min_size)}.") from None
        events.message(
            f"tokenizer: {learned.kind}, {learned.vocabulary:,} tokens, {learned.tokens_per_word:.2f} per word"
        )
        for note in learned.notes:
            events.message(note)
    return load_tokenizer(tokenizer_folder, family, {"model_type": family}).source


def check_new_model(plan: PretrainPlan, objective: PretrainObjective, family: Family) -> None:
    """Refuse an invalid model before all of the text is read to train its tokenizer."""
    from clearhead.core.runner import check_device

    check_device(plan.device)
    overrides = parse_config_option(plan.config, CONFIG_EXAMPLE)
    _, shape = new_shape(family.model_type, plan.preset or DEFAULT_PRESET, overrides, select_head(objective, family))
    check_length(plan.max_length, shape.stack.max_length if shape.stack.positions == "learned" else None)


def check_length(max_length: int, model_length: int | None) -> None:
    """Refuse examples that are longer than the model accepts."""
    if model_length is not None and max_length > model_length:
        raise InputError(f"max_length is {max_length}, but the model accepts at most {model_length} tokens.")


def create_model(plan: PretrainPlan, objective: PretrainObjective, tokenizer: Tokenizer) -> Model:
    """Create a new model of a family and preset with the head of the objective."""
    family = FAMILIES[plan.family or "bert"]
    preset = plan.preset or DEFAULT_PRESET
    token_ids = {
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "cls_token_id": tokenizer.cls_id,
        "sep_token_id": tokenizer.sep_id,
        "decoder_start_token_id": tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.pad_id,
    }
    config = {key: value for key, value in token_ids.items() if key in family.config_keys and value is not None}
    vocab_size = max(tokenizer.vocab.values()) + 1
    config |= {"vocab_size": vocab_size} | parse_config_option(plan.config, CONFIG_EXAMPLE)
    config_size = config["vocab_size"]
    if isinstance(config_size, int) and config_size < vocab_size:
        raise InputError(
            f"config has vocab_size {config_size:,}, but the tokenizer has {vocab_size:,} tokens; remove it."
        )
    model = create(
        family.model_type,
        preset,
        config=config,
        head=select_head(objective, family),
        tokenizer=tokenizer,
        device=plan.device,
        seed=plan.settings.seed,
    )
    return replace(model, config={**_token_ids(tokenizer, family), **model.config})


def _token_ids(tokenizer: Tokenizer, family: Family) -> dict[str, int]:
    """Return token ids that only `transformers` needs: without them it falls back to those of its own models."""
    token_ids = {
        "bos_token_id": tokenizer.cls_id if tokenizer.bos_id is None else tokenizer.bos_id,
        "eos_token_id": tokenizer.sep_id if tokenizer.eos_id is None else tokenizer.eos_id,
        "cls_token_id": tokenizer.cls_id,
        "sep_token_id": tokenizer.sep_id,
    }
    if family.model_type == "marian":
        token_ids["forced_eos_token_id"] = token_ids["eos_token_id"]
    return {key: value for key, value in token_ids.items() if value is not None}


def load_checkpoint(plan: PretrainPlan, events: RunEvents) -> tuple[Model, PretrainObjective]:
    """Load a checkpoint, with a new head if it has none for the objective."""
    assert plan.model is not None
    checkpoint = load(plan.model, "core", device=plan.device, progress=events.download)
    objective = resolve_objective(plan, checkpoint.family, checkpoint)
    if plan.objective is None and objective.name in ("mlm+nsp", "mlm+sop") and checkpoint.head != "pretrain":
        objective = OBJECTIVES["mlm"]
    head = select_head(objective, checkpoint.family)
    model = (
        checkpoint if checkpoint.head == head else load(plan.model, "core", head=head, device=plan.device, fresh=True)
    )
    if model.source_tokenizer is None:
        raise InputError(f"{plan.model} has no tokenizer and cannot be pre-trained on text.")
    for note in model.notes:
        events.message(note)
    return replace(model, trained=None), objective


def make_electra_pair(model: Model, seed: int, reference: str | None = None) -> ElectraPair:
    """Build ELECTRA's two networks: the model and a narrower generator, loaded from the checkpoint if it has one."""
    from clearhead.core.build import build_network
    from clearhead.training.objectives.pretraining import ElectraPair

    saved = None if reference is None else _load_generator(model, reference)
    if saved is not None:
        return ElectraPair(saved.use_core().network, model.use_core().network, config=saved.config)
    generator = build_network(generator_shape(model), seed=seed + 1).to(model.core.device)
    return ElectraPair(generator, model.use_core().network, config=generator_config(model), fresh=True)


def _load_generator(model: Model, reference: str) -> Model | None:
    """Load the generator that a run saved with its model, if their embeddings have the same shape."""
    folder = locate(reference).folder / GENERATOR_FOLDER
    if not (folder / "config.json").is_file():
        return None
    generator = load(folder, "core", device=str(model.core.device))
    embedding_sizes = [
        (network.shape.stack.vocab_size, network.shape.stack.token_width, network.shape.stack.segments)
        for network in (generator, model)
    ]
    return generator if embedding_sizes[0] == embedding_sizes[1] and generator.head == "masked" else None


def generator_config(model: Model) -> dict[str, Any]:
    """Return the config of the generator: the config of the model with fewer heads and a smaller width."""
    values = model.family.read_config(model.config)
    heads = max(1, values["num_attention_heads"] // GENERATOR_DIVISOR)
    width = values["hidden_size"] // values["num_attention_heads"] * heads
    return {
        **model.config,
        "num_attention_heads": heads,
        "hidden_size": width,
        "intermediate_size": max(1, values["intermediate_size"] * heads // values["num_attention_heads"]),
        "embedding_size": values["embedding_size"],
    }


def generator_shape(model: Model) -> Any:
    """Return the shape of the generator."""
    return model.family.model_shape(generator_config(model), "masked", 0)
