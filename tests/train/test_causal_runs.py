"""GPT models on classification tasks, with the input transformations of the OpenAI Transformer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.api import evaluate, predict, train
from clearhead.errors import InputError
from clearhead.text.gpt_template import DELIMITER, EXTRACT, START, TEMPLATE_TOKENS, add_gpt_template, has_gpt_template
from clearhead.train.finish import Run
from tests.rows import Rows, make_scored_rows
from tests.task_rows import make_option_rows
from tests.tiny_models import NEGATIVE_WORDS, POSITIVE_WORDS, make_sentence, make_sentiment_rows, tiny_gpt, write_csv

QUICK: dict[str, Any] = {"learning_rate": 3e-3, "batch_size": 16, "report": False, "epochs": 8}
TASKS = ("classify", "pair", "regress", "choice")


def make_entailment_rows(count: int, seed: int = 0) -> Rows:
    """Pairs of texts whose order matters: yes if the first is good and the second bad, otherwise no."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        is_entailed = generator.random() < 0.5
        words = (generator.choice(POSITIVE_WORDS), generator.choice(NEGATIVE_WORDS))
        first, second = words if is_entailed else reversed(words)
        rows.append(
            {
                "premise": make_sentence(generator, [first], min_words=1, max_words=3),
                "hypothesis": make_sentence(generator, [second], 1, 3),
                "label": "yes" if is_entailed else "no",
            }
        )
    return rows


ROWS: dict[str, Any] = {
    "classify": lambda count, seed=0: make_sentiment_rows(count, seed, min_words=1, max_words=5),
    "pair": make_entailment_rows,
    "regress": lambda count, seed=0: make_scored_rows(count, seed, has_two_texts=True),
    "choice": make_option_rows,
}


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_gpt(tmp_path_factory.mktemp("gpt")))


