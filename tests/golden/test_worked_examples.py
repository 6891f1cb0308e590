"""Worked examples and claims about attention, positions, blocks and BERT, computed by the library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead import tensors
from clearhead.core.attention import AttentionId, Recorder, attention
from clearhead.core.block import Residual
from clearhead.core.build import build_network
from clearhead.core.positions import sinusoids
from clearhead.core.recurrent_attention import RecurrentAttention
from clearhead.families import FAMILIES
from clearhead.model.layers import choose_layer, pool
from clearhead.shape import HeadShape, ModelShape, PoolerShape, Recurrence, Shape

IDS = torch.tensor([[5, 17, 3, 28, 9, 11]])


def make_shape(**changes: Any) -> Shape:
    fields: dict[str, Any] = {
        "vocab_size": 40,
        "width": 32,
        "layers": 3,
        "heads": 4,
        "head_width": 8,
        "feed_forward_width": 48,
        "score_scale": 8**-0.5,
        "max_length": 20,
    }
    return Shape(**(fields | changes))


def make_network(decoder: Shape | None = None, head: HeadShape | None = None, **changes: Any) -> Any:
    """Build a small network with weights large enough that every part affects the output."""
    built = build_network(ModelShape(family="bert", stack=make_shape(**changes), decoder=decoder, head=head), seed=0)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) * 0.2)
    return built


class TestAttention:
    def test_scaled_dot_product(self) -> None:
        """q1.k1 = 112 and q1.k2 = 96, divided by sqrt(64): 14 and 12; the softmax gives 0.88 and 0.12."""
        q = torch.ones(1, 64)
        k = torch.stack([torch.full((64,), 1.75), torch.full((64,), 1.5)])
        v = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        assert (q @ k.T).tolist() == [[112.0, 96.0]]
        recorder = Recorder()
        recorder(q[None, None], k[None, None], v[None, None], None, 1 / math.sqrt(64), 0.0, AttentionId("plain", 0))
        assert recorder.steps[0].scores[0, 0].tolist() == [[14.0, 12.0]]
        z, probs = attention(q, k, v)
        assert [round(p, 2) for p in probs[0].tolist()] == [0.88, 0.12]
        # z1 = 0.88 v1 + 0.12 v2
        torch.testing.assert_close(z, probs[:, :1] * v[0] + probs[:, 1:] * v[1])

    def test_recurrent_attention_weights(self) -> None:
        """The five steps of recurrent attention: scores 13, 9, 9 become 0.96, 0.02, 0.02, and the states are summed."""
        states = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [3.0, 1.0, 1.0]])
        context, probs = attention(torch.ones(1, 1), torch.tensor([[13.0], [9.0], [9.0]]), states, scale=1.0)
        assert [round(p, 2) for p in probs[0].tolist()] == [0.96, 0.02, 0.02]
        torch.testing.assert_close(context[0], sum(p * h for p, h in zip(probs[0], states, strict=True)))

    def test_recurrent_decoder_attention(self) -> None:
        """Scores 13, 9, 9 from dot products of states; the context vector is concatenated with the decoder state."""
        states = torch.tensor([[[13.0, 0.0], [9.0, 1.0], [9.0, -4.0]]])
        align = RecurrentAttention(2, Recurrence(score="dot"))
        torch.nn.init.normal_(align.mix.weight)
        decoder = torch.tensor([[[1.0, 0.0]]])
        output = align(decoder, align.prepare_source(states, None))
        assert output.scores is not None
        assert output.probs is not None
        assert output.scores[0, 0].tolist() == [13.0, 9.0, 9.0]
        assert [round(p, 2) for p in output.probs[0, 0].tolist()] == [0.96, 0.02, 0.02]
        context = sum(p * h for p, h in zip(output.probs[0, 0], states[0], strict=True))
        torch.testing.assert_close(
            output.attentional[0, 0], torch.tanh(align.mix.weight @ torch.cat([context, decoder[0, 0]]))
        )

    def test_matrix_form(self) -> None:
        """softmax(Q K^T / sqrt(d_k)) V = Z."""
        q, k, v = torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(0))
        z, _ = attention(q, k, v)
        torch.testing.assert_close(z, torch.softmax(q @ k.T / 4, -1) @ v)

    def test_simple_self_attention(self) -> None:
        """y = softmax(X X^T) X, without a parameter; permuted words give permuted outputs."""
        x = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
        y, probs = attention(x, x, x, scale=1.0)
        torch.testing.assert_close(y, torch.softmax(x @ x.T, -1) @ x)
        torch.testing.assert_close(probs.sum(-1), torch.ones(6))
        order = torch.tensor([3, 1, 5, 0, 4, 2])
        torch.testing.assert_close(attention(x[order], x[order], x[order], scale=1.0)[0], y[order])

    def test_soft_dictionary(self) -> None:
        """A query that matches one key far better than the others returns that key's value."""
        keys, values = torch.eye(4) * 10, torch.tensor([[1.0], [2.0], [3.0], [4.0]])
        answers, _ = attention(keys, keys, values, scale=1.0)
        torch.testing.assert_close(answers, values, atol=1e-4, rtol=0)

    def test_scaling_keeps_gradients_from_vanishing(self) -> None:
        """Without the division by sqrt(d), the softmax saturates and its gradients nearly vanish."""
        sizes = {}
        for scale in (None, 1.0):
            q, k, v = torch.randn(3, 20, 512, generator=torch.Generator().manual_seed(0)).unbind()
            q.requires_grad_()
            _, probs = attention(q, k, v, scale)
            entropy = -(probs * probs.clamp(min=1e-30).log()).sum(-1).mean()
            jacobian = (probs * (1 - probs)).sum(-1).mean()  # the diagonal of the softmax's derivative
            sizes[scale] = entropy.item(), jacobian.item()
        assert sizes[None][0] > 2
        assert sizes[1.0][0] < 0.5
        assert sizes[None][1] > 4 * sizes[1.0][1]

    def test_multi_head_attention(self) -> None:
        """Multi-head attention: W_Q, W_K and W_V per head, outputs concatenated and multiplied by W_O."""
        model = make_network(positions="none", layers=1, heads=8, head_width=4, score_scale=0.5)
        inner = model.stack.blocks[0].attend.inner
        recorder = Recorder()
        with torch.no_grad():
            output = model(IDS, kernel=recorder)
            x = output.hidden[0][0]
            heads = []
            for head in range(8):
                rows = slice(4 * head, 4 * head + 4)
                q, k, v = (x @ part.weight[rows].T + part.bias[rows] for part in (inner.q, inner.k, inner.v))
                z, probs = attention(q, k, v)
                torch.testing.assert_close(recorder.steps[0].probs[0, head], probs)
                heads.append(z)
            joined = torch.cat(heads, -1) @ inner.out.weight.T + inner.out.bias
            block = model.stack.blocks[0]
            expected = block.feed(block.attend.norm(x + joined))
        torch.testing.assert_close(output.hidden[1][0], expected)


