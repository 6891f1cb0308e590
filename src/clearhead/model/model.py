"""The `Model` class: a runner, a tokenizer, a head and a passport."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from clearhead import tensors
from clearhead.batch import Output
from clearhead.checkpoint.folder import MAX_SHARD_BYTES
from clearhead.checkpoint.passport import Passport, TrainingRecord
from clearhead.decode.settings import FORMER_NAMES
from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.families import Family
from clearhead.model.alignment import Aligner, Alignment, check_pairs
from clearhead.model.describe import summary, summary_html
from clearhead.model.embedding import BATCH_TOKENS, Embedder
from clearhead.model.fill import Guess, fill
from clearhead.model.generation import TextGenerator
from clearhead.model.inputs import check_batch, head_scale_by_part
from clearhead.model.saving import save
from clearhead.model.tracing import trace_text
from clearhead.progress import KnownCountCallback, from_counts
from clearhead.runner import Runner
from clearhead.shape import ModelShape, Pooling

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.runner import CoreRunner
    from clearhead.core.trace import Trace
    from clearhead.decode import GeneratedText
    from clearhead.text import Tokenizer

    Array = np.ndarray[Any, Any]


@dataclass(kw_only=True)
class Model:
    """A model that is ready to run; created by `clearhead.load` or `clearhead.create`."""

    runner: Runner
    config: Mapping[str, Any]
    family: Family
    head: str | None
    labels: tuple[str, ...]
    source_tokenizer: Tokenizer | None = None
    target_tokenizer: Tokenizer | None = None
    pooling: Pooling = field(default_factory=Pooling)
    dense: tuple[Mapping[str, Array], ...] = ()
    generation: Mapping[str, Any] | None = None  # content of generation_config.json
    notes: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()  # tensors missing in the checkpoint, newly initialized
    reference: str = ""
    passport: Passport | None = None
    trained: TrainingRecord | None = None  # its training record, if it was trained
    make_core: Callable[[], CoreRunner] | None = None  # loads the core beside an engine
    _core: CoreRunner | None = None

    @property
    def shape(self) -> ModelShape:
        """The architecture."""
        return self.runner.shape

    @property
    def core(self) -> CoreRunner:
        """The torch runtime: the active one, or one beside the engine, loaded on first use.

        Beside an engine it is only for reading, as in a trace; call `use_core` before changing its weights.
        """
        if self.runner.capabilities.gradients:
            return cast("CoreRunner", self.runner)
        if self._core is None:
            if self.make_core is None:
                raise InputError("This requires the core runtime; load the model with runtime='core'.")
            self._core = self.make_core()
        return self._core

    def use_core(self) -> CoreRunner:
        """Switch to the core and return it; call this before weights are trained, pruned or changed.

        An engine has its own copy of the weights and would keep using the old ones.
        """
        self.runner = core = self.core
        return core

    @property
    def module(self) -> Any:
        """The torch module of a model that runs in the core, for gradients and training.

        Beside an engine, call `use_core()` first: the engine holds a copy of the weights and would
        not see what is changed here. For one release, `module` still does that, with a warning.
        """
        if not self.runner.capabilities.gradients:
            warnings.warn(
                "Model.module of a model that runs in the engine is deprecated: call model.use_core().network, "
                "which switches to the core explicitly.",
                DeprecationWarning,
                stacklevel=2,
            )
            self.use_core()
        return self.core.network

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the input text."""
        if self.source_tokenizer is None:
            raise InputError("This model has no tokenizer; pass one to create(), or use `run` with ids.")
        return self.source_tokenizer

    @property
    def parameters(self) -> int:
        """Number of learned parameters, tied ones counted once."""
        if self.runner.capabilities.gradients:
            return sum(parameter.numel() for parameter in self.core.network.parameters())
        pruned = {} if self.passport is None else self.passport.pruned
        return tensors.count_values(tensors.expected_sizes(self.shape)) - tensors.count_pruned_values(
            self.shape, pruned
        )

    def run(
        self,
        ids: Any,
        mask: Any = None,
        segments: Any = None,
        target_ids: Any = None,
        target_mask: Any = None,
        hidden: bool = True,
        *,
        head_scale: Any = None,
    ) -> Output:
        """Run the model on (batch, length) ids; without a mask every token is real. Outputs are numpy arrays."""
        batch, choices = check_batch(self.shape, ids, mask, segments, target_ids, target_mask)
        if head_scale is None:
            out = self.runner.run(batch, hidden=hidden)
        else:
            out = self.core.run(batch, hidden=hidden, head_scale=head_scale_by_part(head_scale))
        if choices is not None and out.logits is not None:
            out.logits = out.logits.reshape(-1, choices)
        return out

    def embed(
        self,
        texts: Iterable[str],
        *,
        layer: str | int | None = None,
        pooling: str | Sequence[str] | None = None,
        normalize: bool | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        progress: KnownCountCallback | None = None,
    ) -> Array:
        """Compute one float32 vector per text, with the pooling of the folder (default: mean) or the one given here.

        With another layer or pooling, the dense layers and the normalization of the folder are not applied.
        """
        embedder = Embedder(self, layer, pooling, normalize, self.prompt_text(prompt, prompt_name))
        return embedder.embed(texts, batch_tokens, from_counts(progress))

    def embed_stream(
        self,
        texts: Iterable[str],
        *,
        layer: str | int | None = None,
        pooling: str | Sequence[str] | None = None,
        normalize: bool | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> Iterator[Array]:
        """Embed any number of texts in bounded memory; yields the vectors of some texts at a time, in order."""
        embedder = Embedder(self, layer, pooling, normalize, self.prompt_text(prompt, prompt_name))
        return embedder.stream(texts, batch_tokens)

    @renamed_parameters(**FORMER_NAMES)
    def generate(
        self,
        texts: Iterable[str],
        num_beams: int = 1,
        *,
        progress: KnownCountCallback | None = None,
        **choices: Any,
    ) -> list[GeneratedText]:
        """Generate an answer to each text: a translation, a summary or the continuation of a prompt.

        `choices` are fields of `Decoding`: max_length, length_penalty, num_return_sequences, sample, top_p, prefix,
        stop, ... `progress` is called with (texts done, number of texts).
        """
        return TextGenerator(self, num_beams=num_beams, **choices).generate(texts, from_counts(progress))

    @renamed_parameters(**FORMER_NAMES)
    def generate_stream(self, text: str, **choices: Any) -> Iterator[str]:
        """Generate the answer to one text in pieces, each as soon as it is final and at a character boundary."""
        return TextGenerator(self, **choices).stream(text)

    @renamed_parameters(**FORMER_NAMES)
    def generate_ids(
        self,
        ids: Any,
        mask: Any = None,
        num_beams: int = 1,
        max_length: int = 128,
        length_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        **choices: Any,
    ) -> list[Array]:
        """Generate new ids for each row of (batch, length) ids, at most `max_length`, as transformers does.

        They include the forced prefix and the end token, but not the prompt, the start token or padding. Rows may be
        lists of different length. Without a mask every token of a source is real; padding of prompts is recognized by
        its id. With `num_return_sequences`, each input has that many output rows, padded with empty ones.
        """
        writer = TextGenerator(
            self,
            num_beams=num_beams,
            max_length=max_length,
            length_penalty=length_penalty,
            no_repeat_ngram_size=no_repeat_ngram_size,
            **choices,
        )
        return writer.ids(ids, mask)

    def align(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        layer: int | None = None,
        head: int | None = None,
        *,
        prefix: str = "",
        progress: KnownCountCallback | None = None,
    ) -> list[Alignment]:
        """Align the words of each source with those of its target, by one head of a layer or the mean of its heads.

        The default is the mean of the upper half of the layers. `prefix` is prepended to every source (T5's task) and
        is not aligned. Words beyond the maximum length have no weights. `progress` is called with (texts done, total).
        """
        pairs = check_pairs(sources, targets)
        return Aligner(self, layer, head).align(pairs, prefix, from_counts(progress))

    def prompt_text(self, prompt: str | None, name: str | None) -> str:
        """Return the prompt that is prepended to each text."""
        prompts = dict(self.pooling.prompts)
        if prompt is not None:
            return prompt
        name = name or self.pooling.default_prompt
        if name is None:
            return ""
        if name not in prompts:
            raise InputError(f"Unknown prompt {name!r}; this model has: {', '.join(prompts) or 'none'}.")
        return prompts[name]

    def max_length(self, plan: Pooling | None = None) -> int | None:
        """Return the maximum number of tokens per text, by folder, tokenizer and positions; None: no limit."""
        stack = self.shape.stack
        limits = (
            plan.max_length if plan is not None else None,
            self.source_tokenizer.max_length if self.source_tokenizer is not None else None,
            stack.max_length if stack.positions == "learned" else None,
        )
        return min((limit for limit in limits if limit is not None), default=None)

    def trace(
        self,
        text: str,
        second: str | None = None,
        *,
        target: str | Sequence[int] | None = None,
        head_scale: Any = None,
    ) -> Trace:
        """Trace one text: queries, keys, values, scores, probabilities and contexts of every layer, and hidden states.

        `target` is the decoder's output: a text, or token ids.
        """
        return trace_text(self, text, second, target, head_scale)

    def fill(self, text: str, *, top: int = 5) -> list[list[Guess]]:
        """Predict the most likely tokens at each mask of a text, one list per mask."""
        return fill(self, text, top)

    def prune(self, heads: Mapping[int, Iterable[int]], part: str = "encoder") -> None:
        """Remove attention heads permanently: {block: heads}; parts are "encoder", "decoder" and "cross"."""
        network = self.use_core().network
        network.prune({int(block): {int(head) for head in removed} for block, removed in heads.items()}, part)

    def save(self, folder: str | Path, *, shard_bytes: int = MAX_SHARD_BYTES) -> Path:
        """Write a folder that `load`, transformers and sentence-transformers read; returns it."""
        return save(self, Path(folder), shard_bytes)

    def tensor(self, name: str) -> Array:
        """Return one learned tensor by its internal name, such as stack.positions.table.weight."""
        arrays = self.runner.weights()
        if name not in arrays:
            raise InputError(f"This model has no tensor {name!r}.")
        return arrays[name]

    @property
    def has_labels(self) -> bool:
        """Whether the head predicts labels."""
        return self.shape.head is not None and self.shape.head.kind in ("classify", "tag")

    def __repr__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        return summary_html(self)
