"""The training state of a run that is finished: removed, for the model folder has its weights.

The order makes a kill harmless at any point: model and report are written, run.json notes that training is over, the
state goes, and metrics.json comes last. A run that was killed in between takes its weights from its own model folder.
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
    """Note in run.json that training is over, with what it had to say, and remove the state; nothing with `keep`."""
    if keep:
        return
    write_json(folder / RUN_FILE, read_json(folder / RUN_FILE) | {"fitted": {"notes": list(notes)}})
    for place in (folder / STATE_FOLDER, *(folder / SEEDS_FOLDER).glob(f"*/{STATE_FOLDER}")):
        shutil.rmtree(place, ignore_errors=True)


def restore_weights(model: Model, folder: Path) -> None:
    """Give a model that was made anew the weights of its run, which are in a model folder already."""
    from clearhead.training.state import copy_weights

    core = model.use_core()
    saved = dict(load(folder, "core", str(core.device)).use_core().network.named_parameters())
    own = dict(core.network.named_parameters())
    if saved.keys() != own.keys() or any(saved[name].shape != own[name].shape for name in own):
        raise CheckpointError(f"{folder} does not hold the weights of its run: train anew.")
    copy_weights(core.network, saved)
    core.network.eval()
