import io
import json
import threading
import time

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, modelfile
from bomkl.serve.folder.start import Start


def matrix(rows):
    return np.array([list(row.values()) for row in rows])


def as_learned(rows):
    """Rows as the service hands them to a fresh model."""
    tables = getattr(AutoMKLClassifier, "takes_tables_", False)
    return {name: [row[name] for row in rows] for name in rows[0]} if tables else matrix(rows)


def model_bytes(estimator, tmp_path):
    modelfile.save(estimator, tmp_path / "compared.bomkl")
    return (tmp_path / "compared.bomkl").read_bytes()


def test_a_row_is_predicted_then_learned_once_its_label_comes(serving, stream):
    rows, labels = stream
    with serving() as client:
        assert client.ask("/v1/predict", {"row": rows[0], "id": "first"}) == {"prediction": None, "rows": 0}
        assert client.state()["labels"]["waiting"] == 1
        assert client.ask("/v1/label", {"id": "first", "y": labels[0]}) == {"rows": 1, "prediction": None}
        assert client.state()["labels"]["waiting"] == 0
        client.learn(rows[1:100], labels[1:100])
        answer = client.ask("/v1/predict", {"row": rows[100], "id": "r"})
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        client.learn(rows[101:], labels[101:])  # the model changes between the prediction and the label
        assert client.ask("/v1/label", {"id": "r", "y": labels[100]})["rows"] == 200


def test_the_model_is_that_of_the_same_rows_without_a_service(serving, stream, tmp_path):
    rows, labels = stream
    with serving() as client:
        for begin, end in ((0, 1), (1, 2), (2, 9), (9, 90), (90, 200)):
            client.learn(rows[begin:end], labels[begin:end])
        served = client.get("/v1/model").content
        state = client.state()
    expected = AutoMKLClassifier(budget=30, random_state=0).partial_fit(as_learned(rows), labels)
    assert served == model_bytes(expected, tmp_path)
    assert state["rows"] == 200
    assert state["error"] * 200 == expected.mistakes_
    np.testing.assert_array_equal(state["kernel_weights"], expected.kernel_weights_)
    assert state["curves"]["rows"] == list(range(16, 200, 16))


def test_predictions_before_learning_are_those_of_one_row_at_a_time(serving, stream):
    rows, labels = stream
    model = AutoMKLClassifier(budget=30, random_state=0)
    expected = [None]
    for at, (row, label) in enumerate(zip(rows, labels, strict=True)):
        x = as_learned([row])
        if at:
            undecided = model.decision_function(x)[0] == 0  # a margin of zero counts as a mistake
            expected.append(None if undecided else int(model.predict(x)[0]))
        model.partial_fit(x, [label])
    with serving() as client:
        parts = [client.learn(rows[part], labels[part])["predictions"] for part in (slice(3), slice(3, None))]
    assert [*parts[0], *parts[1]] == expected


@pytest.mark.parametrize("late", ["third", "a"])
def test_replies_do_not_depend_on_how_rows_with_new_classes_are_grouped(serving, stream, tmp_path, late):
    rows, labels = stream
    names = [("no", "yes")[label] for label in labels]
    names[60] = names[120] = late
    names[90] = "fourth"
    with serving(tmp_path / "together") as client:
        together = client.learn(rows, names)["predictions"]
        first = client.get("/v1/model").content
    with serving(tmp_path / "single") as client:
        single = [client.ask("/v1/learn", {"row": r, "y": y})["prediction"] for r, y in zip(rows, names, strict=True)]
        second = client.get("/v1/model").content
    assert single == together
    assert first == second


