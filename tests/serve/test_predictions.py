import asyncio
import threading
import time

import pytest

from bomkl import AutoMKLRegressor, BudgetMKLRegressor, modelfile
from bomkl.serve.folder.start import Start
from bomkl.serve.model.learner import Learner
from bomkl.serve.requests.work import Work


@pytest.fixture
def numbers(serving, stream):
    """A service that has learned 200 rows with numbers, and the same model."""
    rows, _ = stream
    labels = [row["a"] + 0.1 * row["b"] for row in rows]
    model = AutoMKLRegressor(budget=30, random_state=0)
    model.partial_fit({name: [row[name] for row in rows] for name in rows[0]}, labels)
    with serving(start=Start(task="regress", budget=30)) as client:
        client.learn(rows, labels)
        yield client, model, rows


def test_predictions_of_numbers_can_have_an_interval(numbers):
    client, model, rows = numbers
    row = {name: [value] for name, value in rows[0].items()}
    low, high = model.predict_interval(row, 0.8)[0].tolist()
    found = client.ask("/v1/predict?interval=0.8", {"row": rows[0]})
    assert found == {"prediction": model.predict(row)[0], "lower": low, "upper": high, "rows": 200}
    assert low < found["prediction"] < high
    many = client.ask("/v1/predict?interval=0.8", {"rows": rows[:3]})
    assert [many[name][0] for name in ("predictions", "lower", "upper")] == [found["prediction"], low, high]
    assert len(many["upper"]) == 3
    assert "lower" not in client.ask("/v1/predict", {"row": rows[0]})


def test_any_prediction_can_have_its_reasons(numbers):
    client, model, rows = numbers
    expected = model.explain({name: [value] for name, value in rows[0].items()})
    found = client.ask("/v1/predict?explain=true&interval=0.9", {"row": rows[0], "id": "late"})
    assert found["explanation"]["columns"] == expected.columns
    assert found["explanation"]["kernels"] == expected.kernels
    assert found["explanation"]["score"] == expected.margin == pytest.approx(found["prediction"])
    assert found["lower"] < found["upper"]
    many = client.ask("/v1/predict?explain=true", {"rows": rows[:2]})
    assert many["explanations"][0] == found["explanation"]
    assert client.ask("/v1/predict?explain=true", {"rows": rows[:101]}, 422)["field"] == "explain"


@pytest.mark.parametrize("query", ["interval=1", "interval=x", "interval=nan", "interval=", "explain=maybe"])
def test_wrong_options_are_named(serving, stream, query):
    with serving() as client:
        assert client.ask(f"/v1/predict?{query}", {"row": stream[0][0]}, 422)["field"] == query.partition("=")[0]


def test_what_a_model_cannot_do_is_refused_and_stored_nowhere(serving, stream, tmp_path):
    rows, labels = stream
    with serving() as client:
        assert client.ask("/v1/predict?interval=0.9&explain=true", {"row": rows[0]}) == {"prediction": None, "rows": 0}
        client.learn(rows, labels)
        problem = client.ask("/v1/predict?interval=0.9", {"row": rows[0], "id": "a"}, 422)
        assert "predicts numbers" in problem["detail"]
        assert client.state()["labels"]["waiting"] == 0
    model = BudgetMKLRegressor(budget=20, random_state=0).fit([[row["a"], row["b"]] for row in rows], labels)
    modelfile.save(model, tmp_path / "model.bomkl")
    with serving(tmp_path / "budget", model_file=str(tmp_path / "model.bomkl")) as client:
        for option in ("interval=0.9", "explain=true"):
            assert client.ask(f"/v1/predict?{option}", {"row": {"x1": 1, "x2": 2}}, 422)["field"] in option


def test_predictions_do_not_wait_for_the_model_to_learn(serving, stream, monkeypatch):
    rows, labels = stream
    learning, goes_on, learn = threading.Event(), threading.Event(), Learner._learn_rows

    def wait_and_learn(learner, *args):
        if learner.rows >= 100:
            learning.set()
            goes_on.wait(60)
        return learn(learner, *args)

    monkeypatch.setattr(Learner, "_learn_rows", wait_and_learn)
    with serving() as client:
        client.learn(rows[:100], labels[:100])
        sending = threading.Thread(target=client.learn, args=(rows[100:], labels[100:]))
        sending.start()
        assert learning.wait(60)
        try:
            predicted = client.ask("/v1/predict", {"row": rows[0], "id": "late"})
            assert client.ask("/v1/predict", {"rows": rows})["rows"] == predicted["rows"]
        finally:
            goes_on.set()
            sending.join()
        assert predicted["rows"] == 100
        assert client.state()["labels"]["waiting"] == 1
        assert client.ask("/v1/predict", {"row": rows[0]})["rows"] == 200


def test_requests_of_one_moment_share_a_call(serving, stream, monkeypatch):
    rows, labels = stream
    with serving() as client:
        client.learn(rows, labels)
        alone = [client.ask("/v1/predict", {"row": row})["prediction"] for row in rows[:20]]
        predictor, calls = client.service._predictor, []
        answers = predictor.answers
        monkeypatch.setattr(predictor, "answers", lambda works: calls.append(len(works)) or answers(works))

        async def ask():
            return await asyncio.gather(*(predictor.predict(Work([row], ["row"])) for row in rows[:20]))

        assert [each["predictions"][0] for each in asyncio.run(ask())] == alone
    assert calls == [20]


def test_rows_wait_for_others_only_while_predictions_come(serving, stream):
    rows, labels = stream
    with serving() as client:
        client.learn(rows[:20], labels[:20])
        client.ask("/v1/predict", {"row": rows[0]})
        time.sleep(0.3)
        assert not client.service._is_predicting()


def test_the_service_has_a_report_of_its_model(serving, stream):
    rows, labels = stream
    with serving() as client:
        assert client.get("/v1/report").status_code == 409
        client.learn(rows, labels)
        page = client.get("/v1/report")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "of 200 in all" in page.text
