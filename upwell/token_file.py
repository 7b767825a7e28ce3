"""The token file: how a client finds the token of a proxy that the same user runs on this machine.

A proxy without `--grpc-token-file` makes a new token at each start. It writes it to `grpc/PORT.token` below its state
directory and below its user's usual one, readable by that user alone. A client without a token that connects to this
machine looks there before each call, because a restarted proxy has another token.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from upwell.errors import Unauthenticated

DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_TIMEOUT = 30.0  # seconds for a call

Metadata = tuple[tuple[str, str], ...]


def home_of_user() -> Path | None:
    """None: the user has none, as one that a service manager or a container makes up."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def usual_state_dir(environment: Mapping[str, str], home: Path | None) -> Path | None:
    """Where a proxy keeps its state without `--state-dir`. None: there is no such place."""
    base = environment.get("XDG_STATE_HOME")
    if base:
        return Path(base) / "upwell"
    return home / ".local" / "state" / "upwell" if home is not None else None


def token_path(state_dir: Path, port: int) -> Path:
    return state_dir / "grpc" / f"{port}.token"


def write_token(path: Path, token: str) -> None:
    """Puts the token there, readable by this user alone. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_suffix(f".{os.getpid()}.new")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()
    # O_EXCL: a file or link that somebody else has put there is not written to.
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w") as file:
            file.write(token + "\n")
        beside.replace(path)
    except OSError:  # a full disk, or something else is in the way
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def remove_token(path: Path, token: str) -> None:
    """Removes the file, if it holds this token: the port may be another proxy's by now."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path.read_text().strip() == token:
            path.unlink()


def metadata_of(token: str) -> Metadata:
    """What a call with this token carries. Raises Unauthenticated for one that no header can hold."""
    if not (token.isascii() and token.isprintable()):
        raise Unauthenticated("the token cannot stand in a header: printable ASCII is accepted")
    return (("authorization", f"Bearer {token}"),)


class Credentials:
    """The credentials of a client's calls: the given token, or the one that the target's token file holds now."""

    def __init__(self, target: str, token: str | None) -> None:
        self._given: Metadata | None = None if token is None else metadata_of(token)
        self._places = () if token is not None else _places(target, os.environ)
        self._read_as: tuple[Path, int, int] | None = None  # the file, its inode and its time, of `_found`
        self._found: Metadata = ()

    def metadata(self) -> Metadata:
        """For one call. A look at the file costs a microsecond; it is read only after it has changed."""
        if self._given is not None:
            return self._given
        for path in self._places:
            try:
                now = path.stat()
            except OSError:
                continue
            known = path, now.st_ino, now.st_mtime_ns
            if known != self._read_as:
                try:
                    self._found = metadata_of(path.read_text().strip())
                except (OSError, UnicodeDecodeError, Unauthenticated):
                    continue
                self._read_as = known
            return self._found
        return ()


def _places(target: str, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Where the token of that proxy may be; nowhere for one on another machine, which must not be told it."""
    host, _, port = target.rpartition(":")
    if not port.isdecimal() or not _is_this_machine(host.strip("[]")):
        return ()
    folders = [Path(environment["UPWELL_STATE_DIR"]).expanduser()] if environment.get("UPWELL_STATE_DIR") else []
    if (usual := usual_state_dir(environment, home_of_user())) is not None:
        folders.append(usual)
    return tuple(token_path(folder, int(port)) for folder in folders)


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
