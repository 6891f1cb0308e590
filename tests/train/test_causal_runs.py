"""GPT as a classifier: the input transformations of the OpenAI Transformer, from rows to folders and back."""

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
from tests.rows import Rows, scored
from tests.task_rows import options
from tests.tiny_models import NEGATIVE_WORDS, POSITIVE_WORDS, labelled, make_sentence, tiny_gpt, write_csv

QUICK: dict[str, Any] = {"learning_rate": 3e-3, "batch_size": 16, "report": False, "epochs": 8}
TASKS = ("classify", "pair", "regress", "choice")


def entailed(count: int, seed: int = 0) -> Rows:
    """Two texts, of which the order counts: yes where the first is good and the second bad, no the other way round."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        yes = draw.random() < 0.5
        words = (draw.choice(POSITIVE_WORDS), draw.choice(NEGATIVE_WORDS))
        first, second = words if yes else reversed(words)
        rows.append(
            {
                "premise": make_sentence(draw, [first], least=1, most=3),
                "hypothesis": make_sentence(draw, [second], 1, 3),
                "label": "yes" if yes else "no",
            }
        )
    return rows


ROWS: dict[str, Any] = {
    "classify": lambda count, seed=0: labelled(count, seed, least=1, most=5),
    "pair": entailed,
    "regress": lambda count, seed=0: scored(count, seed, two=True),
    "choice": options,
}


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_gpt(tmp_path_factory.mktemp("gpt")))


@pytest.fixture(scope="module")
def runs(gpt: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    place = tmp_path_factory.mktemp("runs")
    made = {}
    for task in TASKS:
        rows = write_csv(place / f"{task}.csv", ROWS[task](400))
        made[task] = train(rows, output=place / task, model=gpt, task=task, **QUICK)
    return made


@pytest.mark.learns
@pytest.mark.parametrize("task", TASKS)
def test_a_planted_rule_is_learned(runs: dict[str, Run], task: str) -> None:
    main = {"regress": "pearson"}.get(task, "accuracy")
    assert evaluate(runs[task].folder, ROWS[task](100, seed=5)).metrics[main].value > 0.9
    assert runs[task].evaluations["test"].windowed == 0


@pytest.mark.parametrize("task", TASKS)
def test_a_saved_folder_answers_as_the_run_did(runs: dict[str, Run], task: str) -> None:
    run = runs[task]
    main = run.evaluations["dev"].main
    again = evaluate(run.folder, run.folder.parent / f"{task}.csv", part="dev")
    assert again.metrics[main].value == pytest.approx(run.evaluations["dev"].metrics[main].value, abs=1e-4)
    assert again.windowed == 0


def test_each_transformation_has_its_tokens(runs: dict[str, Run], gpt: str, tiny: str) -> None:
    base = clearhead.load(gpt)
    for run in runs.values():
        model = clearhead.load(run.folder)
        tokenizer, words = model.tokenizer, base.tokenizer
        ids = [tokenizer.token_id(mark) for mark in TEMPLATE_TOKENS]
        assert ids == list(range(words.vocab_size, words.vocab_size + 3))
        assert model.shape.stack.vocab_size == model.config["vocab_size"] == words.vocab_size + 3
        one, two = "the film", "was good"
        text = [START, *words.encode(one).tokens, EXTRACT]
        assert tokenizer.encode(one).tokens == text
        pair = [START, *words.encode(one).tokens, DELIMITER, *words.encode(two).tokens, EXTRACT]
        assert tokenizer.encode(one, two).tokens == pair
        assert tokenizer.decode(tokenizer.encode(one).ids) == one
    assert not has_gpt_template(base.tokenizer)
    assert has_gpt_template(add_gpt_template(base.tokenizer))
    bert = clearhead.load(tiny).tokenizer
    assert add_gpt_template(bert) is bert


def test_transformers_reads_the_folders_alike(runs: dict[str, Run]) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    first, second = ["the film was good", "bad"], ["it", "we saw the end"]
    for task, name in (("classify", "GPT2ForSequenceClassification"), ("choice", "GPT2DoubleHeadsModel")):
        folder = runs[task].folder
        theirs = getattr(transformers, name).from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ours = clearhead.load(folder)
        batch = tokenizer(first, second, padding=True, return_tensors="pt")
        ends = batch["attention_mask"].sum(1) - 1
        with torch.no_grad():
            if task == "classify":
                expected = theirs(**batch).logits.numpy()
            else:
                batch["input_ids"], ends = batch["input_ids"][None], ends[None]
                batch["attention_mask"] = batch["attention_mask"][None]
                expected = theirs(**batch, mc_token_ids=ends).mc_logits.numpy().T
        for row, pair in enumerate(zip(first, second, strict=True)):
            ids = ours.tokenizer.encode(*pair).ids
            assert np.allclose(np.asarray(ours.run([ids]).logits), expected[row], atol=1e-4), (task, row)


def test_similarity_does_not_ask_which_text_is_first(runs: dict[str, Run], gpt: str, tmp_path: Path) -> None:
    rows = ROWS["regress"](20, seed=3)
    swapped = [row | {"sentence1": row["sentence2"], "sentence2": row["sentence1"]} for row in rows]
    assert runs["regress"].folder.joinpath("run.json").read_text().count('"both_orders": true') == 1
    answers = [[one.value for one in predict(runs["regress"].folder, given)] for given in (rows, swapped)]
    assert answers[0] == pytest.approx(answers[1], rel=1e-4)
    # an entailment has a direction, unless one says that it has none
    one, other = (
        entailed(60, seed=9),
        [row | {"premise": row["hypothesis"], "hypothesis": row["premise"]} for row in entailed(60, seed=9)],
    )
    said = [[a.label for a in predict(runs["pair"].folder, given)] for given in (one, other)]
    assert sum(a != b for a, b in zip(*said, strict=True)) > 50
    either = train(
        entailed(60), output=tmp_path / "either", model=gpt, task="pair", both_orders=True, **QUICK | {"epochs": 1}
    )
    said = [[a.label for a in predict(either.folder, given)] for given in (one, other)]
    assert said[0] == said[1]


def test_the_mean_of_both_orders_is_their_sum_before_the_head(runs: dict[str, Run]) -> None:
    row = ROWS["regress"](1, seed=3)[0]
    model = clearhead.load(runs["regress"].folder)
    texts = row["sentence1"], row["sentence2"]
    ends = [np.asarray(model.run([model.tokenizer.encode(*pair).ids]).last)[0, -1] for pair in (texts, texts[::-1])]
    added = (ends[0] + ends[1]) @ model.tensor("head.out.weight")[0] / 2
    assert predict(runs["regress"].folder, [row])[0].value == pytest.approx(added, rel=1e-4)


@pytest.mark.learns
def test_the_next_word_can_be_learned_beside_the_task(gpt: str, tmp_path: Path) -> None:
    losses = {}
    for weight in (0.0, 2.0):
        folder = tmp_path / str(weight)
        run = train(labelled(200, least=1, most=5), output=folder, model=gpt, lm_weight=weight, **QUICK)
        kept = clearhead.load(run.folder, head="causal")
        ids = kept.tokenizer.encode("the film was good").ids
        logits = np.asarray(kept.run([ids]).logits, np.float64)[0, :-1]
        logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        losses[weight] = -logs[np.arange(len(ids) - 1), ids[1:]].mean()
    assert losses[2.0] < losses[0.0] - 0.5


def test_the_loss_of_next_words_is_that_of_the_causal_head(gpt: str) -> None:
    import torch

    from clearhead.tasks.packed import PackedBatch
    from clearhead.training.objectives.next_token import next_token_loss

    model = clearhead.load(gpt, "core")
    lengths = np.array([4, 1, 3])
    ids = np.arange(7, 15) % 300
    part = PackedBatch(ids=ids, segments=None, lengths=lengths, window_rows=np.array([0, 0, 1]), targets=np.zeros(2))
    with torch.no_grad():
        result = model.module(torch.as_tensor(ids), lengths=torch.as_tensor(lengths))
        found = next_token_loss(result.last, model.module.stack.embed.token.weight, part)
        rows = result.logits.log_softmax(-1)
    first = [-rows[0, place, ids[place + 1]] for place in range(3)]
    second = [-rows[2, place, ids[place + 6]] for place in range(2)]
    assert found.tolist() == pytest.approx([sum(map(float, first)) / 3, sum(map(float, second)) / 2], abs=1e-5)


def test_what_cannot_be_is_one_sentence(gpt: str, tiny: str, tmp_path: Path) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "both_orders is for pair and regress with two texts": {"model": gpt, "both_orders": True},
        "both_orders is for methods": {"model": gpt, "both_orders": True, "method": "tfidf"},
        "lm_weight teaches the next word": {"model": tiny, "lm_weight": 0.5},
        "lm_weight is for method finetune": {"model": gpt, "lm_weight": 0.5, "method": "head"},
        "lm_weight must be from 0": {"model": gpt, "lm_weight": -1.0},
    }
    for said, choices in wrong.items():
        with pytest.raises(InputError, match=said):
            train(labelled(40), output=tmp_path / "no", **choices)
        assert not (tmp_path / "no").exists()


@pytest.mark.learns
def test_the_first_gpt_and_a_frozen_one(tmp_path: Path) -> None:
    first = tiny_gpt(tmp_path / "gpt1", "openai-gpt")
    run = train(options(300), output=tmp_path / "choice", model=str(first), **QUICK)
    assert run.metrics["accuracy"].value > 0.9
    numbers = train(scored(300), output=tmp_path / "regress", model=str(first), **QUICK)
    assert numbers.metrics["pearson"].value > 0.9
    frozen = train(labelled(60), output=tmp_path / "head", model=str(first), method="head", epochs=1, report=False)
    assert clearhead.load(frozen.folder).tokenizer.encode("film").tokens[-1] == EXTRACT


def test_a_run_that_was_trained_can_be_trained_further(runs: dict[str, Run], tmp_path: Path) -> None:
    before = clearhead.load(runs["classify"].folder)
    run = train(
        ROWS["choice"](60), output=tmp_path / "further", model=str(runs["classify"].folder), **QUICK | {"epochs": 1}
    )
    after = clearhead.load(run.folder)
    assert after.shape.stack.vocab_size == before.shape.stack.vocab_size
    assert after.tokenizer.vocab == before.tokenizer.vocab


def test_a_table_with_rows_to_spare_does_not_grow(tmp_path: Path) -> None:
    large = tiny_gpt(tmp_path / "large", vocab_size=512)
    run = train(labelled(40), output=tmp_path / "run", model=str(large), **QUICK | {"epochs": 1})
    assert clearhead.load(run.folder).shape.stack.vocab_size == 512
