"""Recurrent models: equal to a numpy implementation, stepwise equal to one pass, independent of padding, trainable."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

import clearhead
from clearhead import Model, tensors
from clearhead.batch import Batch, pad_rows
from clearhead.core.build import build_network
from clearhead.core.recurrent_attention import RecurrentAttention
from clearhead.core.recurrent_network import RecurrentNetwork, decode_step, start_decoding
from clearhead.errors import InputError
from clearhead.families import FAMILIES
from clearhead.shape import Recurrence
from clearhead.training.dropout import FastDropout, use_fast_dropout
from clearhead.training.optimizer import clip_gradients, make_optimizer, measure_depth
from clearhead.training.precision import use_precision
from clearhead.training.settings import TrainSettings
from tests.core.plain_recurrent import translate
from tests.family_configs import choose, draw_bool
from tests.parity_models import perturb_weights
from tests.variation import scaled

Config = dict[str, Any]
SCORES = ("none", "additive", "dot", "general", "concat")
SMALL: Config = {
    "vocab_size": 40,
    "target_vocab_size": 33,
    "cell": "gru",
    "width": 12,
    "embed_width": 8,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "bidirectional": True,
    "attention": "general",
    "input_feeding": False,
}
VARIANTS = [
    SMALL | {"cell": cell, "attention": score, "input_feeding": fed}
    for cell in ("gru", "lstm")
    for score in SCORES
    for fed in ((False, True) if score != "none" else (False,))
]
every_variant = pytest.mark.parametrize(
    "config", VARIANTS, ids=[f"{c['cell']}-{c['attention']}{'-fed' if c['input_feeding'] else ''}" for c in VARIANTS]
)


@st.composite
def configs(draw: Any) -> Config:
    score = choose(draw, *SCORES)
    return {
        "vocab_size": choose(draw, 40, 31),
        "target_vocab_size": choose(draw, None, 33),
        "cell": choose(draw, "gru", "lstm"),
        "width": choose(draw, 12, 6, 20),
        "embed_width": choose(draw, None, 8, 21),
        "encoder_layers": choose(draw, 2, 1, 3),
        "decoder_layers": choose(draw, 1, 2, 3),
        "bidirectional": draw_bool(draw),
        "attention": score,
        "attention_width": choose(draw, None, 7),
        "input_feeding": score != "none" and draw_bool(draw),
        "tie_word_embeddings": draw_bool(draw),
        "output_bias": draw_bool(draw),
    }


def create_model(config: Config, seed: int = 0) -> Model:
    model = clearhead.create("rnn", config=config, head="seq2seq", seed=seed)
    perturb_weights(model.module, seed)
    return model


def network_of(config: Config) -> RecurrentNetwork:
    module = create_model(config).module
    assert isinstance(module, RecurrentNetwork)
    return module


def rows(lengths: tuple[int, ...], vocab: int, seed: int) -> list[list[int]]:
    words = np.random.default_rng(seed)
    return [words.integers(1, vocab, length).tolist() for length in lengths]


SOURCES = rows((5, 3, 1), 40, 1)
SOURCE, SOURCE_MASK = (torch.from_numpy(part) for part in pad_rows(SOURCES, 0))
WORDS = torch.tensor(rows((9, 9, 9), 33, 2))


def one_pass_logits(network: RecurrentNetwork, words: torch.Tensor, row: int | None = None) -> torch.Tensor:
    """Compute all logits in one pass; for one row, without padding of its source."""
    if row is None:
        return network(SOURCE, SOURCE_MASK, target_ids=words).logits
    return network(torch.tensor([SOURCES[row]]), target_ids=words).logits


def assert_equal_logits(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


class TestNumbers:
    @settings(max_examples=scaled(25), deadline=None, phases=(Phase.generate,))
    @given(configs(), st.integers(0, 1 << 20))
    def test_equal_to_plain_numpy(self, config: Config, seed: int) -> None:
        """A saved model equals the numpy implementation, in one pass and token by token."""
        model = create_model(config, seed)
        vocab = config["target_vocab_size"] or config["vocab_size"]
        sources, targets = rows((6, 2, 4), config["vocab_size"], seed), rows((5, 3, 1), vocab, seed + 1)
        with TemporaryDirectory() as folder:
            model.save(folder)
            stored = {k: v.astype(np.float64) for k, v in load_file(Path(folder) / "model.safetensors").items()}
            again = clearhead.load(folder)
        assert again.shape == model.shape
        ids, mask = pad_rows(sources, 0)
        target_ids, target_mask = pad_rows(targets, 0)
        output = again.run(ids, mask, target_ids=target_ids, target_mask=target_mask).logits
        assert output is not None
        runner = model.core
        state, stepped, step_probs = runner.start(Batch(ids=ids, mask=mask)), [], []
        for index in range(target_ids.shape[1]):
            logits, state = runner.step(state, target_ids[:, index : index + 1])
            stepped.append(logits)
            step_probs.append(state.state.probs)  # type: ignore[union-attr]
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            expected, target_probs = translate(config, stored, np.array(source), np.array(target))
            np.testing.assert_allclose(output[row, : len(target)], expected, rtol=0, atol=2e-5)
            np.testing.assert_allclose(np.concatenate(stepped, 1)[row, : len(target)], expected, rtol=0, atol=2e-5)
            for index, probs in enumerate(target_probs):
                probs_found = step_probs[index]
                assert probs_found is not None
                np.testing.assert_allclose(probs_found[row, 0, : len(source)], probs, rtol=0, atol=1e-5)
                assert (probs_found[row, 0, len(source) :] == 0).all()

    @pytest.mark.parametrize(
        "name",
        [
            "stack.layers.1.weight_hh_l0_reverse",
            "decoder.bridge.0.weight",
            "decoder.layers.1.bias_hh_l0",
            "decoder.align.mix.weight",
            "decoder.align.score.key.weight",
        ],
    )
    def test_control_one_wrong_number(self, name: str, tmp_path: Path) -> None:
        model = create_model(SMALL)
        model.save(tmp_path)
        stored = dict(load_file(tmp_path / "model.safetensors"))
        with torch.no_grad():
            weight = model.module.get_parameter(name)
            weight[(0,) * weight.ndim] += 0.1
        output = model.run([SOURCES[0]], target_ids=WORDS[:1].tolist()).logits
        expected, _ = translate(SMALL, stored, np.array(SOURCES[0]), WORDS[0].numpy())
        assert output is not None
        assert np.abs(output[0] - expected).max() > 1e-4

    def test_the_parts_list_is_what_is_built(self) -> None:
        for config in VARIANTS:
            module = create_model(config | {"bidirectional": False, "decoder_layers": 3}).module
            assert {name: tuple(p.shape) for name, p in module.named_parameters()} == tensors.expected_sizes(
                module.shape
            )

    @pytest.mark.parametrize("bidirectional", [True, False])
    @pytest.mark.parametrize("cell", ["gru", "lstm"])
    def test_each_side_loads_into_torch_as_it_is(self, cell: str, bidirectional: bool, tmp_path: Path) -> None:
        model = create_model(SMALL | {"cell": cell, "bidirectional": bidirectional})
        model.save(tmp_path)
        stored = {name: torch.from_numpy(array) for name, array in load_file(tmp_path / "model.safetensors").items()}
        kind = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[cell]
        encoder = kind(8, 6 if bidirectional else 12, 2, batch_first=True, bidirectional=bidirectional)
        encoder.load_state_dict({k.split(".")[1]: v for k, v in stored.items() if k.startswith("encoder.")})
        out, _ = encoder(stored["embedding.weight"][torch.tensor([SOURCES[0]])])
        ours = model.run([SOURCES[0]]).last
        assert ours is not None
        np.testing.assert_allclose(out.detach().numpy(), ours, rtol=0, atol=1e-6)

    def test_concat_is_additive_with_one_matrix(self) -> None:
        """W s + U h = [W U] [s; h]: the scores of the two papers are the same function."""
        concat: Any
        additive: Any
        concat, additive = (
            RecurrentAttention(6, Recurrence(score=score, score_width=5)) for score in ("concat", "additive")
        )
        torch.manual_seed(0)
        for parameter in (*concat.parameters(), *additive.parameters()):
            torch.nn.init.normal_(parameter)
        with torch.no_grad():
            w, u = concat.score.both.weight.split(6, 1)
            additive.score.query.weight.copy_(w)
            additive.score.key.weight.copy_(u)
            additive.score.key.bias.zero_()
            additive.score.out.weight.copy_(concat.score.out.weight)
            states, memory = torch.randn(2, 3, 6), torch.randn(2, 4, 6)
            probs_found = [part(states, part.prepare_source(memory, None)).probs for part in (concat, additive)]
        torch.testing.assert_close(probs_found[0], probs_found[1])


@pytest.mark.usefixtures("no_gradients")
class TestSteps:
    @pytest.fixture
    def no_gradients(self) -> Any:
        with torch.no_grad():
            yield

    @pytest.mark.parametrize("portions", [(1,) * 9, (9,), (4, 1, 4), (1, 8)])
    @every_variant
    def test_portions(self, config: Config, portions: tuple[int, ...]) -> None:
        network = network_of(config)
        state, position, step_logits = start_decoding(network, SOURCE, SOURCE_MASK), 0, []
        for size in portions:
            logits, state = decode_step(network, state, WORDS[:, position : position + size])
            step_logits.append(logits)
            position += size
        assert_equal_logits(torch.cat(step_logits, 1), one_pass_logits(network, WORDS))

    @pytest.mark.parametrize("side", ["left", "right"])
    @every_variant
    def test_ragged_prompts(self, config: Config, side: str) -> None:
        """Prompts of different lengths, one of them empty, padded on either side, equal separate runs."""
        network = network_of(config)
        lengths = torch.tensor([5, 0, 3])
        positions = torch.arange(5)[None]
        mask = positions < lengths[:, None] if side == "right" else positions >= 5 - lengths[:, None]
        prompt = torch.zeros(3, 5, dtype=torch.long)
        for row in range(3):
            prompt[row, mask[row]] = WORDS[row, : lengths[row]]
        first, state = decode_step(network, start_decoding(network, SOURCE, SOURCE_MASK), prompt, mask)
        later = WORDS.gather(1, lengths[:, None] + torch.arange(4)[None])
        then, _ = decode_step(network, state, later)
        for row, length in enumerate(lengths.tolist()):
            alone = one_pass_logits(network, WORDS[row : row + 1, : length + 4], row)[0]
            assert_equal_logits(first[row, mask[row]], alone[:length])
            assert_equal_logits(then[row], alone[length:])

    @every_variant
    def test_reorder(self, config: Config) -> None:
        """Beam search keeps some rows, doubles others and drops the rest."""
        network = network_of(config)
        _, state = decode_step(network, start_decoding(network, SOURCE, SOURCE_MASK), WORDS[:, :5])
        order = torch.tensor([2, 0, 0, 2])
        reordered = state.reorder(order)
        if state.probs is not None:
            assert reordered.probs is not None
            assert torch.equal(reordered.probs, state.probs[order])
        logits, after = decode_step(network, reordered, WORDS[order, 5:7])
        last, _ = decode_step(network, after.reorder(torch.tensor([1, 3])), WORDS[[0, 2], 7:])
        for index, row in enumerate(order.tolist()):
            assert_equal_logits(logits[index], one_pass_logits(network, WORDS[row : row + 1, :7], row)[0, 5:])
        for index, row in enumerate([0, 2]):
            assert_equal_logits(last[index], one_pass_logits(network, WORDS[row : row + 1], row)[0, 7:])

    @every_variant
    def test_an_old_state_stays_usable(self, config: Config) -> None:
        network = network_of(config)
        _, state = decode_step(network, start_decoding(network, SOURCE, SOURCE_MASK), WORDS[:, :4])
        first, _ = decode_step(network, state, WORDS[:, 4:6])
        decode_step(network, state, WORDS[:, 7:9])
        again, _ = decode_step(network, state, WORDS[:, 4:6])
        assert torch.equal(first, again)

    @every_variant
    def test_a_text_is_the_same_alone_and_in_any_batch(self, config: Config) -> None:
        network = network_of(config)
        together = network(SOURCE, SOURCE_MASK, target_ids=WORDS)
        left = SOURCE.flip(1)
        padded_left = network(left, left != 0, target_ids=WORDS).logits
        for row, source in enumerate(SOURCES):
            alone = network(torch.tensor([source]), target_ids=WORDS[row : row + 1])
            assert_equal_logits(together.logits[row], alone.logits[0])
            for a, b in zip(together.hidden, alone.hidden, strict=True):
                assert_equal_logits(a[row, : len(source)], b[0])
            turned = network(torch.tensor([source[::-1]]), target_ids=WORDS[row : row + 1])
            assert_equal_logits(padded_left[row], turned.logits[0])
        flat = torch.tensor([word for source in SOURCES for word in source])
        packed = network(flat, lengths=torch.tensor([5, 3, 1]), target_ids=WORDS)
        assert_equal_logits(packed.logits, together.logits)
        assert_equal_logits(packed.last, together.last[SOURCE_MASK])

    def test_a_row_without_a_word_disturbs_nobody(self) -> None:
        network = network_of(SMALL)
        ids, mask = torch.cat([SOURCE, SOURCE[:1]]), torch.cat([SOURCE_MASK, torch.zeros(1, 5, dtype=torch.bool)])
        output = network(ids, mask, target_ids=WORDS[[0, 1, 2, 0]]).logits
        assert_equal_logits(output[:3], one_pass_logits(network, WORDS))
        assert output.isfinite().all()

    def test_a_model_without_a_word_head(self) -> None:
        network = clearhead.create("rnn", config=SMALL).module
        with pytest.raises(InputError, match="no language-model head"):
            decode_step(network, start_decoding(network, SOURCE), WORDS[:, :1])


@every_variant
def test_a_trace_has_the_alignment_as_layer_0_head_0(config: Config) -> None:
    from clearhead.core.trace import trace

    model = create_model(config)
    batch = Batch(ids=SOURCE[:1].numpy(), target_ids=WORDS[:1].numpy())
    traced = trace(model.core, batch, list("abcde"), list("123456789"))
    assert (traced.layers, traced.decoder) == ([], [])
    if config["attention"] == "none":
        assert traced.cross == []
        return
    (only,) = traced.cross
    assert (only.layer, only.probs.shape) == (0, (1, 9, 5))
    np.testing.assert_allclose(only.probs.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(only.context[0], only.probs[0] @ only.values[0], atol=1e-5)
    with torch.no_grad():
        _, state = decode_step(model.module, start_decoding(model.module, SOURCE[:1]), WORDS[:1])
    assert state.probs is not None
    np.testing.assert_allclose(state.probs[0], only.probs[0], atol=1e-6)


@every_variant
def test_a_gradient_reaches_every_parameter(config: Config) -> None:
    network = network_of(config | {"output_bias": True, "dropout": 0.0}).train()
    logits = network(SOURCE, SOURCE_MASK, target_ids=WORDS).logits
    F.cross_entropy(logits.flatten(0, 1), WORDS.flatten()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@every_variant
def test_it_learns_with_the_loop_s_own_parts(config: Config) -> None:
    """The loss decreases with the optimizer groups, gradient clipping and bf16 of the training loop."""
    network = network_of(config | {"tie_word_embeddings": False}).train()
    adam = make_optimizer(network, TrainSettings(learning_rate=1e-2))
    losses = []
    for precision in ("float", "float", "bf16"):
        with use_precision(precision, "cpu"):
            logits = network(SOURCE, SOURCE_MASK, target_ids=WORDS).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), WORDS.flatten())
        adam.zero_grad()
        loss.backward()
        clip_gradients(network.parameters(), 1.0)
        adam.step()
        losses.append(float(loss.detach()))
    assert losses[2] < losses[0]
    parts = ("align.mix.weight", "layers.1.x", "layers.0.x", "embed.x")
    assert [measure_depth(f"decoder.{part}", network) for part in parts] == [1, 1, 2, 3]


def test_dropout_only_in_training_and_exchanged_by_the_loop() -> None:
    network = network_of(SMALL | {"dropout": 0.5})
    use_fast_dropout(network)
    kinds = [type(part) for part in network.modules() if isinstance(part, torch.nn.Dropout)]
    assert len(kinds) >= 5
    assert set(kinds) == {FastDropout}
    assert torch.equal(one_pass_logits(network, WORDS), one_pass_logits(network, WORDS))
    network.train()
    assert not torch.equal(one_pass_logits(network, WORDS), one_pass_logits(network, WORDS))


def test_fresh_weights() -> None:
    """Recurrent matrices are orthogonal per gate, and the forget gates of an LSTM start open."""
    shape = clearhead.create("rnn", config=SMALL | {"cell": "lstm"}, head="seq2seq").shape
    drawn = dict(build_network(shape, seed=3).named_parameters())
    for gate in drawn["decoder.layers.0.weight_hh_l0"].detach().split(12):
        torch.testing.assert_close(gate @ gate.T, torch.eye(12), atol=1e-5, rtol=0)
    forget = drawn["stack.layers.1.bias_ih_l0_reverse"].detach().view(4, 6)
    assert forget.tolist() == [[0.0] * 6, [1.0] * 6, [0.0] * 6, [0.0] * 6]
    assert (drawn["stack.layers.1.bias_hh_l0"] == 0).all()
    again = dict(build_network(shape, seed=3).named_parameters())
    assert all(torch.equal(drawn[name], again[name]) for name in drawn)


@pytest.mark.slow
@pytest.mark.learns
@pytest.mark.parametrize("changes", [{"attention": "additive"}, {"attention": "dot", "input_feeding": True}])
def test_a_copy_task_is_learned(changes: Config) -> None:
    """Five symbols in any order are copied: 99 % of new texts are reproduced exactly."""
    sizes = {"vocab_size": 8, "width": 48, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    model = clearhead.create("rnn", config=sizes | changes, head="seq2seq", seed=1)
    network = model.module.train()
    words = torch.Generator().manual_seed(0)
    adam = torch.optim.Adam(network.parameters(), 0.01)
    rate = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.02, 350)  # a rate that falls ends where it has come to
    for _ in range(350):
        text = torch.randint(3, 8, (64, 6), generator=words)
        shifted = F.pad(text[:, :-1], (1, 0), value=1)
        loss = F.cross_entropy(network(text, target_ids=shifted).logits.flatten(0, 1), text.flatten())
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        adam.step()
        rate.step()
    text = torch.randint(3, 8, (200, 6), generator=words)
    state, output = model.core.start(Batch(ids=text.numpy())), np.full((200, 1), 1)
    for _ in range(6):
        logits, state = model.core.step(state, output[:, -1:])
        output = np.concatenate([output, logits[:, -1].argmax(-1)[:, None]], 1)
    assert (output[:, 1:] == text.numpy()).all(1).mean() > 0.99


@pytest.mark.parametrize("preset", FAMILIES["rnn"].presets)
def test_every_preset_does_without_attention(preset: str) -> None:
    family = FAMILIES["rnn"]
    shape = family.model_shape(
        family.preset_config(preset, {"attention": "none"}) | {"attention": "none"}, "seq2seq", 2
    )
    assert shape.decoder is not None
    assert shape.decoder.recurrent is not None
    assert shape.decoder.recurrent.score == "none"
    assert not shape.decoder.recurrent.input_feeding
