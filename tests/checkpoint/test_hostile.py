"""Hostile model folders: each has one defect and is refused with a clear message before memory is allocated."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest

import clearhead
from clearhead.errors import CheckpointError, ClearheadError, TensorError, TokenizerError, UnsafeError
from tests.checkpoint import hostile_config, hostile_files, hostile_weights
from tests.checkpoint.hostile_folders import (
    SECRET,
    SEEDS,
    HostileCase,
    edit_header,
    edit_json,
    make_outside_folder,
    set_config,
    set_keys,
)

CASES = (*hostile_config.CASES, *hostile_weights.CASES, *hostile_files.CASES)
MAX_MESSAGE_CHARS = 600  # without the path of the folder
MAX_SECONDS = 5.0
MAX_MEMORY = 200 << 20

CopySeed = Callable[[str], Path]


class AuditHook:
    """Records files that are opened, and sockets and processes that are started, while a folder is loaded."""

    def __init__(self) -> None:
        self.is_active = False
        self.events: list[str] = []
        sys.addaudithook(self._record)

    def _record(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_active and event == "open" and isinstance(arguments[0], str | bytes):
            self.events.append(os.path.realpath(os.fsdecode(arguments[0])))
        elif self.is_active and event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn")):
            self.events.append(event)


AUDIT_HOOK = AuditHook()


@pytest.fixture(scope="session")
def copy_seed(tmp_path_factory: pytest.TempPathFactory) -> CopySeed:
    """Return a function that copies a valid folder; each seed folder is created and loaded once."""

    @cache
    def create_seed(name: str) -> Path:
        folder = tmp_path_factory.mktemp("seed") / name
        SEEDS[name](folder)
        assert len(clearhead.load(folder, device="cpu").embed(["the cat sat"])) == 1
        return folder

    return lambda name: Path(shutil.copytree(create_seed(name), tmp_path_factory.mktemp("case") / "model"))


@contextmanager
def forbid_side_effects(folder: Path) -> Iterator[None]:
    """Forbid imports from the folder, access to its siblings, sockets, and excessive time or memory."""
    modules_before = set(sys.modules)
    process = psutil.Process()
    memory_limits = resource.getrlimit(resource.RLIMIT_AS)
    peak_before, started = _read_peak_memory(reset=True), time.process_time()
    resource.setrlimit(resource.RLIMIT_AS, (process.memory_info().vms + (1 << 30), memory_limits[1]))
    previous_handler = signal.signal(signal.SIGPROF, _fail_on_timeout)
    signal.setitimer(signal.ITIMER_PROF, 4 * MAX_SECONDS)  # CPU time, so a busy machine does not matter
    AUDIT_HOOK.events.clear()
    AUDIT_HOOK.is_active = True
    try:
        yield
    finally:
        AUDIT_HOOK.is_active = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous_handler)
        resource.setrlimit(resource.RLIMIT_AS, memory_limits)
    assert time.process_time() - started < MAX_SECONDS
    assert _read_peak_memory() - peak_before < MAX_MEMORY
    folder_prefix = str(folder.resolve())
    new_modules = [sys.modules[name] for name in set(sys.modules) - modules_before]
    assert not [module for module in new_modules if str(getattr(module, "__file__", "")).startswith(folder_prefix)]
    parent_prefix = str(folder.resolve().parent) + os.sep
    assert not [
        path for path in AUDIT_HOOK.events if path.startswith(parent_prefix) and not path.startswith(folder_prefix)
    ]
    assert not [path for path in AUDIT_HOOK.events if not path.startswith(os.sep)]


def _fail_on_timeout(_signal: int, _frame: object) -> NoReturn:
    pytest.fail("the time limit is exceeded")


def _read_peak_memory(*, reset: bool = False) -> int:
    """Return the peak memory of the process, since the last reset if the system supports resets."""
    if reset and Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def check_message(error: ClearheadError, folder: Path) -> str:
    """Check that a message is one short printable line without content from outside, and return it."""
    text = str(error)
    assert text.strip()
    assert text.isprintable(), text
    assert len(text.replace(str(folder), "")) < MAX_MESSAGE_CHARS, text
    assert "Traceback" not in text
    assert SECRET not in text
    return text


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_refused(case: HostileCase, copy_seed: CopySeed) -> None:
    folder = copy_seed(case.seed)
    case.damage(folder)
    with forbid_side_effects(folder), pytest.raises(ClearheadError) as caught:
        clearhead.load(folder, device="cpu", offline=True)
    text = check_message(caught.value, folder)
    assert isinstance(caught.value, case.error), f"{type(caught.value).__name__}: {text}"
    for word in case.words:
        assert word in text


def test_there_are_enough_cases_with_unique_names() -> None:
    assert len(CASES) >= 200
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.seed for case in CASES} == set(SEEDS)


PLANTED = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
REMOTE = {"AutoConfig": "modeling_x.Config", "AutoModel": "modeling_x.Model", "AutoTokenizer": ["modeling_x.T", None]}
HARMLESS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "auto_map": ("bert", set_config(auto_map=REMOTE)),
    "auto_map to another repository": ("bert", set_config(auto_map={"AutoModel": "evil/repo--modeling_x.Model"})),
    "auto_map that is a list": ("bert", set_config(auto_map=[["modeling_x"]])),
    "trust_remote_code": ("bert", set_config(trust_remote_code=True, custom_pipelines={"x": {"impl": "modeling_x.P"}})),
    "a tokenizer's auto_map": ("bert", set_keys("tokenizer_config.json", auto_map=REMOTE)),
    "a tokenizer's files": ("legacy", lambda folder: _point_outside(folder)),
    "a custom quantization": ("bert", set_config(quantization_config={"quant_method": "modeling_x"})),
    "a module type of another package": (
        "sentences",
        edit_json("modules.json", lambda listed: listed[0].update(type="modeling_x.Transformer")),
    ),
    "a dense activation of another package": (
        "sentences",
        set_keys("2_Dense/config.json", activation_function="modeling_x.Tanh"),
    ),
    "a byte order mark": ("bert", lambda folder: _add_byte_order_mark(folder / "config.json")),
}


def _point_outside(folder: Path) -> None:
    secret = str(make_outside_folder(folder) / "secret.txt")
    (folder / "tokenizer_config.json").write_text(f'{{"vocab_file": "{secret}", "name_or_path": "{secret}"}}')


def _add_byte_order_mark(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


@pytest.mark.parametrize("name", HARMLESS)
def test_references_to_code_and_other_files_are_ignored(name: str, copy_seed: CopySeed) -> None:
    seed, damage = HARMLESS[name]
    folder = copy_seed(seed)
    for module in ("modeling_x.py", "clearhead.py", "torch.py", "json.py"):
        (folder / module).write_text(PLANTED, encoding="utf-8")
    damage(folder)
    with forbid_side_effects(folder):
        model = clearhead.load(folder, device="cpu", offline=True)
        assert model.embed(["the cat"]).shape[0] == 1
    assert not (folder / "ran").exists()
    assert not [path for path in AUDIT_HOOK.events if path.endswith(".py") and path.startswith(str(folder.resolve()))]


def test_a_planted_module_would_be_noticed(copy_seed: CopySeed) -> None:
    """Control of the tests above: an import from the folder fails them."""
    folder = copy_seed("bert")
    (folder / "modeling_y.py").write_text(PLANTED, encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        with pytest.raises(AssertionError), forbid_side_effects(folder):
            __import__("modeling_y")
    finally:
        sys.path.remove(str(folder))
        del sys.modules["modeling_y"]
    assert (folder / "ran").exists()


def burn_cpu(seconds: float) -> None:
    """Use this much CPU time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.parametrize("violation", ["a sibling file", "a socket", "memory", "time"])
