"""The recipes of docs/queries.md that need more than Python."""

import os
import pwd
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from bomkl import modelfile

PAGE = Path(__file__).parents[2] / "docs" / "queries.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of this installation")


def recipe(title):
    return re.search(rf'^```python title="{title}"\n(.*?)^```$', PAGE.read_text(), re.DOTALL | re.MULTILINE)[1]


@pytest.fixture
def postgres(tmp_path):
    """A server of its own; gives its port."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    program = shutil.which("initdb") or (found[-1] if found else None)
    if program is None:
        pytest.skip("PostgreSQL's server is not installed")
    user = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            user = {"user": pwd.getpwnam("postgres").pw_uid}
        except KeyError:
            pytest.skip("there is no user postgres")
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    if user:
        os.chown(folder, user["user"], -1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    programs = Path(program).parent
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, "check": True, **user}
    control = [programs / "pg_ctl", "-D", folder / "data", "-w"]
    subprocess.run([program, "-D", folder / "data", "-A", "trust", "-U", "postgres"], **quiet)
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    subprocess.run([*control, "-o", options, "-l", folder / "log", "start"], **quiet)
    yield port
    subprocess.run([*control, "-m", "immediate", "stop"], **quiet)
    shutil.rmtree(folder)


def test_postgresql(postgres):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="adbc-driver-postgresql is not installed")
    address = f"postgresql://postgres@127.0.0.1:{postgres}/postgres"
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(
            "create table visits as select i as moment, i % 60 as age, 'city ' || i % 3 as city, "
            "case when i % 60 > 30 then 'buys' else 'leaves' end as label from generate_series(1, 500) as i"
        )
        connection.commit()
    names = {}
    exec(recipe("PostgreSQL").replace("postgresql://localhost:5432/postgres", address), names)
    assert names["model"].n_seen_ == 500
    assert list(names["model"].feature_names_in_) == ["age", "city"]


def test_a_batch_that_spark_hands_out_again_is_learned_once(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)

    class Stream:
        """What the recipe asks of a stream of Spark."""

        @property
        def writeStream(self):  # noqa: N802
            return self

        def foreachBatch(self, learn):  # noqa: N802
            self.learn = learn
            return self

        def option(self, name, value):
            return self

        def start(self):
            pass

    class Frame:
        def toPandas(self):  # noqa: N802
            return pandas.DataFrame({"x": [0.0, 1.0, 2.0], "label": ["a", "b", "a"]})

    stream = Stream()
    exec(recipe("Spark"), {"stream": stream})
    for number in (0, 1, 1, 2):
        stream.learn(Frame(), number)
    assert modelfile.load("visits.bomkl").n_seen_ == 9
