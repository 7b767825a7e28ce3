"""A few worlds of random lists, judged by MySQL (`integration/lists/`), and faults that its judge must find."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integration.lists.faults import FAULTS, Fault
from integration.lists.judge import judged
from integration.oracle.asker import Asker, asker_beside
from integration.oracle.mutants import planted
from integration.servers.mysql_server import Server

SEED, WORLDS = 1, 6
TRIED = 3  # worlds, the first of which has shown the fault


def test_lists_have_mysqls_rows(asker: Asker) -> None:
    findings, tally = judged(asker, SEED, worlds=WORLDS)
    print(tally.table())
    assert not findings
    counts = tally.counts
    assert counts["reads: hit"] > 20 * WORLDS and counts["reads: miss"] > 5 * WORLDS
    assert counts["caches of mode maintain"] > WORLDS and counts["caches of mode evict"] > WORLDS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(mysql: Server, tmp_path: Path, fault: Fault) -> None:
    with planted(fault.plant), asker_beside(mysql, f"t{os.getpid()}_faulty_lists", tmp_path) as asker:
        findings, tally = judged(asker, fault.seed, worlds=TRIED, first=True, show=False)
    assert findings, tally.table()
    assert {finding.kind for finding in findings} & fault.kinds, findings[0]
