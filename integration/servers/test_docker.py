"""MySQL in a container, by a real Docker daemon: the machine's, or one that the test starts.

Where neither is to be had the tests are left out with the reason; `REQUIRE_DOCKER=1` has them fail.
`integration/servers/test_private_mysql.py` tries the same with a stand-in everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.docker_daemon import daemon, import_mysql
from integration.servers.docker_mysql import ANSWER_TIMEOUT, DockerMySQL, docker
from integration.servers.mysql_server import CannotStart
from integration.servers.private_mysql import find_mysql
from integration.servers.test_private_mysql import a_container_survives, program
from integration.support.served import Reads

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def by_docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The next private MySQL comes from Docker: no `mysqld` on PATH works, and a daemon answers."""
    folder = tmp_path_factory.mktemp("path")
    program(folder, "mysqld", "exit 1")
    with ExitStack() as started, pytest.MonkeyPatch.context() as patch:
        try:
            docker("version", "--format", "{{.Server.Version}}", timeout=ANSWER_TIMEOUT)
        except CannotStart:
            try:
                for name, value in started.enter_context(daemon(print)).items():
                    patch.setenv(name, value)
                import_mysql(print)
            except CannotStart as error:
                if os.environ.get("REQUIRE_DOCKER"):
                    raise
                pytest.skip(f"no Docker daemon: {error}")
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        yield


def test_container_survives_a_crash_and_is_removed_at_the_end(by_docker: None) -> None:
    a_container_survives()
    assert docker("ps", "-aq", "--filter", "name=upwell-docker-") == ""


def test_flag_that_mysqld_does_not_know_is_named_and_nothing_is_left(by_docker: None) -> None:
    with pytest.raises(CannotStart, match="no-such-flag"):
        DockerMySQL.begin(["--no-such-flag=1"], print)
    assert docker("ps", "-aq", "--filter", "name=upwell-docker-") == ""


def test_upwell_follows_a_mysql_in_a_container(by_docker: None, tmp_path: Path) -> None:
    with find_mysql() as server:
        assert isinstance(server, DockerMySQL)
        server.execute(
            "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)"
        )
        url = f"{server.url}/d"
        with (
            ProxyProcess(url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy,
            closing(proxy.wait_ready()) as client,
        ):
            client.create_cache("SELECT v FROM t WHERE id = ?", name="by_id", database="d")
            for value in (1, 2):
                server.execute(f"UPDATE d.t SET v = {value}")
                reads = Reads(f"[({value},)]_hit")
                while True:
                    answer = client.cache("by_id").get(1)
                    if reads.done(f"{[tuple(row) for row in answer]}_{answer.served}"):
                        break
