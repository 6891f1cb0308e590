"""Removal of the training state of a finished run, whose weights are in the model folder.

The order makes an interruption harmless at any point: model and report are written, run.json is marked as fitted, the
state is removed, and metrics.json is written last. A run that was killed in between loads its own model folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from clearhead.errors import CheckpointError
from clearhead.files import read_json, write_json
from clearhead.jobs.run_file import RUN_FILE
from clearhead.model import Model
from clearhead.model.loading import load

STATE_FOLDER = "state"
SEEDS_FOLDER = "seeds"


def remove_state(folder: Path, notes: Sequence[str], *, keep: bool) -> None:
    """Mark training as finished in run.json, with its notes, and remove the state unless `keep` is set."""
    if keep:
        return
    write_json(folder / RUN_FILE, read_json(folder / RUN_FILE) | {"fitted": {"notes": list(notes)}})
    for state_folder in (folder / STATE_FOLDER, *(folder / SEEDS_FOLDER).glob(f"*/{STATE_FOLDER}")):
        shutil.rmtree(state_folder, ignore_errors=True)


def restore_weights(model: Model, folder: Path) -> None:
    """Copy the weights of a model folder into a newly built model."""
    from clearhead.training.state import copy_weights

    core = model.use_core()
    saved = dict(load(folder, "core", str(core.device)).use_core().network.named_parameters())
    parameters = dict(core.network.named_parameters())
    if saved.keys() != parameters.keys() or any(saved[name].shape != parameters[name].shape for name in parameters):
        raise CheckpointError(f"The weights in {folder} are not those of its run; start a new run.")
    copy_weights(core.network, saved)
    core.network.eval()
