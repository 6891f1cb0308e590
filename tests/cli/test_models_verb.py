"""clearhead models lists the models on this machine in any state of the cache, and errors name usable ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from huggingface_hub import constants

import clearhead
from clearhead.checkpoint import hub
from clearhead.checkpoint.inventory import format_bytes, format_models
from clearhead.errors import HubError, InputError

Run = Callable[..., tuple[int, str, str]]
COMMIT = "0123456789abcdef" * 2 + "01234567"
GPT = f"gpt-thing@{COMMIT}"  # without a branch, its name includes the commit


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no default model."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub, "_PACKAGE", "no_such_package_is_installed")
    return tmp_path / "cache"


def add_to_cache(
    cache: Path, repo: str, files: Mapping[str, str | Path], commit: str = COMMIT, *, ref: bool = True
) -> Path:
    """Add a repository to the cache; its files are links to blobs, as huggingface_hub creates them."""
    repo_folder = cache / ("models--" + repo.replace("/", "--"))
    folder = repo_folder / "snapshots" / commit
    folder.mkdir(parents=True)
    for name, content in files.items():
        if isinstance(content, str):
            (folder / name).write_text(content)
            continue
        blob = repo_folder / "blobs" / name
        blob.parent.mkdir(exist_ok=True)
        if content.exists():
            blob.write_bytes(content.read_bytes())
        (folder / name).symlink_to(Path("../../blobs") / name)
    if ref:
        (repo_folder / "refs").mkdir(exist_ok=True)
        (repo_folder / "refs" / "main").write_text(commit)
    return folder


def list_files(folder: Path) -> dict[str, str | Path]:
    return {path.name: path for path in folder.iterdir()}


def test_models_of_every_kind_are_listed(cache: Path, masked_model: Path, run: Run) -> None:
    add_to_cache(cache, "org/small", list_files(masked_model))
    add_to_cache(
        cache,
        "gpt-thing",
        {
            "config.json": '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}',
            "model.safetensors": "x" * 2_000_000,
        },
        ref=False,
    )
    code, out, err = run("models", "--json")
    assert (code, err) == (0, "")
    models = {model["name"]: model for model in json.loads(out)}
    assert list(models) == ["default", "minilm", "all-MiniLM-L6-v2", "novels", GPT, "org/small"]
    assert (models["default"]["path"], models["default"]["usable"]) == (None, False)
    assert models["default"]["stands_for"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert (models["novels"]["source"], models["novels"]["family"], models["novels"]["usable"]) == (
        "shipped",
        "BERT",
        True,
    )
    small = models["org/small"]
    assert [small[key] for key in ("source", "family", "head", "kind")] == ["cache", "BERT", "masked", "masked words"]
    assert small["bytes"] == sum(path.stat().st_size for path in masked_model.iterdir())
    assert (models[GPT]["head"], models[GPT]["bytes"]) == ("causal", 2_000_000 + 60)
    code, out, err = run("models")
    assert (code, err) == (0, "")
    assert "not installed" in out
    assert small["path"] in out
    assert run("models", "--quiet")[1].split() == ["novels", GPT, "org/small"]
    assert [model.name for model in clearhead.models()] == list(models)


def test_an_installed_default_model_is_listed(cache: Path, masked_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not cache.exists()
    monkeypatch.setattr(hub, "_find_package", lambda: masked_model)
    models = {model.name: model for model in clearhead.models()}
    assert {models[name].path for name in ("default", "minilm", "all-MiniLM-L6-v2")} == {str(masked_model)}


def test_damaged_and_hostile_folders_do_not_break_the_list(cache: Path, masked_model: Path, tmp_path: Path) -> None:
    config = '{"model_type": "bert"}'
    weights = "x"
    add_to_cache(cache, "org/good", list_files(masked_model))
    add_to_cache(cache, "org/no-weights", {"config.json": config})
    add_to_cache(cache, "org/no-json", {"config.json": "{", "model.safetensors": weights})
    add_to_cache(cache, "org/list", {"config.json": "[]", "model.safetensors": weights})
    add_to_cache(cache, "org/deep", {"config.json": "[" * 100_000, "model.safetensors": weights})
    add_to_cache(cache, "org/odd-family", {"config.json": '{"model_type": ["bert"]}', "model.safetensors": weights})
    add_to_cache(
        cache, "org/unknown", {"config.json": '{"model_type": "llama\\u001b[2J"}', "model.safetensors": weights}
    )
    add_to_cache(
        cache,
        "org/odd-class",
        {"config.json": '{"model_type": "bert", "architectures": {"a": 1}}', "model.safetensors": weights},
    )
    add_to_cache(cache, "org/odd-index", {"config.json": config, "model.safetensors.index.json": '{"weight_map": 3}'})
    add_to_cache(
        cache, "org/outside", {"config.json": config, "model.safetensors.index.json": '{"weight_map": {"a": "../x"}}'}
    )
    add_to_cache(cache, "org/broken-links", {"config.json": tmp_path / "gone", "model.safetensors": tmp_path / "gone"})
    files = {"config.json": config, "model.safetensors": weights, "clearhead.json": '{"format": "x"}'}
    add_to_cache(cache, "org/passport", files)
    pipe = add_to_cache(cache, "org/pipe", {"model.safetensors": weights})
    os.mkfifo(pipe / "config.json")
    ref = add_to_cache(cache, "org/pipe-ref", {"config.json": config, "model.safetensors": weights}, ref=False).parents[
        1
    ]
    (ref / "refs").mkdir()
    os.mkfifo(ref / "refs" / "main")
    (cache / "models--org--empty").mkdir()
    (cache / "models--org--loop").symlink_to(cache / "models--org--loop")
    (cache / "models--..--..--etc").mkdir()
    (cache / "models--org--file").write_text("")
    (cache / "datasets--org--rows").mkdir()
    models = {model.name: model for model in clearhead.models() if model.source == "cache"}
    usable = {name for name, model in models.items() if model.usable}
    assert usable == {"org/good", "org/odd-class", f"org/pipe-ref@{COMMIT}"}
    assert {"org/no-weights", "org/deep", "org/pipe", "org/empty", "org/loop", "org/passport"} <= set(models)
    assert not any(".." in name for name in models)
    for model in models.values():
        assert all(character.isprintable() for character in model.problem or "")
        json.dumps(model.to_json())


def test_it_needs_neither_torch_nor_the_network(tmp_path: Path) -> None:
    code = (
        "import sys, socket\n"
        "sys.modules['torch'] = sys.modules['onnxruntime'] = None\n"
        "def block(*a, **k): raise SystemExit('a socket was opened')\n"
        "socket.socket.connect = socket.create_connection = block\n"
        "from clearhead.cli import main\n"
        "main(['models', '--quiet'])\n"
    )
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert (process.returncode, process.stderr) == (0, "")
    assert "novels" in process.stdout.split()


def test_fill_names_models_that_can(cache: Path, masked_model: Path, run: Run) -> None:
    add_to_cache(cache, "org/small", list_files(masked_model))
    headless = clearhead.create(
        "bert",
        config={
            "hidden_size": 12,
            "num_hidden_layers": 1,
            "num_attention_heads": 3,
            "intermediate_size": 8,
            "vocab_size": 30,
        },
    )
    with pytest.raises(InputError, match="these have one: novels, org/small"):
        headless.fill("a [MASK]")


def test_offline_errors_name_models_that_are_here(cache: Path, masked_model: Path, run: Run) -> None:
    add_to_cache(cache, "org/small", list_files(masked_model))
    for reference in ("org/other", "default"):
        code, out, err = run("fill", reference, "a [MASK]")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "Models on this machine: novels (masked words and sentence pairs), org/small (masked words)" in err
    with pytest.raises(HubError, match="org/small"):
        hub.locate("org/other@v1")


def test_errors_name_a_few_models_once_each(cache: Path, masked_model: Path) -> None:
    for number in range(12):
        add_to_cache(cache, f"org/model{number:02}", list_files(masked_model))
    listing = format_models(clearhead.models())
    assert listing.count("org/model") == 7
    assert listing.endswith(", …")
    assert [format_bytes(count) for count in (900, 2_500_000, 3_200_000_000)] == ["0.9 kB", "2.5 MB", "3.2 GB"]
