"""Rows as sessions of other time zones than UTC are sent them: instants as their clocks say them.

What is held is in UTC. For each zone there is a wire format beside that of UTC, so that a hit copies bytes here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from proxy.loop.slices import Encoder
from proxy.mysql.wire.rows import FORMATS
from proxy.port.api import System, WireFormat
from sqltypes.errors import InvariantViolated
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn
from sqltypes.zone import Zone


def local_format(system: System, name: str, clocks: Zone) -> str:
    """The name of the wire format for sessions of this zone, registered with the system. `name`: of UTC's."""
    local = f"{name} of {clocks!r}"
    system.formats.register(local, _of_zone(FORMATS[name], clocks))
    return local


def _of_zone(wire: WireFormat, clocks: Zone) -> WireFormat:
    def encoder_for(columns: tuple[ResultColumn, ...]) -> Encoder:
        encode = wire.encoder_for(columns)
        at = tuple(number for number, column in enumerate(columns) if column.type.name == "timestamp")
        return _local(encode, at, clocks.local) if at else encode

    return replace(wire, encoder_for=encoder_for, clocks=clocks)


def _local(encode: Encoder, at: Sequence[int], local: Callable[[str], str]) -> Encoder:
    """`at`: the positions of instants."""

    def shown(row: Row) -> Row:
        values = list(row)
        for number in at:
            value = values[number]
            if value is not None:
                values[number] = local(value)  # type: ignore[arg-type]  # text, as TIMESTAMPs are held
        return tuple(values)

    def encode_local(rows: Sequence[Row]) -> bytes:
        try:
            said = list(map(shown, rows))
        except (TypeError, ValueError, AttributeError) as error:
            raise InvariantViolated(f"a row has no instant where its column is a TIMESTAMP: {error}") from error
        return encode(said)

    return encode_local