class TestPositions:
    def test_without_positions_order_is_ignored(self) -> None:
        """Without positions, permuted words give permuted outputs, through every layer."""
        order = torch.tensor([4, 0, 5, 2, 1, 3])
        model = make_network(positions="none")
        with torch.no_grad():
            torch.testing.assert_close(model(IDS[:, order]).last, model(IDS).last[:, order])

    @pytest.mark.parametrize(
        "changes", [{"positions": "learned"}, {"positions": "sinusoidal"}, {"relative": "buckets"}]
    )
    def test_positions_break_the_symmetry(self, changes: dict[str, Any]) -> None:
        order = torch.tensor([4, 0, 5, 2, 1, 3])
        model = make_network(**({"positions": "none"} | changes))
        with torch.no_grad():
            assert (model(IDS[:, order]).last - model(IDS).last[:, order]).abs().max() > 1e-2

    @pytest.mark.parametrize("width", [64, 512])
    def test_sinusoids(self, width: int) -> None:
        """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(...)."""
        table = sinusoids(torch.arange(60), width, halves=False)
        assert table[0, 0::2].tolist() == [0.0] * (width // 2)
        assert table[0, 1::2].tolist() == [1.0] * (width // 2)
        assert table[1, 0].item() == pytest.approx(math.sin(1))
        assert table[1, 1].item() == pytest.approx(math.cos(1))
        assert table[50, 10].item() == pytest.approx(math.sin(50 / 10000 ** (10 / width)))
        assert table[50, 11].item() == pytest.approx(math.cos(50 / 10000 ** (10 / width)))

    @pytest.mark.parametrize(("width", "steps"), [(64, 5), (512, 40)])
    def test_nearby_positions_are_closer(self, width: int, steps: int) -> None:
        """t_(i+j) is closer to t_i than t_(i+j+k) for the first steps, with the same distances from every i."""
        table = sinusoids(torch.arange(200), width, halves=False)
        distances_by_start = [(table[start : start + steps] - table[start]).norm(dim=1) for start in (0, 7, 100)]
        for distances in distances_by_start:
            assert (distances.diff() > 0).all()
            torch.testing.assert_close(distances, distances_by_start[0])
        farther = (table[steps:] - table[0]).norm(dim=1)  # never as close again
        assert farther.min() > distances_by_start[0][:4].max()

    def test_two_layouts_of_the_same_sinusoids(self) -> None:
        """Interleaved as in the paper, or halves side by side as in tensor2tensor."""
        positions = torch.arange(30)
        interleaved, halves = sinusoids(positions, 512, halves=False), sinusoids(positions, 512, halves=True)
        torch.testing.assert_close(halves, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], 1), atol=0, rtol=0)
        assert not torch.equal(halves, interleaved)
        assert torch.equal(interleaved.sort(1).values, halves.sort(1).values)