@pytest.fixture(scope="module")
def runs(gpt: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    task_runs = {}
    for task in TASKS:
        rows = write_csv(folder / f"{task}.csv", ROWS[task](400))
        task_runs[task] = train(rows, output=folder / task, model=gpt, task=task, **QUICK)
    return task_runs


@pytest.mark.learns
@pytest.mark.parametrize("task", TASKS)
def test_a_synthetic_rule_is_learned(runs: dict[str, Run], task: str) -> None:
    metric = {"regress": "pearson"}.get(task, "accuracy")
    assert evaluate(runs[task].folder, ROWS[task](100, seed=5)).metrics[metric].value > 0.9
    assert runs[task].evaluations["test"].windowed == 0


@pytest.mark.parametrize("task", TASKS)
def test_a_saved_model_has_the_metrics_of_its_run(runs: dict[str, Run], task: str) -> None:
    run = runs[task]
    metric = run.evaluations["dev"].main
    evaluation = evaluate(run.folder, run.folder.parent / f"{task}.csv", part="dev")
    assert evaluation.metrics[metric].value == pytest.approx(run.evaluations["dev"].metrics[metric].value, abs=1e-4)
    assert evaluation.windowed == 0


def test_inputs_have_marker_tokens(runs: dict[str, Run], gpt: str, tiny: str) -> None:
    base = clearhead.load(gpt)
    for run in runs.values():
        model = clearhead.load(run.folder)
        tokenizer, base_tokenizer = model.tokenizer, base.tokenizer
        ids = [tokenizer.token_id(token) for token in TEMPLATE_TOKENS]
        assert ids == list(range(base_tokenizer.vocab_size, base_tokenizer.vocab_size + 3))
        assert model.shape.stack.vocab_size == model.config["vocab_size"] == base_tokenizer.vocab_size + 3
        first, second = "the film", "was good"
        single_tokens = [START, *base_tokenizer.encode(first).tokens, EXTRACT]
        assert tokenizer.encode(first).tokens == single_tokens
        pair_tokens = [
            START,
            *base_tokenizer.encode(first).tokens,
            DELIMITER,
            *base_tokenizer.encode(second).tokens,
            EXTRACT,
        ]
        assert tokenizer.encode(first, second).tokens == pair_tokens
        assert tokenizer.decode(tokenizer.encode(first).ids) == first
    assert not has_gpt_template(base.tokenizer)
    assert has_gpt_template(add_gpt_template(base.tokenizer))
    bert_tokenizer = clearhead.load(tiny).tokenizer
    assert add_gpt_template(bert_tokenizer) is bert_tokenizer


def test_transformers_computes_the_same_logits(runs: dict[str, Run]) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    first, second = ["the film was good", "bad"], ["it", "we saw the end"]
    for task, class_name in (("classify", "GPT2ForSequenceClassification"), ("choice", "GPT2DoubleHeadsModel")):
        folder = runs[task].folder
        reference = getattr(transformers, class_name).from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = clearhead.load(folder)
        batch = tokenizer(first, second, padding=True, return_tensors="pt")
        ends = batch["attention_mask"].sum(1) - 1
        with torch.no_grad():
            if task == "classify":
                expected = reference(**batch).logits.numpy()
            else:
                batch["input_ids"], ends = batch["input_ids"][None], ends[None]
                batch["attention_mask"] = batch["attention_mask"][None]
                expected = reference(**batch, mc_token_ids=ends).mc_logits.numpy().T
        for row, pair in enumerate(zip(first, second, strict=True)):
            ids = model.tokenizer.encode(*pair).ids
            assert np.allclose(np.asarray(model.run([ids]).logits), expected[row], atol=1e-4), (task, row)


def test_similarity_does_not_depend_on_the_order_of_texts(runs: dict[str, Run], gpt: str, tmp_path: Path) -> None:
    rows = ROWS["regress"](20, seed=3)
    swapped = [row | {"sentence1": row["sentence2"], "sentence2": row["sentence1"]} for row in rows]
    assert runs["regress"].folder.joinpath("run.json").read_text().count('"both_orders": true') == 1
    values = [
        [prediction.value for prediction in predict(runs["regress"].folder, dataset)] for dataset in (rows, swapped)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-4)
    # entailment depends on the order unless both_orders is set
    entailment_rows = make_entailment_rows(60, seed=9)
    reversed_rows = [row | {"premise": row["hypothesis"], "hypothesis": row["premise"]} for row in entailment_rows]
    datasets = entailment_rows, reversed_rows
    labels = [[prediction.label for prediction in predict(runs["pair"].folder, dataset)] for dataset in datasets]
    assert sum(label != reversed_label for label, reversed_label in zip(*labels, strict=True)) > 50
    symmetric_run = train(
        make_entailment_rows(60),
        output=tmp_path / "either",
        model=gpt,
        task="pair",
        both_orders=True,
        **QUICK | {"epochs": 1},
    )
    labels = [[prediction.label for prediction in predict(symmetric_run.folder, dataset)] for dataset in datasets]
    assert labels[0] == labels[1]


def test_both_orders_are_averaged_before_the_head(runs: dict[str, Run]) -> None:
    row = ROWS["regress"](1, seed=3)[0]
    model = clearhead.load(runs["regress"].folder)
    texts = row["sentence1"], row["sentence2"]
    last_states = [
        np.asarray(model.run([model.tokenizer.encode(*pair).ids]).last)[0, -1] for pair in (texts, texts[::-1])
    ]
    expected = (last_states[0] + last_states[1]) @ model.tensor("head.out.weight")[0] / 2
    assert predict(runs["regress"].folder, [row])[0].value == pytest.approx(expected, rel=1e-4)


@pytest.mark.learns
def test_the_auxiliary_loss_trains_the_language_model(gpt: str, tmp_path: Path) -> None:
    losses = {}
    for weight in (0.0, 2.0):
        folder = tmp_path / str(weight)
        run = train(
            make_sentiment_rows(200, min_words=1, max_words=5), output=folder, model=gpt, lm_weight=weight, **QUICK
        )
        causal_model = clearhead.load(run.folder, head="causal")
        ids = causal_model.tokenizer.encode("the film was good").ids
        logits = np.asarray(causal_model.run([ids]).logits, np.float64)[0, :-1]
        log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        losses[weight] = -log_probs[np.arange(len(ids) - 1), ids[1:]].mean()
    assert losses[2.0] < losses[0.0] - 0.5


def test_the_auxiliary_loss_equals_that_of_the_causal_head(gpt: str) -> None:
    import torch

    from clearhead.tasks.packed import PackedBatch
    from clearhead.training.objectives.next_token import compute_next_token_loss

    model = clearhead.load(gpt, "core")
    lengths = np.array([4, 1, 3])
    ids = np.arange(7, 15) % 300
    batch = PackedBatch(ids=ids, segments=None, lengths=lengths, window_rows=np.array([0, 0, 1]), targets=np.zeros(2))
    with torch.no_grad():
        output = model.module(torch.as_tensor(ids), lengths=torch.as_tensor(lengths))
        losses = compute_next_token_loss(output.last, model.module.stack.embed.token.weight, batch)
        log_probs = output.logits.log_softmax(-1)
    first = [-log_probs[0, position, ids[position + 1]] for position in range(3)]
    second = [-log_probs[2, position, ids[position + 6]] for position in range(2)]
    assert losses.tolist() == pytest.approx([sum(map(float, first)) / 3, sum(map(float, second)) / 2], abs=1e-5)


def test_invalid_settings_are_refused(gpt: str, tiny: str, tmp_path: Path) -> None:
    settings_by_message: dict[str, dict[str, Any]] = {
        "both_orders is for pair and regress with two texts": {"model": gpt, "both_orders": True},
        "both_orders applies only to methods": {"model": gpt, "both_orders": True, "method": "tfidf"},
        "lm_weight requires a GPT-2 or OpenAI GPT model": {"model": tiny, "lm_weight": 0.5},
        "lm_weight applies only to method finetune": {"model": gpt, "lm_weight": 0.5, "method": "head"},
        "lm_weight must be from 0": {"model": gpt, "lm_weight": -1.0},
    }
    for message, settings in settings_by_message.items():
        with pytest.raises(InputError, match=message):
            train(make_sentiment_rows(40), output=tmp_path / "no", **settings)
        assert not (tmp_path / "no").exists()


@pytest.mark.learns
def test_openai_gpt_and_a_frozen_encoder(tmp_path: Path) -> None:
    model_folder = tiny_gpt(tmp_path / "gpt1", "openai-gpt")
    run = train(make_option_rows(300), output=tmp_path / "choice", model=str(model_folder), **QUICK)
    assert run.metrics["accuracy"].value > 0.9
    regression = train(make_scored_rows(300), output=tmp_path / "regress", model=str(model_folder), **QUICK)
    assert regression.metrics["pearson"].value > 0.9
    head_run = train(
        make_sentiment_rows(60),
        output=tmp_path / "head",
        model=str(model_folder),
        method="head",
        epochs=1,
        report=False,
    )
    assert clearhead.load(head_run.folder).tokenizer.encode("film").tokens[-1] == EXTRACT


def test_a_trained_model_can_be_fine_tuned_for_another_task(runs: dict[str, Run], tmp_path: Path) -> None:
    before = clearhead.load(runs["classify"].folder)
    run = train(
        ROWS["choice"](60), output=tmp_path / "further", model=str(runs["classify"].folder), **QUICK | {"epochs": 1}
    )
    after = clearhead.load(run.folder)
    assert after.shape.stack.vocab_size == before.shape.stack.vocab_size
    assert after.tokenizer.vocab == before.tokenizer.vocab


def test_an_embedding_table_with_unused_rows_is_not_resized(tmp_path: Path) -> None:
    large = tiny_gpt(tmp_path / "large", vocab_size=512)
    run = train(make_sentiment_rows(40), output=tmp_path / "run", model=str(large), **QUICK | {"epochs": 1})
    assert clearhead.load(run.folder).shape.stack.vocab_size == 512