def test_a_repeated_request_learns_once_and_gets_the_same_reply(serving, stream):
    rows, labels = stream
    with serving() as client:
        first = client.learn(rows[:50], labels[:50], key="k")
        assert client.learn(rows[:50], labels[:50], key="k") == first
        assert client.state()["rows"] == 50
        problem = client.learn(rows[:49], labels[:49], 422, key="k")
        assert problem["field"] == "Idempotency-Key"
        client.ask("/v1/predict", {"row": rows[50], "id": "r"})
        label = client.ask("/v1/label", {"id": "r", "y": 1})
        assert client.ask("/v1/label", {"id": "r", "y": 1}) == label
        assert client.ask("/v1/label", {"id": "r", "y": 0}, 409)["field"] == "id"
        assert client.ask("/v1/predict", {"row": rows[50], "id": "r"}, 409)["field"] == "id"
    with serving() as client:
        assert client.learn(rows[:50], labels[:50], key="k") == first
        assert client.ask("/v1/label", {"id": "r", "y": 1}) == label
        assert client.state()["rows"] == 51


def test_an_id_names_one_row(serving, stream):
    rows, _ = stream
    with serving() as client:
        body = {"rows": rows[:2], "ids": ["x", "y"]}
        assert client.ask("/v1/predict", body) == client.ask("/v1/predict", body)
        assert client.state()["labels"]["waiting"] == 2
        assert client.ask("/v1/predict", {"row": rows[2], "id": "x"}, 409)["field"] == "id"
        problem = client.ask("/v1/label", {"labels": [{"id": "x", "y": 1}, {"id": "z", "y": 1}]}, 404)
        assert problem["field"] == "labels[1].id"
        assert client.state()["rows"] == 0
        assert client.ask("/v1/label", {"labels": [{"id": "y", "y": 1}, {"id": "x", "y": 0}]})["rows"] == 2


def test_rows_without_a_label_expire_and_are_counted(serving, stream):
    with serving(label_timeout=0.01) as client:
        client.ask("/v1/predict", {"row": stream[0][0], "id": "x"})
        while client.state()["labels"]["waiting"]:
            pass
        assert client.state()["labels"]["expired"] == 1
        assert "expired" in client.ask("/v1/label", {"id": "x", "y": 1}, 404)["detail"]
    with serving() as client:
        assert client.state()["labels"]["expired"] == 1


def test_a_clock_that_is_set_makes_no_row_expire(serving, stream, monkeypatch):
    with serving(label_timeout=86_400) as client:
        client.ask("/v1/predict", {"row": stream[0][0], "id": "a"})
        days_later = time.time() + 10 * 86_400
        monkeypatch.setattr(time, "time", lambda: days_later)
        service = client.service
        tended = threading.Event()
        expire = service.ledger.expire
        monkeypatch.setattr(service.ledger, "expire", lambda before: (expire(before), tended.set()))
        tended.wait()
        assert client.state()["labels"]["expired"] == 0
        client.ask("/v1/label", {"id": "a", "y": 1})


def test_numbers_are_regressed_on(serving, stream, tmp_path):
    rows, _ = stream
    targets = [row["a"] + 0.5 for row in rows]
    with serving() as client:
        client.learn(rows, targets)
        state = client.state()
        predicted = client.ask("/v1/predict", {"rows": rows[:3]})["predictions"]
        served = client.get("/v1/model").content
        assert client.learn(rows[:1], ["x"], 422)["field"] == "y[0]"
    model = AutoMKLRegressor(budget=30, random_state=0).partial_fit(as_learned(rows), targets)
    assert served == model_bytes(model, tmp_path)
    assert state["task"] == "regress"
    assert predicted == pytest.approx(targets[:3], abs=0.3)
    assert state["error"] < state["baseline_error"]


def test_the_task_can_be_told(serving, stream, tmp_path):
    rows, labels = stream
    with serving(tmp_path / "regress", Start(budget=30, task="regress")) as client:
        client.learn(rows[:20], labels[:20])
        assert client.state()["task"] == "regress"
    with serving(tmp_path / "classify", Start(budget=30, task="classify")) as client:
        client.learn(rows[:20], [float(label) for label in labels[:20]])
        assert client.state()["task"] == "classify"
        assert client.learn(rows[:1], [0.5], 422)["field"] == "y[0]"


