"""What a proxy's HTTP listener tells (docs/http.md): one look, or a stream of events, followed through restarts."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse
from typing import Any

DEFAULT_HTTP = "127.0.0.1:8080"
PATIENCE = 15.0  # seconds in which a stream must say something: it does so each five
AGAIN = 1.0  # seconds until a lost proxy is tried again

Event = tuple[str, Any]


class Away(Exception):
    """The proxy cannot be reached. The message is a sentence."""


class Refused(Exception):
    """The proxy does not answer that. The message is its sentence."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the listener is. `token`: the gRPC listener's; None: without one."""

    host: str
    port: int
    token: str | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Answer:
    """An answer that is being read. `end` may be called by any thread, the rest by one."""

    def __init__(self, place: Place, path: str) -> None:
        """Raises Away, Refused."""
        self._place = place
        self._connection = HTTPConnection(place.host, place.port, timeout=PATIENCE)
        headers = {} if place.token is None else {"Authorization": f"Bearer {place.token}"}
        try:
            self._connection.request("GET", path, headers=headers)
            self._socket = self._connection.sock
            self.response: HTTPResponse = self._connection.getresponse()
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise self._away(error) from None
        if self.response.status != 200:
            said = sentence(self.whole())
            if self.response.status == 503:
                raise Away(f"the proxy at {place} says: {said}")
            older = f"{place} (--http) is no proxy, or an older one: " if "there is no /v1" in said else ""
            raise Refused(f"{older}{said[:200]}")

    def _away(self, error: Exception) -> Away:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if isinstance(error, ConnectionRefusedError):
            why += "; is `upwell serve` running?"
        if isinstance(error, BadStatusLine) and not isinstance(error, ConnectionError):
            why = "what is there does not speak HTTP; is it the port of --http-listen?"
        return Away(f"no proxy answers at {self._place} (--http): {why}")

    def whole(self) -> bytes:
        try:
            return self.response.read()
        except (OSError, HTTPException) as error:
            raise self._away(error) from None
        finally:
            self.close()

    def events(self) -> Iterator[Event]:
        """Raises Away at the end."""
        kind = ""
        try:
            while line := self.response.readline():
                name, _, value = line.rstrip(b"\n").partition(b": ")
                if name == b"event":
                    kind = value.decode()
                elif name == b"data":
                    yield kind, json.loads(value)
            raise Away(f"the proxy at {self._place} has ended the stream")
        except (OSError, HTTPException, ValueError) as error:
            raise self._away(error) from None

    def end(self) -> None:
        """Whoever reads it reads its end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.response.close()
        self._connection.close()


def sentence(body: bytes) -> str:
    """What a refusal says: JSON's `error.message`, or all of it."""
    text = body.decode(errors="replace").strip()
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text


def look(place: Place, path: str = "/v1/overview") -> Any:
    """The JSON that is there. Raises Away, Refused."""
    text = Answer(place, path).whole()
    try:
        return json.loads(text)
    except ValueError:
        raise Refused(f"what answers at {place} (--http) is no proxy of this version") from None


class Follower(threading.Thread):
    """Follows a stream. `tell` is given its events, in this thread. `begun` is told first; `lost`, with a sentence,
    where the proxy cannot be reached, which is tried until it can. `refused`, with a sentence, is the last."""

    def __init__(self, place: Place, path: str, tell: Callable[[str, Any], None]) -> None:
        super().__init__(name=f"follows {path}", daemon=True)
        self._place, self._path, self._tell = place, path, tell
        self._ended = threading.Event()
        self._answer: Answer | None = None

    def run(self) -> None:
        told = ""
        while not self._ended.is_set():
            try:
                self._answer = Answer(self._place, self._path)
                told = ""
                self._tell("begun", None)
                for kind, data in self._answer.events():
                    if self._ended.is_set():
                        break
                    self._tell(kind, data)
            except Away as error:
                if str(error) != told and not self._ended.is_set():
                    told = str(error)
                    self._tell("lost", told)
            except Refused as error:
                self._tell("refused", str(error))
                return
            finally:
                if self._answer is not None:
                    self._answer.close()
            self._ended.wait(AGAIN)

    def close(self) -> None:
        """Ends it soon, from any thread."""
        self._ended.set()
        if self._answer is not None:
            self._answer.end()


def merged(target: Any, patch: Any) -> Any:
    """What a JSON merge patch (RFC 7386) makes of a value. Objects are changed in place."""
    if not isinstance(patch, Mapping):
        return patch
    result = target if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
