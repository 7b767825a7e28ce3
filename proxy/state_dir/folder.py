"""The state directory: which process owns it, and which of its files belong to the source.

One process owns it at a time: two would overwrite each other's files. A file belongs to a source, whatever its address:
to the server with its UUID, to a keyspace of Vitess, or to the name of `--name`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import structlog

from sqltypes.errors import ConfigError

log = structlog.get_logger("upwell")

LOCK = "owner.lock"
SHOWN = 10  # files of other sources that are named


class InUse(ConfigError):
    """Another process owns the folder. `owner`: which, and what it serves."""

    def __init__(self, folder: Path, owner: str) -> None:
        super().__init__(f"--state-dir: {str(folder)!r} is in use by {owner}: give each proxy a directory of its own")
        self.owner = owner


class Lock:
    """The folder is this process's own, until `close`. `address`: of its source, for a process that finds it taken."""

    def __init__(self, descriptor: int, address: str) -> None:
        """`descriptor`: the open file, which has the lock."""
        self.descriptor = descriptor
        self._told = f"the process {os.getpid()}, which serves {address}\n"
        self.is_ours = True  # what the file says is of this process

    @classmethod
    def take(cls, folder: Path, address: str) -> Lock:
        """Raises ConfigError where the folder cannot be written, InUse if it is another's."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(
                f"--state-dir: {str(folder)!r} cannot be written ({error.strerror}):"
                " a directory that this user may write is accepted"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = _owner(descriptor)
            os.close(descriptor)
            raise InUse(folder, owner) from None
        found = cls(descriptor, address)
        found.tell()
        return found

    def tell(self) -> None:
        """Others are told that it is this process which has it."""
        _write(self.descriptor, self._told)

    def given(self) -> None:
        """Another process has the same open file, and with it the lock, and says that it is its own."""
        self.is_ours = False

    def taken(self) -> None:
        """The file came from another process, for which it is `given` by now."""
        self.is_ours = True
        self.tell()

    def close(self) -> None:
        if self.is_ours:
            _write(self.descriptor, "")
        os.close(self.descriptor)  # which lets go of it, if nobody else has the file


def _owner(descriptor: int) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return os.pread(descriptor, 4096, 0).decode().strip() or "another process"
    return "another process"


def _write(descriptor: int, text: str) -> None:
    with suppress(OSError):  # a full disk: the lock counts, not what it says
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)


def digest_of(source: str) -> str:
    """The part of file names that stands for a source."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def source_name(name: str, kind: str, history: str) -> str:
    """The source's name in the folder. `name`: the setting, "" if there is none. `history`: the source's identity, as
    the stream tells.

    >>> source_name("", "mysql", "3e11fa47"), source_name("shop", "mysql", "3e11fa47")
    ('mysql:3e11fa47', 'name:shop')
    """
    return f"name:{name}" if name else f"{kind}:{history}"


def find_files(folder: Path, source: str, address: str) -> None:
    """Finds the files of a source. It takes over files that an earlier version named by the address, and copies the
    definitions of the server that had the address before. `address`: without its password. Raises ConfigError."""
    mine = folder / f"caches-{digest_of(source)}.json"
    try:
        for before in sorted(folder.glob(f"*-{digest_of(address)}.*")):
            path = folder / before.name.replace(digest_of(address), digest_of(source))
            if not path.exists():
                before.rename(path)
                log.info("files_taken_over", file=str(path), of=address)
        others = {path: found for path in _definitions(folder) if path != mine and (found := _read(path)) is not None}
        same = [path for path, (of, _) in others.items() if of == address]
        if not mine.exists() and same:
            newest = max(same, key=lambda path: path.stat().st_mtime)
            shutil.copy2(newest, mine)
            log.warning("definitions_of_another_server", file=str(newest), why=f"{address} led to another server then")
            del others[newest]
    except OSError as error:
        raise ConfigError(f"--state-dir: {str(folder)!r} cannot be used: {error}") from None
    if others and not mine.exists():
        told = "; ".join(f"{path.name}: {count} of {of}" for path, (of, count) in list(others.items())[:SHOWN])
        log.warning("definitions_of_other_sources", found=told, why=f"this one ({address}) has no caches yet")


def _definitions(folder: Path) -> list[Path]:
    return sorted(folder.glob("caches-*.json"))


def _read(path: Path) -> tuple[str, int] | None:
    """The address that a file of definitions was written for, and how many it has; None where that is not told."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        document = json.loads(path.read_text())
        return str(document.get("address") or document["source"]), len(document["caches"])
    return None
