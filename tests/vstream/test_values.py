"""Packed values against plain models: every decoder, with hypothesis for the wide ranges."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.binlog_bytes import large_array
from vstream.charsets import supported_charsets, text_decoder
from vstream.jsonb import double_text, json_steps, json_text, quoted
from vstream.values import (
    date,
    datetime_text,
    decimal_size,
    decimal_value,
    set_text,
    time_microseconds,
    timestamp_text,
    year,
)


@given(st.integers(-(838 * 3600 + 59 * 60 + 59) * 10**6, (838 * 3600 + 59 * 60 + 59) * 10**6))
def test_times_with_microseconds_keep_their_one_sign(micro: int) -> None:
    seconds, fraction = divmod(abs(micro), 10**6)
    whole = (seconds // 3600) << 12 | (seconds // 60 % 60) << 6 | seconds % 60
    packed = whole << 24 | fraction
    raw = ((-packed if micro < 0 else packed) + (0x800000 << 24)).to_bytes(6, "big")
    assert time_microseconds(6)(raw) == micro


@given(st.datetimes(datetime.datetime(1970, 1, 1, 0, 0, 1), datetime.datetime(2106, 2, 7)))
def test_timestamps_are_printed_in_utc(moment: datetime.datetime) -> None:
    seconds = int((moment - datetime.datetime(1970, 1, 1)).total_seconds())
    raw = seconds.to_bytes(4, "big") + moment.microsecond.to_bytes(3, "big")
    assert timestamp_text(6)(raw) == f"{moment:%Y-%m-%d %H:%M:%S.%f}"
    assert timestamp_text(0)(raw[:4]) == f"{moment:%Y-%m-%d %H:%M:%S}"


def test_the_zero_timestamp_is_not_the_epoch() -> None:
    assert timestamp_text(3)(bytes(6)) == "0000-00-00 00:00:00.000"


@given(st.datetimes(datetime.datetime(1000, 1, 1)), st.integers(0, 6))
def test_datetimes_are_printed_with_their_digits(moment: datetime.datetime, digits: int) -> None:
    whole = ((moment.year * 13 + moment.month) << 5 | moment.day) << 17
    whole |= moment.hour << 12 | moment.minute << 6 | moment.second
    size = (digits + 1) // 2
    kept = moment.microsecond // 10 ** (6 - digits) * 10 ** (size * 2 - digits)
    raw = (whole + 0x8000000000).to_bytes(5, "big") + kept.to_bytes(size, "big")
    expected = f"{moment.isoformat(' ', 'microseconds')}"[: 20 + digits if digits else 19]
    assert datetime_text(digits)(raw) == expected


def test_zero_dates_and_zero_years_are_values() -> None:
    assert date(bytes(3)) == "0000-00-00"
    assert datetime_text(0)((0x8000000000).to_bytes(5, "big")) == "0000-00-00 00:00:00"
    assert (year(0), year(1), year(255)) == (0, 1901, 2155)


@given(st.integers(1, 65).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, min(p, 30)))), st.data())
def test_decimals_keep_every_digit(shape: tuple[int, int], data: st.DataObject) -> None:
    precision, scale = shape
    number = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    digits = f"{abs(number):0{precision}d}"
    value = decimal_value(precision, scale)(
        _packed(digits[: precision - scale], digits[precision - scale :], number < 0)
    )
    assert value.as_tuple().exponent == -scale
    assert int(f"{value:f}".replace(".", "")) == number


def _packed(whole: str, fraction: str, negative: bool) -> bytes:
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    first = len(whole) % 9
    groups = [whole[:first]] + [whole[n : n + 9] for n in range(first, len(whole), 9)]
    groups += [fraction[n : n + 9] for n in range(0, len(fraction), 9)]
    raw = bytearray(b"".join(int(group).to_bytes(sizes[len(group)], "big") for group in groups if group))
    assert len(raw) == decimal_size(len(whole) + len(fraction), len(fraction))
    raw[0] |= 0x80
    return bytes(byte ^ 0xFF for byte in raw) if negative else bytes(raw)


def test_the_same_decimal_bytes_give_the_same_value_again() -> None:
    decode = decimal_value(10, 2)
    raw = _packed("00000012", "50", True)
    assert decode(raw) == decode(raw) == Decimal("-12.50")


def test_sets_are_printed_in_definition_order() -> None:
    decode = set_text(("a", "b", "c"))
    assert [decode(bytes((bits,))) for bits in (0, 1, 6)] == ["", "a", "b,c"]
    with pytest.raises(ValueError, match="3 members"):
        decode(b"\x08")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_json_doubles_read_back_as_the_same_double(value: float) -> None:
    assert float(double_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0"), (-0.0, "-0.0"), (100.0, "100.0"), (1e14, "100000000000000.0"),
     (1e15, "1e15"), (1e20, "1e20"), (3307372722024319.5, "3307372722024319.5"),
     (0.1, "0.1"), (-1.5e-15, "-0.0000000000000015"), (1.5e-16, "1.5e-16"), (0.00012345, "0.00012345"),
     (1.7976931348623157e308, "1.7976931348623157e308")],
)  # fmt: skip
def test_json_doubles_are_laid_out_as_mysql_does(value: float, text: str) -> None:
    assert double_text(value) == text


def test_json_documents_that_end_early_are_refused() -> None:
    for data in (b"\x00\x01\x00", b"\x0b\x00", b"\x63", b"\x0f"):
        with pytest.raises(ValueError, match="JSON"):
            json_text(data)


def test_large_json_documents_are_decoded_in_steps() -> None:
    """Each as short as its longest small part."""
    text = b"\x0c" + bytes((100,)) + b"x" * 100
    small, large = large_array([text] * 10), large_array([text] * 50)
    document = large_array([small, large, text, large_array([])] * 9)
    steps, found = 0, json_steps(document)
    while True:
        try:
            next(found)
        except StopIteration as ended:
            assert ended.value == json_text(document)
            break
        steps += 1
    assert steps == 9 * 4 + 9 * 50
    with pytest.raises(ValueError, match="not a binary JSON document"):
        list(json_steps(document[:3000]))


def test_json_scalars_and_strings() -> None:
    assert json_text(b"") == "null"
    assert json_text(b"\x04\x01") == "true"
    assert json_text(b"\x0a" + struct.pack("<Q", 2**64 - 1)) == "18446744073709551615"
    assert quoted('a"\\\n\x01é/') == '"a\\"\\\\\\n\\u0001é/"'


def test_latin1_is_mysqls_own() -> None:
    decode = text_decoder("latin1")
    assert decode is not None
    assert decode(b"abc") == "abc"
    assert decode(b"\x80\x81\xe9") == "€\x81é"


def test_a_character_set_without_an_exact_decoder_is_refused() -> None:
    assert text_decoder("ujis") is None
    assert "utf8mb4" in supported_charsets()
