"""`bomkl serve --from URL` is killed while it learns; each record is in its log once."""

import random
import time

import pytest

from bomkl.serve.storage.log import Log
from bomkl_lab.benchmarks.common.brokers import as_json, make_rows

ROWS = make_rows(400)


@pytest.mark.slow
def test_a_service_that_is_killed_learns_each_record_once(broker, url, tmp_path):
    from bomkl_lab.benchmarks.common.service import Server

    broker.send("rows", as_json(ROWS[:200]), partitions=broker.partitions)
    draw = random.Random(0)
    with Server(tmp_path / "data", "--from", url("rows"), "--budget", "50") as server:
        for _ in range(3):
            server.start()
            time.sleep(draw.uniform(0.0, 0.5))
            server.kill()
        broker.send("rows", as_json(ROWS[200:]), partitions=broker.partitions)
        server.start()
        for _ in range(600):
            if server.state()["rows"] >= len(ROWS):
                break
            time.sleep(0.05)
        time.sleep(0.5)
        assert server.state()["rows"] == len(ROWS)
        assert server.stop() == 0
    rows = [tuple(row) for entry in Log(str(tmp_path / "data"), read_only=True).entries() for row in entry.rows]
    assert sorted(rows) == sorted(tuple(value for name, value in row.items() if name != "label") for row in ROWS)
