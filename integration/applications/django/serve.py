"""Serves the site at an address: `python -m integration.applications.django.serve 127.0.0.1:8000`.

A few threads answer all requests. Django keeps a connection for each thread, so with `CONN_MAX_AGE` the next request
uses that of an earlier one, as behind the servers that Django projects deploy.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from socket import socket
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from django.core.wsgi import get_wsgi_application

THREADS = 3

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "integration.applications.django.settings")
application = get_wsgi_application()


class Server(ThreadingMixIn, WSGIServer):
    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, WSGIRequestHandler)
        self._threads = ThreadPoolExecutor(THREADS)

    def process_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        self._threads.submit(self.process_request_thread, request, client_address)


def main() -> None:
    host, port = sys.argv[1].split(":")
    with Server((host, int(port))) as server:
        server.set_app(application)
        server.serve_forever()


if __name__ == "__main__":
    main()
