import asyncio
import contextlib
import json
import math
import random
import string
from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from typer.testing import CliRunner

from bomkl import BudgetMKLClassifier, modelfile
from bomkl.cli import app as command
from bomkl.serve.errors import RefusedError
from bomkl.serve.folder.start import Start
from bomkl.serve.formats.bodies import label_body, learn_body, predict_body, refusal
from bomkl.serve.http import limits
from bomkl.serve.requests.service import ServiceSettings
from bomkl.serve.requests.work import Work
from bomkl.serve.server import bound_sockets, serve

GOOD = {"row": {"a": 1.0, "b": 2.0}, "y": 1}
WRONG = [
    (b"", 400, "body"),
    (b"{", 400, "body"),
    (b'{"row": {"a": 1, "b": "\xff"}, "y": 1}', 400, "body"),
    (b'{"row":' * 10_000, 400, "body"),
    (b"[]", 422, "body"),
    ({"row": {"a": 1.0, "b": 2.0}}, 422, "y"),
    ({"row": {"a": 1.0, "b": 2.0}, "y": None}, 422, "y"),
    ({"row": {"a": 1.0, "b": 2.0}, "y": [1]}, 422, "y"),
    ({"row": {"a": 1.0, "b": 2.0}, "y": "one"}, 422, "y"),
    ({"row": {"a": 1.0, "b": 2.0}, "y": 2**70}, 422, "y"),
    ({"row": {"a": 1.0, "b": 2.0}, "y": 1, "z": 1}, 422, "z"),
    ({"row": {}, "y": 1}, 422, "row"),
    ({"row": {"a": 1.0, "b": "x" * 20_000}, "y": 1}, 422, "row.b"),
    ({"row": {"a": 1.0, "b": 10**400}, "y": 1}, 422, "row.b"),
    (b'{"row": {"a": 1, "b": NaN}, "y": 1}', 422, "row.b"),
    (b'{"row": {"a": 1, "b": 1e999}, "y": 1}', 422, "row.b"),
    ({"rows": [GOOD["row"], {"a": 1.0, "b": 10**400}], "y": [1, 1]}, 422, "rows[1].b"),
    ({"row": {"a": 1.0, "b" * 300: 2.0}, "y": 1}, 422, "row"),
    ({"rows": [GOOD["row"]], "y": [1, 1]}, 422, "body"),
    ({"rows": [], "y": []}, 422, "rows"),
    ({"rows": [GOOD["row"]] * 10_001, "y": [1] * 10_001}, 413, "rows"),
]


def test_a_wrong_body_is_refused_by_its_field_and_nothing_is_learned(serving):
    with serving() as client:
        client.ask("/v1/learn", GOOD)
        for body, status, field in WRONG:
            problem = client.ask("/v1/learn", body, status)
            assert problem["field"] == field, problem
            assert field in problem["detail"] or field == "body"
        assert client.state()["rows"] == 1
        assert client.ask("/v1/learn", GOOD)["rows"] == 2


def test_targets_that_the_model_would_refuse_are_refused_at_once(serving):
    with serving(start=Start(task="regress", budget=30)) as client:
        for y in (1e151, -(10**200), 10**400, "7"):
            assert client.ask("/v1/learn", {"row": {"a": 1.0}, "y": y}, 422)["field"] == "y"
        assert client.ask("/v1/learn", {"row": {"a": 1.0}, "y": 1e150})["rows"] == 1
        assert client.state()["refused"] == 0


def test_content_types_are_strict(serving):
    with serving() as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "", "application/python-pickle"):
            response = client.post("/v1/learn", content=json.dumps(GOOD), headers={"content-type": kind})
            assert response.status_code == 415
            assert response.json()["field"] == "Content-Type"
        zipped = {"content-type": "application/json", "content-encoding": "gzip"}
        assert client.post("/v1/learn", content=b"x", headers=zipped).status_code == 415
        arrow = {"content-type": "application/vnd.apache.arrow.stream"}
        assert client.post("/v1/label", content=b"x", headers=arrow).status_code == 415
        assert client.state()["rows"] == 0


def test_bodies_are_bounded(serving, monkeypatch):
    monkeypatch.setattr(limits, "MOST_BYTES", 1000)
    with serving() as client:
        assert client.ask("/v1/learn", b" " * 1001, 413)["field"] == "body"


def test_lines_are_named(serving):
    with serving() as client:
        client.ask("/v1/learn", GOOD)
        lines = json.dumps(GOOD) + "\n\n" + json.dumps({"row": {"a": 1.0, "b": 10**400}, "y": 1})
        headers = {"content-type": "application/x-ndjson"}
        for body, field in ((lines, "line 3.row.b"), ("{}\n{", "line 1.row"), ("\n\n", "body")):
            response = client.post("/v1/learn", content=body, headers=headers)
            assert (response.status_code, response.json()["field"]) == (422, field)


