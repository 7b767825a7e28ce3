"""Whose the state directory is, and which of its files belong to the source."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import structlog.testing

from proxy.catalog.definition_file import StateStore
from proxy.port.made_by import BY_GRPC
from proxy.settings.config import CacheDefinition
from proxy.state_dir.folder import InUse, Lock, digest_of, find_files, source_name
from sqltypes.errors import ConfigError

ROOT = Path(__file__).parents[3]
ADDRESS = "mysql://app@127.0.0.1:3306/shop"
SOURCE = source_name("", "mysql", "3e11fa47-71ca-11e1-9e33-c80aa9429562")
STORY = CacheDefinition("story", "SELECT 1", "shop", BY_GRPC)


def saved(folder: Path, source: str, address: str = "") -> None:
    StateStore(folder, source, address).put("story", "SELECT 1", "shop")


def found(folder: Path, source: str, address: str = ADDRESS) -> tuple[list[CacheDefinition], list[str]]:
    """The caches of a source, and what was logged."""
    with structlog.testing.capture_logs() as lines:
        find_files(folder, source, address)
    return StateStore(folder, source, address).load(), [str(line["event"]) for line in lines]


def test_a_second_process_is_refused_with_who_holds_the_directory(tmp_path: Path) -> None:
    holding = (
        "import sys, pathlib; from proxy.state_dir.folder import Lock\n"
        f"lock = Lock.take(pathlib.Path({str(tmp_path)!r}), {ADDRESS!r}); print('mine', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "mine\n"
        with pytest.raises(ConfigError) as refused, closing(Lock.take(tmp_path, "mysql://other")):
            pytest.fail("it has two owners")
        assert f"the process {process.pid}, which serves {ADDRESS}" in refused.value.message
        process.kill()  # also then it is free again
        process.wait()
        with (
            closing(Lock.take(tmp_path, "mysql://other")),
            pytest.raises(ConfigError, match="serves mysql://other"),
            closing(Lock.take(tmp_path, ADDRESS)),
        ):
            pytest.fail("it has two owners")


@pytest.mark.parametrize("folder", ["/proc/nope", "/dev/null/below"])
def test_a_directory_that_cannot_be_written_is_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match=f"{folder!r} cannot be written .*is accepted"):
        Lock.take(Path(folder), ADDRESS)


@pytest.mark.parametrize("address", [ADDRESS, "mysql://app@localhost:3306/shop", "mysql://root@db.internal:3306"])
def test_definitions_are_the_servers_whatever_address_leads_there(tmp_path: Path, address: str) -> None:
    saved(tmp_path, SOURCE, ADDRESS)
    assert found(tmp_path, SOURCE, address) == ([STORY], [])


def test_files_of_an_earlier_version_are_taken_over(tmp_path: Path) -> None:
    saved(tmp_path, ADDRESS)
    (tmp_path / f"doubts-{digest_of(ADDRESS)}.json").write_text("{}")
    assert found(tmp_path, SOURCE) == ([STORY], ["files_taken_over"] * 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"caches-{digest_of(SOURCE)}.json", f"doubts-{digest_of(SOURCE)}.json"
    ]  # fmt: skip
    assert found(tmp_path, SOURCE, "mysql://app@localhost:3306/shop") == ([STORY], [])


def test_what_is_there_of_others_is_told_where_nothing_is_there_of_this_one(tmp_path: Path) -> None:
    saved(tmp_path, "mysql://app@localhost:3306/shop")  # an earlier version's, by another spelling
    assert found(tmp_path, SOURCE) == ([], ["definitions_of_other_sources"])
    saved(tmp_path, SOURCE, ADDRESS)
    assert found(tmp_path, SOURCE) == ([STORY], [])


def test_another_server_at_the_same_address_begins_with_the_same_definitions(tmp_path: Path) -> None:
    saved(tmp_path, SOURCE, ADDRESS)
    other = source_name("", "mysql", "another")
    assert found(tmp_path, other) == ([STORY], ["definitions_of_another_server"])
    StateStore(tmp_path, other, ADDRESS).put("more", "SELECT 2", "shop")
    assert found(tmp_path, SOURCE)[0] == [STORY], "a copy"


def test_a_name_is_a_source_of_its_own(tmp_path: Path) -> None:
    saved(tmp_path, source_name("shop", "mysql", "one"), ADDRESS)
    assert found(tmp_path, source_name("shop", "mysql", "two"), "mysql://elsewhere") == ([STORY], [])


def test_a_lock_that_is_handed_over_is_the_other_ones_until_that_ends(tmp_path: Path) -> None:
    first = Lock.take(tmp_path, ADDRESS)
    second = Lock(os.dup(first.descriptor), "mysql://next")
    second.is_ours = False
    first.given()
    second.taken()
    first.close()
    with pytest.raises(InUse, match="serves mysql://next"):
        Lock.take(tmp_path, ADDRESS)
    second.close()
    Lock.take(tmp_path, ADDRESS).close()
