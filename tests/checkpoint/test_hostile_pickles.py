"""Pickles are refused, and converted only when asked for: by a child process that takes nothing but weights."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.errors import CheckpointError, ClearheadError, UnsafeError
from tests.checkpoint.hostile_folders import Spoil, outside, read_tensors
from tests.checkpoint.test_hostile import Copy, copy, sentence, watched

__all__ = ["copy"]
BIN, WEIGHTS = "pytorch_model.bin", "model.safetensors"


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, ...]]:
        return os.system, (f"touch {self.marker}",)


def state(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a folder as torch has them."""
    entries, body = read_tensors(folder / WEIGHTS)
    return {
        name: torch.from_numpy(np.frombuffer(body[slice(*e["data_offsets"])], np.float32).copy()).reshape(e["shape"])
        for name, e in entries.items()
        if name != "__metadata__"
    }


def to_pickle(folder: Path, **more: Any) -> None:
    """Turn a folder's weights into a pickle."""
    torch.save(state(folder) | more, folder / BIN)
    (folder / WEIGHTS).unlink()


def bomb(folder: Path) -> None:
    to_pickle(folder, backdoor=Bomb(folder / "ran"))


def plain_bomb(folder: Path) -> None:
    """Without torch's own wrapping."""
    (folder / WEIGHTS).unlink()
    (folder / BIN).write_bytes(pickle.dumps({"a": Bomb(folder / "ran")}, protocol=2))


def stretched(folder: Path) -> None:
    """One number that claims to be 10^12 of them."""
    to_pickle(folder, stretched=torch.zeros(1).expand(10**12))


def listed(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    torch.save([torch.zeros(2)], folder / BIN)


def garbage(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / BIN).write_bytes(b"\x80\x02garbage")


def shards(weights: object) -> Spoil:
    def spoil(folder: Path) -> None:
        to_pickle(folder)
        (folder / BIN).rename(outside(folder) / "shard.bin")
        (folder / f"{BIN}.index.json").write_text(json.dumps({"weight_map": weights}))

    return spoil


def linked(folder: Path) -> None:
    to_pickle(folder)
    kept = outside(folder) / BIN
    (folder / BIN).rename(kept)
    (folder / BIN).symlink_to(kept)


def linked_beside(folder: Path) -> None:
    """A pickle that is fine, and beside it a link to a secret that must not be copied into the new folder."""
    to_pickle(folder)
    (folder / "notes.txt").symlink_to(outside(folder) / "secret.txt")


HOSTILE: dict[str, tuple[Spoil, str]] = {
    "runs a command": (bomb, "system"),
    "runs a command, plainly": (plain_bomb, "system"),
    "stretches one number": (stretched, "more numbers"),
    "is a list": (listed, "list"),
    "is garbage": (garbage, "cannot be read"),
    "names a shard above the folder": (shards({"a": "../outside/shard.bin"}), "leaves the model folder"),
    "names an absolute shard": (shards({"a": "/tmp/shard.bin"}), "leaves the model folder"),
    "names no shards": (shards([]), "weight_map"),
    "is a link out": (linked, "link"),
    "lies beside a link out": (linked_beside, "notes.txt"),
}


@pytest.mark.thin(5)
@pytest.mark.parametrize("name", HOSTILE)
def test_refused_at_load_and_at_conversion(name: str, copy: Copy, tmp_path: Path) -> None:
    spoil, word = HOSTILE[name]
    folder = copy("bert")
    spoil(folder)
    with watched(folder), pytest.raises(UnsafeError, match=r"clearhead\.convert\(.*allow_pickle=True\)") as caught:
        clearhead.load(folder)
    assert BIN in sentence(caught.value, folder)
    with pytest.raises(UnsafeError, match=r"clearhead\.convert\(.*allow_pickle=True\)"):
        clearhead.convert(folder, tmp_path / "new")
    with pytest.raises(CheckpointError, match=word) as refused:
        clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert "weights_only" not in sentence(refused.value, folder)
    assert not (folder / "ran").exists()
    assert not (tmp_path / "new").exists()


def test_the_bomb_is_live(copy: Copy) -> None:
    """The control: read as pickles usually are, it goes off."""
    folder = copy("bert")
    plain_bomb(folder)
    pickle.loads((folder / BIN).read_bytes())
    assert (folder / "ran").exists()


def test_an_honest_pickle_converts_to_the_same_model(copy: Copy, tmp_path: Path) -> None:
    folder = copy("bert")
    vectors = clearhead.load(folder, device="cpu").embed(["the cat sat"])
    to_pickle(folder, steps=7, position_ids=torch.arange(4))
    made = clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert np.array_equal(clearhead.load(made, device="cpu").embed(["the cat sat"]), vectors)
    assert not list(made.glob("*.bin"))


def test_an_honest_pickle_in_shards_converts(copy: Copy, tmp_path: Path) -> None:
    folder = copy("bert")
    vectors = clearhead.load(folder, device="cpu").embed(["the cat sat"])
    names = sorted(weights := state(folder))
    parts = {"a.bin": names[::2], "b.bin": names[1::2]}
    for file, held in parts.items():
        torch.save({name: weights[name] for name in held}, folder / file)
    where = {name: file for file, held in parts.items() for name in held}
    (folder / f"{BIN}.index.json").write_text(json.dumps({"weight_map": where}))
    (folder / WEIGHTS).unlink()
    made = clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert np.array_equal(clearhead.load(made, device="cpu").embed(["the cat sat"]), vectors)


def test_a_pickle_in_a_dense_module_is_refused_and_converts(copy: Copy, tmp_path: Path) -> None:
    folder = copy("sentences")
    vectors = clearhead.load(folder, device="cpu").embed(["the cat sat"])
    to_pickle(folder / "2_Dense")
    with pytest.raises(UnsafeError, match=r"clearhead\.convert\(.*allow_pickle=True\)") as caught:
        clearhead.load(folder)
    assert f'("{folder}", "NEW-FOLDER"' in sentence(caught.value, folder)
    made = clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert np.array_equal(clearhead.load(made, device="cpu").embed(["the cat sat"]), vectors)
    assert not list(made.rglob("*.bin"))


def test_a_bomb_in_a_dense_module_does_not_go_off(copy: Copy, tmp_path: Path) -> None:
    folder = copy("sentences")
    bomb(folder / "2_Dense")
    with pytest.raises(ClearheadError, match="system"):
        clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert not list(folder.rglob("ran"))
