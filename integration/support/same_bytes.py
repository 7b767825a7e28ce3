"""The same script played to MySQL and through a proxy, by clients of every kind: what it was sent must be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from integration.support.proxy_thread import Beside
from integration.support.raw_client import RawClient
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_MULTI_STATEMENTS,
    CLIENT_QUERY_ATTRIBUTES,
    CLIENT_SESSION_TRACK,
)

Script = Callable[[RawClient], None]

KINDS = {
    "deprecate-eof": CLIENT_DEPRECATE_EOF,
    "session-track": CLIENT_SESSION_TRACK,
    "query-attributes": CLIENT_QUERY_ATTRIBUTES,
    "multi-statements": CLIENT_MULTI_STATEMENTS,
}


def kinds_of_client() -> Iterator[tuple[str, int]]:
    """(name, capabilities) of clients with and without each of what changes the protocol's form."""
    for chosen in product((True, False), repeat=len(KINDS)):
        names = [name for name, taken in zip(KINDS, chosen, strict=True) if taken]
        yield "+".join(names) or "plain", sum(KINDS[name] for name in names)


def same(
    beside: Beside, script: Script, kinds: Sequence[tuple[str, int]] | None = None, before: Sequence[str] = ()
) -> None:
    """Fails where any kind of client gets other bytes through the proxy than from MySQL. `before`: statements run at
    MySQL before each time the script is played."""
    different = []
    for name, capabilities in kinds if kinds is not None else kinds_of_client():
        if before:
            beside.mysql.execute(*before)
        with beside.direct(capabilities=capabilities) as client:
            script(client)
            wanted = client.transcript
        if before:
            beside.mysql.execute(*before)
        with beside.client(capabilities=capabilities) as client:
            try:
                script(client)
            except Exception as error:  # noqa: BLE001  # what had come until then tells more
                client.note(f"the script ended: {error!r}", b"")
            found = client.transcript
        different += [f"{name}: {line}" for line in differences(wanted, found)]
    assert not different, "\n".join(different)


def differences(wanted: Sequence[tuple[str, bytes]], found: Sequence[tuple[str, bytes]]) -> Iterator[str]:
    """The first step that differs; what follows it mostly follows from it."""
    for (step, one), (other_step, other) in zip(wanted, found, strict=False):
        if step != other_step or one != other:
            at = next((at for at in range(min(len(one), len(other))) if one[at] != other[at]), 0)
            at = max(0, at - 30)
            yield f"{step}: MySQL {len(one)} ...{one[at:][:120]!r}, Upwell {len(other)} ...{other[at:][:120]!r}"
            return
    if len(wanted) != len(found):
        yield f"MySQL {len(wanted)} steps, Upwell {len(found)}: {(wanted if len(wanted) > len(found) else found)[-1]}"
