"""schemathesis against the OpenAPI schema; `bomkl bench serve_fuzz` has thousands of cases."""

import subprocess
import sys

import pytest

pytest.importorskip("schemathesis", reason="schemathesis is not installed")


@pytest.mark.slow
def test_requests_made_from_the_schema_never_break_the_service(serving, tmp_path):
    with serving() as client:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{client.base_url}/openapi.json"]
        command += ["--checks", "not_a_server_error", "--mode", "all", "--phases", "fuzzing", "--max-examples", "4"]
        command += ["--exclude-path", "/v1/events", "--seed", "0", "--suppress-health-check", "all"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:]
        assert client.get("/healthz").status_code == 200
