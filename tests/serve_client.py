"""A `dynq serve` process for tests, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.conftest import ROOT


class Served:
    """`dynq serve` of the state in a folder, in a process of its own, on a free port."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DYNQ_")}
        self._log = (folder / "serve.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dynq_cli", "serve", "--listen", "127.0.0.1:0", *options],
            cwd=folder,
            env={**clean, "PYTHONPATH": str(ROOT)},
            stderr=self._log,
        )
        self.port = self._ready()

    def _ready(self) -> int:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for line in self.said().splitlines():
                if "http://" in line:
                    return int(line.rpartition(":")[2])
            assert self.process.poll() is None, self.said()
            time.sleep(0.05)
        raise AssertionError(f"not ready: {self.said()}")

    def said(self) -> str:
        return (self.folder / "serve.log").read_text()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()

    def ask(
        self, method: str, path: str, body: bytes | str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request; names of headers have `_` for `-`. Status, headers, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Any:
        """A JSON answer that has to be good."""
        status, _, body = self.ask("GET", path, **headers)
        assert status == 200, body
        return json.loads(body)

    def post(self, path: str, body: bytes | str, kind: str = "text/csv") -> tuple[int, Any]:
        status, _, answer = self.ask("POST", path, body, Content_Type=kind)
        return status, json.loads(answer)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)
