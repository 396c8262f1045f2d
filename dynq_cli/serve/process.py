"""The process of `dynq serve`: its socket, its signals, the watched inbox, and notices to systemd.

SIGTERM and SIGINT end it: no new requests, streams are closed, what is being applied is finished, a snapshot is written
if the state would open slowly. Only one such process, or `dynq run`, works on a state at a time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn
import watchfiles

from dynq_cli.errors import DynqError, UsageError
from dynq_cli.serve.app import app_of
from dynq_cli.serve.guard import is_loopback
from dynq_cli.serve.service import Service
from dynq_cli.storage.layout import RUN_LOCK
from dynq_cli.storage.lock import holding
from dynq_cli.storage.manifest import read_manifest

_GRACE_SECONDS, _IDLE_SECONDS, _MOST_CONNECTIONS = 5, 30, 512


def serve(
    state: str,
    listen: str = "127.0.0.1:8080",
    inbox: str | None = None,
    quarantine: str | None = None,
    token_file: str | None = None,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a state until a signal ends the process; call `ready` with the address once requests are answered.

    UsageError for an address that is not loopback without a token; LockedError if another process serves or runs on it.
    """
    directory = Path(state)
    read_manifest(directory)
    token = _token(token_file)
    if inbox is not None and not os.path.isdir(inbox):
        raise UsageError(f"{inbox} is no directory\n  hint: name the folder that change logs are put into")
    host, port = _address(listen, is_open=bool(token))
    bound = _bound(host, port)
    shown = f"[{host}]" if ":" in host else host
    with holding(directory / RUN_LOCK, f"{directory} is being served or run on by another process"), bound:
        url = f"http://{shown}:{bound.getsockname()[1]}"
        asyncio.run(_serve(directory, inbox, quarantine, token, bound, lambda: ready(url)))


async def _serve(
    directory: Path,
    inbox: str | None,
    quarantine: str | None,
    token: str,
    bound: socket.socket,
    ready: Callable[[], None],
) -> None:
    service = Service(directory, inbox, quarantine)
    await service.start()
    config = uvicorn.Config(
        app_of(service, token),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        limit_concurrency=_MOST_CONNECTIONS,
        server_header=False,
    )
    server = _Server(config)
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()

    def stop() -> None:
        _notify("STOPPING=1")
        stopping.set()
        service.end_streams()
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    watching = asyncio.create_task(_watch(service, stopping)) if inbox is not None else None
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    ready()
    _notify("READY=1")
    try:
        await serving
    finally:
        stopping.set()
        if watching is not None:
            await watching
        await service.close()


async def _watch(service: Service, stopping: asyncio.Event) -> None:
    """Apply what arrives in the inbox; look again now and then, in case the system forgot to tell."""
    assert service.inbox is not None
    changes = watchfiles.awatch(
        service.inbox, stop_event=stopping, debounce=50, step=10, rust_timeout=10_000, yield_on_timeout=True
    )
    with suppress(RuntimeError):
        async for _ in changes:
            if stopping.is_set():
                return
            await service.look_into_inbox()


class _Server(uvicorn.Server):
    """Signals are handled here, so that the process ends with exit code 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _token(path: str | None) -> str:
    if path is None:
        return ""
    try:
        token = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the token file {path}: {error}") from None
    if len(token) < 8 or not token.isascii() or any(c.isspace() for c in token):
        raise UsageError(f"the token in {path} needs at least 8 ASCII characters, without spaces")
    return token


def _address(listen: str, *, is_open: bool) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen {listen} is no address: write HOST:PORT, as in 127.0.0.1:8080")
    if not is_open and not is_loopback(host):
        raise UsageError(
            f"--listen {listen} is open to other machines: give a token with --token-file, or listen on 127.0.0.1"
        )
    return host, int(port)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only of a socket that says it is TCP does asyncio turn delays off: else head and body are 40 ms apart.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise DynqError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    made.listen(1024)
    return made


def _notify(word: str) -> None:
    """Notify systemd, if it asked for that."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.sendto(word.encode(), f"\0{path[1:]}" if path.startswith("@") else path)
