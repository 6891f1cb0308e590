"""Causal models for classification: texts between marker tokens, and embeddings for these tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.jobs.plan import RunPlan
from clearhead.model import Model
from clearhead.tasks import TASKS, Task

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.models import Network

    Array = np.ndarray[Any, Any]

EMBEDDING_WEIGHT = "stack.embed.token.weight"
LAST_TOKEN_HEADS = ("classify", "choice")  # heads that read the last token


def add_marker_tokens(model: Model, seed: int) -> Model:
    """Add marker tokens to a causal model whose head reads the last token; other models are returned unchanged.

    Their embeddings start as that of the end token plus a little noise.
    """
    head = model.shape.head
    if (
        head is None
        or head.kind not in LAST_TOKEN_HEADS
        or not model.shape.stack.causal
        or model.shape.decoder is not None
    ):
        return model
    from clearhead.text.gpt_template import add_gpt_template

    tokenizer = add_gpt_template(model.tokenizer)
    if tokenizer is model.tokenizer:
        return model
    from clearhead.core.runner import CoreRunner

    vocab_size = max(model.shape.stack.vocab_size, tokenizer.vocab_size)
    network = _resize_vocabulary(model.use_core().network, vocab_size, tokenizer.eos_id, seed)
    config = {**model.config, "vocab_size": vocab_size}
    if config.get("pad_token_id") is None:  # transformers needs it to find the last token of a row
        config["pad_token_id"] = tokenizer.pad_id
    runner = CoreRunner(network, str(model.core.device))
    return replace(model, runner=runner, config=config, source_tokenizer=tokenizer, make_core=None, _core=None)


def resolve_both_orders(plan: RunPlan, task: Task, model: Model | None, *, has_two_texts: bool) -> bool | None:
    """Whether two texts are read in both orders: as requested; by default, for regression with a causal model."""
    if plan.both_orders and (not has_two_texts or not task.rows.is_reversible):
        task_names = " and ".join(name for name, candidate in TASKS.items() if candidate.rows.is_reversible)
        raise InputError(f"both_orders is for {task_names} with two texts, got {task.name} rows.")
    if plan.both_orders is not None or model is None or model.shape.head is None:
        return plan.both_orders
    is_causal = model.shape.stack.causal and model.shape.decoder is None
    return is_causal and has_two_texts and task.rows.label_kinds == ("number",)


def check_lm_weight(model: Model, plan: RunPlan) -> None:
    """Refuse the auxiliary next-token loss for models without tied embeddings, and for other heads."""
    shape = model.shape
    has_tied_table = (
        shape.stack.causal and shape.decoder is None and model.config.get("tie_word_embeddings") is not False
    )
    if plan.settings.lm_weight and not (
        has_tied_table and shape.head is not None and shape.head.kind in LAST_TOKEN_HEADS
    ):
        raise InputError(
            f"lm_weight requires a GPT-2 or OpenAI GPT model with tied input and output embeddings, and one of the "
            f"tasks classify, pair, regress and choice; {plan.model} or the task does not qualify."
        )


def _resize_vocabulary(network: Network, vocab_size: int, template_id: int | None, seed: int) -> Network:
    """Copy a network with a larger vocabulary; new embeddings start near that of `template_id`."""
    import numpy as np

    from clearhead.core.build import build_network, find_pruned_heads, named_arrays

    shape = network.shape
    arrays = named_arrays(network)
    embeddings = arrays[EMBEDDING_WEIGHT]
    template = (
        embeddings[template_id] if template_id is not None and template_id < len(embeddings) else embeddings.mean(0)
    )
    noise = np.random.default_rng(seed).normal(
        0, shape.stack.init_std, (vocab_size - len(embeddings), embeddings.shape[1])
    )
    arrays[EMBEDDING_WEIGHT] = np.concatenate([embeddings, (template + noise).astype(embeddings.dtype)])
    resized = build_network(
        replace(shape, stack=replace(shape.stack, vocab_size=vocab_size)), arrays.items(), seed=seed
    )
    for part, blocks in find_pruned_heads(network).items():
        resized.prune({int(block): set(heads) for block, heads in blocks.items()}, part)
    return resized
