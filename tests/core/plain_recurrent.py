"""A numpy implementation of the recurrent encoder-decoder, one row and one token at a time."""

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
    """Run one token through a GRU, gate by gate."""
    h = memory[0]
    (wr, wz, wn), (ur, uz, un) = np.split(w @ x + b, 3), np.split(u @ h + c, 3)
    r, z = sigmoid(wr + ur), sigmoid(wz + uz)
    n = np.tanh(wn + r * un)
    return ((1 - z) * n + z * h,)


def lstm(x: Array, memory: Memory, w: Array, u: Array, b: Array, c: Array) -> Memory:
    """Run one token through an LSTM, gate by gate."""
    h, cell = memory
    i, f, g, o = np.split(w @ x + b + u @ h + c, 4)
    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


CELLS: dict[str, Callable[..., Memory]] = {"gru": gru, "lstm": lstm}


def scores(kind: str, t: Tensors, state: Array, memory: Array) -> Array:
    """Score each encoder state for a decoder state, one after the other."""
    if kind == "dot":
        return np.array([state @ h for h in memory])
    if kind == "general":
        return np.array([state @ t["attention.key.weight"] @ h for h in memory])
    v = t["attention.out.weight"][0]
    if kind == "additive":
        w, u, b = t["attention.query.weight"], t["attention.key.weight"], t["attention.key.bias"]
        return np.array([v @ np.tanh(w @ state + u @ h + b) for h in memory])
    return np.array([v @ np.tanh(t["attention.both.weight"] @ np.concatenate([state, h])) for h in memory])


def layer(config: Mapping[str, Any], t: Tensors, side: str, index: int, direction: str = "") -> Callable[..., Memory]:
    """Return one cell with its matrices."""
    names = [f"{side}.{part}_l{index}{direction}" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    return lambda x, memory: CELLS[config["cell"]](x, memory, *(t[name] for name in names))


def encode(config: Mapping[str, Any], t: Tensors, ids: Array) -> tuple[Array, list[Memory]]:
    """Return the states of the top layer and the final state of every layer."""
    x = t["embedding.weight"][ids]
    directions = ("", "_reverse") if config["bidirectional"] else ("",)
    half = config["width"] // len(directions)
    final_states: list[Memory] = []
    for index in range(config["encoder_layers"]):
        outputs, final = [], []
        for direction in directions:
            memory: Memory = (np.zeros(half),) * (2 if config["cell"] == "lstm" else 1)
            states = []
            for word in x[::-1] if direction else x:
                memory = layer(config, t, "encoder", index, direction)(word, memory)
                states.append(memory[0])
            outputs.append(np.array(states[::-1] if direction else states))
            final.append(memory)
        x = np.concatenate(outputs, 1)
        final_states.append(tuple(np.concatenate(parts) for parts in zip(*final, strict=True)))
    return x, final_states


def translate(config: Mapping[str, Any], t: Tensors, ids: Array, target: Array) -> tuple[Array, Array]:
    """Return logits after each target token, and its attention."""
    memory, final_states = encode(config, t, ids)
    words = t.get("target_embedding.weight", t["embedding.weight"])
    layers: list[Memory] = []
    for index in range(config["decoder_layers"]):
        final_state = final_states[max(0, index + config["encoder_layers"] - config["decoder_layers"])]
        h = np.tanh(t[f"bridge.{index}.weight"] @ final_state[0] + t[f"bridge.{index}.bias"])
        cells = [t[f"bridge_cell.{index}.weight"] @ c + t[f"bridge_cell.{index}.bias"] for c in final_state[1:]]
        layers.append((h, *cells))
    attentional = np.zeros(config["width"])
    logits, attention = [], []
    for word in target:
        x = words[word]
        if config["input_feeding"]:
            x = np.concatenate([x, attentional])
        for index in range(config["decoder_layers"]):
            layers[index] = layer(config, t, "decoder", index)(x, layers[index])
            x = layers[index][0]
        if config["attention"] != "none":
            probs = softmax(scores(config["attention"], t, x, memory))
            context = sum(p * h for p, h in zip(probs, memory, strict=True))
            x = attentional = np.tanh(t["attention.mix.weight"] @ np.concatenate([context, x]))
            attention.append(probs)
        if "narrow.weight" in t:
            x = t["narrow.weight"] @ x
        logits.append(t.get("output.weight", words) @ x + t.get("output.bias", 0.0))
    return np.array(logits), np.array(attention)