class TestBlocks:
    def test_the_residual_passes_x_through_a_zero_sublayer(self) -> None:
        class ZeroLayer(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.zeros_like(x)

        residual: Any = Residual(make_shape(), ZeroLayer(), 0.0)
        torch.nn.init.ones_(residual.norm.weight)
        torch.nn.init.zeros_(residual.norm.bias)
        x = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(residual(x), torch.nn.functional.layer_norm(x, (32,), eps=1e-12))

    def test_norm_per_token_not_per_batch(self) -> None:
        """A text's hidden states do not depend on other texts in the batch."""
        model = make_network()
        other_ids = torch.tensor([[31, 30, 2, 7, 8, 9]])
        with torch.no_grad():
            torch.testing.assert_close(model(torch.cat([IDS, other_ids])).last[0], model(IDS).last[0])
            hidden = model(IDS).hidden[1][0]
        normalized = (hidden - model.stack.blocks[0].feed.norm.bias) / model.stack.blocks[0].feed.norm.weight
        torch.testing.assert_close(normalized.mean(-1), torch.zeros(6), atol=1e-5, rtol=0)
        torch.testing.assert_close(normalized.std(-1, correction=0), torch.ones(6), atol=1e-4, rtol=0)

    def test_feed_forward_is_shared_over_positions_not_over_layers(self) -> None:
        model = make_network()
        first, second = model.stack.blocks[0].feed.inner, model.stack.blocks[1].feed.inner
        x = torch.randn(1, 32).expand(5, 32)
        torch.testing.assert_close(first(x), first(x[:1]).expand(5, 32))
        assert not torch.equal(first.up.weight, second.up.weight)


class TestDecoder:
    def test_attention_to_later_tokens_is_exactly_zero(self) -> None:
        """Masked self-attention: minus infinity before the softmax, exactly zero after it."""
        recorder = Recorder()
        with torch.no_grad():
            make_network(causal=True)(IDS, kernel=recorder)
        assert len(recorder.steps) == 3
        for steps in recorder.steps:
            assert (steps.probs.triu(1) == 0).all()
            assert (steps.probs.tril() > 0).sum() == 4 * 21  # the triangle, in every head
            torch.testing.assert_close(steps.probs.sum(-1), torch.ones(1, 4, 6))

    def test_keys_and_values_come_from_the_top_of_the_encoder(self) -> None:
        model = make_network(decoder=make_shape(causal=True, cross=True, layers=2))
        recorder = Recorder()
        with torch.no_grad():
            output = model(IDS, target_ids=IDS[:, :4], kernel=recorder)
            for steps in [steps for steps in recorder.steps if steps.part == "cross"]:
                inner = model.decoder.blocks[steps.layer].cross.inner
                torch.testing.assert_close(steps.keys, inner.split_heads(inner.k(output.last)))
                torch.testing.assert_close(steps.values, inner.split_heads(inner.v(output.last)))
                assert steps.probs.shape == (1, 4, 4, 6)  # every target token attends to every source token
        assert sum(steps.part == "cross" for steps in recorder.steps) == 2


@pytest.fixture(scope="module")
def model() -> clearhead.Model:
    return clearhead.create("bert", "tiny", config={"vocab_size": 50, "num_hidden_layers": 12})


class TestBert:
    @pytest.mark.parametrize(
        ("preset", "layers", "width", "heads", "millions"), [("base", 12, 768, 12, 110), ("large", 24, 1024, 16, 340)]
    )
    def test_sizes(self, preset: str, layers: int, width: int, heads: int, millions: int) -> None:
        family = FAMILIES["bert"]
        model = family.model_shape(family.presets[preset], None, 2)
        assert (model.stack.layers, model.stack.width, model.stack.heads) == (layers, width, heads)
        assert model.stack.max_length == 512
        assert model.stack.segments == 2
        assert model.stack.feed_forward_width == 4 * width
        assert abs(tensors.count_values(tensors.expected_sizes(model)) / (millions * 1e6) - 1) < 0.02

    def test_expected_sizes_match_the_built_network(self) -> None:
        """Sizes are computed without allocating memory; for a small model they are compared with the network."""
        family = FAMILIES["bert"]
        shape = family.model_shape(family.presets["tiny"], "pretrain", 2)
        network = build_network(shape)
        assert tensors.count_values(tensors.expected_sizes(shape)) == sum(p.numel() for p in network.parameters())
        assert {name: tuple(p.shape) for name, p in network.named_parameters()} == tensors.expected_sizes(shape)

    def test_gpt2_xl(self) -> None:
        family = FAMILIES["gpt2"]
        model = family.model_shape(family.presets["xl"], "causal", 2)
        assert (model.stack.layers, model.stack.width) == (48, 1600)
        assert abs(tensors.count_values(tensors.expected_sizes(model)) / 1.558e9 - 1) < 0.001

    def test_openai_transformer_has_twelve_blocks_without_cross_attention(self) -> None:
        model = FAMILIES["openai-gpt"].model_shape({}, "causal", 2)
        assert (model.stack.layers, model.stack.causal, model.stack.cross, model.decoder) == (12, True, False, None)

    def test_outputs(self, model: clearhead.Model) -> None:
        """(batch, length, width), layers + 1 hidden states, [:, 0, :] the [CLS] vector of each text."""
        ids = np.array([[1, 7, 8, 9, 2], [1, 12, 2, 0, 0]])
        mask = ids != 0
        output = model.run(ids, mask)
        assert output.last is not None
        assert output.pooled is not None
        assert output.last.shape == (2, 5, 128)
        assert len(output.hidden) == 12 + 1
        np.testing.assert_array_equal(output.hidden[-1], output.last)
        for row, text in enumerate(([1, 7, 8, 9, 2], [1, 12, 2])):
            single = model.run([text]).last
            assert single is not None
            np.testing.assert_allclose(output.last[:, 0, :][row], single[0, 0], atol=1e-5)
        single = model.run(ids[:1]).last
        np.testing.assert_allclose(output.last[0], single[0], atol=1e-5)  # type: ignore[index]
        # the pooler: tanh(W h_cls + b)
        dense = model.module.pooler.dense
        expected = np.tanh(output.last[:, 0] @ dense.weight.detach().numpy().T + dense.bias.detach().numpy())
        np.testing.assert_allclose(output.pooled, expected, atol=1e-6)

    def test_layers_as_features(self, model: clearhead.Model) -> None:
        hidden = model.run([[1, 7, 8, 2]]).hidden
        features = {
            "first": hidden[0],
            "last": hidden[12],
            "sum_all": sum(hidden[1:]),  # all twelve, without the embeddings
            "second_to_last": hidden[11],
            "sum_last_four": hidden[9] + hidden[10] + hidden[11] + hidden[12],
            "concat_last_four": np.concatenate(hidden[9:13], -1),
        }
        for name, expected in features.items():
            np.testing.assert_allclose(choose_layer(hidden, name), expected, atol=1e-5)
        np.testing.assert_array_equal(choose_layer(hidden, -3), hidden[10])

    def test_mean_pooling_over_real_tokens(self) -> None:
        tokens = np.array([[[1.0, 2.0], [3.0, 4.0], [100.0, 100.0]]], np.float32)
        mask = np.array([[True, True, False]])
        assert pool(tokens, mask, None, ["mean"]).tolist() == [[2.0, 3.0]]
        assert pool(tokens, mask, None, ["cls"]).tolist() == [[1.0, 2.0]]


def test_one_class_for_encoder_and_decoder_models() -> None:
    """Encoder: every token attends to all tokens. GPT: the same stack, without attention to later tokens."""
    bidirectional, causal = make_network(), make_network(causal=True)
    changed = IDS.clone()
    changed[0, -1] = 30
    with torch.no_grad():
        assert (bidirectional(IDS).last[:, 0] - bidirectional(changed).last[:, 0]).abs().max() > 1e-4
        assert torch.equal(causal(IDS).last[:, :-1], causal(changed).last[:, :-1])


def test_next_sentence_head_reads_the_pooler() -> None:
    head = HeadShape(kind="next", pooling="pooled", outputs=2)
    model = build_network(ModelShape(family="bert", stack=make_shape(), pooler=PoolerShape(), head=head), seed=0)
    with torch.no_grad():
        output = model(IDS)
        torch.testing.assert_close(output.next_sentence, model.head.out(output.pooled))  # type: ignore[union-attr]
