"""The page contains the numbers of the trace, runs only its own script, and makes no requests."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.core.trace import Trace
from clearhead.errors import InputError
from clearhead.explain import attention_data, attention_page, save_attention
from clearhead.explain import trace_page as pages
from tests.explain.traces import EXAMPLE_TOKENS, HOSTILE, make_trace


class Reader(HTMLParser):
    """Elements with their attributes, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1] += data


def page_data(page: str) -> Any:
    return json.loads(Reader(page).scripts[0])


def decode_probs(page: str, part: int, layer: int) -> Any:
    part_data = page_data(page)["parts"][part]
    encoded = np.frombuffer(base64.b64decode(part_data["layers"][layer]["probs"]), "<u2")
    return (
        encoded.reshape(part_data["layers"][layer]["heads"], len(part_data["queries"]), len(part_data["keys"])) / 10_000
    )


@pytest.mark.parametrize("trace", [make_trace(layers=6, heads=12), make_trace(["a", "b"], ["<start>", "c", "d"])])
def test_numbers_come_back(trace: Trace) -> None:
    page = attention_page(trace)
    for part, layers in enumerate(
        part_layers for part_layers in (trace.layers, trace.decoder, trace.cross) if part_layers
    ):
        for number, layer in enumerate(layers):
            assert np.abs(decode_probs(page, part, number) - layer.probs).max() <= 5.0001e-5


def test_vectors_come_back_or_are_left_out() -> None:
    trace = make_trace()
    layer = page_data(attention_page(trace))["parts"][0]["layers"][1]
    q = (
        np.frombuffer(base64.b64decode(layer["q"]["values"]), "<i2").reshape(3, len(EXAMPLE_TOKENS), 8)
        * layer["q"]["unit"]
    )
    assert np.abs(q - trace.layers[1].queries).max() < 1e-3
    scores = np.frombuffer(base64.b64decode(layer["scores"]), "<f4").reshape(3, len(EXAMPLE_TOKENS), -1)
    assert np.array_equal(scores, trace.layers[1].scores)
    wide_page = page_data(attention_page(make_trace(width=512, layers=6, heads=12)))
    assert "q" not in wide_page["parts"][0]["layers"][0]


def test_page_of_a_sentence_is_small() -> None:
    assert len(attention_page(make_trace(layers=6, heads=12, width=32)).encode()) < 1_000_000


def test_only_its_own_script_may_run() -> None:
    page = attention_page(make_trace())
    reader = Reader(page)
    policy = next(a["content"] or "" for tag, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(reader.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; ")
    assert len(reader.scripts) == 2
    assert not any(name.startswith("on") or name in ("src", "href") for _, a in reader.tags for name in a)


def test_no_requests() -> None:
    page = attention_page(make_trace())
    assert set(re.findall(r"https?://[^\"'\s<]*", page)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in page
    assert "@import" not in page


def test_script_sets_texts_only_as_texts() -> None:
    script = Reader(attention_page(make_trace())).scripts[1]
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "fetch("):
        assert word not in script


def test_hostile_tokens_stay_data() -> None:
    page = attention_page(
        make_trace(HOSTILE), title="</title><script>alert(4)</script>", source_note='<img src=x onerror="alert(5)">'
    )
    tags = [tag for tag, _ in Reader(page).tags]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert "<script>alert" not in page
    assert "<img" not in page
    assert [token["raw"] for token in page_data(page)["parts"][0]["queries"]] == HOSTILE
    page.encode()


def test_opens_on_the_requested_settings() -> None:
    trace = make_trace(["a", "b", "c"], ["<start>", "d"])
    data = page_data(attention_page(trace, layer=1, head=2, word="d", part="cross"))
    start, cross = data["start"], data["parts"][2]
    assert cross["opening"] == [1]
    assert start == {"part": "cross", "layer": 1, "head": 2, "focus": 2, "hide": True}
    data = page_data(attention_page(make_trace()))
    assert data["start"]["head"] is None
    assert not any(EXAMPLE_TOKENS[token_index].startswith("[") for token_index in data["parts"][0]["opening"])


@pytest.mark.parametrize(
    "settings", [{"layer": 9}, {"head": 9}, {"word": "dog"}, {"part": "cross"}, {"layer": 0, "head": -1}]
)
def test_wrong_choices_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        attention_page(make_trace(), **settings)


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="513 tokens"):
        attention_page(make_trace(["a"] * 513, layers=1, heads=1, width=2))
    monkeypatch.setattr(pages, "MAX_PROBS", 1000)
    with pytest.raises(InputError, match="at most 1,000"):
        attention_page(make_trace())


def test_saved_by_suffix(tmp_path: Path) -> None:
    trace = make_trace()
    for name, prefix in (("a.svg", "<svg"), ("new/b.HTML", "<!doctype html>"), ("c.json", "{")):
        path = save_attention(trace, tmp_path / name)
        assert path == tmp_path / name
        assert path.read_text("utf-8").startswith(prefix)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.svg", "c.json", "new"]  # no partial files
    for name in ("a.pdf", "a", "svg"):
        with pytest.raises(InputError, match=r"\.svg, \.png, \.html or \.json"):
            save_attention(trace, tmp_path / name)
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InputError, match="folder"):
        save_attention(trace, tmp_path / "folder.svg")


def test_json_form(tmp_path: Path) -> None:
    trace = make_trace(HOSTILE, ["<start>", "a"])
    text = save_attention(trace, tmp_path / "a.json", special=True).read_text("utf-8")
    assert "<" not in text
    stored = json.loads(text)
    assert stored["tokens"] == HOSTILE
    assert stored["target_tokens"] == ["<start>", "a"]
    for field, layers in (("layers", trace.layers), ("decoder", trace.decoder), ("cross", trace.cross)):
        assert [layer["layer"] for layer in stored[field]] == [0, 1]
        for stored_layer, layer in zip(stored[field], layers, strict=True):
            assert np.abs(np.array(stored_layer["probs"]) - layer.probs).max() <= 5.0001e-5


def test_json_of_selected_attention() -> None:
    trace = make_trace()
    stored = attention_data(trace, layer=1, head=2, word="it")
    (stored_layer,) = stored["layers"]
    it_index = EXAMPLE_TOKENS.index("it")
    assert (stored_layer["layer"], stored_layer["heads"], stored_layer["queries"]) == (1, [2], [it_index - 1])
    assert (stored["tokens"], stored["positions"]) == (EXAMPLE_TOKENS[1:-1], list(range(1, len(EXAMPLE_TOKENS) - 1)))
    row = trace.layers[1].probs[2, it_index]
    assert np.array(stored_layer["probs"])[0, 0] == pytest.approx(row[1:-1], abs=5.1e-5)
    assert stored_layer["special_share"][0][0] == pytest.approx(row[0] + row[-1], abs=5.1e-5)
    with pytest.raises(InputError):
        attention_data(trace, part="cross")
