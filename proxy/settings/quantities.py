"""Texts of settings as values: sizes, times, addresses. Each raises ValueError with what would be accepted."""

from __future__ import annotations

import math
import re
from enum import Enum

from proxy.settings.machine import machine_memory

DEFAULT_MESSAGE_LIMIT = 16 << 20  # bytes of a message of gRPC


class Transactions(Enum):
    """`--transactions`. ON: as described above. STRICT: no hit in a REPEATABLE READ transaction. OFF: in none."""

    ON = "on"
    STRICT = "strict"
    OFF = "off"


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?B?)", re.IGNORECASE)
LEAST_MEMORY = 1 << 20
LEAST_PATIENCE = 0.01  # seconds
MOST_MESSAGE = (1 << 31) - 1  # bytes
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
MOST_CHECKS = 100_000
DAY = 86_400  # seconds
LONGEST_NAME = 64  # of a cache, in characters
DEFAULT_SHARE = 0.0001
LEVELS = ("debug", "info", "warning", "error")


def parse_text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


def parse_bool(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError("true or false is accepted")


def parse_switch(text: str) -> bool:
    if text.lower() not in ("on", "off"):
        raise ValueError("on or off is accepted")
    return text.lower() == "on"


def parse_share(text: str) -> float:
    """A share of hits: on, off, or a number from 0 to 1."""
    if text.lower() in ("on", "off"):
        return DEFAULT_SHARE if text.lower() == "on" else 0.0
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise ValueError("on, off or a share such as 0.001 is accepted")
    return share


def parse_checks(text: str) -> int:
    """How many checks must agree: off, or a number."""
    if text.lower() == "off":
        return 0
    if not text.isdecimal() or not 0 <= int(text) <= MOST_CHECKS:
        raise ValueError(f"off or a number of checks up to {MOST_CHECKS} is accepted")
    return int(text)


def parse_fraction(text: str) -> float:
    """A part of something: above 0, at most 1."""
    try:
        fraction = float(text)
    except ValueError:
        fraction = math.nan
    if not 0 < fraction <= 1:
        raise ValueError("a part above 0 and at most 1 such as 0.5 is accepted")
    return fraction


def parse_auto(text: str) -> bool:
    """True for auto, False for off."""
    if text.lower() not in ("auto", "off"):
        raise ValueError("auto or off is accepted")
    return text.lower() == "auto"


def parse_size(text: str) -> int:
    """Bytes: 512MiB, 2GiB, 1GB (a thousand million), 1048576. Positive."""
    matched = _SIZE.fullmatch(text.strip())
    if matched is None:
        raise ValueError("a size such as 512MiB or 2GiB is accepted")
    number, unit = matched[1], matched[2].upper().removesuffix("B")
    base = 1024 if unit.endswith("I") else 1000
    size = int(float(number) * base ** _POWERS[unit.removesuffix("I")]) if unit != "I" else 0
    if size < 1:
        raise ValueError("a size above zero such as 512MiB is accepted")
    return size


def size_text(size: int) -> str:
    """A number of bytes, as `parse_size` takes it: in the largest unit that has no fraction."""
    units = ("GiB", 30), ("MiB", 20), ("KiB", 10)
    return next((f"{size >> bits}{unit}" for unit, bits in units if size and not size % (1 << bits)), str(size))


def parse_memory_limit(text: str) -> int:
    """As `parse_size`, but 1MiB at least: a small number without a unit is hardly meant as bytes."""
    size = parse_size(text)
    if size < LEAST_MEMORY:
        raise ValueError(f"{size} bytes: a size of at least 1MiB such as 512MiB or 2GiB is accepted")
    return size


def parse_memory(text: str) -> int:
    """As `parse_memory_limit`, of this process: not above what the machine, or its control group, gives."""
    size, most = parse_memory_limit(text), machine_memory()
    if size > most:
        raise ValueError(f"{size} bytes, and this machine gives {most}: a size of at most {most >> 20}MiB is accepted")
    return size


def parse_message_size(text: str) -> int:
    """As `parse_packet_size`; gRPC counts in 31 bits."""
    size = parse_packet_size(text)
    if size > MOST_MESSAGE:
        raise ValueError(f"{size} bytes: a size of at most 2047MiB is accepted")
    return size


def parse_packet_size(text: str) -> int:
    """As `parse_size`, of what a packet may have: not below the least that MySQL takes for max_allowed_packet."""
    size = parse_size(text)
    if size < 1024:
        raise ValueError("a size of at least 1KiB such as 16MiB is accepted")
    return size


def parse_seconds(text: str) -> float:
    """Seconds: 30s, 500ms, 2m, 1h, 30."""
    matched = _TIME.fullmatch(text.strip())
    seconds = float(matched[1]) * _SECONDS[matched[2] or "s"] if matched else math.inf
    if not math.isfinite(seconds):
        raise ValueError("a time such as 30s, 500ms or 2m is accepted")
    return seconds


def parse_patience(text: str) -> float:
    """As `parse_seconds`, of what somebody waits for: with less than 10 ms nothing would ever come in time."""
    seconds = parse_seconds(text)
    if seconds < LEAST_PATIENCE:
        raise ValueError("a time of at least 10ms such as 30s or 2m is accepted")
    return seconds


def parse_pause(text: str) -> float | None:
    """Seconds from one time to the next; off: None."""
    if text.lower() == "off":
        return None
    seconds = parse_seconds(text)
    if seconds < 1:
        raise ValueError("off or a time of at least 1s such as 5m is accepted")
    return seconds


def parse_whole_seconds(text: str) -> int:
    """Seconds, without a fraction."""
    seconds = parse_seconds(text)
    if seconds != int(seconds) or seconds > DAY:
        raise ValueError("a time of whole seconds such as 5s or 2m, a day at most, is accepted")
    return int(seconds)


def parse_count(text: str) -> int:
    if not text.strip().isascii() or not text.strip().isdecimal() or not 1 <= int(text) <= 10_000:
        raise ValueError("a number from 1 to 10000 is accepted")
    return int(text)


def parse_large_count(text: str) -> int:
    if not text.strip().isascii() or not text.strip().isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise ValueError("a number from 1 to 1000000 is accepted")
    return int(text)


def parse_tls(text: str) -> str:
    if text.strip() not in ("off", "on", "required"):
        raise ValueError("off, on or required is accepted")
    return text.strip()


def parse_transactions(text: str) -> Transactions:
    try:
        return Transactions(text.strip())
    except ValueError:
        raise ValueError("on, strict or off is accepted") from None


def parse_name(text: str) -> str:
    """A name of up to 64 letters, digits, dots, dashes and underscores."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", text):
        raise ValueError("up to 64 letters, digits, dots, dashes and underscores are accepted, such as shop-1")
    return text


def parse_cache_name(text: str) -> str:
    """The name of a cache: as long as MySQL's names may be, and a terminal or a log can show it."""
    if not (0 < len(text) <= LONGEST_NAME and text.isprintable() and text == text.strip()):
        raise ValueError(
            f"up to {LONGEST_NAME} characters that can be printed are accepted, the first and the last no spaces"
        )
    return text


def parse_names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError("names with commas between them are accepted, such as app,ops@10.0.0.%")
    return names


def parse_listen(text: str) -> tuple[str, int]:
    """(host, port) of HOST:PORT or [ADDRESS]:PORT; port 0 is any free one."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    right = colon and host and (bracketed or ":" not in host) and port.isascii() and port.isdecimal()
    if not right or int(port) > 65535:
        raise ValueError("HOST:PORT is accepted, such as 127.0.0.1:50051, [::1]:50051 or 0.0.0.0:50051")
    return host, int(port)


def parse_log_level(text: str) -> str:
    if text.lower() not in LEVELS:
        raise ValueError(f"one of {', '.join(LEVELS)} is accepted")
    return text.lower()


def parse_spark_master(text: str) -> str:
    """A master of Spark's, an address of Spark Connect, or "off"."""
    master = text.strip()
    if master != "off" and not re.match(r"(local(-cluster)?(\[[\d*, ]+\])?$|(spark|k8s|sc)://\S+$|yarn$)", master):
        raise ValueError("local[N], spark://HOST:PORT, k8s://..., yarn, sc://HOST:PORT or off is accepted")
    if re.match(r"local(-cluster)?(\[ *0+ *[,\]]|$)", master):
        raise ValueError("no task would run: local[N] with N from 1, such as local[2], is accepted")
    return master
