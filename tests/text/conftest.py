"""Fixtures: tokenizer folders, written once per session, and reference tokenizers of `transformers`, offline."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from clearhead.text import Tokenizer, load_tokenizer
from tests.text.tokenizer_folders import LEGACY, write_json

os.environ["HF_HUB_OFFLINE"] = "1"


@cache
def reference(folder: Path) -> Any:
    """Load the tokenizer of a folder with `transformers`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings at import and Marian's recommendation to install sacremoses
        import transformers

        transformers.logging.set_verbosity_error()
        return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def reference_of() -> Callable[[Path], Any]:
    return reference


@pytest.fixture(scope="session")
def family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[Tokenizer, Any]]:
    """Load our tokenizer and the reference for a family, from legacy files or files saved by either library."""

    @cache
    def write_legacy(name: str) -> tuple[Path, str]:
        folder = tmp_path_factory.mktemp(name)
        return folder, LEGACY[name](folder)

    @cache
    def load(name: str, form: str) -> tuple[Tokenizer, Any]:
        folder, model_type = write_legacy(name)
        if form != "legacy":
            saved = tmp_path_factory.mktemp(f"{name}_{form}")
            if form == "theirs":
                reference(folder).save_pretrained(saved)
            else:
                load_tokenizer(folder, model_type, {}).source.save(saved)
            write_json(saved / "config.json", {"model_type": model_type})
            assert (saved / "tokenizer.json").is_file()
            folder = saved
        pair = load_tokenizer(folder, model_type, {"model_type": model_type})
        assert pair.target is None
        return pair.source, reference(folder)

    return load
