"""Folders are made once for all tests; the reference tokenizers come from `transformers`, offline."""

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
    """What `transformers` makes of a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import and Marian's advice to install more are not our subject
        import transformers

        transformers.logging.set_verbosity_error()
        return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def reference_of() -> Callable[[Path], Any]:
    return reference


@pytest.fixture(scope="session")
def family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[Tokenizer, Any]]:
    """Our tokenizer and the reference for a family, read from legacy files or from either library's own saving."""

    @cache
    def legacy(name: str) -> tuple[Path, str]:
        folder = tmp_path_factory.mktemp(name)
        return folder, LEGACY[name](folder)

    @cache
    def made(name: str, form: str) -> tuple[Tokenizer, Any]:
        folder, model_type = legacy(name)
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

    return made
