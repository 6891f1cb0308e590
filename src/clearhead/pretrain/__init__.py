"""Pre-training on plain text, from files to a model folder with its card and report.

`job` runs it, `plan` and `config` hold the choices, `data` cuts the text, `model` makes or loads the network, and
`held_out` measures it beside unigram and bigram. The batches come from `pretraining`.
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
