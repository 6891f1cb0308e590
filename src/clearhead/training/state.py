"""The state of a run on disk: whole or not there, safetensors and JSON, enough to go on as if nothing had happened.

    state/step-000120/   weights.safetensors  adam.safetensors  best.safetensors  progress.json
    state/latest.json    names the step that is whole

A step's batch and its dropout are pure functions of (seed, epoch, step), so that no generator has to be saved.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from clearhead.checkpoint.weights import MappedTensors, has_entry, is_finite, read_header, write_safetensors
from clearhead.core.models import Network
from clearhead.errors import CheckpointError, TensorError
from clearhead.files import decode_dataclass, read_json, to_printable, write_json

LATEST_FILE, PROGRESS_FILE = "latest.json", "progress.json"
STEP_NAME = re.compile(r"step-[0-9]{8,12}")
MOMENT_COUNT = "moments"  # tensors of the optimizer; not in the files of earlier versions
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of each parameter


@dataclass(kw_only=True)
class TrainingProgress:
    """Where a run stands, beside its weights."""

    step: int = 0  # steps done
    best_score: float | None = None
    best_epoch: int = -1  # counted from 0; -1: before the first, or no score yet
    start_score: float | None = None  # before the first epoch, where that was measured
    waited: int = 0  # evaluations since the best
    finished: bool = False
    scores: list[float] = field(default_factory=list)  # of each evaluation
    recent: list[int] = field(default_factory=list)  # epochs whose weights are averaged
    planned: int | None = None  # steps that fit a time budget; None: there is none, or it is not planned yet
    seconds: float = 0.0  # of a time budget that are spent
    stopped: bool = False  # before the last step, because the time was over or somebody asked for it

    def check(self, name: str) -> None:
        """One sentence for the first value that no run can have come to."""
        rules = (
            (self.step >= 0, f"step must be at least 0, got {self.step}"),
            (self.best_epoch >= -1, f"best_epoch must be at least -1, got {self.best_epoch}"),
            (0 <= self.waited <= len(self.scores), f"waited must be from 0 to the number of scores, got {self.waited}"),
            (math.inf not in self.scores_with_start, "scores must be below infinity"),  # not defined: NaN or -inf
            (_is_best(self.best_score, self.scores_with_start), "best_score must be the highest of the scores"),
            (self.planned is None or self.planned >= 1, f"planned must be at least 1, got {self.planned}"),
            (0 <= self.seconds < math.inf, "seconds must be finite and at least 0"),
            (self.recent == sorted({one for one in self.recent if one >= 0}), "recent must be epochs in their order"),
        )
        for holds, said in rules:
            if not holds:
                raise CheckpointError(f"{name} is damaged: {said}.")

    @property
    def scores_with_start(self) -> list[float]:
        """Those of the epochs behind that of the start."""
        return self.scores if self.start_score is None else [self.start_score, *self.scores]

    def check_steps(self, steps: int, patience: int | None) -> None:
        """One sentence where a run of so many steps cannot stand so."""
        within = self.planned is None or self.planned <= steps
        steps = steps if self.planned is None else self.planned
        ended = self.step == steps or self.stopped or (patience is not None and self.waited >= patience)
        if not within or self.step > steps or self.finished != ended:
            stands = f"step {self.step:,} of {steps:,}, {'finished' if self.finished else 'not finished'}"
            raise CheckpointError(f"progress.json is damaged: it says {stands}.")


def _is_best(best: float | None, scores: Sequence[float]) -> bool:
    if best is None or not scores:
        return best is None and not scores
    return any(map(math.isnan, (best, *scores))) or best == max(scores)


@dataclass
class TrainingState:
    """Everything that changes while a network learns."""

    network: Network
    adam: torch.optim.AdamW
    progress: TrainingProgress
    best: dict[str, Tensor] = field(default_factory=dict)
    recent: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # weights after the last epochs

    def named_weights(self) -> dict[str, Tensor]:
        """The network's parameters by name, tied ones once."""
        return {name: p.detach() for name, p in self.network.named_parameters()}

    def keep_best(self) -> None:
        """Remember the weights as they are now."""
        self.best = {name: tensor.clone() for name, tensor in self.named_weights().items()}

    def record_start_score(self, value: float) -> None:
        """Note how good the network is before the first step, and keep it until an epoch is better."""
        self.progress.start_score = self.progress.best_score = value
        self.keep_best()

    def record_score(self, value: float, epoch: int) -> bool:
        """Note a score, and keep the weights if none was better so far."""
        progress = self.progress
        is_rising = not progress.scores or value > max(progress.scores)  # patience begins with the first epoch
        progress.waited = 0 if is_rising else progress.waited + 1
        progress.scores.append(value)
        better = progress.best_score is None or value > progress.best_score
        better = better or (value == progress.best_score and progress.best_epoch >= 0)  # of equal epochs, the last
        if better:
            progress.best_score, progress.best_epoch = value, epoch
            self.keep_best()
        return better

    def keep_recent(self, epoch: int, most: int) -> None:
        """Keep the weights after an epoch, and those of so many before it that there are `most`."""
        self.recent[epoch] = {name: tensor.clone() for name, tensor in self.named_weights().items()}
        self.progress.recent = sorted(self.recent)[-most:]
        self.recent = {one: self.recent[one] for one in self.progress.recent}

    @contextmanager
    def use_averaged_weights(self) -> Iterator[None]:
        """The network with the mean of the kept weights, where some are kept; afterwards as it was."""
        if len(self.recent) < 2:
            yield
            return
        now = {name: tensor.clone() for name, tensor in self.named_weights().items()}
        every = list(self.recent.values())
        copy_weights(self.network, {name: torch.stack([one[name] for one in every]).mean(0) for name in now})
        try:
            yield
        finally:
            copy_weights(self.network, now)

    def restore_best(self) -> None:
        """Put the best weights back."""
        if self.best:
            copy_weights(self.network, self.best)


