"""What Dockerfile and compose.yaml name exists, and the MySQL that they start is one that Upwell can follow."""

from __future__ import annotations

import re
from pathlib import Path

from integration.packaging.release import IMAGES
from integration.servers.mysql_server import BASE_FLAGS

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()
IGNORED = (ROOT / ".dockerignore").read_text().split()


def stages() -> list[str]:
    return re.findall(r"^FROM \S+ AS ([\w-]+)$", DOCKERFILE, re.M)


def service(name: str) -> str:
    """The text of one service."""
    found = re.search(rf"^  {name}:\n((?:    .*\n|\n)+)", COMPOSE, re.M)
    assert found is not None, name
    return found[1]


def test_every_file_that_is_copied_exists_and_is_sent() -> None:
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.M):
        for source in sources.split():
            assert (ROOT / source).exists(), source
            assert source not in IGNORED, source


def test_every_stage_that_is_named_is_defined_before() -> None:
    bases = re.findall(r"^FROM ([a-z-]+) AS", DOCKERFILE, re.M)
    named = re.findall(r"--from=([\w-]+)", DOCKERFILE) + re.findall(r"target: (\w+)", COMPOSE)
    assert named and set(named) | set(bases) | set(IMAGES) <= set(stages())
    assert stages()[-1] == "upwell", "docker build makes the last stage"


def test_everything_that_is_installed_is_locked_by_hash() -> None:
    installs = re.findall(r"pip install ([^\n&]+)", DOCKERFILE)
    assert installs
    assert all("--require-hashes -r requirements/" in install or "--no-deps /dist/" in install for install in installs)


def versions(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)", (ROOT / "requirements" / name).read_text(), re.M))


def test_both_images_have_what_makes_spans() -> None:
    """Locks that are installed together have each package of one version."""
    installs = [re.findall(r"-r requirements/(\S+)", text) for text in re.findall(r"pip install ([^\n&]+)", DOCKERFILE)]
    served = [locks for locks in installs if {"server.lock", "spark.lock"} & set(locks)]
    assert len(served) == 2
    for first, *more in served:
        assert more == ["otel.lock"] and "opentelemetry-sdk" in versions("otel.lock")
        both = versions(first).keys() & versions("otel.lock").keys()
        assert both and {name: versions(first)[name] for name in both} == {
            name: versions("otel.lock")[name] for name in both
        }


def test_nothing_runs_as_root() -> None:
    started = {stage.splitlines()[0].split()[-1]: stage for stage in re.split(r"^FROM ", DOCKERFILE, flags=re.M)[1:]}
    for name in ("upwell", "spark", "sample"):
        stage = started[name]
        text = started.get(stage.split()[0], "") + stage  # behind that of its base
        assert re.findall(r"^USER (\w+)$", text, re.M)[-1] in ("10001", "nobody"), name


def test_database_of_the_composition_has_what_the_change_stream_needs() -> None:
    flags = set(re.findall(r"- (--\S+)", service("mysql")))
    needed = {flag for flag in BASE_FLAGS if "gtid" in flag or "log-bin" in flag or "binlog" in flag}
    assert needed - {"--sync-binlog=0"} <= flags


def test_ports_are_published_on_loopback_only() -> None:
    published = re.findall(r'^      - "(\S+:\d+)"$', COMPOSE, re.M)
    assert len(published) == 6
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_published_port_can_be_another() -> None:
    chosen = re.findall(r'^      - "127.0.0.1:\$\{(\w+):-(\d+)\}:(\d+)"$', COMPOSE, re.M)
    assert len({name for name, _, _ in chosen}) == 6
    assert all(usual == inside for _, usual, inside in chosen)
    comment = COMPOSE.partition("\nservices:")[0]
    assert all(f"{name}=" in comment for name, _, _ in chosen)


def test_everything_comes_back_after_a_crash() -> None:
    for name in ("mysql", "upwell", "sample", "prometheus", "grafana"):
        assert "    restart: unless-stopped\n" in service(name), name


def test_nobody_is_root_and_nobody_is_without_a_password() -> None:
    assert "ALLOW_EMPTY_PASSWORD" not in COMPOSE
    accounts = (ROOT / "examples/lobsters/accounts.sql").read_text()
    given = re.findall(r"mysql://(\w+):(\w+)@", COMPOSE)
    assert {user for user, _ in given} == {"upwell", "sample"}
    for user, password in given:
        assert f"CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'" in accounts
    assert "./examples/lobsters/accounts.sql:/docker-entrypoint-initdb.d/" in service("mysql")


def test_sample_and_proxy_wait_until_what_they_need_is_ready() -> None:
    assert "condition: service_healthy" in service("upwell") and "healthcheck:" in service("mysql")
    assert "condition: service_healthy" in service("sample") and "HEALTHCHECK" in DOCKERFILE


def test_addresses_inside_the_composition_are_its_services() -> None:
    services = set(re.findall(r"^  (\w+):$", COMPOSE.split("\nvolumes:")[0], re.M))
    hosts = set(re.findall(r"mysql://\w+:\w+@(\w+):3306", COMPOSE)) | set(re.findall(r"UPWELL_GRPC: (\w+):", COMPOSE))
    assert hosts and hosts <= services


def test_every_file_that_is_mounted_exists_and_lies_where_it_is_looked_for() -> None:
    mounted = dict(re.findall(r"^      - \./(\S+?):(/\S+?):ro$", COMPOSE, re.M))
    assert len(mounted) == 6 and all((ROOT / source).exists() for source in mounted)
    places = set(mounted.values())
    monitoring = ROOT / "deploy/monitoring"
    assert set(re.findall(r"^  - (/\S+)$", (monitoring / "prometheus.yaml").read_text(), re.M)) <= places
    assert re.findall(r"--config.file=(\S+)", COMPOSE)[0] in places
    assert re.findall(r"^      path: (\S+)$", (monitoring / "grafana/boards.yaml").read_text(), re.M)[0] in places
    home = re.findall(r"HOME_DASHBOARD_PATH: (\S+)", COMPOSE)[0]
    folder = next(source for source, place in mounted.items() if home.startswith(f"{place}/"))
    assert (ROOT / folder / Path(home).name).exists()


def test_addresses_of_the_monitoring_are_services() -> None:
    monitoring = ROOT / "deploy/monitoring"
    assert '"upwell:8080"' in (monitoring / "prometheus.yaml").read_text() and "0.0.0.0:8080" in service("upwell")
    assert "http://prometheus:9090" in (monitoring / "grafana/datasource.yaml").read_text() and service("prometheus")
