"""A small local model hub with the protocol of huggingface_hub, which can simulate faults."""

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
class Request:
    """A request that the hub received."""

    method: str
    path: str
    range: str | None
    token: str | None


@dataclass(kw_only=True)
class Fault:
    """A fault that is simulated a number of times, for paths that contain `path_part`."""

    path_part: str
    method: str = "GET"
    times: int = 1
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None  # bytes after which the connection is closed
    wait: float = 0.0  # seconds before the response
    body: bytes | None = None  # sent instead of the content


@dataclass(kw_only=True)
class Repo:
    """A repository: commits with their files, and refs."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    token: str | None = None  # without it, the repository does not seem to exist
    gated: bool = False

    def commit(self, files: dict[str, bytes], *refs: str) -> str:
        """Add a commit and point refs to it."""
        sha = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[sha] = files
        self.refs.update(dict.fromkeys(refs or ("main",), sha))
        return sha

    def resolve(self, revision: str) -> str | None:
        """Resolve a branch, a tag or a commit to a commit."""
        return revision if revision in self.commits else self.refs.get(revision)


def is_large(name: str) -> bool:
    """Whether the hub stores a file outside Git."""
    return name.endswith((".safetensors", ".bin", ".h5", ".onnx"))


class LocalHub:
    """The hub server: `with LocalHub() as hub:` serves until the block ends."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.edit_listing: Callable[[dict[str, Any]], Any] = lambda listing: listing  # replaces the listing of files
        self.storage: str | None = None  # another host for large files, as on the real hub
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        hub = self

        class BoundHandler(_Handler):
            pass

        BoundHandler.hub = hub
        self._server = _Server(("127.0.0.1", 0), BoundHandler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> LocalHub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def get_repo(self, name: str) -> Repo:
        """Return the repository with this name; create it if necessary."""
        return self.repos.setdefault(name, Repo())

    def list_downloads(self, repo: str) -> list[str]:
        """List the files of a repository that were sent, in order, without duplicates."""
        marker = f"/{repo}/resolve/"
        paths = [
            request.path.split("/", 5)[-1]
            for request in self.requests
            if request.method == "GET" and marker in request.path
        ]
        return list(dict.fromkeys(paths))

    def record(self, request: Request) -> Fault | None:
        """Record a request and return the fault to simulate, if any."""
        with self._lock:
            self.requests.append(request)
            for fault in self.faults:
                if fault.times > 0 and fault.path_part in request.path and fault.method == request.method:
                    fault.times -= 1
                    return fault
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
        request = Request(method=self.command, path=path, range=self.headers.get("Range"), token=token)
        fault = self.hub.record(request)
        if fault and fault.wait:
            self.hub.stopped.wait(fault.wait)
        if fault and fault.status:
            self._send(fault.body or b"", fault.status, fault.headers)
        elif path.startswith("/api/models/"):
            self._serve_listing(path.removeprefix("/api/models/"), token, fault)
        elif "/resolve/" in path:
            self._serve_file(path, request, fault)
        elif path.startswith("/storage/"):
            self._serve_content(self._find_content(path.removeprefix("/storage/")), request, fault, {})
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

    def _serve_listing(self, path: str, token: str | None, fault: Fault | None) -> None:
        name, _, revision = path.partition("/revision/")
        found = self._open(name, token, revision or "main")
        if found is None:
            return
        sha, files = found
        siblings = [_describe_file(file, data) for file, data in files.items()]
        listing = self.hub.edit_listing({"id": name, "sha": sha, "siblings": siblings})
        body = fault.body if fault and fault.body is not None else json.dumps(listing).encode()
        self._send(body, 200, {"Content-Type": "application/json"})

    def _serve_file(self, path: str, request: Request, fault: Fault | None) -> None:
        name, _, revision_path = path.removeprefix("/").partition("/resolve/")
        revision, _, file = revision_path.partition("/")
        opened = self._open(name, request.token, revision)
        if opened is None:
            return
        sha, files = opened
        if file not in files:
            self._refuse("EntryNotFound", headers={"X-Repo-Commit": sha})
            return
        content = files[file]
        headers = {"X-Repo-Commit": sha, "ETag": f'"{_hash_blob(content)}"', "Accept-Ranges": "bytes"}
        if is_large(file):
            digest = hashlib.sha256(content).hexdigest()
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))}
            if self.hub.storage:
                self._send(b"", 302, headers | {"Location": f"{self.hub.storage}/storage/{digest}"})
                return
        self._serve_content(content, request, fault, headers)

    def _find_content(self, digest: str) -> bytes:
        contents = (
            content for repo in self.hub.repos.values() for files in repo.commits.values() for content in files.values()
        )
        return next(content for content in contents if hashlib.sha256(content).hexdigest() == digest)

    def _serve_content(self, content: bytes, request: Request, fault: Fault | None, headers: dict[str, str]) -> None:
        if fault and fault.body is not None:
            content = fault.body
        status, body = 200, content
        if request.range:
            start = int(request.range.removeprefix("bytes=").split("-")[0])
            status, body = 206, content[start:]
            headers = headers | {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        self._send(body, status, headers, cut_after=fault.cut_after if fault else None)

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


def _hash_blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _describe_file(name: str, data: bytes) -> dict[str, Any]:
    sibling: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": _hash_blob(data)}
    if is_large(name):
        sibling["lfs"] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 134}
    return sibling
