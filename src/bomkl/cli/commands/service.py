"""``serve``, ``push`` and ``replay``."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Literal

import typer

from bomkl._support.extras import install_hint
from bomkl.cli.messages import EXIT_FAILED, UsageError, fail
from bomkl.cli.options import RowOptions
from bomkl.cli.output import check_output
from bomkl.cli.rows import FromOption
from bomkl.cli.settings import stream_arguments

_NEEDED = {"fastapi", "fastapi_offline", "httpx", "plotly", "prometheus_client", "pydantic", "uvicorn", "starlette"}


def serve(
    data: Annotated[str, typer.Option(help="Folder for the log and the snapshots.", metavar="DIR")],
    model: Annotated[
        str,
        typer.Argument(help="Model file that a new folder starts from, or auto for an empty model.", metavar="MODEL"),
    ] = "auto",
    model_option: Annotated[str | None, typer.Option("--model", help="The same as MODEL.", show_default=False)] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="BOMKL_TOKEN", help="Token that requests must carry; required unless --host is a loopback address."
        ),
    ] = None,
    metrics_token: Annotated[
        str | None,
        typer.Option(envvar="BOMKL_METRICS_TOKEN", help="Token that opens /metrics and nothing else, for Prometheus."),
    ] = None,
    source: FromOption = None,
    label: Annotated[str, typer.Option(help="Field of the label in the records of --from.")] = "label",
    task: Annotated[
        Literal["auto", "classify", "regress"],
        typer.Option(help="Task of an empty model: classify, regress, or auto to decide by the first label."),
    ] = "auto",
    budget: Annotated[int, typer.Option(min=1, help="Largest number of rows that an empty model may store.")] = 1000,
    drift: Annotated[
        Literal["auto", "adapt", "none"], typer.Option(help="How an empty model follows drift: auto, adapt or none.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the random numbers of an empty model.")] = 0,
    new_columns: Annotated[
        Literal["learn", "ignore", "refuse"],
        typer.Option(help="What to do with columns that were not in the first row: learn, ignore or refuse."),
    ] = "learn",
    snapshot_every: Annotated[int, typer.Option(min=1, help="Rows between snapshots.")] = 10_000,
    keep_log: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of rows that the log must keep; older ones may be deleted.", show_default="all"
        ),
    ] = None,
    label_timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds after which a row without a label is forgotten.")
    ] = 86_400.0,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="Largest number of rows that wait for their label.")
    ] = 100_000,
    max_queued: Annotated[
        int,
        typer.Option(
            min=1, help="Largest number of rows that wait to be learned from; beyond it, requests get status 429."
        ),
    ] = 50_000,
) -> None:
    """Run a model as an HTTP service that learns.

    It predicts now and learns when the label comes. Open the address in a browser for a live page; /docs describes the
    API. A row is acknowledged once it is safe on the disk. After a crash, the same command continues with the same
    model, bit for bit. On SIGTERM or Ctrl-C, accepted requests are finished first.
    """
    with _installed("serve"):
        from bomkl.serve.folder.start import FRESH, Start
        from bomkl.serve.requests.service import ServiceSettings
        from bomkl.serve.server import serve as run

    if model_option is not None and model not in (FRESH, model_option):
        raise UsageError(f"MODEL and --model must be the same. Got {model!r} and {model_option!r} instead.")
    model = model_option or model
    for option, given in (("--token", token), ("--metrics-token", metrics_token)):
        if given is not None and (not given or not given.isascii() or not given.isprintable() or " " in given):
            raise UsageError(f"{option} must be printable ASCII characters without spaces.")
    if metrics_token is not None and metrics_token == token:
        raise UsageError("--metrics-token must differ from --token.")
    if metrics_token is not None and token is None:
        raise UsageError("--metrics-token needs --token: without it, everybody may read /metrics.")
    settings = ServiceSettings(snapshot_every, keep_log, label_timeout, max_waiting, max_queued)
    start = Start(FRESH, task, budget, None if drift == "none" else drift, seed, new_columns)
    feed = None
    if source is not None:
        from bomkl.cli.from_source import source_url
        from bomkl.serve.requests.feed import Feed

        feed = Feed(source_url(source), label)
    run(data, start, None if model == FRESH else model, settings, host, port, token, metrics_token, feed)


def push(
    inputs: Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input.", metavar="INPUT")],
    rows: RowOptions,
    url: Annotated[str, typer.Option(help="Address of the service.")] = "http://127.0.0.1:8000",
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Rows a second.", show_default="as fast as the model learns")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Largest number of rows in a request.")] = 1024,
    token: Annotated[str | None, typer.Option(envvar="BOMKL_TOKEN", help="Token of the service.")] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Name of this push. If it is repeated with the same name, no row is learned from twice."),
    ] = None,
    regression: Annotated[
        bool, typer.Option("--regression", help="Learn regression, even if the labels are integers.")
    ] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="Write the figures as JSON.")] = False,
) -> None:
    """Send the rows of files to a service and measure its error.

    Rows are sent in order. If the service is busy, down or out of disk space, they are sent again, and learned from
    once.
    """
    with _installed("push"):
        from bomkl.serve.push import Pusher, Sent, named_rows
    from bomkl._support.progress import progress_bar
    from bomkl.cli.settings import row_settings
    from bomkl.streams import open_stream

    stream = open_stream(
        inputs,
        block_rows=max(batch, 1024),
        target="number" if regression else "class",
        **stream_arguments(row_settings(rows, {}), as_tables=True),
    )
    begun, sent = time.monotonic(), Sent()
    with progress_bar(None, "learning", "row") as bar, Pusher(url, token, key) as pusher:
        for sent in pusher.push(named_rows(stream, regression), batch, rate):
            bar.update(sent.rows - bar.n)
    seconds = time.monotonic() - begun
    figures = {
        "rows": sent.rows,
        "error": sent.mistakes / max(sent.rows, 1),
        "seconds": round(seconds, 3),
        "rows_per_second": round(sent.rows / max(seconds, 1e-9), 1),
        "latency_p50": round(sent.latency(0.5), 6),
        "latency_p99": round(sent.latency(0.99), 6),
    }
    if json_lines:
        print(json.dumps(figures))
    else:
        print("\n".join(f"{name.replace('_', ' ')}\t{value:.6g}" for name, value in figures.items()))


def replay(
    data: Annotated[str, typer.Argument(help="Folder of a service; it may be running.", metavar="DIR")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Model file for the result.", metavar="FILE")
    ] = None,
    json_lines: Annotated[bool, typer.Option("--json", help="Write JSON lines to standard output.")] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Cut off a damaged log at its last good entry, after asking.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Repair without asking.")] = False,
) -> None:
    """Learn again from the log of a service, and check its snapshots.

    Every entry of the log must have the right checksum, and every snapshot is compared with the result, bit for bit.
    The exit code is 1 if something is damaged or differs.
    """
    import dataclasses

    with _installed("replay"):
        from bomkl.serve.folder.replay import Replay, Report
    from bomkl._support.progress import progress_bar

    if output is not None:
        check_output("--output", output, replaced=True)
    if yes and not repair:
        raise UsageError("--yes is for --repair only.")
    if repair:
        _repair(data, yes)
    wrong = 0
    with Replay(data) as run:
        if not json_lines:
            print(f"{'rows':>12} {'error':>9} {'last 1000':>9} {'baseline':>9}", file=sys.stderr)
        with progress_bar(run.rows, "replaying", "row") as bar:
            for line in run.run(bar.update):
                if json_lines:
                    print(json.dumps(dataclasses.asdict(line)), flush=True)
                elif isinstance(line, Report):
                    figures = (line.error, line.window_error, line.baseline_error)
                    print(f"{line.rows:>12} " + " ".join(f"{value:>9.4f}" for value in figures), file=sys.stderr)
                else:
                    print(f"{line.snapshot.rows:>12} snapshot: {line.problem or 'same bits'}", file=sys.stderr)
                wrong += not isinstance(line, Report) and line.problem is not None
        if output is not None:
            run.save(output)
    if wrong:
        fail(f"{wrong} snapshots are damaged or differ from the log", EXIT_FAILED)
    if not json_lines:
        print(f"rows\t{run.learner.monitor.rows}\nerror\t{run.learner.monitor.error:.6f}")


def _repair(data: str, yes: bool) -> None:
    from bomkl.serve.folder.repair import repair, repairing

    with repairing(data) as plan:
        if plan is None:
            print("The log is whole: there is nothing to repair.", file=sys.stderr)
            return
        print(plan, file=sys.stderr)
        if not (yes or typer.confirm("Keep this and cut off the rest?", err=True)):
            fail("nothing was changed", EXIT_FAILED)
        print(f"The damaged log is kept as {repair(data, plan)}.", file=sys.stderr)


@contextlib.contextmanager
def _installed(command: str) -> Iterator[None]:
    """Tell how to install what a command imports and this environment has not."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        fail(f"bomkl {command} needs {error.name}. {install_hint('serve')}")
