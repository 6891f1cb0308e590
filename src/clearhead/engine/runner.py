"""The engine as a Runner: arrays in, arrays out, with as little padding as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np

from clearhead.batch import Batch, Output, to_integer_array
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
from clearhead.engine.batching import group_by_length, is_right_padded
from clearhead.engine.graph import Graph
from clearhead.engine.int8 import Int8Plan, int8_dense, int8_dense_per_token
from clearhead.engine.kv_cache import EngineState, KeyValueBuffers, identity_indirection
from clearhead.engine.layers import float_dense
from clearhead.engine.session import Session
from clearhead.errors import InputError
from clearhead.machine.threads import get_max_threads
from clearhead.runner import Capabilities, Precision
from clearhead.shape import ModelShape
from clearhead.tensors import PrunedHeads

Array = np.ndarray[Any, Any]
MAX_ROWS = 8  # rows of equal length per call: more do not speed up matrix products


class EngineRunner:
    """Runs a model of one shape in ONNX Runtime; graphs are built on first use."""

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
            raise InputError(f"threads must be an integer >= 1, got {threads}.")
        self.shape = shape
        self.tensors = tensors
        self.threads = threads or get_max_threads()
        self.int8 = int8
        self.precision: Precision = "float" if int8 is None else "int8"
        self._runs_rows_alone = (
            int8 is not None and shape.decoder is None
        )  # encoders have one activation scale per call, decoders one per token
        self._dense = (
            float_dense(tensors)
            if int8 is None
            else (int8_dense(tensors, int8) if self._runs_rows_alone else int8_dense_per_token(tensors, int8))
        )
        # decoder-only models are calibrated by their vectors, not by their output, so decoding stays in float
        self._decoding = None if shape.decoder is None else self._dense
        self._sessions: dict[Any, Session] = {}
        self._lock = Lock()
        release_pages(tensors.values())
        self._pool: ThreadPoolExecutor | None = None

    def weights(self) -> Mapping[str, Array]:
        """Return every learned tensor by name, in float."""
        return self.tensors

    def run(self, batch: Batch, *, hidden: bool = True) -> Output:
        """Run one batch."""
        is_encoder_decoder = self.shape.decoder is not None
        spec = GraphSpec(hidden=hidden, last=True, pooled=True, logits=True, target=batch.target_ids is not None)
        if is_encoder_decoder or not is_right_padded(batch.mask):
            return self._run_masked(batch, spec)
        feeds = {"ids": batch.ids} | self._segments(batch.ids, batch.segments)
        if batch.mask is None or bool(batch.mask.all()):
            return self._to_output(self._run_graph(spec, feeds))
        lengths = np.full(len(batch.ids), batch.ids.shape[1]) if batch.mask is None else batch.mask.sum(1)
        return self._run_by_length(feeds, lengths, spec)

    def _run_masked(self, batch: Batch, spec: GraphSpec) -> Output:
        """Run a batch with a mask: for padding at any place, and for encoder-decoder models."""
        spec = replace(spec, has_mask=True)
        mask = np.ones(batch.ids.shape, np.bool_) if batch.mask is None else batch.mask
        feeds = {"ids": batch.ids, "mask": mask} | self._segments(batch.ids, batch.segments)
        if batch.target_ids is not None:
            real = batch.target_mask
            feeds["target_ids"] = batch.target_ids
            feeds["target_mask"] = np.ones(batch.target_ids.shape, np.bool_) if real is None else real
        return self._to_output(self._run_graph(spec, feeds))

    def _run_by_length(self, feeds: Mapping[str, Array], lengths: Array, spec: GraphSpec) -> Output:
        """Run rows of equal length together, so that no padding is computed; padded outputs stay zero."""
        results: dict[str, Array] = {}
        width = feeds["ids"].shape[1]
        for rows in group_by_length(lengths, len(lengths), max_tokens=None):
            length = int(lengths[rows[0]])
            outputs = self._run_graph(spec, {name: array[rows, : max(length, 1)] for name, array in feeds.items()})
            for name, array in outputs.items():
                has_token_rows = (
                    array.ndim > 1 and array.shape[1] == max(length, 1) and _has_token_rows(name, self.shape)
                )
                size = (len(lengths), width, *array.shape[2:]) if has_token_rows else (len(lengths), *array.shape[1:])
                target = results.setdefault(name, np.zeros(size, np.float32))
                if has_token_rows:
                    target[rows, : array.shape[1]] = array
                else:
                    target[rows] = array
        return self._to_output(results)

    def run_packed(self, ids: Any, segments: Any, lengths: Any) -> Array:
        """Compute logits of packed texts, one row per text or per token depending on the head."""
        spec = GraphSpec(logits=True)
        ids, lengths = np.asarray(ids), np.asarray(lengths)
        segments = np.zeros_like(ids) if segments is None else np.asarray(segments)
        ends = np.cumsum(lengths)
        is_token_head = self.shape.head is not None and self.shape.head.pooling == "each"
        counts = lengths if is_token_head else np.ones(len(lengths), np.int64)
        starts = np.cumsum(counts) - counts
        results: list[Array] = []

        def run_rows(rows: Array) -> tuple[Array, Array]:
            length = int(lengths[rows[0]])
            token_index = (ends[rows] - length)[:, None] + np.arange(length)
            feeds = {"ids": ids[token_index]} | self._segments(token_index, segments[token_index])
            return rows, self._run_graph(spec, feeds, runs_parallel=len(lengths) > len(rows))["logits"]

        for rows, logits in self.map_jobs(run_rows, list(self.batches(lengths, 0))):
            if not results:
                results.append(np.zeros((int(counts.sum()), *logits.shape[2 if is_token_head else 1 :]), np.float32))
            offsets = starts[rows]
            if is_token_head:
                results[0][offsets[:, None] + np.arange(logits.shape[1])] = logits
            else:
                results[0][offsets] = logits
        return results[0]

    def encode(self, batch: Batch, *, layers: bool, pooled: bool, is_only_batch: bool = False) -> Output:
        """Compute hidden states of all layers or the last one, and pooler output; `is_only_batch` uses all threads."""
        spec = GraphSpec(hidden=layers, last=not layers, pooled=pooled, has_mask=batch.mask is not None)
        feeds = {"ids": batch.ids} | self._segments(batch.ids, batch.segments)
        if batch.mask is not None:
            feeds["mask"] = batch.mask
        return self._to_output(self._run_graph(spec, feeds, runs_parallel=not is_only_batch))

    def batches(self, lengths: Array, budget: int) -> Iterator[Array]:  # noqa: ARG002
        """Group rows of equal length into small batches."""
        return group_by_length(lengths, MAX_ROWS)

    def map_jobs(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        """Run jobs on all threads of the runner, in order; an exception in a job is raised here."""
        if self.threads == 1 or len(jobs) < 2:
            return map(work, jobs)
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="clearhead")
        return self._pool.map(work, jobs)

    def start(self, batch: Batch) -> EngineState:
        """Create the state of a decoder before its first token; an encoder-decoder model encodes the source."""
        rows = len(batch.ids)
        empty, top = np.zeros((rows, 0), np.int64), self.shape.top
        memory: dict[str, Array] = {}
        if self.shape.decoder is not None:
            mask = np.ones(batch.ids.shape, np.bool_) if batch.mask is None else batch.mask
            session = self._session("memory", lambda: assemble_encoder(self.shape, self.tensors, dense=self._decoding))
            memory = session.run({"ids": batch.ids, "mask": mask})
        empty_cache = {
            f"past_{name}.{layer}": np.zeros((rows, top.heads, 0, top.head_width), np.float32)
            for name in ("key", "value")
            for layer in range(top.layers)
        }
        return EngineState(
            buffers=KeyValueBuffers(empty_cache, 0),
            cache_indirection=empty.astype(np.int32),
            beam_width=1,
            memory=memory,
            sources=np.arange(rows),
            present=empty.astype(np.bool_),
            positions=empty,
        )

    def step(
        self, state: EngineState, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[Array, EngineState]:
        """Feed tokens (batch, new); return logits or log-probabilities, all or only the `last`, and the new state."""
        top, new = self.shape.top, to_integer_array(ids, "ids")
        if self.shape.head is None:
            raise InputError("This model has no language-model head to predict the next token.")
        if not top.causal:
            raise InputError(f"{self.shape.family} cannot generate token by token: its attention is not causal.")
        if new.ndim != 2 or new.size == 0 or int(new.min()) < 0 or int(new.max()) >= top.vocab_size:
            raise InputError(f"ids must be a (batch, new) array of token ids from 0 to {top.vocab_size - 1}.")
        new_length = state.length + new.shape[1]
        if top.positions == "learned" and top.max_length is not None and new_length > top.max_length:
            raise InputError(f"The model has {top.max_length} positions, and this step needs position {new_length}.")
        real = np.ones(new.shape, np.bool_) if mask is None else to_integer_array(mask, "mask").astype(np.bool_)
        positions = state.present.sum(1, keepdims=True) + real.cumsum(1) - 1  # padding occupies no position
        positions = np.maximum(positions, 0)
        new_state = replace(
            state,
            present=np.concatenate([state.present, real], 1),
            positions=np.concatenate([state.positions, positions], 1),
        )
        is_in_place = new.shape[1] == 1 and bool(new_state.present.all())
        if is_in_place and supports_in_place_step(self.shape):
            logits, new_state = self._step_in_place(state, new_state, new, positions)
        else:
            logits, new_state = self._step_with_growing_cache(
                state, new_state, new, positions, new.shape[1] - 1 if last else 0
            )
        if log:
            logits = self._session("log", assemble_log_probs, 1).run_values({"logits": logits})["log_probs"]
        result: Array = logits.numpy()
        return result, new_state

    def _step_in_place(
        self, state: EngineState, new_state: EngineState, ids: Array, positions: Array
    ) -> tuple[Any, EngineState]:
        """Feed one token per row, all at the same position; caches are updated in place."""
        session = self._session("word", lambda: assemble_in_place_step(self.shape, self.tensors, dense=self._decoding))
        buffers, length = state.buffers.reserve_next(state.length), state.length
        cache_indirection = np.zeros((len(ids), buffers.capacity), np.int32)
        cache_indirection[:, :length] = state.cache_indirection
        cache_indirection[:, length] = row_in_group = np.arange(len(ids), dtype=np.int32) % state.beam_width
        feeds = {
            "ids": ids,
            "positions": positions,
            "length": np.array([length], np.int32),
            "beam_width": np.array([state.beam_width], np.int32),
            "cache_indirection": cache_indirection.reshape(-1, state.beam_width, buffers.capacity),
        }
        if self.shape.top.relative == "buckets":
            feeds["key_positions"] = new_state.positions[:1]
        if buffers.bound is None:
            buffers.bound = session.bind(
                buffers.arrays, {f"present_{name[5:]}": array for name, array in buffers.arrays.items()}
            )
        logits = buffers.bound.run({**feeds, **state.memory})
        return logits, replace(
            new_state,
            buffers=buffers,
            cache_indirection=np.concatenate([state.cache_indirection, row_in_group[:, None]], 1),
        )

    def _step_with_growing_cache(
        self, state: EngineState, new_state: EngineState, ids: Array, positions: Array, first: int
    ) -> tuple[Any, EngineState]:
        """Feed several tokens per row, or rows at different positions; caches are copied and extended."""
        feeds = {"ids": ids, "positions": positions, "key_positions": new_state.positions, "present": new_state.present}
        feeds["first"] = np.array([first])  # index of the first new token whose logits are computed
        session = self._session("step", lambda: assemble_step(self.shape, self.tensors, dense=self._decoding))
        outputs = session.run_values({**feeds, **state.cache(), **state.repeat_memory()})
        logits = outputs.pop("logits")
        buffers = KeyValueBuffers(
            {name.replace("present_", "past_"): value.numpy() for name, value in outputs.items()}, new_state.length
        )
        return logits, replace(
            new_state,
            buffers=buffers,
            cache_indirection=identity_indirection(len(ids), state.beam_width, new_state.length),
        )

    def _to_output(self, outputs: Mapping[str, Array]) -> Output:
        def layers(name: str) -> list[Array]:
            return [outputs[f"{name}.{index}"] for index in range(sum(key.startswith(f"{name}.") for key in outputs))]

        is_next = self.shape.head is not None and self.shape.head.kind == "next"
        return Output(
            hidden=layers("hidden"),
            target_hidden=layers("target_hidden") or None,
            last=outputs.get("last"),
            pooled=outputs.get("pooled"),
            logits=outputs.get("logits"),
            next_sentence=outputs.get("logits" if is_next else "next_sentence"),
        )

    def _run_graph(
        self, spec: GraphSpec, feeds: Mapping[str, Array], *, runs_parallel: bool = False
    ) -> dict[str, Array]:
        """Run the graph of a spec, on one thread beside other calls or on all threads.

        With int8, an encoder runs each row in its own call: a call has one activation scale, and a row must not depend
        on its batch.
        """
        threads = 1 if runs_parallel else self.threads

        def build() -> Graph:
            return assemble(self.shape, self.tensors, spec, dense=self._dense)

        session, count = self._session((spec, threads), build, threads), len(feeds["ids"])
        if not self._runs_rows_alone or count == 1:
            return session.run(feeds)
        rows = [session.run({name: array[row : row + 1] for name, array in feeds.items()}) for row in range(count)]
        return {name: np.concatenate([row[name] for row in rows]) for name in session.outputs}

    def _session(self, key: Any, build: Callable[[], Graph], threads: int | None = None) -> Session:
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = Session(build(), threads=threads or self.threads)
                release_pages(
                    self.tensors.values()
                )  # matrices are packed by now, and only some embeddings will be read
            return self._sessions[key]

    def _segments(self, ids: Array, segments: Array | None) -> dict[str, Array]:
        if self.shape.stack.segments < 2:
            return {}
        return {"segments": np.zeros(ids.shape, np.int64) if segments is None else segments}


def silence_pruned_heads(tensors: dict[str, Array], shape: ModelShape, pruned: PrunedHeads) -> dict[str, Array]:
    """Set the columns of W_O that read pruned heads to zero."""
    for part, blocks in pruned.items():
        stack_shape = shape.stack if part == "encoder" else shape.top
        pattern = f"{'stack' if part == 'encoder' else 'decoder'}.blocks.%s.{'cross' if part == 'cross' else 'attend'}"
        for block, heads in blocks.items():
            name = f"{pattern % int(block)}.inner.out.weight"
            tensors[name] = tensors[name].copy()
            for head in heads:
                tensors[name][:, head * stack_shape.head_width : (head + 1) * stack_shape.head_width] = 0.0
    return tensors


def _has_token_rows(name: str, shape: ModelShape) -> bool:
    """Whether an output has a row for each token."""
    if name == "logits":
        return shape.head is not None and shape.head.pooling == "each"
    return name == "last" or name.startswith("hidden")
