"""Two sites of one application on one database: one asks MySQL, one asks through Upwell; and their pages, compared."""

from __future__ import annotations

import http
import http.client
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from html import unescape
from pathlib import Path
from urllib.parse import urldefrag, urlencode, urljoin

from integration.clients.tools import Tool
from integration.servers.mysql_server import free_port

START_SECONDS = 300.0  # Redmine takes a minute where a machine is busy; one that ends is told at once
ANSWER_SECONDS = 120.0
EXPIRED = re.compile(r";\s*max-age=0\b", re.IGNORECASE)  # of a cookie
Form = Mapping[str, str] | Sequence[tuple[str, str]]
LINK = re.compile(r'href=["\']([^"\']+)["\']')


class SiteFailed(Exception):
    """A site did not start, or one of its pages could not be had; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Service:
    """A program that serves a site, and the folder in which it runs."""

    program: Tool
    folder: Path


@dataclass(slots=True)
class Page:
    """`text`: of JSON with the members of objects sorted, for they have no order."""

    status: int
    text: str
    seconds: float

    def links(self, base: str) -> Iterator[str]:
        for found in LINK.findall(self.text):
            yield urldefrag(urljoin(base, unescape(found))).url


@dataclass(slots=True)
class Site:
    """One web server of the application. `cookies`: of the user who is logged in. `headers`: go with each request."""

    port: int
    log: Path
    process: subprocess.Popen[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> Page:
        return self._asked("GET", path)

    def post(self, path: str, form: Form) -> Page:
        return self._asked("POST", path, urlencode(form), "application/x-www-form-urlencoded")

    def send(self, method: str, path: str, given: object) -> None:
        """`given` as JSON. Raises SiteFailed where it is not taken."""
        page = self._asked(method, path, json.dumps(given), "application/json")
        if page.status not in (200, 201):
            raise SiteFailed(f"{method} {path} was answered with {page.status}: {page.text[:300]}")

    def submit(self, path: str, form: Form) -> None:
        """A form that leads elsewhere once it is taken. Raises SiteFailed where it is not."""
        page = self.post(path, form)
        if page.status not in (302, 303):
            raise SiteFailed(f"POST {path} was answered with {page.status}: {page.text[:300]}")

    def _asked(self, method: str, path: str, body: str | None = None, kind: str = "") -> Page:
        """`kind`: of the body."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {**self.headers, "Cookie": cookies, **({} if body is None else {"Content-Type": kind})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        began = time.perf_counter()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            took = time.perf_counter() - began
        except OSError as error:
            raise SiteFailed(f"{method} {path}: {error}; {self.said()}") from error
        finally:
            connection.close()
        for line in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = line.partition(";")[0].partition("=")
            if EXPIRED.search(line):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        if answer.headers.get_content_type() == "application/json":
            text = json.dumps(json.loads(text), sort_keys=True, indent=1, ensure_ascii=False)
        location = answer.headers.get("Location")
        return Page(answer.status, f"-> {location}" if location else text, took)

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-600:]


@contextmanager
def site(
    service: Callable[[str], Service], environment: Mapping[str, str], log: Path, headers: Mapping[str, str]
) -> Iterator[Site]:
    """The program of `service` at an address of its own. `SITE_URL` is in its environment."""
    port = free_port()
    serving = service(f"127.0.0.1:{port}")
    told = {**os.environ, **serving.program.environment, **environment, "SITE_URL": f"http://127.0.0.1:{port}"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            serving.program.command, cwd=serving.folder, env=told, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )  # fmt: skip
    try:
        found = Site(port, log, process, headers)
        wait_for(found)
        yield found
    finally:
        process.terminate()
        process.wait(30)


def wait_for(one: Site) -> None:
    """Until it listens, and says no longer that it is only starting. Raises SiteFailed."""
    end = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            listens = probe.connect_ex(("127.0.0.1", one.port)) == 0
        if listens and replace(one, cookies={}).get("/").status != http.HTTPStatus.SERVICE_UNAVAILABLE:
            return
        with suppress(subprocess.TimeoutExpired):
            one.process.wait(0.02)
            raise SiteFailed(f"it has ended: {one.said()}")
        if time.monotonic() > end:
            raise SiteFailed(f"it does not listen: {one.said()}")
