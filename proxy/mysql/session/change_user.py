"""COM_CHANGE_USER: another account logs in on the same two connections, by the same relay as at first.

Until MySQL has decided, what either side sends is authentication and nothing else. Failure ends both connections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from proxy.mysql.login.auth_relay import DENY_ME, AuthRelay, Outcome, Step, Terms, Turn
from proxy.mysql.login.login_packets import ChangeUser, decode_name, encode_change_user, parse_change_user
from proxy.mysql.session.relay import Relay
from proxy.mysql.wire.packets import Malformed, packet
from proxy.mysql.wire.responses import Exchange, Kind
from proxy.mysql.wire.responses import Outcome as Answer

LARGEST = 1 << 17  # bytes of one message


class AccountChange:
    """One COM_CHANGE_USER under way, the `Dialogue` of its relay. `terms`: of the login before, then of this one."""

    def __init__(
        self,
        relay: Relay,
        data: bytes,
        capabilities: int,
        server_capabilities: int,
        terms: Terms,
        ended: Callable[[AccountChange, bytes], None],
    ) -> None:
        """`capabilities`, `server_capabilities`: in effect with the client, and with MySQL. `ended`: is given this and
        MySQL's OK where the account was accepted. Raises Malformed."""
        self.left = b""  # what the client has sent, and what is not looked at yet: at the end, commands
        self.sequence = 1  # number of the next packet to the client or from it
        self.terms = terms
        self._relay = relay
        self._ended = ended
        self._change: ChangeUser = parse_change_user(data[4:], capabilities)
        self._server_capabilities = server_capabilities
        self._authentication = AuthRelay(terms)
        self._to_server = 0  # sequence number of the next packet
        self.user = decode_name(self._change.user, self._change.collation)
        self._do(self._authentication.begin(self._change.plugin, self._change.auth_response, self._opening))

    def _opening(self, response: bytes) -> bytes:
        return encode_change_user(replace(self._change, auth_response=response), self._server_capabilities)

    def on_bytes(self, data: bytes) -> None:
        """From the client; what comes while MySQL is to speak waits."""
        self.left += data
        try:
            self._go_on()
        except Malformed as error:
            self._relay.break_off(error)

    def _go_on(self) -> None:
        while len(self.left) >= 4 and self._authentication.turn in (Turn.CLIENT, Turn.EITHER):
            size = int.from_bytes(self.left[:3], "little")
            if size > LARGEST or self.left[3] != self.sequence & 0xFF:
                raise Malformed("a packet that is no part of a change of the account")
            if len(self.left) < 4 + size:
                return
            payload, self.left = self.left[4 : 4 + size], self.left[4 + size :]
            self.sequence += 1
            self._do(self._authentication.from_client(payload))

    def _from_server(self, answer: Answer) -> None:
        self._to_server += 1
        try:
            self._do(self._authentication.from_server(answer.payloads[0]))
            self._go_on()
        except Malformed as error:
            self._relay.break_off(error)

    def part(self) -> bool:
        """The client is to have no more of it: takes MySQL's leave, where it waits for an answer (see `DENY_ME`).
        Whether it did."""
        turn = self._authentication.turn
        if turn is Turn.NOBODY:
            return False
        if turn is Turn.SERVER:
            self._to_server += 1  # of what it is about to ask
        self._relay.server.write(packet(DENY_ME, self._to_server))
        return True

    def _do(self, step: Step) -> None:
        relay = self._relay
        for payload in step.to_client:
            relay.client.write(packet(payload, self.sequence))
            self.sequence += 1
        if step.new_command:
            self._to_server = 0
        for payload in step.to_server:
            relay.server.write(packet(payload, self._to_server))
            self._to_server += 1
        if step.outcome is Outcome.ACCEPTED:
            self.terms = replace(self.terms, nonce=self._authentication.nonce)
            self._ended(self, step.final)
        elif step.outcome is not None:
            relay.client.write(packet(step.final, self.sequence))
            relay.close()
        elif self._authentication.turn in (Turn.SERVER, Turn.EITHER) and not relay.server.responses.exchanges:
            relay.server.responses.expect(Exchange(Kind.AUTHENTICATION, self._from_server, visible=False))
