"""What a fitted estimator holds: a model, in a form that is safe to pickle and to carry to another machine."""

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

RUN_FILES = ("state", "seeds", "run.json", "log.jsonl", "split.json", "report.html", "metrics.json")  # not the model


class TrainedFolder:
    """A trained folder that lives as long as its estimator, and travels in pickles as the bytes of its files."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else Path(tempfile.mkdtemp(prefix="clearhead-"))
        self._predictor: Predictor | None = None
        if folder is None:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def list_files(self) -> list[Path]:
        """The files that make up the model."""
        every = (file for file in self.folder.rglob("*") if file.is_file())
        return sorted(file for file in every if file.relative_to(self.folder).parts[0] not in RUN_FILES)

    def copy_to(self, folder: Path) -> None:
        """Copy them into another folder."""
        for file in self.list_files():
            place = folder / file.relative_to(self.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, place)

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
            place = resolve_inside(self.folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)


class ModelHandle:
    """A model by its name, which is all that a pickle of it holds."""

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
