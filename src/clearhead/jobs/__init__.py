"""Infrastructure of all training runs: plan, prepared data, run folder, resuming, machine and events.

A job resolves its plan once, prepares rows, fits a method, measures it on held-out rows, saves a folder and reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.jobs.cost import measure_cost
    from clearhead.jobs.defaults import (
        check_length,
        choose_settings,
        default_learning_rate,
        make_length_policy,
        resolve_lengths,
        resolve_threads,
    )
    from clearhead.jobs.events import NO_EVENTS, RunEvents
    from clearhead.jobs.job import JobRequest, run_job
    from clearhead.jobs.kinds import has_vectors, kind_of, local_kind
    from clearhead.jobs.learn_tokenizer import LearnedTokenizer
    from clearhead.jobs.machine import (
        Compute,
        check_resumable,
        resolve_compute,
        runs_without_torch,
        update_compute_history,
    )
    from clearhead.jobs.method import FitInputs, FittedMethod, LayerChoice, LayerScore, LayerSweep
    from clearhead.jobs.output_folder import choose_ladder_folder, choose_run_folder, resolve_model_path
    from clearhead.jobs.plan import TASK_NAMES, RunPlan, explain_setting_error, make_plan, parse_set, read_recipe
    from clearhead.jobs.prepare import PartRows, PreparedData, hash_rows, prepare_data, read_text_rows
    from clearhead.jobs.profile import DatasetProfile, profile_dataset, report_rows_read
    from clearhead.jobs.restart import is_same_run
    from clearhead.jobs.resume import check_resumed
    from clearhead.jobs.run_file import FitRecord, check_machine, read_run_file, start_run
    from clearhead.jobs.run_folder import check_run_folder, read_split, remove_unstarted_run
    from clearhead.jobs.training_state import remove_state, restore_weights
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "cost": ("measure_cost",),
            "defaults": (
                "check_length",
                "choose_settings",
                "make_length_policy",
                "resolve_lengths",
                "resolve_threads",
                "default_learning_rate",
            ),
            "events": ("NO_EVENTS", "RunEvents"),
            "job": ("JobRequest", "run_job"),
            "kinds": ("has_vectors", "kind_of", "local_kind"),
            "learn_tokenizer": ("LearnedTokenizer",),
            "machine": (
                "Compute",
                "update_compute_history",
                "check_resumable",
                "runs_without_torch",
                "resolve_compute",
            ),
            "method": ("LayerChoice", "FitInputs", "FittedMethod", "LayerSweep", "LayerScore"),
            "output_folder": ("choose_run_folder", "choose_ladder_folder", "resolve_model_path"),
            "plan": ("TASK_NAMES", "RunPlan", "make_plan", "parse_set", "explain_setting_error", "read_recipe"),
            "prepare": ("PartRows", "PreparedData", "prepare_data", "hash_rows", "read_text_rows"),
            "profile": ("DatasetProfile", "report_rows_read", "profile_dataset"),
            "restart": ("is_same_run",),
            "resume": ("check_resumed",),
            "run_file": ("FitRecord", "start_run", "check_machine", "read_run_file"),
            "run_folder": ("check_run_folder", "read_split", "remove_unstarted_run"),
            "training_state": ("remove_state", "restore_weights"),
        },
    )

__all__ = [
    "NO_EVENTS",
    "TASK_NAMES",
    "Compute",
    "DatasetProfile",
    "FitInputs",
    "FitRecord",
    "FittedMethod",
    "JobRequest",
    "LayerChoice",
    "LayerScore",
    "LayerSweep",
    "LearnedTokenizer",
    "PartRows",
    "PreparedData",
    "RunEvents",
    "RunPlan",
    "check_length",
    "check_machine",
    "check_resumable",
    "check_resumed",
    "check_run_folder",
    "choose_ladder_folder",
    "choose_run_folder",
    "choose_settings",
    "default_learning_rate",
    "explain_setting_error",
    "has_vectors",
    "hash_rows",
    "is_same_run",
    "kind_of",
    "local_kind",
    "make_length_policy",
    "make_plan",
    "measure_cost",
    "parse_set",
    "prepare_data",
    "profile_dataset",
    "read_recipe",
    "read_run_file",
    "read_split",
    "read_text_rows",
    "remove_state",
    "remove_unstarted_run",
    "report_rows_read",
    "resolve_compute",
    "resolve_lengths",
    "resolve_model_path",
    "resolve_threads",
    "restore_weights",
    "run_job",
    "runs_without_torch",
    "start_run",
    "update_compute_history",
]
