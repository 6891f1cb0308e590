"""What every job shares: plan, prepared data, run folder, resume, machine and progress.

A job resolves its plan once, prepares rows, fits a method, measures it on held-out rows, saves a folder and reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.jobs.cost import cost_of
    from clearhead.jobs.defaults import (
        check_length,
        choose_settings,
        length_policy,
        resolve_lengths,
        resolve_threads,
        usual_rate,
    )
    from clearhead.jobs.events import NO_EVENTS, RunEvents
    from clearhead.jobs.job import JobRequest, run_job
    from clearhead.jobs.kinds import has_vectors, kind_of, local_kind
    from clearhead.jobs.learn_tokenizer import Learned
    from clearhead.jobs.machine import Compute, begin_computing, check_begun, computes_alone, resolve_compute
    from clearhead.jobs.method import Choice, FitInput, FittedMethod, Sweep, Swept
    from clearhead.jobs.output_folder import free_folder, ladder_folder, with_absolute_model
    from clearhead.jobs.plan import KNOWN_TASKS, RunPlan, make_plan, parse_set, plain_setting, read_recipe
    from clearhead.jobs.prepare import PartRows, Prepared, prepare, rows_digest, text_rows
    from clearhead.jobs.profile import DatasetProfile, counted_rows, profile_dataset
    from clearhead.jobs.restart import begun_before
    from clearhead.jobs.resume import check_resumed
    from clearhead.jobs.run_file import Fitted, begin_run, check_machine, read_saved
    from clearhead.jobs.run_folder import check_folder, read_split, take_back
    from clearhead.jobs.training_state import drop_state, restore_saved
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "cost": ("cost_of",),
            "defaults": (
                "check_length",
                "choose_settings",
                "length_policy",
                "resolve_lengths",
                "resolve_threads",
                "usual_rate",
            ),
            "events": ("NO_EVENTS", "RunEvents"),
            "job": ("JobRequest", "run_job"),
            "kinds": ("has_vectors", "kind_of", "local_kind"),
            "learn_tokenizer": ("Learned",),
            "machine": ("Compute", "begin_computing", "check_begun", "computes_alone", "resolve_compute"),
            "method": ("Choice", "FitInput", "FittedMethod", "Sweep", "Swept"),
            "output_folder": ("free_folder", "ladder_folder", "with_absolute_model"),
            "plan": ("KNOWN_TASKS", "RunPlan", "make_plan", "parse_set", "plain_setting", "read_recipe"),
            "prepare": ("PartRows", "Prepared", "prepare", "rows_digest", "text_rows"),
            "profile": ("DatasetProfile", "counted_rows", "profile_dataset"),
            "restart": ("begun_before",),
            "resume": ("check_resumed",),
            "run_file": ("Fitted", "begin_run", "check_machine", "read_saved"),
            "run_folder": ("check_folder", "read_split", "take_back"),
            "training_state": ("drop_state", "restore_saved"),
        },
    )

__all__ = [
    "KNOWN_TASKS",
    "NO_EVENTS",
    "Choice",
    "Compute",
    "DatasetProfile",
    "FitInput",
    "Fitted",
    "FittedMethod",
    "JobRequest",
    "Learned",
    "PartRows",
    "Prepared",
    "RunEvents",
    "RunPlan",
    "Sweep",
    "Swept",
    "begin_computing",
    "begin_run",
    "begun_before",
    "check_begun",
    "check_folder",
    "check_length",
    "check_machine",
    "check_resumed",
    "choose_settings",
    "computes_alone",
    "cost_of",
    "counted_rows",
    "drop_state",
    "free_folder",
    "has_vectors",
    "kind_of",
    "ladder_folder",
    "length_policy",
    "local_kind",
    "make_plan",
    "parse_set",
    "plain_setting",
    "prepare",
    "profile_dataset",
    "read_recipe",
    "read_saved",
    "read_split",
    "resolve_compute",
    "resolve_lengths",
    "resolve_threads",
    "restore_saved",
    "rows_digest",
    "run_job",
    "take_back",
    "text_rows",
    "usual_rate",
    "with_absolute_model",
]
