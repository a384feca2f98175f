"""A service in a process of its own, for benchmarks and tests: start it, wait for it, kill it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx


class Server:
    """``bomkl serve`` on a free port; as a context it ends with the block.

    Parameters
    ----------
    folder : Path
        Its data folder.
    *options : str
        Further options of the command.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self, wait: bool = True, **popen: Any) -> float:
        """Start it and return the seconds until it was ready."""
        begun = time.monotonic()
        command = [sys.executable, "-m", "bomkl", "serve", "--data", str(self.folder), "--port", str(self.port)]
        self.process = subprocess.Popen([*command, *self.options], stdout=subprocess.DEVNULL, **popen)
        while wait:
            if self.process.poll() is not None:
                raise RuntimeError(f"the service ended with {self.process.returncode}")
            try:
                httpx.get(f"{self.url}/readyz", trust_env=False).raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.02)
        return time.monotonic() - begun

    def end(self, number: int) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait()

    def kill(self) -> None:
        """Kill it at once."""
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end."""
        return self.end(signal.SIGTERM)

    def state(self) -> dict[str, Any]:
        """Ask it for its state."""
        state: dict[str, Any] = httpx.get(f"{self.url}/v1/state", trust_env=False, timeout=30).raise_for_status().json()
        return state

    def processor_seconds(self) -> float:
        """Processor time of the process so far."""
        assert self.process is not None
        return processor_seconds(self.process.pid)

    def resident_bytes(self) -> int:
        """Memory of the process."""
        assert self.process is not None
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def learn_until_acknowledged(client: httpx.Client, url: str, body: dict[str, Any], key: str, seconds: float) -> Any:
    """Send a request to learn, again and again if need be, until it is acknowledged; None when time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            response = client.post(
                f"{url}/v1/learn",
                content=json.dumps(body),
                headers={"Content-Type": "application/json", "Idempotency-Key": key},
            )
        except httpx.TransportError:
            time.sleep(0.01)
            continue
        if response.status_code == 200:
            return response.json()
        if response.status_code not in (429, 503, 507):
            raise RuntimeError(f"{response.status_code}: {response.text}")
        time.sleep(0.05)
    return None
