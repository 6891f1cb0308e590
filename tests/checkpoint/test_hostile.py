"""Hostile model folders: each breaks one thing, and each is refused with one clear sentence before memory is taken."""

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
from tests.checkpoint import hostile_config, hostile_places, hostile_weights
from tests.checkpoint.hostile_folders import SECRET, SEEDS, Hostile, config, edit, header, keys, outside

CASES = (*hostile_config.CASES, *hostile_weights.CASES, *hostile_places.CASES)
LONGEST = 600  # letters of a sentence, not counting the path of the folder
SECONDS = 5.0
MEMORY = 200 << 20

Copy = Callable[[str], Path]


class Watch:
    """Hears what Python opens, and where to it connects, while a folder is loaded."""

    def __init__(self) -> None:
        self.on = False
        self.opened: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event == "open" and isinstance(arguments[0], str | bytes):
            self.opened.append(os.path.realpath(os.fsdecode(arguments[0])))
        elif self.on and event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn")):
            self.opened.append(event)


WATCH = Watch()


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A fresh copy of a valid folder, in a place of its own; the seeds themselves are made and loaded once."""

    @cache
    def seed(name: str) -> Path:
        folder = tmp_path_factory.mktemp("seed") / name
        SEEDS[name](folder)
        assert len(clearhead.load(folder, device="cpu").embed(["the cat sat"])) == 1
        return folder

    return lambda name: Path(shutil.copytree(seed(name), tmp_path_factory.mktemp("case") / "model"))


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Nothing may be imported from the folder, opened beside it, sent anywhere, or take long or much memory."""
    modules = set(sys.modules)
    process = psutil.Process()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before, started = _peak(reset=True), time.process_time()
    resource.setrlimit(resource.RLIMIT_AS, (process.memory_info().vms + (1 << 30), limits[1]))
    old = signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, 4 * SECONDS)  # CPU time: a busy machine does not matter
    WATCH.opened.clear()
    WATCH.on = True
    try:
        yield
    finally:
        WATCH.on = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert time.process_time() - started < SECONDS
    assert _peak() - before < MEMORY
    home = str(folder.resolve())
    new = [sys.modules[name] for name in set(sys.modules) - modules]
    assert not [module for module in new if str(getattr(module, "__file__", "")).startswith(home)]
    beside = str(folder.resolve().parent) + os.sep
    assert not [path for path in WATCH.opened if path.startswith(beside) and not path.startswith(home)]
    assert not [path for path in WATCH.opened if not path.startswith(os.sep)]


def _too_long(_signal: int, _frame: object) -> NoReturn:
    pytest.fail("it hangs")


def _peak(*, reset: bool = False) -> int:
    """The most memory that was in use, since the last reset where the system can do that."""
    if reset and Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def sentence(error: ClearheadError, folder: Path) -> str:
    """The message, checked: one printable line, not too long, with nothing in it from outside."""
    text = str(error)
    assert text.strip()
    assert text.isprintable(), text
    assert len(text.replace(str(folder), "")) < LONGEST, text
    assert "Traceback" not in text
    assert SECRET not in text
    return text


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_refused(case: Hostile, copy: Copy) -> None:
    folder = copy(case.seed)
    case.spoil(folder)
    with watched(folder), pytest.raises(ClearheadError) as caught:
        clearhead.load(folder, device="cpu", offline=True)
    text = sentence(caught.value, folder)
    assert isinstance(caught.value, case.error), f"{type(caught.value).__name__}: {text}"
    for word in case.words:
        assert word in text


def test_there_are_enough_cases_and_each_has_a_name_of_its_own() -> None:
    assert len(CASES) >= 200
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.seed for case in CASES} == set(SEEDS)


PLANTED = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
REMOTE = {"AutoConfig": "modeling_x.Config", "AutoModel": "modeling_x.Model", "AutoTokenizer": ["modeling_x.T", None]}
HARMLESS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "auto_map": ("bert", config(auto_map=REMOTE)),
    "auto_map to another repository": ("bert", config(auto_map={"AutoModel": "evil/repo--modeling_x.Model"})),
    "auto_map that is no map": ("bert", config(auto_map=[["modeling_x"]])),
    "trust_remote_code": ("bert", config(trust_remote_code=True, custom_pipelines={"x": {"impl": "modeling_x.P"}})),
    "a tokenizer's auto_map": ("bert", keys("tokenizer_config.json", auto_map=REMOTE)),
    "a tokenizer's files": ("legacy", lambda folder: _point_out(folder)),
    "a quantization of somebody's own": ("bert", config(quantization_config={"quant_method": "modeling_x"})),
    "a module type of another package": (
        "sentences",
        edit("modules.json", lambda listed: listed[0].update(type="modeling_x.Transformer")),
    ),
    "a dense activation of another package": (
        "sentences",
        keys("2_Dense/config.json", activation_function="modeling_x.Tanh"),
    ),
    "a byte order mark": ("bert", lambda folder: _marked(folder / "config.json")),
}


def _point_out(folder: Path) -> None:
    secret = str(outside(folder) / "secret.txt")
    (folder / "tokenizer_config.json").write_text(f'{{"vocab_file": "{secret}", "name_or_path": "{secret}"}}')


