"""The state of a run on disk: whole or not there, safetensors and JSON, enough to go on as if nothing had happened.

    state/step-000120/   weights.safetensors  adam.safetensors  best.safetensors  progress.json
    state/latest.json    names the step that is whole

A step's batch and its dropout are pure functions of (seed, epoch, step), so that no generator has to be saved.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.checkpoint.weights import Mapped, read_header, write_file
from clearhead.config import decode, read_json, write_json
from clearhead.core.models import Network
from clearhead.errors import CheckpointError


@dataclass(kw_only=True)
class Progress:
    """Where a run stands, beside its weights."""

    step: int = 0  # steps done
    best_score: float | None = None
    best_epoch: int = -1
    waited: int = 0  # evaluations since the best
    finished: bool = False
    scores: list[float] = field(default_factory=list)  # of each evaluation
    recent: list[int] = field(default_factory=list)  # epochs whose weights are averaged


@dataclass
class State:
    """Everything that changes while a network learns."""

    network: Network
    adam: torch.optim.AdamW
    progress: Progress
    best: dict[str, Tensor] = field(default_factory=dict)
    recent: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # weights after the last epochs

    def named(self) -> dict[str, Tensor]:
        """The network's parameters by name, tied ones once."""
        return {name: p.detach() for name, p in self.network.named_parameters()}

    def keep_best(self) -> None:
        """Remember the weights as they are now."""
        self.best = {name: tensor.clone() for name, tensor in self.named().items()}

    def judged(self, value: float, epoch: int) -> bool:
        """Note a score, and keep the weights if it is the best so far."""
        progress = self.progress
        progress.scores.append(value)
        better = progress.best_score is None or value > progress.best_score
        if better:
            progress.best_score, progress.best_epoch, progress.waited = value, epoch, 0
            self.keep_best()
        else:
            progress.waited += 1
        return better

    def remember(self, epoch: int, most: int) -> None:
        """Keep the weights after an epoch, and those of so many before it that there are `most`."""
        self.recent[epoch] = {name: tensor.clone() for name, tensor in self.named().items()}
        self.progress.recent = sorted(self.recent)[-most:]
        self.recent = {one: self.recent[one] for one in self.progress.recent}

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The network with the mean of the kept weights, where some are kept; afterwards as it was."""
        if len(self.recent) < 2:
            yield
            return
        now = {name: tensor.clone() for name, tensor in self.named().items()}
        every = list(self.recent.values())
        _copy_into(self.network, {name: torch.stack([one[name] for one in every]).mean(0) for name in now})
        try:
            yield
        finally:
            _copy_into(self.network, now)

    def restore_best(self) -> None:
        """Put the best weights back."""
        if self.best:
            _copy_into(self.network, self.best)


def fold(network: Network, scale: tuple[float, float] | None) -> None:
    """y * spread + mean as part of the head's own weights: w * spread, b * spread + mean.

    A head without a bias, as GPT's is, finds the mean in what it reads: the last norm adds d with w . d = mean.
    """
    if scale is None or network.head is None:
        return
    mean, spread = scale
    with torch.no_grad():
        weight = network.head.out.weight.mul_(spread)
        if network.head.shape.out_bias:
            network.head.out.bias.mul_(spread).add_(mean)
        elif (below := last_bias(network)) is not None:
            below.add_(mean * weight[0] / weight[0].square().sum().clamp(min=torch.finfo(weight.dtype).tiny))


def last_bias(network: Network) -> Tensor | None:
    """The bias of the norm that the last hidden state comes out of; None where there is no such norm."""
    stack = network.stack.shape
    if stack.recurrent is not None or stack.norm != "layer" or not stack.norm_bias:
        return None
    if stack.final_norm:
        return network.get_parameter("stack.norm.bias")
    if stack.norm_place == "after" and stack.layers:
        return network.get_parameter(f"stack.blocks.{stack.block_of_layer[-1]}.feed.norm.bias")
    return None


def save_state(folder: Path, state: State) -> None:
    """Write a whole new step beside the old one, point to it, then remove the old one."""
    name = f"step-{state.progress.step:08d}"
    place, temporary = folder / name, folder / f".{name}.part"
    for left in folder.glob(".step-*.part"):  # of a run that was killed while it saved
        shutil.rmtree(left, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        _write(temporary / "weights.safetensors", state.named())
        _write(temporary / "adam.safetensors", adam_tensors(state))
        if state.best:
            _write(temporary / "best.safetensors", state.best)
        for epoch, weights in state.recent.items():  # each is written once, beside the steps
            if not (folder / _epoch_name(epoch)).exists():
                _write(folder / _epoch_name(epoch), weights)
        write_json(temporary / "progress.json", asdict(state.progress))
        shutil.rmtree(place, ignore_errors=True)
        temporary.rename(place)
        write_json(folder / "latest.json", {"step": name})
    except OSError as error:
        said = f"{place} cannot be written: {error.strerror or error}"
        raise CheckpointError(f"{said}; the state before it is whole.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sweep(folder, name, state.progress.recent)


def _epoch_name(epoch: int) -> str:
    return f"epoch-{epoch:06d}.safetensors"


def _sweep(folder: Path, name: str, recent: Sequence[int]) -> None:
    """Remove every step but one: also those that a run did not get to remove before it was killed."""
    for old in folder.glob("step-*"):
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)
    kept = {_epoch_name(epoch) for epoch in recent}
    for old in folder.glob("epoch-*.safetensors"):
        if old.name not in kept:
            old.unlink(missing_ok=True)


def load_state(folder: Path, state: State) -> bool:
    """Bring the last whole step back into the network and the optimiser; False when there is none yet."""
    if not (folder / "latest.json").exists():
        return False
    name = str(read_json(folder / "latest.json").get("step"))
    place = folder / name
    if not place.is_dir() or "/" in name:
        raise CheckpointError(f"{folder / 'latest.json'} names {name[:40]!r}, which is not there.")
    state.progress = decode(read_json(place / "progress.json"), Progress, "progress.json")
    _copy_into(state.network, _read(place / "weights.safetensors"))
    set_adam_tensors(state, _read(place / "adam.safetensors"))
    best = place / "best.safetensors"
    state.best = _read(best) if best.exists() else {}
    state.recent = {epoch: _read(folder / _epoch_name(epoch)) for epoch in state.progress.recent}
    _sweep(folder, name, state.progress.recent)
    return True


def adam_tensors(state: State) -> dict[str, Tensor]:
    """Both moments and the step count of every parameter that has learned."""
    made = {}
    for name, parameter in state.network.named_parameters():
        for key, value in state.adam.state.get(parameter, {}).items():
            made[f"{key}/{name}"] = value.detach().reshape(value.shape or (1,))
    return made


def set_adam_tensors(state: State, tensors: Mapping[str, Tensor]) -> None:
    """The way back."""
    by_name = dict(state.network.named_parameters())
    state.adam.state.clear()
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        if name not in by_name:
            raise CheckpointError(f"The saved optimiser knows {name}, and this model does not.")
        parameter = by_name[name]
        kept = value.reshape(()) if kind == "step" else value
        state.adam.state[parameter][kind] = kept.clone().to(parameter.device)


def _copy_into(network: Network, tensors: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name not in tensors or tensors[name].shape != parameter.shape:
                raise CheckpointError(f"The saved state has no {name} that fits this model.")
            parameter.copy_(tensors[name])


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    write_file(path, {name: tensor.to("cpu", torch.float32).numpy() for name, tensor in tensors.items()})


def _read(path: Path) -> dict[str, Tensor]:
    mapped = Mapped(read_header(path))
    return {name: torch.from_numpy(mapped.array(name).copy()) for name in mapped.tensors}


def latest(folder: Path) -> dict[str, Any] | None:
    """What the last whole step says of itself, without reading a weight."""
    if not (folder / "latest.json").exists():
        return None
    return read_json(folder / str(read_json(folder / "latest.json").get("step")) / "progress.json")
