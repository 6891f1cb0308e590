"""Links, pipes and folders in place of files, and defects of sentence-transformers modules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clearhead.errors import CheckpointError, ClearheadError, ConfigError, TensorError, UnsafeError
from tests.checkpoint.hostile_folders import (
    INDEX,
    WEIGHTS,
    Damage,
    HostileCase,
    edit_header,
    edit_json,
    link_to_secret,
    make_outside_folder,
    overwrite,
    replace_by_link,
    set_keys,
    write_number,
)

POOLING, DENSE = "1_Pooling/config.json", "2_Dense/config.json"
REQUIRED_FILES = (
    ("config.json", "bert"),
    (WEIGHTS, "bert"),
    ("tokenizer.json", "bert"),
    ("tokenizer_config.json", "bert"),
    ("special_tokens_map.json", "bert"),
    ("clearhead.json", "bert"),
    ("vocab.txt", "legacy"),
    (INDEX, "shards"),
    ("modules.json", "sentences"),
    ("sentence_bert_config.json", "sentences"),
    ("config_sentence_transformers.json", "sentences"),
    (POOLING, "sentences"),
    (DENSE, "sentences"),
    (f"2_Dense/{WEIGHTS}", "sentences"),
)


def make_pipe(name: str) -> Damage:
    """Replace a file with a named pipe, which would block a careless reader."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return damage


def make_directory(name: str) -> Damage:
    """Replace a file with a folder."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return damage


def link_to_itself(name: str) -> Damage:
    """Replace a file with a link to itself."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(Path(name).name)

    return damage


def link_to_missing(name: str) -> Damage:
    """Replace a file with a link to a missing file."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to("not-there")

    return damage


def link_to_device(name: str) -> Damage:
    """Replace a file with a link to an endless device."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")

    return damage


def link_module_outside(folder: Path) -> None:
    """Move the folder of a module outside, and link to it."""
    target = make_outside_folder(folder) / "1_Pooling"
    (folder / "1_Pooling").rename(target)
    (folder / "1_Pooling").symlink_to(target)


FILE_CASES = tuple(
    HostileCase(
        name=f"{name} {what}",
        damage=make(name),
        error=error,
        words=(Path(name).name,),
        seed=seed,
    )
    for name, seed in REQUIRED_FILES
    for what, make, error in (
        ("is a link to a secret", link_to_secret, UnsafeError),
        ("is a link to the same file outside", replace_by_link, UnsafeError),
        ("is a link in a circle", link_to_itself, UnsafeError),
        ("is a broken link", link_to_missing, UnsafeError),
        ("is a link to a device", link_to_device, UnsafeError),
        ("is a pipe", make_pipe, UnsafeError),
        ("is a folder", make_directory, UnsafeError),
    )
)


def make_case(name: str, damage: Damage, *words: str, error: type[ClearheadError] = ConfigError) -> HostileCase:
    """Return a case for a sentence-transformers folder."""
    return HostileCase(name=name, damage=damage, error=error, words=words or ("modules.json",), seed="sentences")


def edit_module(index: int, **changes: Any) -> Damage:
    """Change a module: 0 is the encoder, 1 pooling, 2 dense, 3 normalize."""
    return edit_json("modules.json", lambda modules: modules[index].update(changes))


