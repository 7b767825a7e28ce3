"""When spans are made, to which trace they belong, and what they never hold up."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import structlog.testing

from proxy.access import spans as module
from proxy.access.spans import MOST, Seldom, spans_of, wanted
from proxy.port.reasons import Reason
from proxy.port.tracing import Noted, trace_of
from tests.support.otlp_receiver import receiving

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "shop"}, False),  # nothing says where to
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_spans_are_made_where_the_environment_says_where_to_send_them(
    environment: Mapping[str, str], expected: bool
) -> None:
    assert wanted(environment) is expected
    if not expected:
        assert spans_of(environment, texts=False) is None


def test_without_the_extra_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.setitem(sys.modules, name, None)
    with structlog.testing.capture_logs() as logged:
        assert spans_of(ENDPOINT, texts=False) is None
    (line,) = logged
    assert line["event"] == "no_spans" and "[otel]" in line["why"] and "is not installed" in line["why"]


@pytest.mark.parametrize(
    ("text", "trace"),
    [
        (f"SELECT 1 /*traceparent='{PARENT}'*/", {"traceparent": PARENT}),
        (f"/* a=1, traceparent = '{PARENT}' , tracestate='a%3D1%2Cb%3D2' */ SELECT 1",
         {"traceparent": PARENT, "tracestate": "a=1,b=2"}),
        ("SELECT 1", {}),
        (f"SELECT traceparent='{PARENT}'", {}),
        (f"SELECT /*+ traceparent='{PARENT}' */ 1", {}),
        (f"SELECT /*!80000 traceparent='{PARENT}' */ 1", {}),
        (f"SELECT 1 /*traceparent='{PARENT}", {}),
    ],
)  # fmt: skip
def test_the_trace_of_a_statement_stands_in_a_comment(text: str, trace: Mapping[str, str]) -> None:
    assert trace_of(text.encode()) == trace


def test_what_is_no_trace_begins_one_and_of_very_many_spans_the_rest_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with receiving() as collector:
        for name, value in collector.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(module, "time_ns", lambda: 2_000_000_000)
        spans = spans_of(collector.environment, texts=False)
        assert spans is not None
        for trace in ({"traceparent": "00-nonsense"}, {"traceparent": ""}, {"traceparent": PARENT}):
            why = Reason.LATE.why("the value is 'secret'")
            spans.passed(1_000_000_000, Noted(3, 1.5), trace, why, cache="c", database="")
        for _ in range(MOST):
            spans.missed(1, Noted(), {}, cache="c", database="d")
        assert spans.dropped == 3
        spans._provider.force_flush()
        first, second, third = collector.spans[:3]
        assert (first.parent, second.parent, third.parent) == ("", "", PARENT.split("-")[2])
        assert (first.started, first.ended) == (1_000_000_000, 2_000_000_000)
        assert first.attributes == {
            "db.system.name": "mysql", "db.response.returned_rows": 3, "upwell.outcome": "passed",
            "upwell.cache": "c", "upwell.reason": "late", "upwell.mysql_ms": 1.5,
        }  # fmt: skip
        spans._provider.shutdown()


def test_complaints_of_the_exporter_come_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    seldom, record = Seldom(), logging.makeLogRecord({"msg": "cannot be reached"})
    assert [seldom.filter(record) for _ in range(3)] == [True, False, False]
    now[0] += 61
    assert seldom.filter(record)


def test_a_text_of_comments_without_an_end_is_gone_over_once() -> None:
    """By a count of looks, not by time: the rest of the text is looked at no more."""
    looks = 0

    class Text(bytes):
        def find(self, *arguments: Any) -> int:
            nonlocal looks
            looks += 1
            return super().find(*arguments)

    assert trace_of(Text(b"SELECT 'traceparent" + b"/*a" * 20_000)) == {}
    assert looks == 2
    assert trace_of(Text(b"/*!" * 1_000 + b"/*traceparent='00-1-2-01'*/")) == {"traceparent": "00-1-2-01"}
