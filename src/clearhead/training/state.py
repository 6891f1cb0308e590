"""The training state on disk: written atomically as safetensors and JSON, so that a resumed run produces the same bits.

    state/step-00000120/   weights.safetensors  adam.safetensors  best.safetensors  progress.json
    state/latest.json      names the last complete step

A step's batch and its dropout are pure functions of (seed, epoch, step): there is no generator state to save.
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
MOMENT_COUNT = "moments"  # number of tensors in adam.safetensors
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # AdamW's state of each parameter


@dataclass(kw_only=True)
class TrainingProgress:
    """How far a run is: its steps and scores."""

    step: int = 0  # steps done
    best_score: float | None = None
    best_epoch: int = -1  # counted from 0; -1: before the first, or no score yet
    start_score: float | None = None  # before the first epoch, if it was measured
    waited: int = 0  # evaluations since the best
    finished: bool = False
    scores: list[float] = field(default_factory=list)  # one per evaluation
    recent: list[int] = field(default_factory=list)  # epochs whose weights are averaged
    planned: int | None = None  # steps that fit the time limit; None: no limit, or not planned yet
    seconds: float = 0.0  # used of the time limit
    stopped: bool = False  # before the last step: the time was up, or the run was finished early

    def check(self, file_name: str) -> None:
        """Raise a CheckpointError for the first impossible value."""
        rules = (
            (self.step >= 0, f"step must be at least 0, got {self.step}"),
            (self.best_epoch >= -1, f"best_epoch must be at least -1, got {self.best_epoch}"),
            (0 <= self.waited <= len(self.scores), f"waited must be from 0 to the number of scores, got {self.waited}"),
            (math.inf not in self.scores_with_start, "scores must be below infinity"),  # undefined: NaN or -inf
            (_is_best(self.best_score, self.scores_with_start), "best_score must be the highest of the scores"),
            (self.planned is None or self.planned >= 1, f"planned must be at least 1, got {self.planned}"),
            (0 <= self.seconds < math.inf, "seconds must be finite and at least 0"),
            (self.recent == sorted({e for e in self.recent if e >= 0}), "recent must be a sorted list of epochs"),
        )
        for is_valid, message in rules:
            if not is_valid:
                raise CheckpointError(f"{file_name} is damaged: {message}.")

    @property
    def scores_with_start(self) -> list[float]:
        """The score before the first epoch, if it was measured, followed by those of the epochs."""
        return self.scores if self.start_score is None else [self.start_score, *self.scores]

    def check_steps(self, steps: int, patience: int | None) -> None:
        """Raise a CheckpointError if the progress is impossible in a run of `steps` steps."""
        is_plan_valid = self.planned is None or self.planned <= steps
        steps = steps if self.planned is None else self.planned
        should_be_finished = self.step == steps or self.stopped or (patience is not None and self.waited >= patience)
        if not is_plan_valid or self.step > steps or self.finished != should_be_finished:
            position = f"step {self.step:,} of {steps:,}, {'finished' if self.finished else 'not finished'}"
            raise CheckpointError(f"progress.json is damaged: {position} is impossible.")


def _is_best(best: float | None, scores: Sequence[float]) -> bool:
    if best is None or not scores:
        return best is None and not scores
    return any(map(math.isnan, (best, *scores))) or best == max(scores)


@dataclass
class TrainingState:
    """Everything that changes during training."""

    network: Network
    adam: torch.optim.AdamW
    progress: TrainingProgress
    best: dict[str, Tensor] = field(default_factory=dict)
    recent: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # weights after the last epochs

    def named_weights(self) -> dict[str, Tensor]:
        """The network's parameters by name; tied parameters appear once."""
        return {name: p.detach() for name, p in self.network.named_parameters()}

    def keep_best(self) -> None:
        """Keep a copy of the current weights as the best."""
        self.best = {name: tensor.clone() for name, tensor in self.named_weights().items()}

    def record_start_score(self, score: float) -> None:
        """Record the score before the first step, and keep these weights until an epoch is better."""
        self.progress.start_score = self.progress.best_score = score
        self.keep_best()

    def record_score(self, score: float, epoch: int) -> bool:
        """Record a score; keep the weights and return True if none was better so far."""
        progress = self.progress
        # patience ignores the score before the first epoch
        is_improving = not progress.scores or score > max(progress.scores)
        progress.waited = 0 if is_improving else progress.waited + 1
        progress.scores.append(score)
        is_best = progress.best_score is None or score > progress.best_score
        is_best = is_best or (score == progress.best_score and progress.best_epoch >= 0)  # the last of equal epochs
        if is_best:
            progress.best_score, progress.best_epoch = score, epoch
            self.keep_best()
        return is_best

    def keep_recent(self, epoch: int, count: int) -> None:
        """Keep a copy of the weights after an epoch, and only the last `count` copies."""
        self.recent[epoch] = {name: tensor.clone() for name, tensor in self.named_weights().items()}
        self.progress.recent = sorted(self.recent)[-count:]
        self.recent = {kept_epoch: self.recent[kept_epoch] for kept_epoch in self.progress.recent}

    @contextmanager
    def use_averaged_weights(self) -> Iterator[None]:
        """Use the mean of the recent weights, if there are several, and restore the current weights on exit."""
        if len(self.recent) < 2:
            yield
            return
        current = {name: tensor.clone() for name, tensor in self.named_weights().items()}
        snapshots = list(self.recent.values())
        means = {name: torch.stack([snapshot[name] for snapshot in snapshots]).mean(0) for name in current}
        copy_weights(self.network, means)
        try:
            yield
        finally:
            copy_weights(self.network, current)

    def restore_best(self) -> None:
        """Load the best weights into the network."""
        if self.best:
            copy_weights(self.network, self.best)


