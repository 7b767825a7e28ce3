"""Between `mysqltest` and the proxy: a server that relays each session."""

from __future__ import annotations

import socket
import threading
import time
import traceback
from contextlib import suppress

from integration.mysql_suite.relay import Around, Relay
from integration.mysql_suite.tally import Finding, Tally
from integration.mysql_suite.upstream import PATIENCE, Gone
from integration.support.proxy_thread import Beside
from integration.support.raw_client import Ended


class Tap(Around):
    """Listens at `port`. `beside`: the proxy; `at`: where the relayed sessions go."""

    def __init__(
        self, beside: Beside, tally: Tally, at: tuple[str, int] | None = None, *, judging: bool = True
    ) -> None:
        super().__init__(beside, tally, at or ("127.0.0.1", beside.port), judging)
        self.relays: set[Relay] = set()
        self.serving: list[threading.Thread] = []
        self.ended: list[tuple[str, str]] = []  # what was wrong, and with which statement
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.port: int = self.listener.getsockname()[1]
        self.accepting = threading.Thread(target=self._accept, name="tap", daemon=True)
        self.accepting.start()

    def begin(self, test: str, seconds: float) -> None:
        self.test, self.deadline = test, time.monotonic() + seconds
        self.tally.history.clear()

    @property
    def waits_for(self) -> str:
        """The statements that have no answer yet."""
        return "; ".join(relay.waits_for for relay in list(self.relays) if relay.waits_for)

    def close(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.listener.close()
        self.end_sessions()

    def end_sessions(self) -> None:
        """Whatever the script has left open ends. Returns when it has ended."""
        for relay in list(self.relays):
            relay.cut()
        while self.serving:
            self.serving.pop().join(PATIENCE)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.serving = [thread for thread in self.serving if thread.is_alive()]
            self.serving.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
            self.serving[-1].start()

    def _serve(self, client: socket.socket) -> None:
        relay = None
        try:
            relay = Relay(self, client)
            self.relays.add(relay)
            relay.run()
        except Gone as gone:
            if relay is not None and relay.waits_for and not relay.closed:
                self.ended.append((str(gone), relay.waits_for))
        except TimeoutError:
            self.ended.append(("the change stream does not catch up", relay.waits_for if relay is not None else ""))
        except (Ended, OSError):
            pass  # the script has ended its session
        except Exception:  # noqa: BLE001 - a fault of the tap's own is told, too
            self.tally.found(Finding(self.test, "fault of the tap", "", "", traceback.format_exc()))
        finally:
            if relay is not None:
                self.relays.discard(relay)
                relay.close()
            client.close()
