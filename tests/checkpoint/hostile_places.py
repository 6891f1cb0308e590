"""What can stand in the place of a file, and what a sentence-transformers folder can say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clearhead.errors import CheckpointError, ClearheadError, ConfigError, TensorError, UnsafeError
from tests.checkpoint.hostile_folders import (
    INDEX,
    WEIGHTS,
    Hostile,
    Spoil,
    edit,
    header,
    keys,
    moved_out,
    number,
    outside,
    raw,
    to_secret,
)

POOLING, DENSE = "1_Pooling/config.json", "2_Dense/config.json"
READ = (
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


def pipe(name: str) -> Spoil:
    """A named pipe, on which a careless reader waits for ever."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


def directory(name: str) -> Spoil:
    """A folder of that name."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return spoil


def circle(name: str) -> Spoil:
    """A link to itself."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(Path(name).name)

    return spoil


def nowhere(name: str) -> Spoil:
    """A link to a file that is not there."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to("not-there")

    return spoil


def device(name: str) -> Spoil:
    """A link to a file without an end."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")

    return spoil


def linked_module(folder: Path) -> None:
    """A module's folder that lies outside."""
    kept = outside(folder) / "1_Pooling"
    (folder / "1_Pooling").rename(kept)
    (folder / "1_Pooling").symlink_to(kept)


PLACES = tuple(
    Hostile(
        name=f"{name} {what}",
        spoil=make(name),
        error=error,
        words=(Path(name).name,),
        seed=seed,
    )
    for name, seed in READ
    for what, make, error in (
        ("is a link to a secret", to_secret, UnsafeError),
        ("is a link to itself outside", moved_out, UnsafeError),
        ("is a link in a circle", circle, UnsafeError),
        ("is a link to nowhere", nowhere, UnsafeError),
        ("is a link to a device", device, UnsafeError),
        ("is a pipe", pipe, UnsafeError),
        ("is a folder", directory, UnsafeError),
    )
)


def case(name: str, spoil: Spoil, *words: str, error: type[ClearheadError] = ConfigError) -> Hostile:
    """All of these are in a sentence-transformers folder."""
    return Hostile(name=name, spoil=spoil, error=error, words=words or ("modules.json",), seed="sentences")


def module(place: int, **changes: Any) -> Spoil:
    """Change one of the modules: 0 the encoder, 1 pooling, 2 dense, 3 unit length."""
    return edit("modules.json", lambda listed: listed[place].update(changes))


def nothing_to_pool(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An encoder, and one more step that is no pooling."""
    return [listed[0], listed[1] | {"type": "Dropout"}]


MODULES = (
    case("modules not JSON", raw("modules.json", b"[")),
    case("modules not UTF-8", raw("modules.json", b"\xff\xff")),
    case("modules deep", raw("modules.json", b"[" * 100_000)),
    case("modules an object", raw("modules.json", b"{}")),
    case("modules without an end", edit("modules.json", lambda listed: listed * 1000)),
    case("no modules", raw("modules.json", b"[]")),
    case("a module without a type", edit("modules.json", lambda listed: listed[0].pop("type") and None)),
    case("a module type that is code", module(1, type="os.system"), "modules.json", "system"),
    case("a module type unknown", module(3, type="my_code.Backdoor"), "modules.json", "Backdoor"),
    case("a module type of 5000 letters", module(3, type="B" * 5000), "modules.json"),
    case("no encoder first", edit("modules.json", lambda listed: listed[::-1])),
    case("two encoders", module(1, type="sentence_transformers.models.Transformer")),
    case("no pooling", module(1, type="sentence_transformers.models.Dropout"), "modules.json", "Dense"),
    case("nothing to pool", edit("modules.json", nothing_to_pool), "modules.json", "Pooling"),
    case("pooling twice", edit("modules.json", lambda listed: [*listed, listed[1]]), "modules.json", "Pooling"),
    case("a path above the folder", module(1, path="../.."), "'../..'", error=UnsafeError),
    case("an encoder above the folder", module(0, path=".."), "'..'", error=UnsafeError),
    case("an absolute path", module(1, path="/etc"), "'/etc'", error=UnsafeError),
    case("a path with a NUL", module(1, path="a\0b"), "a\\x00b", error=UnsafeError),
    case("a path with half a surrogate", module(1, path="\ud800"), "broken link or an invalid", error=UnsafeError),
    case("a path of 5000 letters", module(1, path="p" * 5000), "ppp", error=UnsafeError),
    case("a path that is a number", module(1, path=7)),
    case("a path that is a file", module(0, path="config.json"), "config.json", error=CheckpointError),
    case("a path that is not there", module(0, path="0_Transformer"), "0_Transformer", error=CheckpointError),
    case("a module folder outside", linked_module, "1_Pooling", "link", error=UnsafeError),
)


def narrow(folder: Path) -> None:
    """Dense weights that are right by their own config.json, and wrong for the encoder."""
    keys(DENSE, in_features=8)(folder)
    header(lambda entries: entries["linear.weight"].update(shape=[8, 8]), f"2_Dense/{WEIGHTS}")(folder)
    keys(DENSE, out_features=8, bias=False)(folder)
    header(lambda entries: entries.pop("linear.bias") and None, f"2_Dense/{WEIGHTS}")(folder)


STEPS = (
    case("pooling unknown", keys(POOLING, pooling_mode="os.system"), "1_Pooling", "os.system"),
    case("pooling a million times", keys(POOLING, pooling_mode=["mean"] * 10**6), "1_Pooling"),
    case("pooling by lists", keys(POOLING, pooling_mode=[["mean"]]), "1_Pooling"),
    case("dense of a billion", keys(DENSE, in_features=10**9, out_features=10**9), "2_Dense"),
    case("dense of less than nothing", keys(DENSE, out_features=-4), "2_Dense"),
    case("dense by another size", keys(DENSE, out_features=5), "2_Dense", error=TensorError),
    case("dense activation that is code", keys(DENSE, activation_function="os.system"), "2_Dense", "system"),
    case("dense residual", keys(DENSE, use_residual=True), "2_Dense", "residual"),
    case("dense with a NaN", number(float("nan"), f"2_Dense/{WEIGHTS}"), "2_Dense", "NaN", error=TensorError),
    case("dense for another width", narrow, "Dense", "16"),
    case("prompts that are numbers", keys("config_sentence_transformers.json", prompts={"a": 1}), "prompts"),
    case(
        "a default prompt that is a list",
        keys("config_sentence_transformers.json", default_prompt_name=["a"]),
        "config_sentence_transformers.json",
    ),
    case("a length below zero", keys("sentence_bert_config.json", max_seq_length=-1), "max_seq_length"),
    case("a length of two lines", keys("sentence_bert_config.json", max_seq_length="a\nb"), "max_seq_length"),
    case("a length that is a text", keys("sentence_bert_config.json", max_seq_length="all"), "max_seq_length"),
)


CASES = (*PLACES, *MODULES, *STEPS)