def test_each_side_effect_is_detected(violation: str, copy_seed: CopySeed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Controls: each kind of side effect is detected."""
    folder = copy_seed("bert")
    monkeypatch.setattr(sys.modules[__name__], "MAX_SECONDS", 1.0)
    allocated: list[object] = []
    violations: dict[str, Callable[[], object]] = {
        "a sibling file": lambda: (make_outside_folder(folder) / "secret.txt").read_text("utf-8"),
        "a socket": lambda: socket.socket().close(),
        "memory": lambda: allocated.append(b"x" * (300 << 20)),
        "time": lambda: burn_cpu(1.1),
    }
    with pytest.raises((AssertionError, MemoryError)), forbid_side_effects(folder):
        violations[violation]()


def test_the_cache_layout_of_the_hub_loads(copy_seed: CopySeed, tmp_path: Path) -> None:
    """snapshots/<commit>/file may be a link to ../../blobs/x, also in module folders; other targets are refused."""
    source, repo_folder = copy_seed("sentences"), tmp_path / "models--org--name"
    snapshot = repo_folder / "snapshots" / ("a" * 40)
    (repo_folder / "blobs").mkdir(parents=True)
    for number, path in enumerate(sorted(path for path in source.rglob("*") if path.is_file())):
        shutil.copyfile(path, repo_folder / "blobs" / str(number))
        link = snapshot / path.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(repo_folder / "blobs" / str(number), link.parent))
    with forbid_side_effects(repo_folder):
        assert clearhead.load(snapshot, device="cpu").embed(["the cat"]).shape == (1, 4)
    (snapshot / "tokenizer.json").unlink()
    (snapshot / "tokenizer.json").symlink_to(source / "tokenizer.json")
    with pytest.raises(UnsafeError, match=r"tokenizer\.json is a link"):
        clearhead.load(snapshot, device="cpu")


def test_links_within_the_folder_load(copy_seed: CopySeed) -> None:
    folder = copy_seed("bert")
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    (folder / "model.safetensors").symlink_to("weights.safetensors")
    assert clearhead.load(folder, device="cpu").embed(["the cat"]).shape == (1, 16)


def test_a_pattern_with_catastrophic_backtracking_is_refused(
    copy_seed: CopySeed, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = copy_seed("bert")
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    set_keys("tokenizer.json", pre_tokenizer=split)(folder)
    set_keys("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")(folder)
    set_keys("clearhead.json", golden={})(folder)
    with forbid_side_effects(folder), pytest.raises(TokenizerError) as caught:
        clearhead.load(folder, device="cpu").embed(["a" * 60 + "!"])
    check_message(caught.value, folder)
    capfd.readouterr()  # the library prints its panic first


@contextmanager
def drop_privileges() -> Iterator[None]:
    """Run as an unprivileged user, because root can read everything."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("name", "mode"), [("config.json", 0), ("model.safetensors", 0), ("tokenizer.json", 0), ("", 0), ("", 0o311)]
)
def test_files_without_read_permission_are_refused(name: str, mode: int, copy_seed: CopySeed) -> None:
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        folder = Path(shutil.copytree(copy_seed("bert"), Path(parent) / "model"))
        folder.chmod(0o755)
        with drop_privileges():
            clearhead.load(folder, device="cpu")  # control: everything is readable
        (folder / name).chmod(mode)
        with drop_privileges(), pytest.raises(ClearheadError) as caught:
            clearhead.load(folder, device="cpu")
        (folder / name).chmod(0o755)
    assert (name or "cannot be read") in check_message(caught.value, folder)


