"""Boards and alerts ask for what Upwell tells: each query is asked of a real Prometheus that reads a real Upwell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.lobsters.proxy_process import ProxyProcess
from integration.conftest import OwnMySQL
from integration.deploy.monitored import MONITORING, ROOT, Monitored, monitored, scraping, until
from integration.deploy.tools import promtool, run
from integration.servers.mysql_server import Server

BOARDS = sorted((MONITORING / "boards").glob("*.json"))
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
CASES = Path(__file__).parent / "alert_cases.yaml"
SELECTOR = re.compile(r"\b(?:upwell|process)_\w+(?:\{[^}]*\})?|\bup\{[^}]*\}")
VARIABLES = {"$__rate_interval": "30s", "$instance": ".*", "$cache": ".*"}


@dataclass(frozen=True)
class Query:
    """One of a panel. `shown`: the labels that its legend names."""

    place: str
    expression: str
    shown: frozenset[str]


def queries(board: Path) -> Iterator[Query]:
    for panel in json.loads(board.read_text())["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            shown = frozenset(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
            yield Query(f"{board.name}: {panel['title']}", expression, shown)


ALL = [query for board in BOARDS for query in queries(board)]


@pytest.fixture(scope="module")
def watched(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    folder = tmp_path_factory.mktemp("monitored")
    mysql.execute("CREATE DATABASE monitored")
    with ExitStack() as ended:
        ended.callback(mysql.execute, "DROP DATABASE monitored")
        yield ended.enter_context(monitored(mysql, "monitored", folder))


@pytest.mark.parametrize("query", ALL, ids=lambda query: query.place)
def test_no_panel_is_empty(watched: Monitored, query: Query) -> None:
    found = watched.query(query.expression)
    assert found, query.expression
    assert all(query.shown <= series["metric"].keys() for series in found), found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_series_of_an_alert_is_there(watched: Monitored, rule: dict[str, Any]) -> None:
    selectors = SELECTOR.findall(rule["expr"])
    assert selectors
    assert [selector for selector in selectors if not watched.query(selector)] == []
    annotated = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    wanted = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
    for selector in selectors:
        assert annotated <= watched.query(selector)[0]["metric"].keys(), (selector, wanted)


def test_each_event_that_is_named_is_counted(watched: Monitored) -> None:
    """A pattern of several finds something where one of them is wrong."""
    counted = {series["metric"]["event"] for series in watched.query("upwell_events_total")}
    expressions = [query.expression for query in ALL] + [rule["expr"] for rule in RULES]
    named = {
        name
        for text in expressions
        for pattern in re.findall(r'event=~?"([^"]+)"', text)
        for name in pattern.split("|")
    }
    assert named - counted == set()


def test_nothing_is_alarmed_of_that_is_well(watched: Monitored) -> None:
    alerts = watched.ask("alerts")["alerts"]
    assert [alert["labels"] for alert in alerts] == []
    states = {rule["name"]: rule["health"] for group in watched.ask("rules")["groups"] for rule in group["rules"]}
    assert set(states.values()) == {"ok"} and states.keys() == {rule["alert"] for rule in RULES}


def test_what_happens_is_alarmed_of(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    """From the first look on: each alert waits for a while before it fires, and is told meanwhile."""
    mysql = own_mysql()
    with ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy.wait_ready().close()
        with scraping(tmp_path, proxy.http_port) as address:
            watched = Monitored(proxy, address)

            def raised() -> set[str]:
                return {alert["labels"]["alertname"] for alert in watched.ask("alerts")["alerts"]}

            until(lambda: bool(watched.query("upwell_source_up == 1")), "the metrics are read")
            until(lambda: raised() == set(), "it is no longer missed, as before the first look")
            mysql.stop()
            until(lambda: raised() == {"UpwellSourceDown"}, "MySQL is missed")
            proxy.stop()
            until(lambda: raised() == {"UpwellDown"}, "Upwell is missed")


def test_variables_of_the_boards_have_values(watched: Monitored) -> None:
    for board in BOARDS:
        for variable in json.loads(board.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                (metric, label) = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
                assert all(label in series["metric"] for series in watched.query(metric)) and watched.query(metric)


def test_the_alerts_fire_when_they_shall() -> None:
    done = run(*promtool(), "test", "rules", CASES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tried_firing_and_not() -> None:
    cases: dict[str, set[bool]] = {}
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for one in case["alert_rule_test"]:
            cases.setdefault(one["alertname"], set()).add(bool(one.get("exp_alerts")))
    assert {rule["alert"]: {True, False} for rule in RULES} == cases


def test_promtool_finds_nothing_wrong() -> None:
    done = run(*promtool(), "check", "rules", "--lint=all", "--lint-fatal", MONITORING / "alerts.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_its_section() -> None:
    sections = re.findall(r"^## (Upwell\w+)$", (ROOT / "docs/alerts.md").read_text(), re.M)
    assert sections == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in ("critical", "warning")


def test_boards_have_names_of_their_own_and_no_two_panels_in_one_place() -> None:
    boards = [json.loads(board.read_text()) for board in BOARDS]
    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == len(BOARDS) > 0
    for board in boards:
        panels = board["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        taken = [
            (x, y)
            for position in (panel["gridPos"] for panel in panels)
            for x in range(position["x"], position["x"] + position["w"])
            for y in range(position["y"], position["y"] + position["h"])
        ]
        assert len(taken) == len(set(taken)) and max(x for x, _ in taken) < 24
        assert all(panel["type"] == "row" or panel["description"] for panel in panels)
