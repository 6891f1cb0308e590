"""Builder of an ONNX graph: nodes, weights, inputs and outputs, in ONNX Runtime's or standard operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clearhead.engine import proto
from clearhead.engine.standard_operators import EXPANSIONS

Array = np.ndarray[Any, Any]
CONTRIB_OPERATORS = {
    "BiasGelu",
    "DecoderMaskedMultiHeadAttention",
    "DynamicQuantizeMatMul",
    "FastGelu",
    "FusedMatMul",
    "Gelu",
    "MatMulIntegerToFloat",
    "MultiHeadAttention",
    "QuickGelu",
    "RotaryEmbedding",
}
MAX_INLINE_BYTES = 1024  # constants up to this size are stored in the model bytes


@dataclass(kw_only=True)
class Graph:
    """Operators are added one by one; adding one returns the names of its outputs."""

    portable: bool = False  # only standard ONNX operators
    names: Mapping[str, str] = field(default_factory=dict)  # names of inputs and outputs in exported files
    nodes: list[bytes] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    read_names: set[str] = field(default_factory=set)  # names that are an input of an operator
    inputs: dict[str, tuple[str, proto.Dims]] = field(default_factory=dict)  # type and dimensions
    outputs: dict[str, tuple[str, proto.Dims]] = field(default_factory=dict)
    node_count: int = 0

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: proto.Attribute) -> str:
        """Add an operator and return its first output."""
        return self.add_with_outputs(op, *inputs, outputs=outputs, **attributes)[0]

    def add_with_outputs(
        self, op: str, *inputs: str, outputs: int | tuple[str, ...], **attributes: proto.Attribute
    ) -> tuple[str, ...]:
        """Add an operator with several outputs; a portable graph expands fused ones into standard operators.

        Outputs may be named: under the name of a graph output, the operator writes directly into the bound array.
        """
        is_unofficial = (
            bool(self.names) and op not in CONTRIB_OPERATORS
        )  # supported by ONNX Runtime, but in no official domain
        if op in EXPANSIONS and (self.portable or is_unofficial):
            return EXPANSIONS[op](self, *inputs, **attributes)
        if op in CONTRIB_OPERATORS:
            attributes["domain"] = "com.microsoft"
        self.node_count += 1
        name = f"{op}_{self.node_count}"
        output_names = ("",) * outputs if isinstance(outputs, int) else outputs
        output_nodes = tuple(
            given or (f"{name}.{index}" if index else name) for index, given in enumerate(output_names)
        )
        self.nodes.append(proto.encode_node(op, inputs, output_nodes, name, **attributes))
        self.read_names.update(inputs)
        return output_nodes

    def weight(self, name: str, array: Array) -> str:
        """Add a weight by name, once."""
        self.weights.setdefault(name, array)
        return name

    def constant(self, value: Any, dtype: str = "int64") -> str:
        """Add a small constant, named by its value."""
        array = np.asarray(value, dtype)
        constant_name = f"{dtype}{array.tolist()}" if array.size <= 8 else f"constant_{len(self.weights)}"
        return self.weight(constant_name.replace(" ", ""), array)

    def scalar(self, value: float) -> str:
        """Add a floating-point scalar."""
        return self.constant(value, "float32")

    def input(self, name: str, dtype: str, dims: proto.Dims) -> str:
        """Add a graph input; in exported files, boolean inputs are int64 with 0 and 1."""
        public_name = self.names.get(name, name)
        is_int64 = bool(self.names) and dtype == "bool"
        self.inputs[public_name] = ("int64" if is_int64 else dtype, dims)
        return self.add("Cast", public_name, to=proto.TYPES[dtype]) if is_int64 else public_name

    def output(self, name: str, value: str, dims: proto.Dims, dtype: str = "float32") -> None:
        """Add a graph output."""
        public_name = self.names.get(name, name)
        self.outputs[public_name] = (dtype, dims)
        if value == public_name:
            return
        self.nodes.append(proto.encode_node("Identity", [value], [public_name], f"out_{public_name}"))
        self.read_names.add(value)

    def dim(self, value: str, axis: int) -> str:
        """Get the size of one dimension, as (1,)."""
        return self.add("Shape", value, start=axis, end=axis + 1)

    @property
    def large_weights(self) -> dict[str, Array]:
        """Weights that are stored outside the model bytes."""
        return {name: array for name, array in self.used_weights.items() if array.nbytes > MAX_INLINE_BYTES}

    @property
    def used_weights(self) -> dict[str, Array]:
        """Weights that are an input of an operator."""
        return {name: array for name, array in self.weights.items() if name in self.read_names}

    def iter_weight_bytes(self) -> Iterator[bytes | memoryview]:
        """Iterate over the large weights in the order and alignment of `to_bytes`, one at a time in memory."""
        for array in self.large_weights.values():
            yield np.ascontiguousarray(array).data
            yield bytes(-array.nbytes % ALIGNMENT)

    def to_bytes(
        self, *, version: str = "", notes: Mapping[str, str] | None = None, location: str | None = "memory"
    ) -> bytes:
        """Serialize the model; large weights are included, in memory, or at offsets of a file."""
        offset, constants = 0, []
        for name, array in self.used_weights.items():
            if location is None or array.nbytes <= MAX_INLINE_BYTES:
                constants.append(proto.encode_tensor(name, array))
                continue
            constants.append(proto.encode_external_tensor(name, array, location, offset))
            offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        domains = [""] if self.portable else list(proto.OPSETS)
        inputs, outputs = (
            [proto.encode_value_info(name, *type_and_dims) for name, type_and_dims in values.items()]
            for values in (self.inputs, self.outputs)
        )
        return proto.encode_model(self.nodes, constants, inputs, outputs, version=version, notes=notes, domains=domains)


ALIGNMENT = 4096  # weights start at multiples of this offset, so that a file can be memory-mapped
