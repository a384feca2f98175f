"""Runs the service until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import glob
import logging
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
import uvicorn

from bomkl._support.files import BusyError, locked
from bomkl.serve.errors import LogError
from bomkl.serve.folder.snapshots import Snapshots
from bomkl.serve.folder.start import Start, newest, set_up
from bomkl.serve.http.app import make_app
from bomkl.serve.http.connection import Connection
from bomkl.serve.http.guard import LOOPBACK
from bomkl.serve.http.limits import Room
from bomkl.serve.reports import Sparing
from bomkl.serve.requests.feed import Feed
from bomkl.serve.requests.service import Service, ServiceSettings
from bomkl.serve.storage.log import Log
from bomkl.serve.storage.logfile import log_path
from bomkl.sources import SourceError

try:
    from uvloop import new_event_loop
except ImportError:  # not for Windows
    new_event_loop = None  # type: ignore[assignment]

_sparing = Sparing()
_SWITCH_SECONDS = 0.0005  # how long a thread may hold the interpreter while another waits; requests wait that long


def serve(
    folder: str,
    start: Start,
    model_file: str | None,
    settings: ServiceSettings,
    host: str,
    port: int,
    token: str | None,
    metrics_token: str | None = None,
    feed: Feed | None = None,
) -> None:
    """Serve a data folder until SIGTERM or Ctrl-C; then finish what was taken on and write a snapshot.

    `folder`: the data folder; it is made if it is not there. `start`: the fresh model of a new folder. `model_file`:
    model that a new folder starts from instead. `token`: bearer token that requests must carry; needed unless `host` is
    loopback. `metrics_token`: bearer token that opens ``/metrics`` and nothing else. `feed`: a broker whose rows the
    service learns from.
    """
    if token is None and host not in LOOPBACK:
        raise ValueError(
            f"--host {host} can be reached from other machines, so --token (or BOMKL_TOKEN) is needed. "
            "Without one, the service listens on 127.0.0.1 only."
        )
    os.makedirs(folder, exist_ok=True)
    try:
        with locked(log_path(folder)), contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(each) for each in bound_sockets(host, port)]
            _prepare_for_want_of_memory()
            service = open_service(folder, start, model_file, settings)
            sys.setswitchinterval(_SWITCH_SECONDS)
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(_run(service, make_app(service, token, metrics_token, feed), host, sockets))
            if isinstance(service.failed, LogError | SourceError | sqlite3.Error):
                raise service.failed
            if service.failed is not None:  # whoever watches over the process may start it again
                raise LogError(f"{folder}: the service has failed ({service.failed!r}). The log has every row.")
    except sqlite3.Error as error:
        raise LogError(f"{folder}: the log cannot be written ({error}).") from error
    except BusyError:
        raise LogError(f"{folder}: another process serves this folder. Stop it, or use another folder.") from None


def _prepare_for_want_of_memory() -> None:
    """Keep libraries from waiting for ever when there is no memory left, rather than failing."""
    # pydantic_core, in Rust, locks its backtraces and would wait for that lock itself if writing one took too much
    os.environ["RUST_BACKTRACE"] = "0"
    # OpenBLAS would try again and again to get its buffers
    for solve in (np.linalg.eigh, scipy.linalg.eigh):  # each has a BLAS of its own
        solve(np.eye(64))


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Take a port on every address of a host; nobody can connect before the service listens."""
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        ):
            try:
                sockets.append(_bound_socket(family, kind, protocol, address))
            except OSError as error:  # localhost may have an address that this machine has not
                if not sockets or error.errno != errno.EADDRNOTAVAIL:
                    raise
    except OSError as error:
        for each in sockets:
            each.close()
        advice = " Stop what uses it, or choose another --port." if error.errno == errno.EADDRINUSE else ""
        raise ValueError(f"Cannot listen on {host}, port {port}: {error.strerror}.{advice}") from error
    return sockets


def _bound_socket(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    bound = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two processes take one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound


def open_service(folder: str, start: Start, model_file: str | None, settings: ServiceSettings) -> Service:
    """Open a folder: its log, and the model after its newest snapshot."""
    with contextlib.ExitStack() as undo:
        log = undo.enter_context(Log(folder))
        set_up(folder, log, start, model_file)
        Snapshots(folder).clean()
        for path in glob.glob(os.path.join(glob.escape(folder), "download-*.bomkl")):
            os.unlink(path)
        service = Service(folder, log, newest(folder, log), settings)
        undo.pop_all()
    return service


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise SIGTERM again at the end, and the exit code would not be 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def config_of(app: Any, **changes: Any) -> uvicorn.Config:
    """Tell uvicorn how to serve an application; tests change some of it."""
    room = Connection.room = Room.of_process()
    settings: dict[str, Any] = {"limit_concurrency": room.limit, "backlog": room.at_once, "server_header": False}
    settings |= {"timeout_graceful_shutdown": 30, "log_level": "warning", "access_log": False, "proxy_headers": False}
    config = uvicorn.Config(app, http=Connection, **(settings | changes))
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(_sparing)
    return config


async def _run(service: Service, app: Any, host: str, sockets: list[socket.socket]) -> None:
    server = _Server(config_of(app))

    def stop() -> None:
        app.stopping.set()
        server.should_exit = True

    service.on_failure = stop
    loop = asyncio.get_running_loop()

    def look_at(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), MemoryError):  # a request may wait for what was not done
            service.fail(error)
        loop.default_exception_handler(context)

    loop.set_exception_handler(look_at)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            loop.add_signal_handler(number, stop)
    ports = dict.fromkeys(each.getsockname()[1] for each in sockets)  # a signal may close them at once
    serving = asyncio.create_task(server.serve(sockets))
    while not (server.started or serving.done()):
        await asyncio.sleep(0.01)
    if server.started:
        name = f"[{host}]" if ":" in host else host
        for port in ports:
            print(f"bomkl: serving on http://{name}:{port}/", file=sys.stderr, flush=True)
    await serving
