"""A proxy whose fills and stream are late: a test that minds is one that fails on a busy machine.

`make test ARGS='-p integration.support.late integration/protocol/test_mysql_reads.py'` runs a part so. The environment
says how late, in seconds: `LATE_FILLS` what MySQL answers to upqueries, `LATE_STREAM` what the change stream brings;
`IMPATIENT=1`: what is waited for a short time only is not waited for at all. Proxies in processes of their own are as
ever.
"""

from __future__ import annotations

import asyncio
import os

from dataflow.messages import UpqueryAnswer, UpqueryFailed, UpqueryRequest
from external_upquery.executor import Deliver, Executor
from proxy.checking import auditor
from proxy.mysql.session import cached_reads
from vstream.binlog.dump import DumpReader

FILLS = float(os.environ.get("LATE_FILLS", "0.05"))
STREAM = float(os.environ.get("LATE_STREAM", "0.05"))


def make_fills_late(seconds: float) -> None:
    submit = Executor.submit

    def late(executor: Executor, request: UpqueryRequest, deliver: Deliver, deadline: float | None = None) -> None:
        def delivered(result: UpqueryAnswer | UpqueryFailed) -> None:
            asyncio.get_running_loop().call_later(seconds, deliver, result)

        submit(executor, request, delivered, deadline)

    Executor.submit = late  # type: ignore[assignment, method-assign]


def make_stream_late(seconds: float) -> None:
    def on_readable(dump: DumpReader) -> None:
        if not dump._scheduled:
            dump._scheduled = True
            dump._loop.call_later(seconds, dump._go_on)

    DumpReader._on_readable = on_readable  # type: ignore[assignment, method-assign]


if FILLS:
    make_fills_late(FILLS)
if STREAM:
    make_stream_late(STREAM)
if os.environ.get("IMPATIENT"):
    auditor.PATIENCE = cached_reads.BROUGHT_SOON = cached_reads.PATIENT = 0.0
