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
from tests.text.tokenizer_folders import LEGACY_WRITERS, write_json

os.environ["HF_HUB_OFFLINE"] = "1"


@cache
def _load_reference(folder: Path) -> Any:
    """Load the tokenizer of a folder with `transformers`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings at import and Marian's recommendation to install sacremoses
        import transformers

        transformers.logging.set_verbosity_error()
        return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def load_reference() -> Callable[[Path], Any]:
    return _load_reference


@pytest.fixture(scope="session")
def load_family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[Tokenizer, Any]]:
    """Return a function that loads our tokenizer and the reference of a family from the files of an origin.

    The origin is "legacy", or the library that saved the files: "theirs" or "ours".
    """

    @cache
    def write_legacy(name: str) -> tuple[Path, str]:
        folder = tmp_path_factory.mktemp(name)
        return folder, LEGACY_WRITERS[name](folder)

    @cache
    def load(name: str, origin: str) -> tuple[Tokenizer, Any]:
        folder, model_type = write_legacy(name)
        if origin != "legacy":
            saved_folder = tmp_path_factory.mktemp(f"{name}_{origin}")
            if origin == "theirs":
                _load_reference(folder).save_pretrained(saved_folder)
            else:
                load_tokenizer(folder, model_type, {}).source.save(saved_folder)
            write_json(saved_folder / "config.json", {"model_type": model_type})
            assert (saved_folder / "tokenizer.json").is_file()
            folder = saved_folder
        tokenizers = load_tokenizer(folder, model_type, {"model_type": model_type})
        assert tokenizers.target is None
        return tokenizers.source, _load_reference(folder)

    return load
