"""Model folders: config.json, tensors, labels, the passport, and the Hugging Face cache. Needs no torch.

`folder` reads and writes entire folders, `weights` reads and writes safetensors files, `tensor_names` maps tensor
names, `passport` describes how a model was trained, `hub` resolves model references, and `unpickle` converts pickles in
a child process, on request only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.checkpoint.activation import (
        Activation,
        merge_cross_encoder_settings,
        read_activation,
        set_activation,
    )
    from clearhead.checkpoint.config import build_config, detect_model_type, read_config
    from clearhead.checkpoint.folder import Checkpoint, read_checkpoint
    from clearhead.checkpoint.hub import format_fill_models, list_local_models, locate
    from clearhead.checkpoint.inventory import LocalModel, format_bytes
    from clearhead.checkpoint.labels import read_labels
    from clearhead.checkpoint.mean_head import drop_mean_head_modules, write_mean_head
    from clearhead.checkpoint.passport import (
        DatasetFingerprint,
        Int8Result,
        Passport,
        TrainingRecord,
        check_label_names,
        check_labels,
        check_tokenization,
        read_passport,
        write_passport,
    )
    from clearhead.checkpoint.sentence import SentenceModules, check_dense_widths, read_modules, uses_mean_pooling
    from clearhead.checkpoint.unpickle import convert_pickles, has_pickle
    from clearhead.checkpoint.weights import (
        MappedTensors,
        StoredTensor,
        has_entry,
        is_finite,
        list_tensors,
        read_header,
        release_pages,
        resolve_inside,
        write_safetensors,
        write_tensors,
    )
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "activation": ("Activation", "merge_cross_encoder_settings", "read_activation", "set_activation"),
            "config": ("build_config", "detect_model_type", "read_config"),
            "folder": ("Checkpoint", "read_checkpoint"),
            "hub": ("format_fill_models", "list_local_models", "locate"),
            "inventory": ("LocalModel", "format_bytes"),
            "labels": ("read_labels",),
            "mean_head": ("drop_mean_head_modules", "write_mean_head"),
            "passport": (
                "DatasetFingerprint",
                "Int8Result",
                "Passport",
                "TrainingRecord",
                "check_label_names",
                "check_labels",
                "check_tokenization",
                "read_passport",
                "write_passport",
            ),
            "sentence": ("SentenceModules", "check_dense_widths", "read_modules", "uses_mean_pooling"),
            "unpickle": ("convert_pickles", "has_pickle"),
            "weights": (
                "MappedTensors",
                "StoredTensor",
                "has_entry",
                "is_finite",
                "list_tensors",
                "read_header",
                "release_pages",
                "resolve_inside",
                "write_safetensors",
                "write_tensors",
            ),
        },
    )

__all__ = [
    "Activation",
    "Checkpoint",
    "DatasetFingerprint",
    "Int8Result",
    "LocalModel",
    "MappedTensors",
    "Passport",
    "SentenceModules",
    "StoredTensor",
    "TrainingRecord",
    "build_config",
    "check_dense_widths",
    "check_label_names",
    "check_labels",
    "check_tokenization",
    "convert_pickles",
    "detect_model_type",
    "drop_mean_head_modules",
    "format_bytes",
    "format_fill_models",
    "has_entry",
    "has_pickle",
    "is_finite",
    "list_local_models",
    "list_tensors",
    "locate",
    "merge_cross_encoder_settings",
    "read_activation",
    "read_checkpoint",
    "read_config",
    "read_header",
    "read_labels",
    "read_modules",
    "read_passport",
    "release_pages",
    "resolve_inside",
    "set_activation",
    "uses_mean_pooling",
    "write_mean_head",
    "write_passport",
    "write_safetensors",
    "write_tensors",
]
