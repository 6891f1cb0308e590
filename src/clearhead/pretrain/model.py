"""The model of a pre-training run: a new one with a tokenizer of its own, or a checkpoint that is taught further."""

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
GENERATOR_FOLDER = "generator"  # ELECTRA's other half, which fills masks: a folder beside the model
VOCAB_SIZES = {"tiny": 4000, "mini": 12000, "small": 16000}
LARGE_VOCAB_SIZE = 30_000  # tokens of larger models
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
GENERATOR_DIVISOR = 4  # ELECTRA: the generator is so many times narrower; one that is too good teaches nothing


def resolve_objective(plan: PretrainPlan, family: Family, model: Model | None = None) -> PretrainObjective:
    """The objective that was asked for, or the family's own; refuses what the family has no head for."""
    name = plan.objective or DEFAULT_OBJECTIVES.get(family.model_type, "mlm")
    if plan.objective is None and model is not None and model.head == "masked":
        name = "mlm"  # a checkpoint goes on with the head that it has
    made = OBJECTIVES[name]
    if plan.masking != "tokens" and made.find_problem is not MASKED_TOKENS.find_problem:
        raise InputError(f"masking says how words are masked, and {name} masks none.")
    if not any(head in family.heads for head in made.heads):
        able = [one.name for one in OBJECTIVES.values() if any(head in family.heads for head in one.heads)]
        raise InputError(f"{family.title} cannot learn {made.title} ({name}); it can learn {', '.join(able)}.")
    return made


def select_head(objective: PretrainObjective, family: Family) -> str:
    """The head that the objective needs."""
    return next(head for head in objective.heads if head in family.heads)


def make_tokenizer(plan: PretrainPlan, texts: Iterable[str], folder: Path, events: RunEvents) -> Tokenizer:
    """The tokenizer that was named, or one that is learned from the text once, and then kept."""

    family = plan.family or "bert"
    if plan.tokenizer is not None:
        given = Path(plan.tokenizer)
        told = any((given / name).exists() for name in ("config.json", "tokenizer.json", "modules.json"))
        if given.is_dir() and not told:  # a vocab.txt, say: the family tells what it means
            return load_tokenizer(given, family, {"model_type": family}).source
        return load_tokenizers(plan.tokenizer)[0]
    place, use = folder / TOKENIZER_FOLDER, TOKENIZER_USES.get(family, "bert")
    size = plan.vocab_size or VOCAB_SIZES.get(plan.preset or DEFAULT_PRESET, LARGE_VOCAB_SIZE)
    if not place.exists():
        try:
            learned = learn_tokenizer(
                texts,
                place,
                use=use,
                size=size,
                special=SENTINELS if use == "transformer" else (),
                normalize="bert-cased" if plan.cased and use == "bert" else None,
                progress=events.progress,
            )
        except VocabularyTooSmallError as error:
            why = f"A vocabulary of {size:,} has no room for the letters of this text"
            raise InputError(f"{why}; say at least {setting('vocab_size', error.min_size)}.") from None
        events.message(
            f"tokenizer: {learned.kind}, {learned.vocabulary:,} tokens, {learned.tokens_per_word:.2f} a word"
        )
        for note in learned.notes:
            events.message(note)
    return load_tokenizer(place, family, {"model_type": family}).source


def check_new_model(plan: PretrainPlan, objective: PretrainObjective, family: Family) -> None:
    """One sentence for a model that cannot be made, before all of the text is read for its tokenizer."""
    from clearhead.core.runner import check_device

    check_device(plan.device)
    said = parse_config_option(plan.config, CONFIG_EXAMPLE)
    _, shape = new_shape(family.model_type, plan.preset or DEFAULT_PRESET, said, select_head(objective, family))
    check_length(plan.max_length, shape.stack.max_length if shape.stack.positions == "learned" else None)


def check_length(length: int, longest: int | None) -> None:
    """One sentence where examples are longer than a model reads."""
    if longest is not None and length > longest:
        raise InputError(f"max_length is {length}, and the model reads at most {longest} tokens.")


