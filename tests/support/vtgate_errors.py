"""Errors that a vtgate of v24 gives for a query, as a client sees them: number, SQLSTATE, text.

By its sources the number comes from the error's state, or from `(errno n) (sqlstate s)` in its text, else from its
code: CANCELED, DEADLINE_EXCEEDED and ABORTED are 1317, RESOURCE_EXHAUSTED is 1203 (1041 where it is throttled, 1153
where a message is too large), PERMISSION_DENIED 1045, UNIMPLEMENTED 1235, INTERNAL 1815, and all others are 1105.
"""

from __future__ import annotations

from tests.support.vtgate_faults import Refused

AT = "target: shop.-80.primary: "
TABLET = AT + "vttablet: rpc error: code = {} desc = {} (CallerID: root)"

ERRORS = {
    "reparent": (1105, "HY000", AT + "primary is not serving, there may be a reparent operation in progress"),
    "reshard": (1105, "HY000", AT + "current keyspace is being resharded"),
    "no tablet": (
        *(1105, "HY000"),
        AT + 'no healthy tablet available for \'keyspace:"shop" shard:"-80" tablet_type:PRIMARY\'',
    ),
    "no connection": (1105, "HY000", AT + "VT14002: no available connection"),
    "buffer full": (1105, "HY000", AT + "primary buffer is full"),
    "evicted": (1105, "HY000", AT + "buffer full: request evicted for newer request"),
    "not serving": (
        *(1105, "HY000"),
        TABLET.format("FailedPrecondition", "operation not allowed in state NOT_SERVING"),
    ),
    "denied table": (
        *(1105, "HY000"),
        TABLET.format("FailedPrecondition", "disallowed due to rule: enforce denied tables"),
    ),
    "rule": (1105, "HY000", TABLET.format("InvalidArgument", "disallowed due to rule: cool rule")),
    "row limit": (1105, "HY000", TABLET.format("Aborted", "Row count exceeded 10000")),
    "pool": (1203, "42000", TABLET.format("ResourceExhausted", "transaction pool connection limit exceeded")),
    "throttled": (1041, "HY000", TABLET.format("ResourceExhausted", "Transaction throttled")),
    "too large": (1153, "42000", TABLET.format("ResourceExhausted", "grpc: received message larger than max")),
    "cancelled": (1317, "70100", TABLET.format("Canceled", "context canceled")),
    "deadline": (1317, "70100", TABLET.format("DeadlineExceeded", "context deadline exceeded")),
    "killed": (2013, "HY000", TABLET.format("Canceled", "(errno 2013) (sqlstate HY000)")),
    "gone": (2006, "HY000", TABLET.format("Unavailable", "server has gone away (errno 2006) (sqlstate HY000)")),
    "shutdown": (1053, "08S01", TABLET.format("Unavailable", "shutdown in progress (errno 1053) (sqlstate 08S01)")),
    "timed out": (3024, "HY000", TABLET.format("Unknown", "maximum time (errno 3024) (sqlstate HY000)")),
    "transaction": (1317, "70100", TABLET.format("Aborted", "transaction 17: ended at now (exceeded timeout: 30s)")),
    "no right": (1045, "28000", TABLET.format("PermissionDenied", "Select command denied to user 'root'")),
    "unsupported": (1235, "42000", "VT12001: unsupported: cross-shard query"),
    "bug": (1815, "HY000", "VT13001: [BUG] something that must not be"),
    "no keyspace": (1049, "42000", "VT05003: unknown database 'shop' in vschema"),
}
REFUSED = {name: Refused(*said) for name, said in ERRORS.items()}
