"""The recurrent pair written out in numpy, one row and one word at a time, from the tensors of its own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]
Memory = tuple[Array, ...]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return e / e.sum()


def gru(x: Array, memory: Memory, w: Array, u: Array, b: Array, c: Array) -> Memory:
    """One word through a GRU, gate by gate."""
    h = memory[0]
    (wr, wz, wn), (ur, uz, un) = np.split(w @ x + b, 3), np.split(u @ h + c, 3)
    r, z = sigmoid(wr + ur), sigmoid(wz + uz)
    n = np.tanh(wn + r * un)
    return ((1 - z) * n + z * h,)


def lstm(x: Array, memory: Memory, w: Array, u: Array, b: Array, c: Array) -> Memory:
    """One word through an LSTM, gate by gate."""
    h, cell = memory
    i, f, g, o = np.split(w @ x + b + u @ h + c, 4)
    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


CELLS: dict[str, Callable[..., Memory]] = {"gru": gru, "lstm": lstm}


def scores(kind: str, t: Tensors, state: Array, memory: Array) -> Array:
    """How well each encoder state fits a decoder state, one after the other."""
    if kind == "dot":
        return np.array([state @ h for h in memory])
    if kind == "general":
        return np.array([state @ t["attention.key.weight"] @ h for h in memory])
    v = t["attention.out.weight"][0]
    if kind == "additive":
        w, u, b = t["attention.query.weight"], t["attention.key.weight"], t["attention.key.bias"]
        return np.array([v @ np.tanh(w @ state + u @ h + b) for h in memory])
    return np.array([v @ np.tanh(t["attention.both.weight"] @ np.concatenate([state, h])) for h in memory])


def layer(config: Mapping[str, Any], t: Tensors, side: str, number: int, way: str = "") -> Callable[..., Memory]:
    """One cell with its matrices."""
    names = [f"{side}.{part}_l{number}{way}" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    return lambda x, memory: CELLS[config["cell"]](x, memory, *(t[name] for name in names))


def encode(config: Mapping[str, Any], t: Tensors, ids: Array) -> tuple[Array, list[Memory]]:
    """The top layer's states, and the end of every layer."""
    x = t["embedding.weight"][ids]
    ways = ("", "_reverse") if config["bidirectional"] else ("",)
    half = config["width"] // len(ways)
    ends: list[Memory] = []
    for number in range(config["encoder_layers"]):
        read, last = [], []
        for way in ways:
            memory: Memory = (np.zeros(half),) * (2 if config["cell"] == "lstm" else 1)
            states = []
            for word in x[::-1] if way else x:
                memory = layer(config, t, "encoder", number, way)(word, memory)
                states.append(memory[0])
            read.append(np.array(states[::-1] if way else states))
            last.append(memory)
        x = np.concatenate(read, 1)
        ends.append(tuple(np.concatenate(parts) for parts in zip(*last, strict=True)))
    return x, ends


def translate(config: Mapping[str, Any], t: Tensors, ids: Array, target: Array) -> tuple[Array, Array]:
    """Logits after each target word, and where each looked."""
    memory, ends = encode(config, t, ids)
    words = t.get("target_embedding.weight", t["embedding.weight"])
    layers: list[Memory] = []
    for number in range(config["decoder_layers"]):
        end = ends[max(0, number + config["encoder_layers"] - config["decoder_layers"])]
        h = np.tanh(t[f"bridge.{number}.weight"] @ end[0] + t[f"bridge.{number}.bias"])
        cells = [t[f"bridge_cell.{number}.weight"] @ c + t[f"bridge_cell.{number}.bias"] for c in end[1:]]
        layers.append((h, *cells))
    said = np.zeros(config["width"])
    logits, looks = [], []
    for word in target:
        x = words[word]
        if config["input_feeding"]:
            x = np.concatenate([x, said])
        for number in range(config["decoder_layers"]):
            layers[number] = layer(config, t, "decoder", number)(x, layers[number])
            x = layers[number][0]
        if config["attention"] != "none":
            probs = softmax(scores(config["attention"], t, x, memory))
            context = sum(p * h for p, h in zip(probs, memory, strict=True))
            x = said = np.tanh(t["attention.mix.weight"] @ np.concatenate([context, x]))
            looks.append(probs)
        if "narrow.weight" in t:
            x = t["narrow.weight"] @ x
        logits.append(t.get("output.weight", words) @ x + t.get("output.bias", 0.0))
    return np.array(logits), np.array(looks)
