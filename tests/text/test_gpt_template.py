"""Templates of causal models: equal before saving, after loading and in transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clearhead.text import load_tokenizer
from clearhead.text.gpt_template import DELIMITER, EXTRACT, START, add_gpt_template, has_gpt_template
from tests.text import tokenizer_folders


@pytest.mark.parametrize("family", ["gpt2", "openai-gpt"])
def test_template_is_saved(family: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    (tmp_path / "plain").mkdir()
    tokenizer_folders.LEGACY_WRITERS[family.replace("-", "_")](tmp_path / "plain")
    base_tokenizer = load_tokenizer(tmp_path / "plain", family, {"model_type": family}).source
    tokenizer = add_gpt_template(base_tokenizer)
    assert (has_gpt_template(base_tokenizer), has_gpt_template(tokenizer)) == (False, True)
    assert add_gpt_template(tokenizer) is tokenizer
    first, second = "The old keeper", "Rain fell"
    encoding = tokenizer.encode(first, second)
    assert encoding.tokens == [
        START,
        *base_tokenizer.encode(first).tokens,
        DELIMITER,
        *base_tokenizer.encode(second).tokens,
        EXTRACT,
    ]
    assert [side for side in encoding.sides if side is None] == [None] * 3
    assert encoding.offsets[1 : len(base_tokenizer.encode(first)) + 1] == base_tokenizer.encode(first).offsets
    folder = tmp_path / "templated"
    tokenizer.save(folder)
    (folder / "config.json").write_text(
        json.dumps({"model_type": family, "vocab_size": tokenizer.vocab_size, "bos_token_id": 0, "eos_token_id": 0})
    )
    assert load_tokenizer(folder, family, {"model_type": family}).source.golden() == tokenizer.golden()
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert theirs(first, second).input_ids == encoding.ids
    assert theirs(first).input_ids == tokenizer.encode(first).ids
    assert theirs.pad_token is not None