def fold_target_scale(network: Network, scale: tuple[float, float] | None) -> None:
    """Fold y * spread + mean into the head's weights: w * spread, b * spread + mean.

    For a head without a bias, such as GPT's, the mean goes into the bias of the last norm as d with w . d = mean.
    """
    if scale is None or network.head is None:
        return
    mean, spread = scale
    with torch.no_grad():
        weight = network.head.out.weight.mul_(spread)
        if network.head.shape.out_bias:
            network.head.out.bias.mul_(spread).add_(mean)
        elif (norm_bias := find_last_bias(network)) is not None:
            norm_bias.add_(mean * weight[0] / weight[0].square().sum().clamp(min=torch.finfo(weight.dtype).tiny))


def find_last_bias(network: Network) -> Tensor | None:
    """The bias of the norm that produces the last hidden states; None if there is no such norm."""
    stack = network.stack.shape
    if stack.recurrent is not None or stack.norm != "layer" or not stack.norm_bias:
        return None
    if stack.final_norm:
        return network.get_parameter("stack.norm.bias")
    if stack.norm_position == "after" and stack.layers:
        return network.get_parameter(f"stack.blocks.{stack.block_of_layer[-1]}.feed.norm.bias")
    return None


def save_state(folder: Path, state: TrainingState) -> None:
    """Write a new step folder, point latest.json to it, then remove the previous one."""
    step_name = _format_step_name(state.progress.step)
    step_folder, temporary = folder / step_name, folder / f".{step_name}.part"
    for leftover in folder.glob(".step-*.part"):  # from a run that was killed while saving
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        _write_tensors(temporary / "weights.safetensors", state.named_weights())
        moments = collect_moments(state)
        _write_tensors(temporary / "adam.safetensors", moments)
        if state.best:
            _write_tensors(temporary / "best.safetensors", state.best)
        for epoch, weights in state.recent.items():  # written once per epoch, next to the step folders
            if not (folder / _format_epoch_name(epoch)).exists():
                _write_tensors(folder / _format_epoch_name(epoch), weights)
        write_json(temporary / PROGRESS_FILE, asdict(state.progress) | {MOMENT_COUNT: len(moments)})
        shutil.rmtree(step_folder, ignore_errors=True)
        temporary.rename(step_folder)
        write_json(folder / LATEST_FILE, {"step": step_name})
    except OSError as error:
        message = f"{step_folder} cannot be written: {error.strerror or error}"
        raise CheckpointError(f"{message}; the previous state is intact.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _remove_stale(folder, step_name, state.progress.recent)


def _format_step_name(step: int) -> str:
    return f"step-{step:08d}"


def _format_epoch_name(epoch: int) -> str:
    return f"epoch-{epoch:06d}.safetensors"


def _remove_stale(folder: Path, step_name: str, recent: Sequence[int]) -> None:
    """Remove all other steps and unused epochs, including those that a killed run left behind."""
    for stale in folder.glob("step-*"):
        if stale.name != step_name:
            shutil.rmtree(stale, ignore_errors=True)
    kept_names = {_format_epoch_name(epoch) for epoch in recent}
    for stale in folder.glob("epoch-*.safetensors"):
        if stale.name not in kept_names and not stale.is_dir():
            stale.unlink(missing_ok=True)


def load_state(folder: Path, state: TrainingState) -> bool:
    """Load the last complete step into the network and the optimizer; False if there is none."""
    step_folder = _find_latest_step(folder)
    if step_folder is None:
        return False
    stored = read_json(step_folder / PROGRESS_FILE)
    progress = decode_dataclass(stored, TrainingProgress, PROGRESS_FILE)
    progress.check(PROGRESS_FILE)
    moment_count = None  # missing in files of earlier versions
    if MOMENT_COUNT in stored:
        moment_count = decode_dataclass(stored[MOMENT_COUNT], int, f"{PROGRESS_FILE} {MOMENT_COUNT}")
    if step_folder.name != _format_step_name(progress.step):
        raise CheckpointError(
            f"{step_folder / PROGRESS_FILE} is damaged: it has step {to_printable(progress.step, 30)}."
        )
    shapes = {name: tensor.shape for name, tensor in state.named_weights().items()}
    weights = _read_weights(step_folder / "weights.safetensors", shapes)
    moments = _read_tensors(step_folder / "adam.safetensors")
    if moment_count != len(moments) if moment_count is not None else progress.step and not moments:
        expected = "some" if moment_count is None else to_printable(moment_count, 20)
        raise CheckpointError(f"adam.safetensors is damaged: expected {expected} tensors, got {len(moments):,}.")
    best_file = step_folder / "best.safetensors"
    has_best = has_entry(step_folder, best_file.name)
    if progress.best_score is not None and not has_best:
        raise CheckpointError(f"{best_file} is missing, but {PROGRESS_FILE} names a best epoch.")
    best_weights = _read_weights(best_file, shapes) if has_best else {}
    recent_weights = {epoch: _read_weights(folder / _format_epoch_name(epoch), shapes) for epoch in progress.recent}
    restore_moments(state, moments, progress.step)
    copy_weights(state.network, weights)
    state.progress, state.best, state.recent = progress, best_weights, recent_weights
    _remove_stale(folder, step_folder.name, progress.recent)
    return True


def _find_latest_step(folder: Path) -> Path | None:
    """The folder of the last complete step."""
    path = folder / LATEST_FILE
    if not has_entry(folder, LATEST_FILE):
        return None
    name = decode_dataclass(read_json(path).get("step"), str, LATEST_FILE)
    if not STEP_NAME.fullmatch(name) or not (folder / name).is_dir():
        raise CheckpointError(f"{path} names {to_printable(name, 40)!r}, which does not exist.")
    return folder / name


def collect_moments(state: TrainingState) -> dict[str, Tensor]:
    """Both moments and the step count of every parameter that was updated."""
    moments = {}
    for name, parameter in state.network.named_parameters():
        for kind, value in state.adam.state.get(parameter, {}).items():
            moments[f"{kind}/{name}"] = value.detach().reshape(value.shape or (1,))
    return moments


def restore_moments(state: TrainingState, tensors: Mapping[str, Tensor], steps_done: int) -> None:
    """Load the optimizer's state; each parameter in it must have a step count and two moments of its own shape."""
    by_name = dict(state.network.named_parameters())
    moments_of: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        if name not in by_name:
            raise CheckpointError(f"The saved optimizer state has {to_printable(name)}, which this model lacks.")
        moments_of.setdefault(name, {})[kind] = value
    for name, moments in moments_of.items():
        if moments.keys() != set(MOMENTS):
            kinds = ", ".join(to_printable(kind, 20) for kind in sorted(moments))
            raise CheckpointError(f"The saved optimizer state of {name} has {kinds}, expected {', '.join(MOMENTS)}.")
        shape = by_name[name].shape
        is_valid = [moments["step"].numel() == 1, *(moments[kind].shape == shape for kind in MOMENTS[1:])]
        if not all(is_valid) or bool((moments["exp_avg_sq"] < 0).any()):
            raise CheckpointError(f"The saved optimizer state of {name} does not fit this model.")
        step_count = float(moments["step"])
        if not (step_count.is_integer() and 0 <= step_count <= steps_done):
            raise CheckpointError(
                f"The saved optimizer state of {name} has {step_count:g} steps, but the run took {steps_done:,}."
            )
    state.adam.state.clear()
    for name, moments in moments_of.items():
        parameter = by_name[name]
        for kind, value in moments.items():
            tensor = value.reshape(()) if kind == "step" else value
            state.adam.state[parameter][kind] = tensor.clone().to(parameter.device)


def copy_weights(network: Network, tensors: Mapping[str, Tensor]) -> None:
    """Copy weights into a network by name."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(tensors[name])


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    write_safetensors(path, {name: tensor.to("cpu", torch.float32).numpy() for name, tensor in tensors.items()})


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file, which must be finite."""
    mapped = MappedTensors(read_header(path))
    tensors = {}
    for name in mapped.tensors:
        array = mapped.array(name)
        if not is_finite(array):
            raise TensorError(f"{path.name}: {to_printable(name)} contains NaN or infinity.")
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def _read_weights(path: Path, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Read the weights of a file, which must match those of the model in names and shapes."""
    weights = _read_tensors(path)
    mismatched = [name for name in shapes if name not in weights or weights[name].shape != shapes[name]]
    if mismatched or len(weights) != len(shapes):
        extra = to_printable(next(iter(weights.keys() - shapes.keys()), ""))
        problem = f"has no {mismatched[0]} that fits" if mismatched else f"contains {extra}, which is not in"
        raise CheckpointError(f"{path.name}: the saved state {problem} this model.")
    return weights
