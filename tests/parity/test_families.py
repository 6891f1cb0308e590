"""Every family and head matches transformers to 1e-5 on random configurations, before and after a round trip."""

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


def check_examples(family: str, title: str, examples: int, check: Callable[[ParityCase], None]) -> None:
    """Run a check on a number of random cases, which differ between classes and are the same in every run."""
    test = given(parity_cases(family, title))(check)
    # without shrinking: the cases are small, and each takes a tenth of a second
    settings(max_examples=examples, phases=(Phase.generate,))(seed(crc32(title.encode()))(test))()


def check_round_trip(title: str, case: ParityCase) -> None:
    is_choice = "MultipleChoice" in title
    theirs = make_reference(title, case.config, case.seed)
    expected = compute_reference_outputs(theirs, case.batch, choices=is_choice)
    with save_reference(theirs) as folder, TemporaryDirectory() as resaved:
        model = clearhead.load(folder, "core")
        assert_equal(expected, run(model, case.batch, is_choice), case.batch)
        if model.has_labels:
            assert model.labels == tuple(theirs.config.id2label.values())

        model.save(resaved)
        config = json.loads((Path(resaved) / "config.json").read_text())
        back = load_in_transformers(Path(resaved), config["architectures"][0])
        assert back.config.id2label == theirs.config.id2label or not model.has_labels
        for name, values in compute_reference_outputs(back, case.batch, choices=is_choice).items():
            np.testing.assert_allclose(values, expected[name], rtol=0, atol=1e-6, err_msg=name)

        reloaded = clearhead.load(resaved, "core")
        assert (reloaded.head, reloaded.shape, reloaded.labels) == (model.head, model.shape, model.labels)
        np.testing.assert_array_equal(run(reloaded, case.batch, is_choice).last, run(model, case.batch, is_choice).last)
        for name, tensor in model.module.state_dict().items():
            assert torch.equal(reloaded.module.state_dict()[name], tensor), name


def run(model: clearhead.Model, batch: TokenBatch, choices: bool = False) -> clearhead.Output:
    return model.run(**batch.to_clearhead(choices=choices))


@every_class
def test_round_trip_is_equal(family: str, title: str) -> None:
    check_examples(family, title, 2, lambda case: check_round_trip(title, case))


@pytest.mark.slow
@every_class
def test_round_trip_is_equal_on_several_cases(family: str, title: str) -> None:
    check_examples(family, title, 12, lambda case: check_round_trip(title, case))


@pytest.mark.exhaustive
@every_class
def test_round_trip_is_equal_on_many_cases(family: str, title: str) -> None:
    check_examples(family, title, 120, lambda case: check_round_trip(title, case))


PARAMETERS = {
    "one number of W_Q": "attend.inner.q.weight",
    "one number of W_K": "attend.inner.k.weight",
    "one number of W_V": "attend.inner.v.weight",
    "one number of W_O": "attend.inner.out.weight",
    "one number of a norm": "feed.norm.weight",
}


@pytest.mark.thin(4)
@every_class
def test_one_wrong_weight_is_detected(family: str, title: str) -> None:
    """The control of the tests above: the comparison fails if a single weight is slightly off."""

    def check(case: ParityCase) -> None:
        is_choice = "MultipleChoice" in title
        theirs = make_reference(title, case.config, case.seed)
        expected = compute_reference_outputs(theirs, case.batch, choices=is_choice)
        with save_reference(theirs) as folder:
            model = clearhead.load(folder, "core")
        for label, name in PARAMETERS.items():
            weight = model.module.get_parameter(f"stack.blocks.0.{name}")
            with torch.no_grad():
                first = tuple(0 for _ in weight.shape)
                original = weight[first].item()
                weight[first] += 0.05
                differences = compute_differences(expected, run(model, case.batch, is_choice), case.batch)
                weight[first] = original
            detected[label] |= max(differences.values()) > TOLERANCE
        assert_equal(expected, run(model, case.batch, is_choice), case.batch)

    detected = dict.fromkeys(PARAMETERS, False)
    check_examples(family, title, 3, check)
    assert all(detected.values()), detected


def test_every_class_is_covered() -> None:
    assert set(CONFIGS) == set(FAMILIES) - {"transformer", "rnn", "elmo"}  # these have no class in transformers
    assert all(exists_in_transformers(title) for _, title in CLASSES)
    assert not any(exists_in_transformers(title) for title in MISSING_CLASSES)
    assert {title for _, title in CLASSES} == {
        title for family in CONFIGS for title in (BASE_CLASSES[family], *FAMILIES[family].architectures)
    } - set(MISSING_CLASSES)


@pytest.mark.parametrize("family", [family for family in CONFIGS if family not in ("t5", "marian")])
def test_without_a_mask_every_token_is_real(family: str) -> None:
    def check(case: ParityCase) -> None:
        real = TokenBatch(
            ids=np.where(case.batch.mask, case.batch.ids, 7),
            mask=np.ones_like(case.batch.mask),
            segments=case.batch.segments,
        )
        theirs = make_reference(BASE_CLASSES[family], case.config, case.seed)
        expected = compute_reference_outputs(theirs, real)
        with save_reference(theirs) as folder:
            model = clearhead.load(folder, "core")
        assert_equal(expected, model.run(real.ids, segments=real.segments), real)
        assert_equal(expected, model.run(real.ids.tolist(), real.mask.astype(int), real.segments), real)

    check_examples(family, BASE_CLASSES[family], 2, check)


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "mpnet"])
def test_an_unmasked_padding_token_gets_no_position(family: str) -> None:
    """These families derive positions from ids: an unmasked padding token in the middle of a text gets no position."""

    def check(case: ParityCase) -> None:
        pad = 1 if family == "mpnet" else case.config["pad_token_id"]
        ids = np.where(case.batch.mask, case.batch.ids, pad)
        ids[:, ids.shape[1] // 2] = pad
        real = TokenBatch(ids=ids, mask=np.ones_like(case.batch.mask), segments=case.batch.segments)
        theirs = make_reference(BASE_CLASSES[family], case.config, case.seed)
        with save_reference(theirs) as folder:
            model = clearhead.load(folder, "core")
        assert_equal(compute_reference_outputs(theirs, real), run(model, real), real)

    check_examples(family, BASE_CLASSES[family], 3, check)
