"""A graph while it is written: nodes, weights, inputs and outputs, in ONNX Runtime's own operators or in plain ones."""

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
MAX_INLINE_BYTES = 1024  # bytes of a constant that is written into the model itself


@dataclass(kw_only=True)
class Graph:
    """Operators are added one by one, and each gives the names of what it makes."""

    portable: bool = False  # operators of the ONNX standard alone
    names: Mapping[str, str] = field(default_factory=dict)  # of inputs and outputs, in a file for others
    nodes: list[bytes] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    read_names: set[str] = field(default_factory=set)  # what some operator takes
    inputs: dict[str, tuple[str, proto.Dims]] = field(default_factory=dict)  # type and sides
    outputs: dict[str, tuple[str, proto.Dims]] = field(default_factory=dict)
    node_count: int = 0

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: proto.Attribute) -> str:
        """One operator with one result that matters."""
        return self.add_with_outputs(op, *inputs, outputs=outputs, **attributes)[0]

    def add_with_outputs(
        self, op: str, *inputs: str, outputs: int | tuple[str, ...], **attributes: proto.Attribute
    ) -> tuple[str, ...]:
        """One operator with several results; a graph for other runtimes writes it out in plain operators.

        Results may have names of their own: under the name of an output, the operator writes into what is bound to it.
        """
        unnamed = (
            bool(self.names) and op not in CONTRIB_OPERATORS
        )  # ONNX Runtime has it, and no domain that a file could name
        if op in EXPANSIONS and (self.portable or unnamed):
            return EXPANSIONS[op](self, *inputs, **attributes)
        if op in CONTRIB_OPERATORS:
            attributes["domain"] = "com.microsoft"
        self.node_count += 1
        name = f"{op}_{self.node_count}"
        named = ("",) * outputs if isinstance(outputs, int) else outputs
        results = tuple(own or (f"{name}.{place}" if place else name) for place, own in enumerate(named))
        self.nodes.append(proto.encode_node(op, inputs, results, name, **attributes))
        self.read_names.update(inputs)
        return results

    def weight(self, name: str, array: Array) -> str:
        """A constant under a name; the same one is kept once."""
        self.weights.setdefault(name, array)
        return name

    def constant(self, value: Any, dtype: str = "int64") -> str:
        """A small constant, by its value."""
        array = np.asarray(value, dtype)
        plain = f"{dtype}{array.tolist()}" if array.size <= 8 else f"constant_{len(self.weights)}"
        return self.weight(plain.replace(" ", ""), array)

    def scalar(self, value: float) -> str:
        """One floating-point number."""
        return self.constant(value, "float32")

    def input(self, name: str, dtype: str, sides: proto.Dims) -> str:
        """Something that is given at every run; true and false come as 1 and 0 in a file for others."""
        given = self.names.get(name, name)
        whole = bool(self.names) and dtype == "bool"
        self.inputs[given] = ("int64" if whole else dtype, sides)
        return self.add("Cast", given, to=proto.TYPES[dtype]) if whole else given

    def output(self, name: str, value: str, sides: proto.Dims, dtype: str = "float32") -> None:
        """Something that every run gives."""
        given = self.names.get(name, name)
        self.outputs[given] = (dtype, sides)
        if value == given:
            return
        self.nodes.append(proto.encode_node("Identity", [value], [given], f"out_{given}"))
        self.read_names.add(value)

    def dim(self, value: str, axis: int) -> str:
        """How long one side of a value is, as (1,)."""
        return self.add("Shape", value, start=axis, end=axis + 1)

    @property
    def large_weights(self) -> dict[str, Array]:
        """Weights that are handed over as they lie in memory."""
        return {name: array for name, array in self.used_weights.items() if array.nbytes > MAX_INLINE_BYTES}

    @property
    def used_weights(self) -> dict[str, Array]:
        """Weights that some operator takes."""
        return {name: array for name, array in self.weights.items() if name in self.read_names}

    def iter_weight_bytes(self) -> Iterator[bytes | memoryview]:
        """The large weights one after the other, as `model` says that they lie in a file; one at a time in memory."""
        for array in self.large_weights.values():
            yield np.ascontiguousarray(array).data
            yield bytes(-array.nbytes % ALIGNMENT)

    def to_bytes(
        self, *, version: str = "", notes: Mapping[str, str] | None = None, place: str | None = "memory"
    ) -> bytes:
        """The model as bytes, its large weights in it or elsewhere: in memory, or one after the other in a file."""
        offset, constants = 0, []
        for name, array in self.used_weights.items():
            if place is None or array.nbytes <= MAX_INLINE_BYTES:
                constants.append(proto.encode_tensor(name, array))
                continue
            constants.append(proto.encode_external_tensor(name, array, place, offset))
            offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        domains = [""] if self.portable else list(proto.OPSETS)
        inputs, outputs = (
            [proto.encode_value_info(name, *how) for name, how in part.items()] for part in (self.inputs, self.outputs)
        )
        return proto.encode_model(self.nodes, constants, inputs, outputs, version=version, notes=notes, domains=domains)


ALIGNMENT = 4096  # bytes: where a weight begins in a file, so that it can be mapped
