"""`upwell cache create|drop|flush|ls|explain`: the commands that talk to a running proxy."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from upwell.token_file import DEFAULT_TARGET, DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from upwell.client import Client

Decorated = TypeVar("Decorated", bound=Callable[..., Any] | click.Command)
SOON = 1.0  # seconds in which a proxy must have told what completes a word
WIDTH_OF_FILES = 200  # of tables that go to a file or a pipe


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --grpc and what goes with it; the command gets them as one `connection`, arguments for a Client."""

    @click.option("--grpc", "target", metavar="HOST:PORT", default=DEFAULT_TARGET, envvar="UPWELL_GRPC",
                  show_default=True, show_envvar=True, help="the proxy")  # fmt: skip
    @click.option("--token-file", type=click.Path(path_type=Path), envvar="UPWELL_TOKEN_FILE", show_envvar=True,
                  help="a file with the bearer token")  # fmt: skip
    @click.option("--tls/--no-tls", default=False, help="TLS, by the system's certificate authorities")
    @click.option("--tls-ca", type=click.Path(path_type=Path), help="TLS, by this certificate authority (PEM)")
    @click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=DEFAULT_TIMEOUT,
                  show_default=True, help="seconds for a call")  # fmt: skip
    @functools.wraps(command)
    def wrapped(
        *arguments: Any,
        target: str,
        token_file: Path | None,
        tls: bool,
        tls_ca: Path | None,
        timeout: float,
        **rest: Any,
    ) -> Any:
        connection = connection_of(target=target, token_file=token_file, tls=tls, tls_ca=tls_ca, timeout=timeout)
        return command(*arguments, connection=connection, **rest)

    return wrapped


def connection_of(
    *, target: str, token_file: Path | None, tls: bool, tls_ca: Path | None, timeout: float
) -> dict[str, Any]:
    """Arguments for a Client, of the options that `connection_options` adds."""
    if port_of(target) is None or "://" in target.removeprefix("dns://"):
        raise click.BadParameter(f"{target!r}: HOST:PORT is accepted", param_hint="--grpc")
    token = None if token_file is None else read(token_file, "--token-file").decode("latin-1").strip()
    authority = tls if tls_ca is None else read(tls_ca, "--tls-ca")
    return {"target": target, "token": token, "tls": authority, "timeout": timeout}


def port_of(address: str) -> int | None:
    """What stands behind the last colon, if a server can listen there."""
    text = address.rpartition(":")[2]
    return int(text) if text.isdecimal() and 0 < int(text) < 1 << 16 else None


def asked(context: click.Context, ask: Callable[[Client], Iterable[str]]) -> list[str]:
    """What a running proxy tells to complete a word; nothing where it cannot be asked, or not soon."""
    from upwell.client import Client
    from upwell.errors import UpwellError

    names = "target", "token_file", "tls", "tls_ca"
    try:
        connection = connection_of(**{name: context.params[name] for name in names}, timeout=SOON)
        with Client(**connection) as client:
            return list(ask(client))
    except (KeyError, UpwellError, click.ClickException):
        return []


def cache_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of caches that begin so."""
    return [
        name
        for name in asked(context, lambda client: [cache.name for cache in client.caches()])
        if name.startswith(incomplete)
    ]


def read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise click.BadParameter(f"{str(path)!r} cannot be read: {error.strerror}", param_hint=option) from None


def json_option(command: Decorated) -> Decorated:
    """Adds --json; the command gets it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="as JSON")(command)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=1, default=str))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Numbers to the right, text to the left."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        numeric = any(isinstance(row[place], (int, float)) for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{cell:,.1f}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else WIDTH_OF_FILES, highlight=False, markup=False).print(table)