def test_damaged_arrow_is_refused(serving, stream):
    pa = pytest.importorskip("pyarrow")
    rows, labels = stream
    table = pa.table({"a": [r["a"] for r in rows], "b": [r["b"] for r in rows], "y": labels})
    headers = {"content-type": "application/vnd.apache.arrow.stream"}

    def written(content=table, options=None):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, content.schema, options=options) as writer:
            writer.write_table(content)
        return sink.getvalue().to_pybytes()

    whole, chance = written(), random.Random(0)
    with serving() as client:
        for _ in range(60):
            body = bytearray(whole[: chance.randrange(1, len(whole))] if chance.random() < 0.5 else whole)
            for _ in range(chance.randrange(1, 8)):
                body[chance.randrange(min(len(body), 800))] ^= 1 << chance.randrange(8)
            response = client.post("/v1/learn", content=bytes(body), headers=headers)
            assert response.status_code in (200, 400, 413, 422)
        squeezed = written(options=pa.ipc.IpcWriteOptions(compression="zstd"))
        assert "compressed" in client.post("/v1/learn", content=squeezed, headers=headers).json()["detail"]
        nested = written(pa.table({"a": [[1.0]], "y": [1]}))
        assert client.post("/v1/learn", content=nested, headers=headers).json()["field"] == "a"
        missing = written(pa.table({"a": [1.0]}))
        assert client.post("/v1/learn", content=missing, headers=headers).json()["field"] == "y"


def test_random_bodies_never_break_the_service(serving, stream):
    malformed = pytest.importorskip("bomkl_lab.benchmarks.serve_fuzz").malformed

    rows, labels = stream
    with serving() as client:
        client.learn(rows[:20], labels[:20])
        for path, headers, body in malformed(seed=0, count=300):
            response = client.post(path, content=body, headers=headers)
            assert 400 <= response.status_code < 500, (path, headers, body[:200])
            assert response.json()["field"]
        assert client.state()["rows"] == 20
        client.learn(rows[20:], labels[20:])


def test_too_many_rows_at_once_are_sent_away(serving, stream):
    rows, labels = stream
    with serving(most_queued=10) as client:
        client.learn(rows[:50], labels[:50])  # one request is taken whatever its size
        client.service.queued = 8
        response = client.post("/v1/learn", json={"rows": rows[:3], "y": labels[:3]})
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) >= 1
        client.service.queued = 0
        client.learn(rows[:3], labels[:3])


def test_rows_that_wait_for_a_label_are_bounded(serving, stream):
    rows, _ = stream
    with serving(most_waiting=2) as client:
        client.ask("/v1/predict", {"rows": rows[:2], "ids": ["a", "b"]})
        client.ask("/v1/predict", {"row": rows[2], "id": "c"}, 429)
        client.ask("/v1/label", {"id": "a", "y": 1})
        client.ask("/v1/predict", {"row": rows[2], "id": "c"})


def test_labels_that_arrays_cannot_hold_are_refused(serving):
    with serving() as client:
        for label in ("a\0", "\0", "a\0b"):
            problem = client.ask("/v1/learn", {"row": {"a": 1.0}, "y": label}, 422)
            assert problem["field"] == "y"
            assert "NUL" in problem["detail"]


def test_a_body_with_many_wrong_values_costs_no_more_than_one_with_few():
    cells = {f"c{at}": math.inf for at in range(20)}
    wide = {f"c{at}": math.inf for at in range(20_000)}
    labels = {"labels": [{"id": "a", "y": 1, **cells}] * 1000}
    bodies = [
        (learn_body._many, {"rows": [cells] * 1000, "y": [[]] * 1000}),
        (learn_body._one, {"row": wide, "y": 1}),
        (learn_body._one, {"row": {"a": 1}, "y": 1, **wide}),
        (label_body._many, labels),
    ]
    for model, body in bodies:
        with pytest.raises(ValidationError) as caught:
            model.validate_python(body)
        assert caught.value.error_count() < 200
        assert refusal(caught.value).status == 422
    with pytest.raises(RefusedError, match="10000 lines") as empty:
        learn_body(b"\n" * 40_001, "application/x-ndjson")
    assert empty.value.status == 413


def test_an_id_that_comes_twice_is_named():
    body = {"rows": [{"a": 1.0}] * 4, "ids": ["a", "b", "c", "b"]}
    with pytest.raises(RefusedError, match=r"ids\[3\] must be there only once. Got 'b'"):
        predict_body(json.dumps(body).encode(), "application/json")


def test_a_row_that_the_model_cannot_predict_is_refused_alone(serving, stream, tmp_path):
    rows, labels = stream
    model = BudgetMKLClassifier(budget=20, random_state=0).fit([list(row.values()) for row in rows], labels)
    modelfile.save(model, tmp_path / "model.bomkl")
    with serving(model_file=str(tmp_path / "model.bomkl")) as client:
        good, large = {"x1": 1.0, "x2": 2.0}, {"x1": 1e300, "x2": 2.0}
        problem = client.ask("/v1/predict", {"rows": [good, large], "ids": ["a", "b"]}, 422)
        assert problem["field"] == "rows[1]"
        assert "too large" in problem["detail"]
        predicted, refused = client.service._predictor.answers([Work([row], ["row"]) for row in (good, large)])
        assert predicted["predictions"][0] in (0, 1)
        assert refused.status == 422
        assert client.ask("/v1/predict", {"row": good})["prediction"] in (0, 1)
        assert client.get("/healthz").status_code == 200