@pytest.mark.skipif(
    not getattr(AutoMKLClassifier, "takes_tables_", False), reason="the model does not take tables in this version"
)
def test_texts_dates_and_gaps_are_learned_in_any_groups(serving, stream, tmp_path):
    numbers, labels = stream
    cities, names = ("Oslo", "Bonn", None, "Rome"), [("no", "yes")[label] for label in labels]
    rows = [
        {"a": None if at % 7 == 0 else row["a"], "b": row["b"], "city": cities[at % 4], "paid": at % 3 == 0}
        | {"day": f"2024-03-{1 + at % 28:02}", "late": None if at < 5 else row["a"]}
        for at, row in enumerate(numbers)
    ]
    models = []
    for number, size in enumerate((1, 33, 200)):
        with serving(tmp_path / str(number)) as client:
            for begin in range(0, 200, size):
                client.learn(rows[begin : begin + size], names[begin : begin + size])
            kinds = [column["kind"] for column in client.state()["columns"]]
            assert kinds == ["number", "number", "category", "boolean", "date", "number"]
            for column, cell in (("a", "x"), ("city", 1), ("paid", 2), ("day", "today"), ("late", True), ("new", 1)):
                client.learn([{**rows[0], column: cell}], ["no"])
            assert client.state()["refused"] == 0
            assert client.ask("/v1/predict", {"row": rows[0]})["prediction"] in ("no", "yes")
            models.append(client.get("/v1/model").content)
    assert models[0] == models[1] == models[2]


def test_json_lines_and_arrow_are_the_same_rows(serving, stream, tmp_path):
    pa = pytest.importorskip("pyarrow")
    rows, labels = stream
    lines = b"\n".join(json.dumps({"row": r, "y": y}).encode() for r, y in zip(rows, labels, strict=True))
    sink = io.BytesIO()
    table = pa.table({"a": [r["a"] for r in rows], "b": [r["b"] for r in rows], "y": labels})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    bodies = {
        "application/x-ndjson": lines,
        "application/vnd.apache.arrow.stream": sink.getvalue(),
        "application/json": json.dumps({"rows": rows, "y": labels}).encode(),
    }
    models = []
    for number, (kind, body) in enumerate(bodies.items()):
        with serving(tmp_path / str(number)) as client:
            response = client.post("/v1/learn", content=body, headers={"content-type": kind})
            assert response.status_code == 200, response.text
            models.append(client.get("/v1/model").content)
    assert models[0] == models[1] == models[2]


def test_a_service_goes_on_from_a_model_file(serving, stream, tmp_path):
    rows, labels = stream
    X, named = matrix(rows), [{"x1": row["a"], "x2": row["b"]} for row in rows]
    path = str(tmp_path / "m.bomkl")
    modelfile.save(BudgetMKLClassifier(budget=20, random_state=0).fit(X[:100], labels[:100]), path)
    with serving(model_file=path) as client:
        assert client.learn(rows[:1], labels[:1], 422)["field"] == "rows[0].x1"
        assert client.learn(named[:1], [7], 422)["field"] == "y[0]"
        client.learn(named[100:], labels[100:])
        served = client.get("/v1/model").content
    model = BudgetMKLClassifier(budget=20, random_state=0).fit(X[:100], labels[:100])
    assert served == model_bytes(model.partial_fit(X[100:], labels[100:]), tmp_path)
    with serving(model_file=path) as client:
        assert client.state()["rows"] == 100
    with pytest.raises(ValueError, match="was started with other options"), serving():
        pass


def test_figures_are_offered_to_prometheus(serving, stream):
    rows, labels = stream
    with serving() as client:
        client.learn(rows, labels)
        answer = client.get("/metrics")
        state = client.state()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = [each for family in text_string_to_metric_families(answer.text) for each in family.samples]
    found = {each.name: each for each in samples}
    assert found["bomkl_rows_learned_total"].value == 200
    assert found["bomkl_error"].value == state["error"]
    learned = {"route": "/v1/learn"}
    assert ("bomkl_requests_total", {**learned, "status": "200"}, 1) in [each[:3] for each in samples]
    assert ("bomkl_request_seconds_bucket", {**learned, "le": "+Inf"}, 1) in [each[:3] for each in samples]
    weights = [each.labels["kernel"] for each in samples if each.name == "bomkl_kernel_weight"]
    assert weights == state["kernels"]


