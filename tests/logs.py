"""Logs of a service without HTTP, for the tests of damage."""

import numpy as np

from bomkl import modelfile
from bomkl.serve.folder.snapshots import Snapshots
from bomkl.serve.folder.start import Start, catch_up, newest, set_up
from bomkl.serve.requests.ledger import Ledger
from bomkl.serve.requests.service import ServiceSettings
from bomkl.serve.requests.work import Work
from bomkl.serve.server import open_service
from bomkl.serve.storage.log import Log

START = Start(budget=8)


def write_log(folder, sizes=(80, 60, 60), snapshots=(), close=True, start=START):
    """Write entries of some sizes, a key, a row that waits for its label, and snapshots after some entries."""
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(str(folder))
    set_up(str(folder), log, start, None)
    ledger = Ledger(log, 10, True)
    rng = np.random.default_rng(0)
    for number, size in enumerate(sizes, 1):
        rows = [{"heat": a, "city": ("Oslo", "Bonn")[b > 0]} for a, b in rng.normal(size=(size, 2)).tolist()]
        labels = [("fine", "broken")[row["heat"] > 0] for row in rows]
        ledger.begin()
        key = {"key": "key:k", "fingerprint": "f"} if number == 1 else {}
        ledger.store(Work(rows, ["row"] * size, labels, **key))
        if number == 1:
            ledger.store(Work(rows[:1], ["row"], ids=["late"]))
        ledger.commit()
        if number in snapshots:
            learner = newest(str(folder), log)
            list(catch_up(learner, log))
            Snapshots(str(folder)).write(learner)
    if close:
        log.close()
    return log


def model_of(folder):
    """The model that a service would go on with, as the bytes of its file, and what it knows of keys and rows."""
    service = open_service(str(folder), START, None, ServiceSettings())
    log = service._log
    with log:
        service.catch_up()
        model = modelfile.to_bytes(modelfile.Model(service._learner.estimator))
        more = [
            str(service.ledger.columns),
            log.known("key:k"),
            log.waiting_row("late"),
            service._learner.monitor.figures(),
        ]
        return model, str(more)
