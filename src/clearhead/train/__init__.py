"""Training on labeled rows: from a table to an evaluated model folder with a report.

`job` runs the steps. `methods` fits a model by fine-tuning, head, frozen features, TF-IDF or majority, `baselines` and
`method_choice` compare it with cheaper methods, and `finish` calibrates, evaluates and saves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.train.finish import Run, write_metrics
    from clearhead.train.inspection import open_rereadable, run_inspect
    from clearhead.train.job import TrainJob, read_run
    from clearhead.train.network import finish_stopped_run
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "finish": ("Run", "write_metrics"),
            "inspection": ("open_rereadable", "run_inspect"),
            "job": ("read_run", "TrainJob"),
            "network": ("finish_stopped_run",),
        },
    )

__all__ = [
    "Run",
    "TrainJob",
    "finish_stopped_run",
    "open_rereadable",
    "read_run",
    "run_inspect",
    "write_metrics",
]