def test_documentation_needs_no_other_host(serving):
    with serving() as client:
        page = client.get("/docs")
        assert page.status_code == 200
        assert "https://" not in page.text
        paths = client.get("/openapi.json").json()["paths"]
    names = ("predict", "learn", "label", "state", "model", "report", "events")
    assert set(paths) == {"/metrics", "/healthz", "/readyz", *(f"/v1/{name}" for name in names)}


def test_columns_come_and_go_as_told(serving, stream, tmp_path):
    rows, labels = stream
    late = [row if at < 30 else {"b": row["b"], "c": {"d": [row["a"]]}} for at, row in enumerate(rows)]
    models = []
    for number, size in enumerate((1, 64)):
        with serving(tmp_path / str(number)) as client:
            for begin in range(0, 200, size):
                client.learn(late[begin : begin + size], labels[begin : begin + size])
            assert [column["name"] for column in client.state()["columns"]] == ["a", "b", "c.d.0"]
            assert client.ask("/v1/predict", {"row": {"b": 1.0, "never": "seen"}})["prediction"] in (0, 1)
            refused = client.ask("/v1/predict", {"row": {"never": "seen"}}, 422)
            assert "columns that were learned from: a, b, c.d.0. Got never instead" in refused["detail"]
            models.append(client.get("/v1/model").content)
    assert models[0] == models[1]
    with serving(tmp_path / "ignore", start=Start(budget=30, new_columns="ignore")) as client:
        client.learn(late, labels)
        assert [column["name"] for column in client.state()["columns"]] == ["a", "b"]
        assert client.state()["ignored_columns"] == {"c.d.0": len(late) - 30}
        assert f"bomkl_cells_ignored_total {len(late) - 30}.0" in client.get("/metrics").text
    with serving(tmp_path / "full", start=Start(budget=30)) as client:  # by row 30 the model has no more room
        client.learn(late, labels)
        client.learn([{"b": 1.0} | {f"n{i}": 1.0 for i in range(1500)}], [1])
        ignored = client.state()["ignored_columns"]
        assert ignored["c.d.0"] == len(late) - 30
        assert sum(ignored.values()) == len(late) - 30 + 1500
        assert len(ignored) <= 202
    with serving(tmp_path / "refuse", start=Start(budget=30, new_columns="refuse")) as client:
        client.learn(late[:30], labels[:30])
        assert client.learn(late[29:], labels[29:], 422)["field"] == "rows[1].c.d.0"
        assert client.state()["rows"] == 30


def test_objects_and_lists_in_rows_become_columns(serving, tmp_path):
    nested = [{"place": {"city": "xy"[i % 2], "floor": i % 3}, "sizes": [i % 5, [i % 7]]} for i in range(40)]
    plain = [
        {
            "place.city": row["place"]["city"],
            "place.floor": row["place"]["floor"],
            "sizes.0": row["sizes"][0],
            "sizes.1.0": row["sizes"][1][0],
        }
        for row in nested
    ]
    y = [i * i % 3 % 2 for i in range(40)]
    models = []
    for name, rows in (("nested", nested), ("plain", plain)):
        with serving(tmp_path / name) as client:
            client.learn(rows[:20], y[:20])
            lines = b"\n".join(
                json.dumps({"row": row, "y": label}).encode() for row, label in zip(rows, y, strict=True)
            )
            client.ask("/v1/learn", lines, **{"content-type": "application/x-ndjson"})
            assert client.ask("/v1/predict", {"rows": nested}) == client.ask("/v1/predict", {"rows": plain})
            models.append(client.get("/v1/model").content)
    assert models[0] == models[1]


def test_rows_with_two_values_of_one_name_are_refused(serving):
    with serving() as client:
        refused = client.learn([{"a": {"b": 1}, "a.b": 2}], [1], status=422)
        assert "two values have the name 'a.b'" in refused["detail"]
        assert client.state()["rows"] == 0
