"""Pre-training on plain text, from files to a model folder with its card and report.

`job` runs it, `plan` and `config` define the settings, `data` tokenizes the text and samples batches, `model` creates
or loads the network, and `held_out` compares it with unigram and bigram baselines. Batches come from `pretraining`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.pretrain.config import resolve_config
    from clearhead.pretrain.job import PretrainJob
    from clearhead.pretrain.plan import make_pretrain_plan, read_pretrain_run
    from clearhead.pretrain.result import PretrainResult
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "config": ("resolve_config",),
            "job": ("PretrainJob",),
            "plan": ("make_pretrain_plan", "read_pretrain_run"),
            "result": ("PretrainResult",),
        },
    )

__all__ = [
    "PretrainJob",
    "PretrainResult",
    "make_pretrain_plan",
    "read_pretrain_run",
    "resolve_config",
]
