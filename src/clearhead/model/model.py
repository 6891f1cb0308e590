"""Model: a runner, a tokenizer, a head and a passport, with the calls people use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from clearhead import tensors
from clearhead.batch import Output, check_outputs
from clearhead.checkpoint import folder as folders
from clearhead.checkpoint import sentence
from clearhead.checkpoint.hub import fillers
from clearhead.checkpoint.mean_head import write_mean_head
from clearhead.checkpoint.passport import Passport, Trained, write_passport
from clearhead.errors import CheckpointError, InputError
from clearhead.families import Family
from clearhead.families.family import HEAD_POOLING
from clearhead.files import write_json
from clearhead.model.alignment import Aligns
from clearhead.model.embedding import Embedder
from clearhead.model.generation import Generates
from clearhead.model.inputs import by_part, checked_batch, read_whole
from clearhead.runner import Runner
from clearhead.shape import ModelShape, Pooling

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.runner import CoreRunner
    from clearhead.core.trace import Trace
    from clearhead.text import Tokenizer

    Array = np.ndarray[Any, Any]

GENERATION = "generation_config.json"
BATCH_TOKENS = 2048  # enough work for each core without running out of its cache


@dataclass(frozen=True)
class Guess:
    """One word that could stand at a mask."""

    token: str
    probability: float
    id: int


@dataclass(kw_only=True)
class Model(Generates, Aligns):
    """A model that is ready to run; made by `clearhead.load` or `clearhead.create`."""

    runner: Runner
    config: Mapping[str, Any]
    family: Family
    head: str | None
    labels: tuple[str, ...]
    source_tokenizer: Tokenizer | None = None
    target_tokenizer: Tokenizer | None = None
    pooling: Pooling = field(default_factory=Pooling)
    dense: tuple[Mapping[str, Array], ...] = ()
    generation: Mapping[str, Any] | None = None  # generation_config.json, kept for those who read it
    notes: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()  # tensors that the checkpoint did not have, drawn anew
    reference: str = ""
    passport: Passport | None = None
    trained: Trained | None = None  # what it was trained for, if it was
    make_core: Callable[[], CoreRunner] | None = None  # beside an engine: the same weights as torch modules
    _core: CoreRunner | None = None

    @property
    def shape(self) -> ModelShape:
        """The architecture as one value."""
        return self.runner.shape

    @property
    def core(self) -> CoreRunner:
        """The torch runtime: the one that runs, or one beside the engine, made when it is first asked for."""
        if hasattr(self.runner, "network"):
            return cast("CoreRunner", self.runner)
        if self._core is None:
            if self.make_core is None:
                raise InputError("This needs the core: load the model with runtime='core'.")
            self._core = self.make_core()
        return self._core

    @property
    def module(self) -> Any:
        """The torch module itself, for gradients and training; from then on it is what runs."""
        self.runner = core = self.core
        return core.network

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the input text."""
        if self.source_tokenizer is None:
            raise InputError("This model has no tokenizer; give one when you create it, or use `run` with ids.")
        return self.source_tokenizer

    @property
    def parameters(self) -> int:
        """How many numbers were learned, tied ones counted once."""
        if hasattr(self.runner, "network"):
            return sum(parameter.numel() for parameter in self.core.network.parameters())
        pruned = {} if self.passport is None else self.passport.pruned
        return tensors.count(tensors.expected(self.shape)) - tensors.pruned_count(self.shape, pruned)

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
        """One pass over (batch, length) ids; mask=None: every token is real. Arrays out are numpy."""
        batch, choices = checked_batch(self.shape, ids, mask, segments, target_ids, target_mask)
        if head_scale is None:
            out = self.runner.run(batch, hidden=hidden)
        else:
            out = self.core.run(batch, hidden=hidden, head_scale=by_part(head_scale))
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
        progress: Callable[[int, int], None] | None = None,
    ) -> Array:
        """One float32 vector per text, pooled as the folder says (mean where it is silent), or as you say.

        Another layer or pooling is a feature of its own: the folder's dense steps and unit length are then left out.
        """
        embedder = Embedder(self, layer, pooling, normalize, self.prompt_text(prompt, prompt_name))
        return embedder.embed(texts, batch_tokens, progress)

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
        """The same for texts without end: the vectors of some of them at a time, in their order, in bounded memory."""
        embedder = Embedder(self, layer, pooling, normalize, self.prompt_text(prompt, prompt_name))
        return embedder.stream(texts, batch_tokens)

    def prompt_text(self, prompt: str | None, name: str | None) -> str:
        """The text to put before each input."""
        known = dict(self.pooling.prompts)
        if prompt is not None:
            return prompt
        name = name or self.pooling.default_prompt
        if name is None:
            return ""
        if name not in known:
            raise InputError(f"There is no prompt called {name!r}; this model has {', '.join(known) or 'none'}.")
        return known[name]

    def max_length(self, plan: Pooling | None = None) -> int | None:
        """The longest text in tokens, by the folder, the tokenizer and the positions; None: no limit."""
        stack = self.shape.stack
        known = (
            plan.max_length if plan is not None else None,
            self.source_tokenizer.max_length if self.source_tokenizer is not None else None,
            stack.max_length if stack.positions == "learned" else None,
        )
        return min((limit for limit in known if limit is not None), default=None)

    def trace(
        self,
        text: str,
        second: str | None = None,
        *,
        target: str | Sequence[int] | None = None,
        head_scale: Any = None,
    ) -> Trace:
        """Every layer and head of one text: queries, keys, values, scores, probabilities, contexts, hidden states.

        `target` is what a decoder writes: a text, or the ids of one that it wrote.
        """
        core = self.core
        from clearhead.core.trace import trace

        encoding = read_whole(self.tokenizer, self.shape, text, second)
        segments = [encoding.segments] if self.shape.stack.segments > 1 else None
        target_ids, target_tokens, written = None, None, None
        texts: dict[str, Any] = {"text": text, "second": second, "special": list(encoding.special)}
        if target is not None:
            if self.shape.decoder is None:
                raise InputError("target= is for models with a decoder.")
            goal, written, about = self._goal(target)
            texts |= about
            start = self.shape.start or 0
            target_ids = [[start, *goal[:-1]]]  # shifted right: each place predicts the next word
            target_tokens = ["<start>", *written[:-1]]
        batch, _ = checked_batch(self.shape, [encoding.ids], None, segments, target_ids, None)
        made = trace(core, batch, list(encoding.tokens), target_tokens, written, head_scale=by_part(head_scale))
        return replace(made, **texts)

    def _goal(self, target: str | Sequence[int]) -> tuple[list[int], list[str], dict[str, Any]]:
        """The ids and tokens of what a decoder writes, its text, and which tokens are no part of it."""
        tokenizer = self.target_tokenizer or self.tokenizer
        if isinstance(target, str):
            goal = tokenizer.encode(target)
            return list(goal.ids), list(goal.tokens), {"target": target, "written_special": list(goal.special)}
        ids = [int(one) for one in target]
        tokens, ends = tokenizer.tokens(ids), {tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id}
        return ids, tokens, {"target": tokenizer.decode(ids), "written_special": [one in ends for one in ids]}

    def fill(self, text: str, *, top: int = 5) -> list[list[Guess]]:
        """The likeliest words at each mask of a text, one list per mask."""
        import numpy as np

        if self.shape.head is None or self.shape.head.kind != "masked":
            raise InputError(f"This model has no masked-word head; on this machine, these have one: {fillers()}.")
        if top < 1:
            raise InputError(f"top must be at least 1, and it is {top}.")
        mask_token, mask_id = self.tokenizer.mask_token, self.tokenizer.mask_id
        if mask_token is None or mask_id is None:
            raise InputError("This model's tokenizer has no mask token.")
        encoding = read_whole(self.tokenizer, self.shape, text.replace("[MASK]", mask_token))
        places = [place for place, token in enumerate(encoding.ids) if token == mask_id]
        if not places:
            raise InputError(f"The text has no {mask_token} to fill.")
        segments = [encoding.segments] if self.shape.stack.segments > 1 else None
        logits = np.asarray(self.run([encoding.ids], None, segments, hidden=False).logits)[0, places]
        check_outputs(logits)
        guesses = []
        for scores in logits.astype(np.float64):
            probs = np.exp(scores - scores.max())
            probs /= probs.sum()
            best = np.argsort(-probs)[:top]
            words = [self.tokenizer.decode([i], skip_special=False).strip() for i in best]
            guesses.append([Guess(word, float(probs[i]), int(i)) for word, i in zip(words, best, strict=True)])
        return guesses

    def prune(self, heads: Mapping[int, Iterable[int]], part: str = "encoder") -> None:
        """Remove attention heads for good: {block: heads}; parts are "encoder", "decoder" and "cross"."""
        self.module.prune({int(block): {int(head) for head in gone} for block, gone in heads.items()}, part)

    def save(self, folder: str | Path, *, shard_bytes: int = folders.MOST_SHARD) -> Path:
        """Write a folder that `load`, transformers and sentence-transformers read; returns it."""
        try:
            return self._save(Path(folder), shard_bytes)
        except OSError as error:
            raise CheckpointError(f"{folder} cannot be written: {error.strerror or error}.") from error

    def _save(self, place: Path, shard_bytes: int) -> Path:
        from clearhead import __version__

        arrays, pruned = self._weights()
        folders.write_folder(
            place,
            config=self.config,
            family=self.family,
            head=self.head,
            shape=self.shape,
            labels=self.labels,
            arrays=arrays,
            shard_bytes=shard_bytes,
        )
        if self.generation is not None:
            write_json(place / GENERATION, dict(self.generation))
        golden: dict[str, list[int]] = {}
        target_golden: dict[str, list[int]] = {}
        if self.source_tokenizer is not None:
            self.source_tokenizer.save(place)
            golden = self.source_tokenizer.golden()
        if self.target_tokenizer is not None:
            target_golden = self.target_tokenizer.golden()
            if self.config.get("target_vocab_size"):  # each language has a vocabulary; Marian's files hold both
                self.target_tokenizer.save(place / "target")
        plain = self.shape.head is None or self.shape.head.kind in ("masked", "replaced")  # taught further
        if self.pooling.source != Pooling().source and plain:
            sentence.write_sentences(place, self.pooling, self.dense, self.shape.stack.width)
        if self.head == "classify" and self.config.get(HEAD_POOLING) == "mean":
            longest = self.max_length(self.pooling) if self.trained is None else self.trained.max_length
            write_mean_head(place, arrays, longest, self.trained, lower=self.pooling.lower)
        write_passport(
            place,
            Passport(
                clearhead=__version__,
                family=self.family.model_type,
                head=self.head,
                labels=list(self.labels) if self.has_labels else [],
                golden=golden,
                target_golden=target_golden,
                pruned=pruned,
                trained=self.trained,
            ),
        )
        return place

    def tensor(self, name: str) -> Array:
        """One learned tensor by its name here, such as stack.positions.table.weight."""
        arrays, _ = self._weights()
        if name not in arrays:
            raise InputError(f"This model has no tensor {name!r}.")
        return arrays[name]

    def _weights(self) -> tuple[Mapping[str, Array], dict[str, dict[str, list[int]]]]:
        """Every tensor by name, and which heads were pruned, out of whatever runs."""
        if not hasattr(self.runner, "network"):
            held: Any = self.runner
            return held.tensors, {} if self.passport is None else self.passport.pruned
        from clearhead.core.build import named_arrays, pruned_heads

        return named_arrays(self.core.network), pruned_heads(self.core.network)

    @property
    def has_labels(self) -> bool:
        """Whether the head answers with labels."""
        return self.shape.head is not None and self.shape.head.kind in ("classify", "tag")

    def __repr__(self) -> str:
        from clearhead.model.describe import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from clearhead.model.describe import summary_html

        return summary_html(self)