def test_classes_are_bounded(serving, stream):
    names = [f"class {number}" for number in range(1001)]
    with serving() as client:
        assert client.learn([stream[0][0]] * 1001, names, 422)["field"] == "y[1000]"


def test_the_token_is_needed_for_everything_but_the_empty_page(serving):
    with serving(token="secret") as client:
        for path in ("/v1/state", "/v1/model", "/v1/events", "/metrics", "/docs", "/openapi.json"):
            response = client.get(path)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
        assert client.post("/v1/predict", json={"row": {"a": 1}}).status_code == 401
        assert client.get("/v1/state", headers={"authorization": "Bearer secre"}).status_code == 401
        assert client.get("/v1/state", headers={"authorization": "Bearer secret"}).status_code == 200
        assert client.get("/").status_code == client.get("/healthz").status_code == 200


def test_a_token_for_metrics_opens_nothing_else(serving):
    scraping, all_of_it = ({"authorization": f"Bearer {token}"} for token in ("scrape", "secret"))
    with serving(token="secret", metrics_token="scrape") as client:
        for headers in (scraping, all_of_it):
            assert client.get("/metrics", headers=headers).status_code == 200
        for path in ("/v1/state", "/v1/model", "/v1/events", "/docs", "/openapi.json"):
            assert client.get(path, headers=scraping).status_code == 401
        assert client.post("/v1/predict", json={"row": {"a": 1}}, headers=scraping).status_code == 401
        assert client.get("/metrics", headers={"authorization": "Bearer scrap"}).status_code == 401


@pytest.mark.parametrize(("options", "problem"), [((), "needs --token"), (("--token", "a"), "must differ")])
def test_a_token_for_metrics_needs_another_token(tmp_path, options, problem):
    done = CliRunner().invoke(command, ["serve", "--data", str(tmp_path), "--metrics-token", "a", *options])
    assert done.exit_code == 2
    assert problem in done.stderr


def test_other_addresses_need_a_token(tmp_path):
    with pytest.raises(ValueError, match="--token"):
        serve(str(tmp_path), Start(), None, ServiceSettings(), "0.0.0.0", 0, None)


def test_a_port_in_use_is_named_before_anything_is_written(tmp_path):
    (taken,) = bound_sockets("127.0.0.1", 0)
    with taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port}.*another --port"):
            serve(str(tmp_path / "data"), Start(), None, ServiceSettings(), "127.0.0.1", port, None)
    assert not (tmp_path / "data" / "log.sqlite").exists()
    with pytest.raises(ValueError, match="Cannot listen on no such host"):
        bound_sockets("no such host", 0)


def test_other_host_names_are_refused_on_loopback(serving):
    with serving() as client:
        for host in (
            "evil.example",
            "127.0.0.1:80@evil.com",
            "localhost:x",
            "localhost.evil.com",
            "[::1]x",
            "::1:80",
            "",
        ):
            assert client.get("/v1/state", headers={"host": host}).status_code == 421
        for host in ("localhost:8000", "LOCALHOST", "127.0.0.1", "127.0.0.1:1", "[::1]:8000", "[::1]"):
            assert client.get("/v1/state", headers={"host": host}).status_code == 200


def test_pages_of_other_sites_get_nothing(serving):
    with serving() as client:
        response = client.get("/", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in response.headers
        assert response.headers["x-content-type-options"] == "nosniff"
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy


def test_idempotency_keys_are_checked(serving):
    with serving() as client:
        for key in ("", "x" * 201, "a b"):
            problem = client.ask("/v1/learn", GOOD, 422, **{"idempotency-key": key})
            assert problem["field"] == "Idempotency-Key"
        client.ask("/v1/learn", GOOD, **{"idempotency-key": string.punctuation})


def test_a_body_that_breaks_off_is_no_error_of_the_service():
    async def stream():
        yield b"{"
        raise ClientDisconnect

    with pytest.raises(RefusedError, match="cut off"):
        asyncio.run(read(limits.Intake(), stream))


async def read(intake, *streams):
    """Read bodies that are all answered at the end; returns how many bytes each had."""
    async with contextlib.AsyncExitStack() as stack:
        requests = [SimpleNamespace(headers={"content-type": "application/json"}, stream=stream) for stream in streams]
        return [len((await stack.enter_async_context(intake.content(request, learn_body)))[0]) for request in requests]


def test_large_bodies_are_bounded_together():
    async def large():
        for _ in range(16):
            yield b" " * 2**20

    async def small():
        yield b" " * 2**16

    intake = limits.Intake()
    assert asyncio.run(read(intake, *[large] * 8, small)) == [2**24] * 8 + [2**16]
    with pytest.raises(RefusedError, match="at once") as caught:
        asyncio.run(read(intake, *[large] * 9))
    assert (caught.value.status, caught.value.retry_after) == (429, 1)
    assert intake.bytes == 0