def create_model(plan: PretrainPlan, objective: PretrainObjective, tokenizer: Tokenizer) -> Model:
    """A new model of a family and a preset, with the head that the objective needs."""
    family = FAMILIES[plan.family or "bert"]
    preset = plan.preset or DEFAULT_PRESET
    named = {
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "cls_token_id": tokenizer.cls_id,
        "sep_token_id": tokenizer.sep_id,
        "decoder_start_token_id": tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.pad_id,
    }
    config = {key: value for key, value in named.items() if key in family.config_keys and value is not None}
    size = max(tokenizer.vocab.values()) + 1
    config |= {"vocab_size": size} | parse_config_option(plan.config, CONFIG_EXAMPLE)
    said = config["vocab_size"]
    if isinstance(said, int) and said < size:
        raise InputError(f"config says vocab_size {said:,}, and the tokenizer has {size:,} tokens; leave it out.")
    made = create(
        family.model_type,
        preset,
        config=config,
        head=select_head(objective, family),
        tokenizer=tokenizer,
        device=plan.device,
        seed=plan.settings.seed,
    )
    return replace(made, config={**_token_ids(tokenizer, family), **made.config})


def _token_ids(tokenizer: Tokenizer, family: Family) -> dict[str, int]:
    """Tokens that the network does not need to know: without them `transformers` takes those of its own models."""
    named = {
        "bos_token_id": tokenizer.cls_id if tokenizer.bos_id is None else tokenizer.bos_id,
        "eos_token_id": tokenizer.sep_id if tokenizer.eos_id is None else tokenizer.eos_id,
        "cls_token_id": tokenizer.cls_id,
        "sep_token_id": tokenizer.sep_id,
    }
    if family.model_type == "marian":
        named["forced_eos_token_id"] = named["eos_token_id"]
    return {key: value for key, value in named.items() if value is not None}


def load_checkpoint(plan: PretrainPlan, events: RunEvents) -> tuple[Model, PretrainObjective]:
    """A checkpoint, with a new head where it has none for the objective."""
    assert plan.model is not None
    bare = load(plan.model, "core", device=plan.device, progress=events.download)
    objective = resolve_objective(plan, bare.family, bare)
    if plan.objective is None and objective.name in ("mlm+nsp", "mlm+sop") and bare.head != "pretrain":
        objective = OBJECTIVES["mlm"]
    head = select_head(objective, bare.family)
    model = bare if bare.head == head else load(plan.model, "core", head=head, device=plan.device, fresh=True)
    if model.source_tokenizer is None:
        raise InputError(f"{plan.model} has no tokenizer, so that text cannot be given to it.")
    for note in model.notes:
        events.message(note)
    return replace(model, trained=None), objective


def make_electra_pair(model: Model, seed: int, reference: str | None = None) -> ElectraPair:
    """ELECTRA's two networks: the model, and a narrower generator over its words; a checkpoint may have its own."""
    from clearhead.core.build import build_network
    from clearhead.training.objectives.pretraining import ElectraPair

    own = None if reference is None else _load_generator(model, reference)
    if own is not None:
        return ElectraPair(own.use_core().network, model.use_core().network, config=own.config)
    generator = build_network(generator_shape(model), seed=seed + 1).to(model.core.device)
    return ElectraPair(generator, model.use_core().network, config=generator_config(model), fresh=True)


def _load_generator(model: Model, reference: str) -> Model | None:
    """The generator that a run left beside its model, if it shares words with it."""
    place = locate(reference).folder / GENERATOR_FOLDER
    if not (place / "config.json").is_file():
        return None
    made = load(place, "core", device=str(model.core.device))
    both = [
        (one.shape.stack.vocab_size, one.shape.stack.token_width, one.shape.stack.segments) for one in (made, model)
    ]
    return made if both[0] == both[1] and made.head == "masked" else None


def generator_config(model: Model) -> dict[str, Any]:
    """The same config with fewer and narrower heads."""
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
    """The generator's shape."""
    return model.family.model_shape(generator_config(model), "masked", 0)
