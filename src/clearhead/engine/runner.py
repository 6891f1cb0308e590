"""The engine as a Runner: arrays in, arrays out, nothing padded that need not be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np

from clearhead.batch import Batch, Output, as_ids
from clearhead.checkpoint.weights import release_pages
from clearhead.engine.assemble import (
    GraphSpec,
    assemble,
    assemble_encoder,
    assemble_in_place_step,
    assemble_log_probs,
    assemble_step,
    supports_in_place_step,
)
from clearhead.engine.graph import Graph
from clearhead.engine.int8 import Int8Plan, int8_dense, int8_dense_per_token
from clearhead.engine.kv_cache import EngineState, KeyValueBuffers, identity_indirection
from clearhead.engine.layers import float_dense
from clearhead.engine.session import Session
from clearhead.errors import InputError
from clearhead.machine.threads import most_threads
from clearhead.runner import Capabilities, Precision
from clearhead.shape import ModelShape
from clearhead.tensors import PrunedHeads

Array = np.ndarray[Any, Any]
MAX_ROWS = 8  # sentences of one length in a call: more make no matrix product faster
MAX_TOKENS = 256  # in such a call: a passage runs alone


class EngineRunner:
    """Runs a model of one shape in ONNX Runtime; graphs are written when they are first asked for."""

    packed_tokens = 1 << 16
    capabilities = Capabilities()

    def __init__(
        self,
        shape: ModelShape,
        tensors: Mapping[str, Array],
        threads: int | None = None,
        int8: Int8Plan | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise InputError(f"threads must be at least 1, and it is {threads}.")
        self.shape = shape
        self.tensors = tensors
        self.threads = threads or most_threads()
        self.int8 = int8
        self.precision: Precision = "float" if int8 is None else "int8"
        self._runs_rows_alone = int8 is not None and shape.decoder is None  # one scale a call, or one for each token
        self._dense = (
            float_dense(tensors)
            if int8 is None
            else (int8_dense(tensors, int8) if self._runs_rows_alone else int8_dense_per_token(tensors, int8))
        )
        # a model that only goes on with a prompt is measured by its vectors, not by what it writes: that stays in float
        self._decoding = None if shape.decoder is None else self._dense
        self._sessions: dict[Any, Session] = {}
        self._lock = Lock()
        release_pages(tensors.values())
        self._pool: ThreadPoolExecutor | None = None

    def weights(self) -> Mapping[str, Array]:
        """Every learned tensor by name, in float."""
        return self.tensors

    def run(self, batch: Batch, *, hidden: bool = True) -> Output:
        """One pass over a batch."""
        paired = self.shape.decoder is not None
        wanted = GraphSpec(hidden=hidden, last=True, pooled=True, logits=True, target=batch.target_ids is not None)
        if paired or not _is_right_padded(batch.mask):
            return self._run_masked(batch, wanted)
        given = {"ids": batch.ids} | self._segments(batch.ids, batch.segments)
        if batch.mask is None or bool(batch.mask.all()):
            return self._to_output(self._run_graph(wanted, given))
        lengths = np.full(len(batch.ids), batch.ids.shape[1]) if batch.mask is None else batch.mask.sum(1)
        return self._run_by_length(given, lengths, wanted)

    def _run_masked(self, batch: Batch, wanted: GraphSpec) -> Output:
        """Padding anywhere, or a pair of stacks: by a mask."""
        wanted = replace(wanted, has_mask=True)
        mask = np.ones(batch.ids.shape, np.bool_) if batch.mask is None else batch.mask
        given = {"ids": batch.ids, "mask": mask} | self._segments(batch.ids, batch.segments)
        if batch.target_ids is not None:
            real = batch.target_mask
            given["target_ids"] = batch.target_ids
            given["target_mask"] = np.ones(batch.target_ids.shape, np.bool_) if real is None else real
        return self._to_output(self._run_graph(wanted, given))

    def _run_by_length(self, given: Mapping[str, Array], lengths: Array, wanted: GraphSpec) -> Output:
        """Rows of one length together, so that no padding is computed; its places stay zero."""
        whole: dict[str, Array] = {}
        width = given["ids"].shape[1]
        for rows in group_by_length(lengths, len(lengths), most_tokens=None):
            length = int(lengths[rows[0]])
            found = self._run_graph(wanted, {name: array[rows, : max(length, 1)] for name, array in given.items()})
            for name, part in found.items():
                by_token = part.ndim > 1 and part.shape[1] == max(length, 1) and _has_token_rows(name, self.shape)
                sides = (len(lengths), width, *part.shape[2:]) if by_token else (len(lengths), *part.shape[1:])
                target = whole.setdefault(name, np.zeros(sides, np.float32))
                if by_token:
                    target[rows, : part.shape[1]] = part
                else:
                    target[rows] = part
        return self._to_output(whole)

    def run_packed(self, ids: Any, segments: Any, lengths: Any) -> Array:
        """Logits of texts laid end to end, one row per text or per token, as the head reads."""
        wanted = GraphSpec(logits=True)
        ids, lengths = np.asarray(ids), np.asarray(lengths)
        segments = np.zeros_like(ids) if segments is None else np.asarray(segments)
        ends = np.cumsum(lengths)
        each = self.shape.head is not None and self.shape.head.pooling == "each"
        counts = lengths if each else np.ones(len(lengths), np.int64)
        starts = np.cumsum(counts) - counts
        made: list[Array] = []

        def answer(rows: Array) -> tuple[Array, Array]:
            length = int(lengths[rows[0]])
            cells = (ends[rows] - length)[:, None] + np.arange(length)
            given = {"ids": ids[cells]} | self._segments(cells, segments[cells])
            return rows, self._run_graph(wanted, given, beside=len(lengths) > len(rows))["logits"]

        for rows, logits in self.map_jobs(answer, list(self.batches(lengths, 0))):
            if not made:
                made.append(np.zeros((int(counts.sum()), *logits.shape[2 if each else 1 :]), np.float32))
            places = starts[rows]
            if each:
                made[0][places[:, None] + np.arange(logits.shape[1])] = logits
            else:
                made[0][places] = logits
        return made[0]

    def encode(self, batch: Batch, *, layers: bool, pooled: bool, alone: bool = False) -> Output:
        """Hidden states of every layer or of the last, and the pooler's vector; `alone`: nothing runs beside."""
        wanted = GraphSpec(hidden=layers, last=not layers, pooled=pooled, has_mask=batch.mask is not None)
        given = {"ids": batch.ids} | self._segments(batch.ids, batch.segments)
        if batch.mask is not None:
            given["mask"] = batch.mask
        return self._to_output(self._run_graph(wanted, given, beside=not alone))

    def batches(self, lengths: Array, budget: int) -> Iterator[Array]:  # noqa: ARG002
        """Rows of one length in small groups."""
        return group_by_length(lengths, MAX_ROWS)

    def map_jobs(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        """The results of some jobs, on as many threads as the runner has; a job that fails raises here."""
        if self.threads == 1 or len(jobs) < 2:
            return map(work, jobs)
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="clearhead")
        return self._pool.map(work, jobs)

    def start(self, batch: Batch) -> EngineState:
        """A decoder's state before its first word; for a pair, after reading the source."""
        rows = len(batch.ids)
        empty, top = np.zeros((rows, 0), np.int64), self.shape.top
        memory: dict[str, Array] = {}
        if self.shape.decoder is not None:
            mask = np.ones(batch.ids.shape, np.bool_) if batch.mask is None else batch.mask
            session = self._session("memory", lambda: assemble_encoder(self.shape, self.tensors, dense=self._decoding))
            memory = session.run({"ids": batch.ids, "mask": mask})
        nothing = {
            f"past_{name}.{layer}": np.zeros((rows, top.heads, 0, top.head_width), np.float32)
            for name in ("key", "value")
            for layer in range(top.layers)
        }
        return EngineState(
            store=KeyValueBuffers(nothing, 0),
            holders=empty.astype(np.int32),
            group=1,
            memory=memory,
            sources=np.arange(rows),
            present=empty.astype(np.bool_),
            places=empty,
        )

    def step(
        self, state: EngineState, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[Array, EngineState]:
        """Feed words (batch, new): logits of each or of the `last`, or log probabilities, and the state after them."""
        top, new = self.shape.top, as_ids(ids, "ids")
        if self.shape.head is None:
            raise InputError("This model has no language-model head to predict the next token.")
        if not top.causal:
            raise InputError(f"{self.shape.family} does not decode word by word: its words see those after them.")
        if new.ndim != 2 or new.size == 0 or int(new.min()) < 0 or int(new.max()) >= top.vocab_size:
            raise InputError(f"ids must be (batch, new) tokens from 0 to {top.vocab_size - 1}.")
        longest = state.length + new.shape[1]
        if top.positions == "learned" and top.max_length is not None and longest > top.max_length:
            raise InputError(f"The model can number {top.max_length} tokens, and this step would be number {longest}.")
        real = np.ones(new.shape, np.bool_) if mask is None else as_ids(mask, "mask").astype(np.bool_)
        places = state.present.sum(1, keepdims=True) + real.cumsum(1) - 1  # padding takes no place
        places = np.maximum(places, 0)
        after = replace(
            state, present=np.concatenate([state.present, real], 1), places=np.concatenate([state.places, places], 1)
        )
        alike = new.shape[1] == 1 and bool(after.present.all())
        if alike and supports_in_place_step(self.shape):
            logits, after = self._step_in_place(state, after, new, places)
        else:
            logits, after = self._step_with_growing_cache(state, after, new, places, new.shape[1] - 1 if last else 0)
        if log:
            logits = self._session("log", assemble_log_probs, 1).run_values({"logits": logits})["log_probs"]
        found: Array = logits.numpy()
        return found, after

    def _step_in_place(
        self, state: EngineState, after: EngineState, ids: Array, places: Array
    ) -> tuple[Any, EngineState]:
        """One word a row, each as far as the others: nothing that was computed is moved."""
        session = self._session("word", lambda: assemble_in_place_step(self.shape, self.tensors, dense=self._decoding))
        store, length = state.store.reserve_next(state.length), state.length
        holders = np.zeros((len(ids), store.capacity), np.int32)
        holders[:, :length] = state.holders
        holders[:, length] = own = np.arange(len(ids), dtype=np.int32) % state.group
        given = {
            "ids": ids,
            "places": places,
            "length": np.array([length], np.int32),
            "group": np.array([state.group], np.int32),
            "holders": holders.reshape(-1, state.group, store.capacity),
        }
        if self.shape.top.relative == "buckets":
            given["key_places"] = after.places[:1]
        if store.bound is None:
            store.bound = session.bind(store.arrays, {f"kept_{name[5:]}": one for name, one in store.arrays.items()})
        logits = store.bound.run({**given, **state.memory})
        return logits, replace(after, store=store, holders=np.concatenate([state.holders, own[:, None]], 1))

    def _step_with_growing_cache(
        self, state: EngineState, after: EngineState, ids: Array, places: Array, first: int
    ) -> tuple[Any, EngineState]:
        """Several words a row, or rows that are not alike: caches go in, and come out longer."""
        given = {"ids": ids, "places": places, "key_places": after.places, "present": after.present}
        given["first"] = np.array([first])  # whose logits are wanted, and those after it
        session = self._session("step", lambda: assemble_step(self.shape, self.tensors, dense=self._decoding))
        found = session.run_values({**given, **state.cache(), **state.repeat_memory()})
        logits = found.pop("logits")
        store = KeyValueBuffers(
            {name.replace("kept_", "past_"): one.numpy() for name, one in found.items()}, after.length
        )
        return logits, replace(after, store=store, holders=identity_indirection(len(ids), state.group, after.length))

    def _to_output(self, found: Mapping[str, Array]) -> Output:
        def layers(name: str) -> list[Array]:
            return [found[f"{name}.{place}"] for place in range(sum(one.startswith(f"{name}.") for one in found))]

        is_next = self.shape.head is not None and self.shape.head.kind == "next"
        return Output(
            hidden=layers("hidden"),
            target_hidden=layers("target_hidden") or None,
            last=found.get("last"),
            pooled=found.get("pooled"),
            logits=found.get("logits"),
            next_sentence=found.get("logits" if is_next else "next_sentence"),
        )

    def _run_graph(self, wanted: GraphSpec, given: Mapping[str, Array], *, beside: bool = False) -> dict[str, Array]:
        """The graph for what is wanted: on one thread beside others, or on all of them.

        An encoder's rows go alone in eight bits: a call has one scale, and so no neighbour changes an answer.
        """
        threads = 1 if beside else self.threads

        def made() -> Graph:
            return assemble(self.shape, self.tensors, wanted, dense=self._dense)

        session, count = self._session((wanted, threads), made, threads), len(given["ids"])
        if not self._runs_rows_alone or count == 1:
            return session.run(given)
        rows = [session.run({name: one[row : row + 1] for name, one in given.items()}) for row in range(count)]
        return {name: np.concatenate([row[name] for row in rows]) for name in session.outputs}

    def _session(self, key: Any, made: Callable[[], Graph], threads: int | None = None) -> Session:
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = Session(made(), threads=threads or self.threads)
                release_pages(self.tensors.values())  # matrices are packed now, and of the words only some are read
            return self._sessions[key]

    def _segments(self, ids: Array, segments: Array | None) -> dict[str, Array]:
        if self.shape.stack.segments < 2:
            return {}
        return {"segments": np.zeros(ids.shape, np.int64) if segments is None else segments}


def silence_pruned_heads(given: dict[str, Array], shape: ModelShape, pruned: PrunedHeads) -> dict[str, Array]:
    """The same tensors, with pruned heads that say nothing: zeros in the columns of W_O that read them."""
    for part, blocks in pruned.items():
        own = shape.stack if part == "encoder" else shape.top
        where = f"{'stack' if part == 'encoder' else 'decoder'}.blocks.%s.{'cross' if part == 'cross' else 'attend'}"
        for block, heads in blocks.items():
            name = f"{where % int(block)}.inner.out.weight"
            given[name] = given[name].copy()
            for head in heads:
                given[name][:, head * own.head_width : (head + 1) * own.head_width] = 0.0
    return given


def group_by_length(lengths: Array, together: int, most_tokens: int | None = MAX_TOKENS) -> Iterator[Array]:
    """Rows of one length in small groups, the longest first, so that no worker ends with a long one alone."""
    order = np.argsort(-lengths, kind="stable")
    begin = 0
    for place in range(1, len(order) + 1):
        length = lengths[order[begin]]
        fits = together if most_tokens is None else most_tokens // max(int(length), 1)
        most = max(1, min(together, fits))
        if place == len(order) or lengths[order[place]] != length or place - begin == most:
            yield order[begin:place]
            begin = place


def _is_right_padded(mask: Array | None) -> bool:
    """Whether padding, where there is any, stands at the ends of rows that have a token at least."""
    if mask is None:
        return True
    return bool((mask[:, :-1] >= mask[:, 1:]).all()) and bool(mask[:, 0].all())


def _has_token_rows(name: str, shape: ModelShape) -> bool:
    """Whether a result has a row for each token."""
    if name == "logits":
        return shape.head is not None and shape.head.pooling == "each"
    return name == "last" or name.startswith("hidden")
