"""Models of fitted estimators, in a form that can be pickled and moved to another machine."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.weights import resolve_inside
from clearhead.model.loading import load
from clearhead.predict.loading import load_predictor

if TYPE_CHECKING:
    from clearhead.model import Model
    from clearhead.predict.predictor import Predictor

RUN_FILES = (
    "state",
    "seeds",
    "run.json",
    "log.jsonl",
    "split.json",
    "report.html",
    "metrics.json",
)  # not needed to predict


class TrainedFolder:
    """The folder of a trained model: a temporary one is deleted with its estimator; pickles contain its files."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else Path(tempfile.mkdtemp(prefix="clearhead-"))
        self._predictor: Predictor | None = None
        if folder is None:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def list_files(self) -> list[Path]:
        """List the files that are needed to predict."""
        files = (file for file in self.folder.rglob("*") if file.is_file())
        return sorted(file for file in files if file.relative_to(self.folder).parts[0] not in RUN_FILES)

    def copy_to(self, folder: Path) -> None:
        """Copy these files to another folder."""
        for file in self.list_files():
            target = folder / file.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)

    def load_predictor(self, device: str) -> Predictor:
        """The model, loaded when it is first asked."""

        if self._predictor is None:
            self._predictor = load_predictor(str(self.folder), device=device)
        return self._predictor

    def __getstate__(self) -> dict[str, bytes]:
        return {file.relative_to(self.folder).as_posix(): file.read_bytes() for file in self.list_files()}

    def __setstate__(self, files: dict[str, bytes]) -> None:
        TrainedFolder.__init__(self)
        for name, data in files.items():
            target = resolve_inside(self.folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


class ModelHandle:
    """A model given by name, loaded on first use; pickles contain the name only."""

    def __init__(self, reference: str, device: str) -> None:
        self.reference, self.device = reference, device
        self._model: Model | None = None

    def load_model(self) -> Model:
        """The model, loaded when it is first asked."""
        if self._model is None:
            self._model = load(self.reference, device=self.device, head=None)
        return self._model

    def __getstate__(self) -> dict[str, Any]:
        return {"reference": self.reference, "device": self.device, "_model": None}