def fold_target_scale(network: Network, scale: tuple[float, float] | None) -> None:
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
        elif (below := find_last_bias(network)) is not None:
            below.add_(mean * weight[0] / weight[0].square().sum().clamp(min=torch.finfo(weight.dtype).tiny))


def find_last_bias(network: Network) -> Tensor | None:
    """The bias of the norm that the last hidden state comes out of; None where there is no such norm."""
    stack = network.stack.shape
    if stack.recurrent is not None or stack.norm != "layer" or not stack.norm_bias:
        return None
    if stack.final_norm:
        return network.get_parameter("stack.norm.bias")
    if stack.norm_position == "after" and stack.layers:
        return network.get_parameter(f"stack.blocks.{stack.block_of_layer[-1]}.feed.norm.bias")
    return None


def save_state(folder: Path, state: TrainingState) -> None:
    """Write a whole new step beside the old one, point to it, then remove the old one."""
    name = _step_name(state.progress.step)
    place, temporary = folder / name, folder / f".{name}.part"
    for left in folder.glob(".step-*.part"):  # of a run that was killed while it saved
        shutil.rmtree(left, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        _write_tensors(temporary / "weights.safetensors", state.named_weights())
        moments = collect_moments(state)
        _write_tensors(temporary / "adam.safetensors", moments)
        if state.best:
            _write_tensors(temporary / "best.safetensors", state.best)
        for epoch, weights in state.recent.items():  # each is written once, beside the steps
            if not (folder / _epoch_name(epoch)).exists():
                _write_tensors(folder / _epoch_name(epoch), weights)
        write_json(temporary / PROGRESS_FILE, asdict(state.progress) | {MOMENT_COUNT: len(moments)})
        shutil.rmtree(place, ignore_errors=True)
        temporary.rename(place)
        write_json(folder / LATEST_FILE, {"step": name})
    except OSError as error:
        said = f"{place} cannot be written: {error.strerror or error}"
        raise CheckpointError(f"{said}; the state before it is whole.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _remove_stale(folder, name, state.progress.recent)


def _step_name(step: int) -> str:
    return f"step-{step:08d}"


def _epoch_name(epoch: int) -> str:
    return f"epoch-{epoch:06d}.safetensors"


def _remove_stale(folder: Path, name: str, recent: Sequence[int]) -> None:
    """Remove every step but one: also those that a run did not get to remove before it was killed."""
    for old in folder.glob("step-*"):
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)
    kept = {_epoch_name(epoch) for epoch in recent}
    for old in folder.glob("epoch-*.safetensors"):
        if old.name not in kept and not old.is_dir():
            old.unlink(missing_ok=True)


def load_state(folder: Path, state: TrainingState) -> bool:
    """Bring the last whole step back into the network and the optimizer; False when there is none yet."""
    place = _latest_step_folder(folder)
    if place is None:
        return False
    saved = read_json(place / PROGRESS_FILE)
    progress = decode_dataclass(saved, TrainingProgress, PROGRESS_FILE)
    progress.check(PROGRESS_FILE)
    count = (
        None
        if MOMENT_COUNT not in saved
        else decode_dataclass(saved[MOMENT_COUNT], int, f"{PROGRESS_FILE} {MOMENT_COUNT}")
    )
    if place.name != _step_name(progress.step):
        raise CheckpointError(f"{place / PROGRESS_FILE} is damaged: it says step {to_printable(progress.step, 30)}.")
    sizes = {name: tensor.shape for name, tensor in state.named_weights().items()}
    weights = _read_weights(place / "weights.safetensors", sizes)
    moments = _read_tensors(place / "adam.safetensors")
    if count != len(moments) if count is not None else progress.step and not moments:
        expected = "some" if count is None else to_printable(count, 20)
        raise CheckpointError(f"adam.safetensors is damaged: expected {expected} tensors, got {len(moments):,}.")
    best = place / "best.safetensors"
    has_best = has_entry(place, best.name)
    if progress.best_score is not None and not has_best:
        raise CheckpointError(f"{best} is missing: {PROGRESS_FILE} names a best epoch.")
    kept = _read_weights(best, sizes) if has_best else {}
    recent = {epoch: _read_weights(folder / _epoch_name(epoch), sizes) for epoch in progress.recent}
    restore_moments(state, moments, progress.step)
    copy_weights(state.network, weights)
    state.progress, state.best, state.recent = progress, kept, recent
    _remove_stale(folder, place.name, progress.recent)
    return True


def _latest_step_folder(folder: Path) -> Path | None:
    """The folder of the last whole step."""
    path = folder / LATEST_FILE
    if not has_entry(folder, LATEST_FILE):
        return None
    name = decode_dataclass(read_json(path).get("step"), str, LATEST_FILE)
    if not STEP_NAME.fullmatch(name) or not (folder / name).is_dir():
        raise CheckpointError(f"{path} names {to_printable(name, 40)!r}, which is not there.")
    return folder / name


def collect_moments(state: TrainingState) -> dict[str, Tensor]:
    """Both moments and the step count of every parameter that has learned."""
    made = {}
    for name, parameter in state.network.named_parameters():
        for key, value in state.adam.state.get(parameter, {}).items():
            made[f"{key}/{name}"] = value.detach().reshape(value.shape or (1,))
    return made


def restore_moments(state: TrainingState, tensors: Mapping[str, Tensor], steps: int) -> None:
    """The way back; every parameter that is named needs its count of steps and both moments, in its own shape."""
    by_name = dict(state.network.named_parameters())
    found: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        if name not in by_name:
            raise CheckpointError(f"The saved optimiser knows {to_printable(name)}, and this model does not.")
        found.setdefault(name, {})[kind] = value
    for name, kept in found.items():
        if kept.keys() != set(MOMENTS):
            has = ", ".join(to_printable(kind, 20) for kind in sorted(kept))
            raise CheckpointError(f"The saved optimiser has {has} of {name}, expected {', '.join(MOMENTS)}.")
        size = by_name[name].shape
        fits = [kept["step"].numel() == 1, *(kept[kind].shape == size for kind in MOMENTS[1:])]
        if not all(fits) or bool((kept["exp_avg_sq"] < 0).any()):
            raise CheckpointError(f"The saved optimiser's values of {name} do not fit this model.")
        count = float(kept["step"])
        if not (count.is_integer() and 0 <= count <= steps):
            raise CheckpointError(f"The saved optimiser says {count:g} steps of {name}, and the run took {steps:,}.")
    state.adam.state.clear()
    for name, kept in found.items():
        parameter = by_name[name]
        for kind, value in kept.items():
            moved = value.reshape(()) if kind == "step" else value
            state.adam.state[parameter][kind] = moved.clone().to(parameter.device)


def copy_weights(network: Network, tensors: Mapping[str, Tensor]) -> None:
    """Give a network the weights of these names."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(tensors[name])


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    write_safetensors(path, {name: tensor.to("cpu", torch.float32).numpy() for name, tensor in tensors.items()})


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, all of them finite."""
    mapped = MappedTensors(read_header(path))
    made = {}
    for name in mapped.tensors:
        array = mapped.array(name)
        if not is_finite(array):
            raise TensorError(f"{path.name}: {to_printable(name)} holds NaN or infinity.")
        made[name] = torch.from_numpy(array.copy())
    return made


def _read_weights(path: Path, sizes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """The weights of a file, which are exactly those of the model."""
    made = _read_tensors(path)
    wrong = [name for name in sizes if name not in made or made[name].shape != sizes[name]]
    if wrong or len(made) != len(sizes):
        extra = to_printable(next(iter(made.keys() - sizes.keys()), ""))
        what = f"has no {wrong[0]} that fits" if wrong else f"has {extra}, which is not in"
        raise CheckpointError(f"{path.name}: the saved state {what} this model.")
    return made