def test_a_file_is_not_a_model(copy_seed: CopySeed) -> None:
    with pytest.raises(ClearheadError, match="file"):
        clearhead.load(copy_seed("bert") / "config.json")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        clearhead.load(make_outside_folder(copy_seed("bert")))


def test_pruned_heads_of_an_unknown_part_are_refused(tmp_path: Path) -> None:
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 20}
    folder = clearhead.create("t5", config=sizes, head="seq2seq", device="cpu").save(tmp_path / "model")
    set_keys("clearhead.json", pruned={"nonsense": {"0": [0]}})(folder)
    with forbid_side_effects(folder), pytest.raises(CheckpointError, match=r"clearhead\.json .*nonsense") as caught:
        clearhead.load(folder, device="cpu")
    check_message(caught.value, folder)


def test_an_alias_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 20}
    folder = clearhead.create("t5", config=sizes, head="seq2seq", device="cpu").save(tmp_path / "model")
    alias = "encoder.embed_tokens.weight"
    edit_header(lambda entries: entries.update({alias: entries.pop("shared.weight")}))(folder)
    assert clearhead.load(folder, device="cpu").shape.stack.vocab_size == 20
    set_config(vocab_size=30)(folder)
    with pytest.raises(TensorError, match=rf"{alias} is 20x8, expected 30x8"):
        clearhead.load(folder, device="cpu")
