"""A small model hub on loopback that speaks the protocol of huggingface_hub, and can be told to misbehave."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

ALWAYS = 10**9


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request that came in."""

    method: str
    path: str
    range: str | None
    token: str | None


@dataclass(kw_only=True)
class Trouble:
    """One way to misbehave, a number of times, on paths that contain `on`."""

    on: str
    method: str = "GET"
    times: int = 1
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None  # bytes of the body before the connection is dropped
    wait: float = 0.0  # seconds before the answer
    body: bytes | None = None  # instead of the true one


@dataclass(kw_only=True)
class Repo:
    """A repository: commits of files, and names for commits."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    token: str | None = None  # who lacks it hears 'no such repository'
    gated: bool = False

    def commit(self, files: dict[str, bytes], *refs: str) -> str:
        """Add a commit and let names point to it."""
        sha = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[sha] = files
        self.refs.update(dict.fromkeys(refs or ("main",), sha))
        return sha

    def resolve(self, revision: str) -> str | None:
        """Turn a branch, a tag or a commit into a commit."""
        return revision if revision in self.commits else self.refs.get(revision)


def is_large(name: str) -> bool:
    """Tell whether the hub keeps a file apart from git."""
    return name.endswith((".safetensors", ".bin", ".h5", ".onnx"))


class LocalHub:
    """The hub itself: `with LocalHub() as hub:` serves until the block ends."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.seen: list[Seen] = []
        self.troubles: list[Trouble] = []
        self.edit: Callable[[dict[str, Any]], Any] = lambda listing: listing  # what an evil hub answers instead
        self.storage: str | None = None  # another host for large files, as the real hub has
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        hub = self

        class Bound(_Handler):
            pass

        Bound.hub = hub
        self._server = _Server(("127.0.0.1", 0), Bound)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> LocalHub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def repo(self, name: str) -> Repo:
        """Give a repository by its name, new if need be."""
        return self.repos.setdefault(name, Repo())

    def fetched(self, repo: str) -> list[str]:
        """List the files of a repository that were sent, in order, each once."""
        marker = f"/{repo}/resolve/"
        paths = [seen.path.split("/", 5)[-1] for seen in self.seen if seen.method == "GET" and marker in seen.path]
        return list(dict.fromkeys(paths))

    def note(self, seen: Seen) -> Trouble | None:
        """Write a request down, and say what is to go wrong with it."""
        with self._lock:
            self.seen.append(seen)
            for trouble in self.troubles:
                if trouble.times > 0 and trouble.on in seen.path and trouble.method == seen.method:
                    trouble.times -= 1
                    return trouble
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # small writes would wait 40 ms for each other
    hub: LocalHub

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Stay quiet: the hub keeps its own log."""

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        seen = Seen(method=self.command, path=path, range=self.headers.get("Range"), token=token)
        trouble = self.hub.note(seen)
        if trouble and trouble.wait:
            self.hub.stopped.wait(trouble.wait)
        if trouble and trouble.status:
            self._send(trouble.body or b"", trouble.status, trouble.headers)
        elif path.startswith("/api/models/"):
            self._list(path.removeprefix("/api/models/"), token, trouble)
        elif "/resolve/" in path:
            self._file(path, seen, trouble)
        elif path.startswith("/storage/"):
            self._body(self._stored(path.removeprefix("/storage/")), seen, trouble, {})
        elif path == "/api/agent-harnesses":
            self._send(b'{"standardEnvVars": [], "harnesses": {}}')
        else:
            self._refuse("EntryNotFound")

    def _open(self, name: str, token: str | None, revision: str) -> tuple[str, dict[str, bytes]] | None:
        repo = self.hub.repos.get(name)
        if repo is None or (repo.token and repo.token != token and not repo.gated):
            self._refuse("RepoNotFound", 401)
        elif repo.gated and repo.token != token:
            self._refuse("GatedRepo", 401 if token is None else 403)
        elif (sha := repo.resolve(revision)) is None:
            self._refuse("RevisionNotFound")
        else:
            return sha, repo.commits[sha]
        return None

    def _list(self, path: str, token: str | None, trouble: Trouble | None) -> None:
        name, _, revision = path.partition("/revision/")
        opened = self._open(name, token, revision or "main")
        if opened is None:
            return
        sha, files = opened
        siblings = [_sibling(file, data) for file, data in files.items()]
        listing = self.hub.edit({"id": name, "sha": sha, "siblings": siblings})
        body = trouble.body if trouble and trouble.body is not None else json.dumps(listing).encode()
        self._send(body, 200, {"Content-Type": "application/json"})

    def _file(self, path: str, seen: Seen, trouble: Trouble | None) -> None:
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        opened = self._open(name, seen.token, revision)
        if opened is None:
            return
        sha, files = opened
        if file not in files:
            self._refuse("EntryNotFound", headers={"X-Repo-Commit": sha})
            return
        data = files[file]
        headers = {"X-Repo-Commit": sha, "ETag": f'"{_blob(data)}"', "Accept-Ranges": "bytes"}
        if is_large(file):
            digest = hashlib.sha256(data).hexdigest()
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data))}
            if self.hub.storage:
                self._send(b"", 302, headers | {"Location": f"{self.hub.storage}/storage/{digest}"})
                return
        self._body(data, seen, trouble, headers)

    def _stored(self, digest: str) -> bytes:
        kept = (data for repo in self.hub.repos.values() for files in repo.commits.values() for data in files.values())
        return next(data for data in kept if hashlib.sha256(data).hexdigest() == digest)

    def _body(self, data: bytes, seen: Seen, trouble: Trouble | None, headers: dict[str, str]) -> None:
        if trouble and trouble.body is not None:
            data = trouble.body
        status, part = 200, data
        if seen.range:
            start = int(seen.range.removeprefix("bytes=").split("-")[0])
            status, part = 206, data[start:]
            headers = headers | {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        self._send(part, status, headers, cut_after=trouble.cut_after if trouble else None)

    def _refuse(self, code: str, status: int = 404, headers: dict[str, str] | None = None) -> None:
        self._send(b"", status, {"X-Error-Code": code, "X-Error-Message": code} | (headers or {}))

    def _send(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None, *, cut_after: int | None = None
    ) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut_after])
        if cut_after is not None:
            self.close_connection = True


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _sibling(name: str, data: bytes) -> dict[str, Any]:
    sibling: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": _blob(data)}
    if is_large(name):
        sibling["lfs"] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 134}
    return sibling
