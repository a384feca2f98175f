"""What `make fuzz` prints at its end."""

from types import SimpleNamespace

from tests.fuzz import conftest


def test_several_workers_say_how_many_cases_there_were(monkeypatch):
    monkeypatch.setattr(conftest, "MINUTES", 1.0)  # the seconds of a test are made out by the workers alone
    monkeypatch.setattr(conftest, "SECONDS", 0.0)
    properties = [("fuzz", {"kind": "arrays", "cases": 1234, "last": 1234}), ("comparisons", "9,000")]
    report, lines = SimpleNamespace(user_properties=properties, failed=False), []
    conftest.pytest_terminal_summary(SimpleNamespace(stats={"passed": [report]}, write_line=lines.append))
    assert lines == ["fuzz arrays: 1,234 cases, comparisons 9,000"]
