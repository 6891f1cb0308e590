"""Every family under every head equals transformers to 1e-5, there and back, on configurations drawn at random."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, seed, settings

import clearhead
from clearhead.families import FAMILIES
from tests.family_configs import (
    BASE_CLASSES,
    CLASSES,
    CONFIGS,
    MISSING_CLASSES,
    ParityCase,
    exists_in_transformers,
    parity_cases,
)
from tests.parity_models import (
    TOLERANCE,
    TokenBatch,
    assert_equal,
    compute_differences,
    compute_reference_outputs,
    load_in_transformers,
    make_reference,
    save_reference,
)

every_class = pytest.mark.parametrize(("family", "title"), CLASSES, ids=[title for _, title in CLASSES])


def drawn(family: str, title: str, examples: int, check: Callable[[ParityCase], None]) -> None:
    """Run a check on that many cases, other ones for each class and the same ones in each run."""
    test = given(parity_cases(family, title))(check)
    # without shrinking: the cases are small already, and each costs a tenth of a second
    settings(max_examples=examples, phases=(Phase.generate,))(seed(crc32(title.encode()))(test))()


def check_there_and_back(title: str, case: ParityCase) -> None:
    choices = "MultipleChoice" in title
    theirs = make_reference(title, case.config, case.seed)
    expected = compute_reference_outputs(theirs, case.given, choices=choices)
    with save_reference(theirs) as folder, TemporaryDirectory() as second:
        model = clearhead.load(folder, "core")
        assert_equal(expected, run(model, case.given, choices), case.given)
        if model.has_labels:
            assert model.labels == tuple(theirs.config.id2label.values())

        model.save(second)
        written = json.loads((Path(second) / "config.json").read_text())
        back = load_in_transformers(Path(second), written["architectures"][0])
        assert back.config.id2label == theirs.config.id2label or not model.has_labels
        for name, values in compute_reference_outputs(back, case.given, choices=choices).items():
            np.testing.assert_allclose(values, expected[name], rtol=0, atol=1e-6, err_msg=name)

        again = clearhead.load(second, "core")
        assert (again.head, again.shape, again.labels) == (model.head, model.shape, model.labels)
        np.testing.assert_array_equal(run(again, case.given, choices).last, run(model, case.given, choices).last)
        for name, tensor in model.module.state_dict().items():
            assert torch.equal(again.module.state_dict()[name], tensor), name


def run(model: clearhead.Model, batch: TokenBatch, choices: bool = False) -> clearhead.Output:
    return model.run(**batch.to_clearhead(choices=choices))


@every_class
def test_equal_there_and_back(family: str, title: str) -> None:
    drawn(family, title, 2, lambda case: check_there_and_back(title, case))


@pytest.mark.slow
@every_class
def test_equal_there_and_back_on_several(family: str, title: str) -> None:
    drawn(family, title, 12, lambda case: check_there_and_back(title, case))


@pytest.mark.exhaustive
@every_class
def test_equal_there_and_back_on_many(family: str, title: str) -> None:
    drawn(family, title, 120, lambda case: check_there_and_back(title, case))


PLACES = {
    "one number of W_Q": "attend.inner.q.weight",
    "one number of W_K": "attend.inner.k.weight",
    "one number of W_V": "attend.inner.v.weight",
    "one number of W_O": "attend.inner.out.weight",
    "one number of a norm": "feed.norm.weight",
}


@pytest.mark.thin(4)
@every_class
def test_one_wrong_number_is_seen(family: str, title: str) -> None:
    """The control of all tests above: the comparison fails when a single weight is a little off."""

    def check(case: ParityCase) -> None:
        choices = "MultipleChoice" in title
        theirs = make_reference(title, case.config, case.seed)
        expected = compute_reference_outputs(theirs, case.given, choices=choices)
        with save_reference(theirs) as folder:
            model = clearhead.load(folder, "core")
        for place, name in PLACES.items():
            weight = model.module.get_parameter(f"stack.blocks.0.{name}")
            with torch.no_grad():
                first = tuple(0 for _ in weight.shape)
                right = weight[first].item()
                weight[first] += 0.05
                found = compute_differences(expected, run(model, case.given, choices), case.given)
                weight[first] = right
            moved[place] |= max(found.values()) > TOLERANCE
        assert_equal(expected, run(model, case.given, choices), case.given)

    moved = dict.fromkeys(PLACES, False)
    drawn(family, title, 3, check)
    assert all(moved.values()), moved


def test_every_class_is_covered() -> None:
    assert set(CONFIGS) == set(FAMILIES) - {"transformer", "rnn", "elmo"}  # which have no class in transformers
    assert all(exists_in_transformers(title) for _, title in CLASSES)
    assert not any(exists_in_transformers(title) for title in MISSING_CLASSES)
    assert {title for _, title in CLASSES} == {
        title for family in CONFIGS for title in (BASE_CLASSES[family], *FAMILIES[family].architectures)
    } - set(MISSING_CLASSES)


@pytest.mark.parametrize("family", [family for family in CONFIGS if family not in ("t5", "marian")])
def test_without_a_mask_every_token_is_real(family: str) -> None:
    def check(case: ParityCase) -> None:
        real = TokenBatch(
            ids=np.where(case.given.mask, case.given.ids, 7),
            mask=np.ones_like(case.given.mask),
            segments=case.given.segments,
        )
        theirs = make_reference(BASE_CLASSES[family], case.config, case.seed)
        expected = compute_reference_outputs(theirs, real)
        with save_reference(theirs) as folder:
            model = clearhead.load(folder, "core")
        assert_equal(expected, model.run(real.ids, segments=real.segments), real)
        assert_equal(expected, model.run(real.ids.tolist(), real.mask.astype(int), real.segments), real)

    drawn(family, BASE_CLASSES[family], 2, check)


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "mpnet"])
def test_a_padding_token_that_counts_as_real(family: str) -> None:
    """These families number the places by id: padding in the middle of a text, under no mask, takes no number."""

    def check(case: ParityCase) -> None:
        pad = 1 if family == "mpnet" else case.config["pad_token_id"]
        ids = np.where(case.given.mask, case.given.ids, pad)
        ids[:, ids.shape[1] // 2] = pad
        real = TokenBatch(ids=ids, mask=np.ones_like(case.given.mask), segments=case.given.segments)
        theirs = make_reference(BASE_CLASSES[family], case.config, case.seed)
        with save_reference(theirs) as folder:
            model = clearhead.load(folder, "core")
        assert_equal(compute_reference_outputs(theirs, real), run(model, real), real)

    drawn(family, BASE_CLASSES[family], 3, check)
