"""What sysbench prints, ends of answers, and ratios of rounds."""

import pytest

from benchmarks.many_clients import whole_payloads
from benchmarks.mysql_pass import ended
from benchmarks.points import Measured, Rounds
from benchmarks.sysbench import Outcome, SysbenchFailed, parsed
from proxy.mysql.wire.packets import end_payload, lenenc, packet

PRINTED = """
SQL statistics:
    queries performed:
        read:                            81920
        total:                           81920
    transactions:                        81920  (40953.19 per sec.)
    queries:                             81920  (40953.19 per sec.)

General statistics:
    total time:                          2.0003s

Latency (ms):
         min:                                    0.02
         avg:                                    0.19
         max:                                   11.75
         95th percentile:                        0.36
         sum:                                15936.30

Threads fairness:
    events (avg/stddev):           10240.0000/73.15
"""


def test_what_a_run_has_printed_is_taken_apart() -> None:
    assert parsed(PRINTED) == Outcome(81_920, 40_953.19, mean=0.19, p95=0.36, slowest=11.75)


@pytest.mark.parametrize("missing", ["queries: ", "avg:", "95th percentile:"])
def test_a_run_that_does_not_tell_all_has_failed(missing: str) -> None:
    with pytest.raises(SysbenchFailed):
        parsed("\n".join(line for line in PRINTED.splitlines() if missing not in line))


def measured(*per_second: float) -> list[Measured]:
    return [Measured(Outcome(int(number), number, 0.1, 0.2, 3.0), number / 10) for number in per_second]


def test_the_ratio_is_that_of_the_median_round_and_not_of_the_medians() -> None:
    rounds = Rounds([], None, 1.0)  # type: ignore[arg-type]  # no way, so nothing is asked
    rounds.measured = {"one": measured(100, 10, 60), "other": measured(50, 20, 60)}
    assert rounds.ratio("one", "other") == 1.0
    assert rounds.per_second("one") == 60
    assert rounds.cpu("other") == 5


def test_an_answer_has_ended_where_its_last_packet_is_an_end() -> None:
    end = packet(end_payload(2, deprecate_eof=False), 7)
    row = packet(lenenc(b"x" * 300), 6)
    assert ended(row + end)
    assert not ended(row)
    assert not ended((row + end)[:-1])


def test_packets_that_are_not_complete_are_not_counted() -> None:
    assert whole_payloads(packet(b"one", 1) + packet(b"two", 2)[:-1]) == [b"one"]
