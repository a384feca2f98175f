import contextlib
import json
import threading
import time

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra bomkl[serve] is not installed")
pytest.importorskip("fastapi_offline", reason="the extra bomkl[serve] is not installed")

import httpx
import uvicorn

from bomkl.serve.folder.start import Start
from bomkl.serve.http.app import make_app
from bomkl.serve.requests.service import ServiceSettings
from bomkl.serve.server import config_of, open_service


class Client(httpx.Client):
    def ask(self, path, body, status=200, **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = self.post(path, content=content, headers={"content-type": "application/json", **headers})
        assert response.status_code == status, response.text
        return response.json()

    def learn(self, rows, labels, status=200, key=None):
        headers = {} if key is None else {"idempotency-key": key}
        return self.ask("/v1/learn", {"rows": rows, "y": labels}, status, **headers)

    def state(self):
        return self.get("/v1/state").json()


@pytest.fixture
def serving(tmp_path):
    """Run a service in a thread; it ends as after SIGTERM."""

    @contextlib.contextmanager
    def run(
        folder=tmp_path / "data",
        start=None,
        model_file=None,
        token=None,
        metrics_token=None,
        ready=True,
        feed=None,
        **settings,
    ):
        folder.mkdir(exist_ok=True)
        service = open_service(str(folder), start or Start(budget=30), model_file, ServiceSettings(**settings))
        app = make_app(service, token, metrics_token, feed)
        # a browser on a busy machine may keep the client waiting for longer than connections are kept by default
        limits = {"timeout_graceful_shutdown": 5, "timeout_keep_alive": 120}
        server = uvicorn.Server(config_of(app, port=0, **limits))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.005)
            assert thread.is_alive()
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            with Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
                client.service, client.server, client.port = service, server, port
                while ready and client.get("/readyz").status_code != 200:
                    time.sleep(0.005)
                    assert service.failed is None
                yield client
        finally:
            app.stopping.set()
            server.should_exit = True
            thread.join()

    return run


@pytest.fixture
def stream():
    """Rows of two columns and their labels."""
    rng = np.random.default_rng(0)
    rows = [{"a": a, "b": b} for a, b in rng.normal(size=(200, 2)).tolist()]
    return rows, [int(row["a"] * row["b"] > 0) for row in rows]
