"""Every counter that `Status` and /metrics show by name, with what it counts. docs/metrics.md lists them."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from dataflow.held.counters import ENGINE

SOURCE: dict[str, str] = {
    # From the executor, whose own names are those without `source_`.
    "source_upqueries": "Upqueries given to the connections, those of samples included",
    "source_exact_fills": "Upqueries sent in the form that locks what it reads",
    "source_exact_fills_failed": "Of those: refused or not in time; sent again without locks",
    "source_passed": "Statements passed through to MySQL",
    "source_retried": "Statements sent once more, because their connection was lost",
    "source_cancelled": "Statements that nobody waited for any more",
    "source_killed": "Statements of those that had to be killed at MySQL",
    "source_deadlines": "Statements that MySQL did not answer in time",
    "source_overloaded": "Statements refused, because too many waited for a connection",
}

SAMPLE: dict[str, str] = {
    "sample_equal": "Sampled hits that MySQL answers alike at the same position",
    "sample_different": "Sampled hits that MySQL answers otherwise: a fault, logged with all that is needed to find it",
    "sample_inconclusive": "Sampled hits of which that cannot be told, mostly because the key was written meanwhile",
}

TRUST: dict[str, str] = {
    "sample_as_session": "Of these: compared under the variables of the session that was given the hit",
    "trust_agrees": "Answers of new caches that were MySQL's own",
    "trust_differs": "Answers that were not: a fault, logged with all that reproduces it; no client got them",
    "trust_unknown": "Answers that could not be compared, mostly because the key was written meanwhile",
    "trust_given_unchecked": "Answers that were due and given uncompared, as eight checks or more before were in vain",
    "caches_distrusted": "Times that a cache lost its trust, and went to evict mode or was closed",
}

PROXY: dict[str, str] = {
    "access_log_rows": "Rows of the access log that are in its files",
    "access_log_dropped": "Rows that are not: too many came at once, or they could not be written",
    "evicted": "Keys forgotten because memory was short",
    "freshness_waits": "Reads that waited for the position, as they had asked for",
    "freshness_waits_in_vain": "Of those: the position did not come in time",
    "automatic_caches_made": "Caches made by automatic caching",
    "automatic_caches_dropped": "Of those: dropped again, because they did not pay",
    "automatic_reads_left": "Reads of automatic caches left to MySQL, because Upwell's processor time was short",
    "subscribers_cut_off": "Subscriptions ended because their clients did not take what happened",
    "spans_dropped": "Spans that were not made, for there were too many in one second",
    "clock_keys_dropped": "Keys of queries by the clock forgotten, as nobody had read them for some minutes",
    "loop_late": "Times that the event loop was late by 50 ms or more; a log line says what ran",
    "planned_aside": "Texts given to the helper process that plans, for all but the smallest",
    "planned_in_vain": "Of those: too costly to plan, or the helper ended; they are no caches",
    "planning_helpers": "Helper processes started: one, and another after each that has ended",
    **SAMPLE,
    **TRUST,
}

SESSIONS: dict[str, str] = {
    "mysql_logins": "Clients that have logged in over MySQL's protocol",
    "mysql_logins_failed": "Clients that have not: refused by MySQL, gone, or too slow",
    "mysql_passed": "Statements of theirs that MySQL has answered in the client's own session",
    "mysql_rights_asked": "Times that MySQL was asked whether an account may run a cache's query",
    "columns_not_announced": "Cached reads left to MySQL, which announces their columns as no hit can be",
    "unlogged_writes": "Statements that may have written what is in no binlog: everything held was forgotten",
    "session_write_waits": "Reads that waited for their session's own writes",
    "session_shown_asked": "Reads before which MySQL was asked what its answers to cached reads may have shown",
    "session_questions": "What sessions asked about themselves that was answered here: SELECT @@sql_mode, FOUND_ROWS()",
    "empty_transactions": "COMMIT and ROLLBACK answered here, as nothing of the transaction had reached MySQL",
    "mixed_snapshots": "REPEATABLE READ transactions that may have seen two states: MySQL opened its snapshot when what"
    " hits had shown had changed, or may have",
}

HTTP: dict[str, str] = {
    "http_clients_left": "Connections over HTTP ended because too much was kept for clients that did not take it",
    "http_answers_refused": "Answers over HTTP refused (503), and streams ended, for there was no room to keep them",
}

GAUGES: dict[str, str] = {
    "source_waiting": "Requests that wait for a connection to the source",
    "source_held_back": "Of those: their table or shard has its part of the connections",
    "ring_transactions": "Transactions in the ring, by which answers are brought forward to the position",
    "subscriptions": "Subscriptions now",
    "mysql_sessions": "Sessions over MySQL's protocol now",
}

COUNTERS: dict[str, str] = {**ENGINE, **SOURCE, **PROXY, **SESSIONS, **HTTP}


class _Executor(Protocol):
    counters: Counter[str]

    @property
    def queued(self) -> int: ...

    @property
    def held_back(self) -> int: ...


def of_source(executor: _Executor) -> dict[str, int]:
    """What is counted where the source is asked, by name."""
    counted = {name: executor.counters[name.removeprefix("source_")] for name in SOURCE}
    return {**counted, "source_waiting": executor.queued, "source_held_back": executor.held_back}