def remove_pooling(modules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the modules after the encoder with a dropout module."""
    return [modules[0], modules[1] | {"type": "Dropout"}]


MODULE_CASES = (
    make_case("modules not JSON", overwrite("modules.json", b"[")),
    make_case("modules not UTF-8", overwrite("modules.json", b"\xff\xff")),
    make_case("modules deep", overwrite("modules.json", b"[" * 100_000)),
    make_case("modules an object", overwrite("modules.json", b"{}")),
    make_case("thousands of modules", edit_json("modules.json", lambda listed: listed * 1000)),
    make_case("no modules", overwrite("modules.json", b"[]")),
    make_case("a module without a type", edit_json("modules.json", lambda listed: listed[0].pop("type") and None)),
    make_case("a module type that is code", edit_module(1, type="os.system"), "modules.json", "system"),
    make_case("a module type unknown", edit_module(3, type="my_code.Backdoor"), "modules.json", "Backdoor"),
    make_case("a module type of 5000 characters", edit_module(3, type="B" * 5000), "modules.json"),
    make_case("no encoder first", edit_json("modules.json", lambda listed: listed[::-1])),
    make_case("two encoders", edit_module(1, type="sentence_transformers.models.Transformer")),
    make_case("no pooling", edit_module(1, type="sentence_transformers.models.Dropout"), "modules.json", "Dense"),
    make_case("nothing to pool", edit_json("modules.json", remove_pooling), "modules.json", "Pooling"),
    make_case(
        "pooling twice", edit_json("modules.json", lambda listed: [*listed, listed[1]]), "modules.json", "Pooling"
    ),
    make_case("a path above the folder", edit_module(1, path="../.."), "'../..'", error=UnsafeError),
    make_case("an encoder above the folder", edit_module(0, path=".."), "'..'", error=UnsafeError),
    make_case("an absolute path", edit_module(1, path="/etc"), "'/etc'", error=UnsafeError),
    make_case("a path with a NUL", edit_module(1, path="a\0b"), "a\\x00b", error=UnsafeError),
    make_case(
        "a path with half a surrogate", edit_module(1, path="\ud800"), "broken link or an invalid", error=UnsafeError
    ),
    make_case("a path of 5000 characters", edit_module(1, path="p" * 5000), "ppp", error=UnsafeError),
    make_case("a path that is a number", edit_module(1, path=7)),
    make_case("a path that is a file", edit_module(0, path="config.json"), "config.json", error=CheckpointError),
    make_case(
        "a path that does not exist", edit_module(0, path="0_Transformer"), "0_Transformer", error=CheckpointError
    ),
    make_case("a module folder outside", link_module_outside, "1_Pooling", "link", error=UnsafeError),
)


def narrow_dense(folder: Path) -> None:
    """Make the dense layer consistent with its own config.json, but too narrow for the encoder."""
    set_keys(DENSE, in_features=8)(folder)
    edit_header(lambda entries: entries["linear.weight"].update(shape=[8, 8]), f"2_Dense/{WEIGHTS}")(folder)
    set_keys(DENSE, out_features=8, bias=False)(folder)
    edit_header(lambda entries: entries.pop("linear.bias") and None, f"2_Dense/{WEIGHTS}")(folder)


SETTINGS_CASES = (
    make_case("pooling unknown", set_keys(POOLING, pooling_mode="os.system"), "1_Pooling", "os.system"),
    make_case("pooling a million times", set_keys(POOLING, pooling_mode=["mean"] * 10**6), "1_Pooling"),
    make_case("pooling by lists", set_keys(POOLING, pooling_mode=[["mean"]]), "1_Pooling"),
    make_case("dense of a billion", set_keys(DENSE, in_features=10**9, out_features=10**9), "2_Dense"),
    make_case("dense of negative width", set_keys(DENSE, out_features=-4), "2_Dense"),
    make_case("dense by another size", set_keys(DENSE, out_features=5), "2_Dense", error=TensorError),
    make_case("dense activation that is code", set_keys(DENSE, activation_function="os.system"), "2_Dense", "system"),
    make_case("dense residual", set_keys(DENSE, use_residual=True), "2_Dense", "residual"),
    make_case(
        "dense with a NaN", write_number(float("nan"), f"2_Dense/{WEIGHTS}"), "2_Dense", "NaN", error=TensorError
    ),
    make_case("dense for another width", narrow_dense, "Dense", "16"),
    make_case("prompts that are numbers", set_keys("config_sentence_transformers.json", prompts={"a": 1}), "prompts"),
    make_case(
        "a default prompt that is a list",
        set_keys("config_sentence_transformers.json", default_prompt_name=["a"]),
        "config_sentence_transformers.json",
    ),
    make_case("a length below zero", set_keys("sentence_bert_config.json", max_seq_length=-1), "max_seq_length"),
    make_case("a length of two lines", set_keys("sentence_bert_config.json", max_seq_length="a\nb"), "max_seq_length"),
    make_case("a length that is a text", set_keys("sentence_bert_config.json", max_seq_length="all"), "max_seq_length"),
)


CASES = (*FILE_CASES, *MODULE_CASES, *SETTINGS_CASES)
