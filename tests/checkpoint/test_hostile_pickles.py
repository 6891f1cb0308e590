"""Pickles are refused at load and converted on request, in a child process that only reads weights."""

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
from tests.checkpoint.hostile_folders import Damage, make_outside_folder, read_tensors
from tests.checkpoint.test_hostile import CopySeed, check_message, copy_seed, forbid_side_effects

__all__ = ["copy_seed"]
BIN, WEIGHTS = "pytorch_model.bin", "model.safetensors"


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, ...]]:
        return os.system, (f"touch {self.marker}",)


def read_state(folder: Path) -> dict[str, torch.Tensor]:
    """Read the weights of a folder as torch tensors."""
    entries, body = read_tensors(folder / WEIGHTS)
    return {
        name: torch.from_numpy(np.frombuffer(body[slice(*e["data_offsets"])], np.float32).copy()).reshape(e["shape"])
        for name, e in entries.items()
        if name != "__metadata__"
    }


def write_pickle(folder: Path, **extra_entries: Any) -> None:
    """Replace the weights of a folder with a pickle."""
    torch.save(read_state(folder) | extra_entries, folder / BIN)
    (folder / WEIGHTS).unlink()


def write_bomb(folder: Path) -> None:
    write_pickle(folder, backdoor=Bomb(folder / "ran"))


def write_plain_bomb(folder: Path) -> None:
    """Write a plain pickle, without torch's archive format."""
    (folder / WEIGHTS).unlink()
    (folder / BIN).write_bytes(pickle.dumps({"a": Bomb(folder / "ran")}, protocol=2))


def write_expanded_tensor(folder: Path) -> None:
    """Write a tensor with one stored value and 10^12 elements."""
    write_pickle(folder, stretched=torch.zeros(1).expand(10**12))


def write_list(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    torch.save([torch.zeros(2)], folder / BIN)


def write_garbage(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / BIN).write_bytes(b"\x80\x02garbage")


def write_index(weight_map: object) -> Damage:
    def damage(folder: Path) -> None:
        write_pickle(folder)
        (folder / BIN).rename(make_outside_folder(folder) / "shard.bin")
        (folder / f"{BIN}.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return damage


def link_pickle(folder: Path) -> None:
    write_pickle(folder)
    target = make_outside_folder(folder) / BIN
    (folder / BIN).rename(target)
    (folder / BIN).symlink_to(target)


def link_other_file(folder: Path) -> None:
    """Write a valid pickle, and a link to a secret file that must not be copied to the new folder."""
    write_pickle(folder)
    (folder / "notes.txt").symlink_to(make_outside_folder(folder) / "secret.txt")


HOSTILE: dict[str, tuple[Damage, str]] = {
    "runs a command": (write_bomb, "system"),
    "runs a command from a plain pickle": (write_plain_bomb, "system"),
    "expands one value": (write_expanded_tensor, "more values than it stores"),
    "is a list": (write_list, "list"),
    "is garbage": (write_garbage, "cannot be read"),
    "names a shard above the folder": (write_index({"a": "../outside/shard.bin"}), "leaves the model folder"),
    "names an absolute shard": (write_index({"a": "/tmp/shard.bin"}), "leaves the model folder"),
    "names no shards": (write_index([]), "weight_map"),
    "is a link out": (link_pickle, "link"),
    "is next to a link out": (link_other_file, "notes.txt"),
}


@pytest.mark.thin(5)
@pytest.mark.parametrize("name", HOSTILE)
def test_refused_at_load_and_at_conversion(name: str, copy_seed: CopySeed, tmp_path: Path) -> None:
    damage, word = HOSTILE[name]
    folder = copy_seed("bert")
    damage(folder)
    with (
        forbid_side_effects(folder),
        pytest.raises(UnsafeError, match=r"clearhead\.convert\(.*allow_pickle=True\)") as caught,
    ):
        clearhead.load(folder)
    assert BIN in check_message(caught.value, folder)
    with pytest.raises(UnsafeError, match=r"clearhead\.convert\(.*allow_pickle=True\)"):
        clearhead.convert(folder, tmp_path / "new")
    with pytest.raises(CheckpointError, match=word) as refused:
        clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert "weights_only" not in check_message(refused.value, folder)
    assert not (folder / "ran").exists()
    assert not (tmp_path / "new").exists()


def test_the_bomb_is_live(copy_seed: CopySeed) -> None:
    """Control: an ordinary unpickler runs the command."""
    folder = copy_seed("bert")
    write_plain_bomb(folder)
    pickle.loads((folder / BIN).read_bytes())
    assert (folder / "ran").exists()


def test_an_honest_pickle_converts_to_the_same_model(copy_seed: CopySeed, tmp_path: Path) -> None:
    folder = copy_seed("bert")
    vectors = clearhead.load(folder, device="cpu").embed(["the cat sat"])
    write_pickle(folder, steps=7, position_ids=torch.arange(4))
    converted = clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert np.array_equal(clearhead.load(converted, device="cpu").embed(["the cat sat"]), vectors)
    assert not list(converted.glob("*.bin"))


def test_an_honest_pickle_in_shards_converts(copy_seed: CopySeed, tmp_path: Path) -> None:
    folder = copy_seed("bert")
    vectors = clearhead.load(folder, device="cpu").embed(["the cat sat"])
    names = sorted(weights := read_state(folder))
    shards = {"a.bin": names[::2], "b.bin": names[1::2]}
    for file, shard_names in shards.items():
        torch.save({name: weights[name] for name in shard_names}, folder / file)
    weight_map = {name: file for file, shard_names in shards.items() for name in shard_names}
    (folder / f"{BIN}.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / WEIGHTS).unlink()
    converted = clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert np.array_equal(clearhead.load(converted, device="cpu").embed(["the cat sat"]), vectors)


def test_a_pickle_in_a_dense_module_is_refused_and_converts(copy_seed: CopySeed, tmp_path: Path) -> None:
    folder = copy_seed("sentences")
    vectors = clearhead.load(folder, device="cpu").embed(["the cat sat"])
    write_pickle(folder / "2_Dense")
    with pytest.raises(UnsafeError, match=r"clearhead\.convert\(.*allow_pickle=True\)") as caught:
        clearhead.load(folder)
    assert f'("{folder}", "NEW-FOLDER"' in check_message(caught.value, folder)
    converted = clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert np.array_equal(clearhead.load(converted, device="cpu").embed(["the cat sat"]), vectors)
    assert not list(converted.rglob("*.bin"))


def test_a_bomb_in_a_dense_module_does_not_go_off(copy_seed: CopySeed, tmp_path: Path) -> None:
    folder = copy_seed("sentences")
    write_bomb(folder / "2_Dense")
    with pytest.raises(ClearheadError, match="system"):
        clearhead.convert(folder, tmp_path / "new", allow_pickle=True)
    assert not list(folder.rglob("ran"))
