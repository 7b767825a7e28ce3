"""Who may see and do what, by where a request comes from and by its token."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from external_upquery.address import is_loopback
from proxy.grpc.service import UpwellService
from sqltypes.errors import NotPermitted

CARRIED = "a request carries it as `Authorization: Bearer TOKEN`"
NEEDED = "beyond loopback reads need a token: --grpc-token-file gives one"
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers of proxies: whoever asks one may be anywhere."""


def is_for_this_machine(request: Request) -> bool:
    """By its Host header, if it has one: a browser always sends it."""
    host = request.headers.get("host", "localhost")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name)


@dataclass(frozen=True, slots=True)
class Rights:
    """`service`: knows the gRPC listener's token. `loopback`: whether this listener is there; then nobody on this
    machine needs a token to see texts, nor to call where gRPC's callers need none."""

    service: UpwellService
    loopback: bool

    def may_read(self, request: Request) -> bool:
        """Whether the texts of queries are shown."""
        return self._is_here(request) or (not self.service.is_open and self.service.has_token(_authorization(request)))

    def check(self, request: Request) -> None:
        """Raises NotPermitted, Unauthenticated where it may make no calls."""
        if self.service.is_open and not self._is_here(request):
            raise NotPermitted(NEEDED)
        self.service.check_token(_authorization(request), CARRIED)

    def _is_here(self, request: Request) -> bool:
        return self.loopback and not any(name in request.headers for name in FORWARDED)


def _authorization(request: Request) -> bytes:
    return request.headers.get("authorization", "").encode()
