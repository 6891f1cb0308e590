"""Marks around the texts of a causal model: the same here, from a saved folder, and in transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clearhead.text import load_tokenizer
from clearhead.text.gpt_template import DELIMITER, EXTRACT, START, add_gpt_template, has_gpt_template
from tests.text import tokenizer_folders


@pytest.mark.parametrize("family", ["gpt2", "openai-gpt"])
def test_marks_survive_a_folder(family: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    (tmp_path / "plain").mkdir()
    getattr(tokenizer_folders, family.replace("-", "_"))(tmp_path / "plain")
    plain = load_tokenizer(tmp_path / "plain", family, {"model_type": family}).source
    made = add_gpt_template(plain)
    assert (has_gpt_template(plain), has_gpt_template(made)) == (False, True)
    assert add_gpt_template(made) is made
    one, two = "The old keeper", "Rain fell"
    encoding = made.encode(one, two)
    assert encoding.tokens == [START, *plain.encode(one).tokens, DELIMITER, *plain.encode(two).tokens, EXTRACT]
    assert [side for side in encoding.sides if side is None] == [None] * 3
    assert encoding.offsets[1 : len(plain.encode(one)) + 1] == plain.encode(one).offsets
    folder = tmp_path / "marked"
    made.save(folder)
    (folder / "config.json").write_text(
        json.dumps({"model_type": family, "vocab_size": made.vocab_size, "bos_token_id": 0, "eos_token_id": 0})
    )
    assert load_tokenizer(folder, family, {"model_type": family}).source.golden() == made.golden()
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert theirs(one, two).input_ids == encoding.ids
    assert theirs(one).input_ids == made.encode(one).ids
    assert theirs.pad_token is not None
