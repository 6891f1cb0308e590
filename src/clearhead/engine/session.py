"""ONNX Runtime sessions: weights are shared in memory, and graphs are already optimized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.errors import CheckpointError, MissingPackageError
from clearhead.files import to_printable

Array = np.ndarray[Any, Any]
ERRORS_ONLY = 3  # log severity of ONNX Runtime
SPIN_MICROSECONDS = 20  # longer than the gap between two operators, shorter than a time slice of another process
SPIN_LIMIT_VERSION = (1, 26)  # first version with a spin limit; with older ones threads do not spin


@cache
def import_onnxruntime() -> Any:
    """Import ONNX Runtime, or explain how to install it."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingPackageError("The engine", "onnxruntime") from None
    onnxruntime.set_default_logger_severity(ERRORS_ONLY)
    return onnxruntime


def spin_settings(threads: int, version: str) -> dict[str, str]:
    """Configure how threads wait: they spin for about the time between two operators, and then sleep.

    Without a limit they spin for milliseconds, which slows down other processes.
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    has_spin_limit = threads > 1 and (major, minor) >= SPIN_LIMIT_VERSION
    options = {"session.intra_op.allow_spinning": "1" if has_spin_limit else "0"}
    return options | ({"session.intra_op.spin_duration_us": str(SPIN_MICROSECONDS)} if has_spin_limit else {})


class Session:
    """A graph that is ready to run; safe for concurrent runs."""

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
        # OrtValues are views of these arrays, so both must live as long as the session
        self.weight_values = [ort.OrtValue.ortvalue_from_numpy(array) for array in large.values()]
        if large:
            options.add_external_initializers(list(large), self.weight_values)  # the data is in memory, not in a file
            for name, value in zip(large, self.weight_values, strict=True):
                options.add_initializer(name, value)  # shares the memory; without it, the weights are copied
        self.inputs, self.outputs = tuple(graph.inputs), tuple(graph.outputs)
        try:
            self.session = ort.InferenceSession(graph.to_bytes(), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise _convert_error(error) from None

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the graph: arrays by name in, arrays by name out."""
        names = self.outputs if outputs is None else tuple(outputs)
        try:
            results = self.session.run(names, dict(feeds))
        except Exception as error:
            raise _convert_error(error) from None
        return dict(zip(names, results, strict=True))

    def run_values(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the graph and return OrtValues, which another session can read without a copy."""
        values = {name: _to_ort_value(array) for name, array in feeds.items()}
        return dict(zip(self.outputs, self.session.run_with_ort_values(self.outputs, values), strict=True))

    def bind(self, feeds: Mapping[str, Array], outputs: Mapping[str, Array]) -> BoundSession:
        """Bind arrays that every run reads and writes in place."""
        return BoundSession(self, feeds, outputs)


class BoundSession:
    """A session with some inputs and outputs bound to fixed arrays; not for concurrent runs."""

    def __init__(self, session: Session, feeds: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        self.session = session.session
        self.fed: dict[str, tuple[Array, Any]] = {}
        self.binding = self.session.io_binding()
        self.unbound = tuple(name for name in session.outputs if name not in outputs)
        bound_values = {id(array): _to_ort_value(array) for array in feeds.values()}
        for name, array in feeds.items():
            self.binding.bind_ortvalue_input(name, bound_values[id(array)])
        for name in session.outputs:
            if name in outputs:
                self.binding.bind_ortvalue_output(name, bound_values[id(outputs[name])])
            else:
                self.binding.bind_output(name, "cpu")
        self.output_index = session.outputs.index(self.unbound[0])

    def run(self, feeds: Mapping[str, Array]) -> Any:
        """Run and return the only output that is not bound."""
        for name, array in feeds.items():
            if name not in self.fed or self.fed[name][0] is not array:
                self.fed[name] = array, _to_ort_value(array)
                self.binding.bind_ortvalue_input(name, self.fed[name][1])
        for name in self.unbound:
            self.binding.bind_output(name, "cpu")  # a new buffer, so that earlier results stay valid
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()[self.output_index]


def _convert_error(error: Exception) -> Exception:
    """Convert errors of the runtime to a CheckpointError; return others unchanged."""
    if not type(error).__module__.startswith("onnxruntime"):
        return error
    message = to_printable(" ".join(str(error).split()), 300)
    return CheckpointError(f"ONNX Runtime cannot run the network that config.json describes: {message}.")


def _to_ort_value(value: Any) -> Any:
    """Wrap an array as an OrtValue without a copy."""
    if not isinstance(value, np.ndarray):
        return value
    return import_onnxruntime().OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))