def _marked(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


@pytest.mark.parametrize("name", HARMLESS)
def test_names_of_code_and_of_other_files_are_never_followed(name: str, copy: Copy) -> None:
    seed, spoil = HARMLESS[name]
    folder = copy(seed)
    for module in ("modeling_x.py", "clearhead.py", "torch.py", "json.py"):
        (folder / module).write_text(PLANTED, encoding="utf-8")
    spoil(folder)
    with watched(folder):
        model = clearhead.load(folder, device="cpu", offline=True)
        assert model.embed(["the cat"]).shape[0] == 1
    assert not (folder / "ran").exists()
    assert not [path for path in WATCH.opened if path.endswith(".py") and path.startswith(str(folder.resolve()))]


def test_a_planted_module_would_be_noticed(copy: Copy) -> None:
    """The control of the tests above: an import from the folder fails them."""
    folder = copy("bert")
    (folder / "modeling_y.py").write_text(PLANTED, encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        with pytest.raises(AssertionError), watched(folder):
            __import__("modeling_y")
    finally:
        sys.path.remove(str(folder))
        del sys.modules["modeling_y"]
    assert (folder / "ran").exists()


def work(seconds: float) -> None:
    """Use so much CPU time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@pytest.mark.parametrize("deed", ["a file beside", "a socket", "memory", "time"])
def test_the_watch_can_fail(deed: str, copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controls of the watch itself."""
    folder = copy("bert")
    monkeypatch.setattr(sys.modules[__name__], "SECONDS", 1.0)
    held: list[object] = []
    deeds: dict[str, Callable[[], object]] = {
        "a file beside": lambda: (outside(folder) / "secret.txt").read_text("utf-8"),
        "a socket": lambda: socket.socket().close(),
        "memory": lambda: held.append(b"x" * (300 << 20)),
        "time": lambda: work(1.1),
    }
    with pytest.raises((AssertionError, MemoryError)), watched(folder):
        deeds[deed]()


def test_the_cache_layout_of_the_hub_loads(copy: Copy, tmp_path: Path) -> None:
    """snapshots/<commit>/file is a link to ../../blobs/x there, in module folders too; elsewhere it may not lead."""
    source, home = copy("sentences"), tmp_path / "models--org--name"
    snapshot = home / "snapshots" / ("a" * 40)
    (home / "blobs").mkdir(parents=True)
    for number, path in enumerate(sorted(path for path in source.rglob("*") if path.is_file())):
        shutil.copyfile(path, home / "blobs" / str(number))
        link = snapshot / path.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(home / "blobs" / str(number), link.parent))
    with watched(home):
        assert clearhead.load(snapshot, device="cpu").embed(["the cat"]).shape == (1, 4)
    (snapshot / "tokenizer.json").unlink()
    (snapshot / "tokenizer.json").symlink_to(source / "tokenizer.json")
    with pytest.raises(UnsafeError, match=r"tokenizer\.json is a link"):
        clearhead.load(snapshot, device="cpu")


def test_links_within_the_folder_load(copy: Copy) -> None:
    folder = copy("bert")
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    (folder / "model.safetensors").symlink_to("weights.safetensors")
    assert clearhead.load(folder, device="cpu").embed(["the cat"]).shape == (1, 16)


def test_a_pattern_that_explodes_ends_with_a_sentence(copy: Copy, capfd: pytest.CaptureFixture[str]) -> None:
    folder = copy("bert")
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    keys("tokenizer.json", pre_tokenizer=split)(folder)
    keys("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")(folder)
    keys("clearhead.json", golden={})(folder)
    with watched(folder), pytest.raises(TokenizerError) as caught:
        clearhead.load(folder, device="cpu").embed(["a" * 60 + "!"])
    sentence(caught.value, folder)
    capfd.readouterr()  # the library prints its panic before it can be caught


@contextmanager
def powerless() -> Iterator[None]:
    """As a user for whom permissions count: nothing is unreadable to root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("name", "mode"), [("config.json", 0), ("model.safetensors", 0), ("tokenizer.json", 0), ("", 0), ("", 0o311)]
)
def test_what_may_not_be_read(name: str, mode: int, copy: Copy) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(shutil.copytree(copy("bert"), Path(place) / "model"))
        folder.chmod(0o755)
        with powerless():
            clearhead.load(folder, device="cpu")  # the control: all of it can be read
        (folder / name).chmod(mode)
        with powerless(), pytest.raises(ClearheadError) as caught:
            clearhead.load(folder, device="cpu")
        (folder / name).chmod(0o755)
    assert (name or "cannot be read") in sentence(caught.value, folder)


def test_a_file_is_no_model(copy: Copy) -> None:
    with pytest.raises(ClearheadError, match="file"):
        clearhead.load(copy("bert") / "config.json")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        clearhead.load(outside(copy("bert")))


def test_a_part_that_no_model_has_is_not_pruned(tmp_path: Path) -> None:
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 20}
    folder = clearhead.create("t5", config=sizes, head="seq2seq", device="cpu").save(tmp_path / "model")
    keys("clearhead.json", pruned={"nonsense": {"0": [0]}})(folder)
    with watched(folder), pytest.raises(CheckpointError, match=r"clearhead\.json .*nonsense") as caught:
        clearhead.load(folder, device="cpu")
    sentence(caught.value, folder)


def test_an_alias_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 20}
    folder = clearhead.create("t5", config=sizes, head="seq2seq", device="cpu").save(tmp_path / "model")
    alias = "encoder.embed_tokens.weight"
    header(lambda entries: entries.update({alias: entries.pop("shared.weight")}))(folder)
    assert clearhead.load(folder, device="cpu").shape.stack.vocab_size == 20
    config(vocab_size=30)(folder)
    with pytest.raises(TensorError, match=rf"{alias} is 20x8, expected 30x8"):
        clearhead.load(folder, device="cpu")
