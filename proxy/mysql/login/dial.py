"""A connection to MySQL before anything is said on it."""

from __future__ import annotations

import asyncio
import errno
import socket

from external_upquery.address import Upstream
from proxy.mysql.login.login_errors import source_down

Address = str | tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


async def connected(upstream: Upstream) -> socket.socket:
    """A connected, non-blocking socket. Raises SourceDown, worded as MySQL's own clients do."""
    loop = asyncio.get_running_loop()
    if upstream.unix_socket:
        addresses: list[tuple[int, Address]] = [(socket.AF_UNIX, upstream.unix_socket)]
    else:
        try:
            found = await loop.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise source_down(2005, f"Unknown MySQL server host '{upstream.host}' ({error.errno})") from error
        addresses = [(family, address) for family, _, _, _, address in found]
    failed = OSError(errno.EADDRNOTAVAIL, "no address")
    for family, address in addresses:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if not _connects_at_once(sock, address):
                await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failed = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    if upstream.unix_socket:
        words = f"Can't connect to local MySQL server through socket '{upstream.unix_socket}' ({failed.errno})"
        raise source_down(2002, words) from failed
    where = f"[{upstream.host}]" if ":" in upstream.host else upstream.host
    raise source_down(2003, f"Can't connect to MySQL server on '{where}:{upstream.port}' ({failed.errno})") from failed


def _connects_at_once(sock: socket.socket, address: Address) -> bool:
    """On one machine a connection is there before the call returns, which says otherwise; a second one tells."""
    return sock.connect_ex(address) == 0 or sock.connect_ex(address) in (0, errno.EISCONN)
