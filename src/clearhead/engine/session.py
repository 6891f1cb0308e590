"""ONNX Runtime around a graph: weights are handed over as they lie in memory, and no graph is optimised twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.errors import CheckpointError, MissingPackageError
from clearhead.files import to_printable

Array = np.ndarray[Any, Any]
ERRORS_ONLY = 3  # errors alone
SPIN_MICROSECONDS = (
    20  # microseconds: longer than from one step of a model to the next, shorter than a turn of another process
)
SPIN_LIMIT_VERSION = (1, 26)  # the first version that can be told; in older ones threads sleep at once


@cache
def import_onnxruntime() -> Any:
    """ONNX Runtime itself, or one sentence that says how to get it."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingPackageError("The engine", "onnxruntime") from None
    onnxruntime.set_default_logger_severity(ERRORS_ONLY)
    return onnxruntime


def spin_settings(threads: int, version: str) -> dict[str, str]:
    """How threads wait for the next product: they spin as long as a model's steps are apart, and then sleep.

    Without a limit they spin for milliseconds, which is the time of another process where there is one.
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    bounded = threads > 1 and (major, minor) >= SPIN_LIMIT_VERSION
    spinning = {"session.intra_op.allow_spinning": "1" if bounded else "0"}
    return spinning | ({"session.intra_op.spin_duration_us": str(SPIN_MICROSECONDS)} if bounded else {})


class Session:
    """A graph that is ready to run; several threads may run it at once."""

    def __init__(self, graph: Graph, *, threads: int = 1, profile: str | None = None) -> None:
        ort = import_onnxruntime()
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        for name, value in spin_settings(threads, ort.__version__).items():
            options.add_session_config_entry(name, value)
        if profile is not None:
            options.enable_profiling, options.profile_file_prefix = True, profile
        large = {name: np.ascontiguousarray(array) for name, array in graph.large_weights.items()}
        # values are views of these arrays, so that both stay as long as the session does
        self.kept = [ort.OrtValue.ortvalue_from_numpy(array) for array in large.values()]
        if large:
            options.add_external_initializers(list(large), self.kept)  # the numbers are here, in no file
            for name, value in zip(large, self.kept, strict=True):
                options.add_initializer(name, value)  # and are used where they lie: without this they are copied
        self.inputs, self.outputs = tuple(graph.inputs), tuple(graph.outputs)
        try:
            self.session = ort.InferenceSession(graph.to_bytes(), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise _convert_error(error) from None

    def run(self, given: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Arrays by name in, arrays by name out."""
        names = self.outputs if outputs is None else tuple(outputs)
        try:
            found = self.session.run(names, dict(given))
        except Exception as error:
            raise _convert_error(error) from None
        return dict(zip(names, found, strict=True))

    def run_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The same, with results as values of the runtime, which another session can read without a copy."""
        values = {name: _to_ort_value(one) for name, one in given.items()}
        return dict(zip(self.outputs, self.session.run_with_ort_values(self.outputs, values), strict=True))

    def bind(self, given: Mapping[str, Array], written: Mapping[str, Array]) -> BoundSession:
        """Arrays that every run reads and writes where they lie."""
        return BoundSession(self, given, written)


class BoundSession:
    """A session with some of its inputs and outputs in fixed places; not for two threads at once."""

    def __init__(self, session: Session, given: Mapping[str, Array], written: Mapping[str, Array]) -> None:
        self.session = session.session
        self.kept: dict[str, tuple[Array, Any]] = {}
        self.binding = self.session.io_binding()
        self.free = tuple(name for name in session.outputs if name not in written)
        places = {id(one): _to_ort_value(one) for one in given.values()}
        for name, one in given.items():
            self.binding.bind_ortvalue_input(name, places[id(one)])
        for name in session.outputs:
            if name in written:
                self.binding.bind_ortvalue_output(name, places[id(written[name])])
            else:
                self.binding.bind_output(name, "cpu")
        self.first = session.outputs.index(self.free[0])

    def run(self, given: Mapping[str, Array]) -> Any:
        """The one result that has no fixed place."""
        for name, one in given.items():
            if name not in self.kept or self.kept[name][0] is not one:
                self.kept[name] = one, _to_ort_value(one)
                self.binding.bind_ortvalue_input(name, self.kept[name][1])
        for name in self.free:
            self.binding.bind_output(name, "cpu")  # a new place, so that what was given before stays as it is
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()[self.first]


def _convert_error(error: Exception) -> Exception:
    """What the runtime itself raises as one sentence; anything else as it is."""
    if not type(error).__module__.startswith("onnxruntime"):
        return error
    said = to_printable(" ".join(str(error).split()), 300)
    return CheckpointError(f"ONNX Runtime cannot run the network that config.json describes: {said}.")


def _to_ort_value(given: Any) -> Any:
    """An array as a value of the runtime, without a copy."""
    if not isinstance(given, np.ndarray):
        return given
    return import_onnxruntime().OrtValue.ortvalue_from_numpy(np.ascontiguousarray(given))
