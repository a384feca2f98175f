"""Ways in that tests of tables go, one row or request after another."""

import json

import pytest
from sklearn.base import is_classifier


def by_service(model, rows, labels, calls, policy="learn"):
    """What requests go through, without a server: bodies, columns and the learner; gives the margins of each."""
    bodies = pytest.importorskip("bomkl.serve.formats.bodies", reason="the extra bomkl[serve] is not installed")
    from bomkl.serve.model.columns import Columns

    columns, task, margins = None, "classify" if is_classifier(model) else "regress", []
    for part in calls:
        lines = [json.dumps({"row": row, "y": y}) for row, y in zip(rows[part], labels[part], strict=True)]
        parsed = bodies.learn_body("\n".join(lines).encode(), bodies.NDJSON)
        columns = columns or Columns.of(parsed.rows[0], parsed.where[0], task, True, policy)
        cells, columns = columns.cells(parsed.rows, parsed.where)
        margins.append(model.score_and_learn(columns.input(cells), columns.targets(parsed.labels)))
    return margins


def by_river(name, rows, labels, **settings):
    river = pytest.importorskip("bomkl.river", reason="river is not installed")
    model = getattr(river, name)(seed=0, **settings)
    for row, label in zip(rows, labels, strict=True):
        model.learn_one(row, label)
    return model
