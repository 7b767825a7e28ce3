"""How the change stream logs in at an upstream."""

from __future__ import annotations

from external_upquery.address import Upstream
from vstream.binlog.connection import Account


def account_of(upstream: Upstream) -> Account:
    """What the change stream needs to log in: it does not know `external_upquery`."""
    options: dict[str, object] = {}
    if upstream.unix_socket:
        options["unix_socket"] = upstream.unix_socket
    ssl = upstream.ssl_context()
    # PyMySQL encrypts whenever the server can, unless it is told not to.
    options |= {"ssl": ssl} if ssl is not None else {"ssl_disabled": True}
    return Account(upstream.host, upstream.port, upstream.user, upstream.password, options)
