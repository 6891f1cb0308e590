"""Parity of taggers, question answerers and multiple choice models with transformers, in both directions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.api import evaluate, load_predictor, predict, train
from clearhead.tasks.tag.decoding import LENIENT
from tests.parity_models import import_transformers
from tests.task_rows import QUICK, make_option_rows, make_questions, make_tagged_words
from tests.text.tokenizer_folders import LEGACY_WRITERS, write_json

os.environ["HF_HUB_OFFLINE"] = "1"
SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 32,
    "max_position_embeddings": 80,
    "vocab_size": 700,
}
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {  # tokenizer, class prefix, further config keys
    "bert": ("bert_cased", "Bert", {}),
    "roberta": ("roberta", "Roberta", {"pad_token_id": 1, "max_position_embeddings": 82}),
    "distilbert": ("distilbert", "DistilBert", {"dim": 24, "hidden_dim": 32, "n_layers": 2, "n_heads": 3}),
    "electra": ("electra", "Electra", {"embedding_size": 24}),
    "deberta-v2": ("deberta", "DebertaV2", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "mpnet": ("mpnet", "MPNet", {"pad_token_id": 1, "max_position_embeddings": 82}),
    "modernbert": ("distilbert", "ModernBert", {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3}),
}
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def save_checkpoint(family: str, head: str, folder: Path) -> tuple[Path, Any]:
    """Save a tiny `transformers` model with random weights."""
    transformers = import_transformers()
    tokenizer, model_class, extra_config = FAMILIES[family]
    LEGACY_WRITERS[tokenizer](folder)
    config = getattr(transformers, f"{model_class}Config")(**(SIZES | extra_config))
    if head == "TokenClassification":
        config.id2label = dict(enumerate(TAGS))
        config.label2id = {name: index for index, name in enumerate(TAGS)}
        config.num_labels = len(TAGS)
    name = f"{model_class}For{head}"
    if not hasattr(transformers, name):
        pytest.skip(f"transformers has no {name}")
    torch.manual_seed(0)
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    if family == "modernbert":  # it needs a fast tokenizer
        from clearhead.text import load_tokenizer

        load_tokenizer(folder, "distilbert", {}).source.save(folder)
        (folder / "vocab.txt").unlink()
        write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    model.save_pretrained(folder)
    return folder, model


def run_model(model: Any, ids: list[int], segments: list[int] | None = None) -> Any:
    inputs: dict[str, Any] = {
        "input_ids": torch.tensor([ids]),
        "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
    }
    if (
        segments is not None
        and getattr(model.config, "type_vocab_size", 1) > 1
        and "distil" not in type(model).__name__.lower()
    ):
        inputs["token_type_ids"] = torch.tensor([segments])
    with torch.no_grad():
        return model(**inputs)


@pytest.mark.parametrize("family", FAMILIES)
def test_their_taggers_tag(family: str, tmp_path: Path) -> None:
    folder, model = save_checkpoint(family, "TokenClassification", tmp_path / "model")
    predictor = load_predictor(folder)
    assert (predictor.task.name, predictor.space.names, predictor.space.scheme) == ("tag", TAGS, LENIENT)
    text = "The old keeper wrote a letter."
    tokenizer = predictor.scorer.model.tokenizer  # type: ignore[attr-defined]
    encoding = tokenizer.encode(text)
    logits = run_model(model, encoding.ids, encoding.segments).logits[0].numpy()
    answer = predict(predictor, [text])[0]
    assert answer.tags is not None
    tag_at = {
        start: TAGS[int(logits[index].argmax())] for index, (start, end) in enumerate(encoding.offsets) if end > start
    }
    word_starts = [0, 4, 8, 15, 21, 23, 29]
    if all(start in tag_at for start in word_starts):
        assert list(answer.tags) == [tag_at[start] for start in word_starts]
    several = predict(predictor, [text, "Rain fell on the harbour, and the fishermen mended their nets.", "far", text])
    assert [several[0].tags, several[3].tags] == [answer.tags, answer.tags]  # independent of the batch
    rows = [{"tokens": text.split(), "ner_tags": ["O", "B-PER", "I-PER", "O", "O", "O"]}]
    assert 0 <= evaluate(predictor, rows).metrics["accuracy"].value <= 1


@pytest.mark.parametrize("family", FAMILIES)
def test_their_answerers_answer(family: str, tmp_path: Path) -> None:
    folder, model = save_checkpoint(family, "QuestionAnswering", tmp_path / "model")
    predictor = load_predictor(folder)
    assert predictor.task.name == "span"
    question, story = "Who wrote?", "The old keeper wrote a letter to his daughter."
    encoding = predictor.scorer.model.tokenizer.encode(question, story)  # type: ignore[attr-defined]
    outputs = run_model(model, encoding.ids, encoding.segments)
    start, end = outputs.start_logits[0].numpy(), outputs.end_logits[0].numpy()
    spans = enumerate(zip(encoding.offsets, encoding.sides, strict=True))
    # a space is not an answer
    candidates = [index for index, ((a, b), side) in spans if side == 1 and story[a:b].strip()]
    pairs = [(start[a] + end[b], a, b) for a in candidates for b in candidates if a <= b < a + 30]
    _, first, last = max(pairs)
    answer = predict(predictor, [{"question": question, "context": story}])[0]
    assert answer.answer == story[encoding.offsets[first][0] : encoding.offsets[last][1]].strip()


@pytest.mark.parametrize("family", FAMILIES)
def test_their_choosers_choose(family: str, tmp_path: Path) -> None:
    folder, model = save_checkpoint(family, "MultipleChoice", tmp_path / "model")
    predictor = load_predictor(folder)
    assert predictor.task.name == "choice"
    question, texts = "Who wrote?", ["the old keeper", "his daughter", "a letter to fishermen"]
    tokenizer = predictor.scorer.model.tokenizer  # type: ignore[attr-defined]
    scores = []
    for text in texts:
        encoding = tokenizer.encode(question, text)
        inputs: dict[str, Any] = {"input_ids": torch.tensor([[encoding.ids]])}
        if getattr(model.config, "type_vocab_size", 1) > 1 and family != "distilbert":
            inputs["token_type_ids"] = torch.tensor([[encoding.segments]])
        with torch.no_grad():
            scores.append(float(model(**inputs).logits[0, 0]))
    answer = predict(predictor, [{"question": question, "options": texts}])[0]
    expected = np.exp(np.array(scores) - max(scores))
    np.testing.assert_allclose(list(answer.probabilities.values()), expected / expected.sum(), atol=1e-5)
    assert answer.label == str(int(np.argmax(scores)))


@pytest.mark.parametrize("task", ["tag", "span", "choice"])
def test_ours_are_loaded_by_theirs_with_the_same_logits(task: str, tiny: str, tmp_path: Path) -> None:
    rows: Any = {
        "tag": [{"tokens": [w for w, _ in row], "tags": [t for _, t in row]} for row in make_tagged_words(60)],
        "span": make_questions(60),
        "choice": make_option_rows(60),
    }[task]
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=1, **QUICK)
    transformers = import_transformers()
    auto_class = {"tag": "TokenClassification", "span": "QuestionAnswering", "choice": "MultipleChoice"}[task]
    model = getattr(transformers, f"AutoModelFor{auto_class}").from_pretrained(run.folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.folder)
    predictor = load_predictor(run.folder)
    network = predictor.scorer.model  # type: ignore[attr-defined]
    if task == "tag":
        assert [model.config.id2label[index] for index in range(len(run.labels))] == list(run.labels)
    inputs = dict(tokenizer("it was", "a good film with music", return_tensors="pt"))
    ids, segments = inputs["input_ids"][0].numpy(), inputs["token_type_ids"][0].numpy()
    logits = network.runner.run_packed(ids, segments, np.array([len(ids)]))
    with torch.no_grad():
        outputs = model(**(inputs if task != "choice" else {key: value[None] for key, value in inputs.items()}))
    if task == "span":
        expected = torch.stack([outputs.start_logits[0], outputs.end_logits[0]], -1).numpy()
    else:
        expected = outputs.logits[0].numpy()
    np.testing.assert_allclose(logits.reshape(expected.shape), expected, atol=1e-5)
