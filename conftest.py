"""How `make test` spreads the tests over the cores (`pytest -n`).

A piece of work is a file: what its fixtures start, a proxy or a server, is started once. The files in `SPREAD` have
long tests that share nothing: there each test is a piece. All files in `LOADS` are one piece together: two loads at
once would starve each other. So are those in `FILLS`, and those in `VITESS`: they share what is dear to start. Long
pieces begin first, so that the cores end together.
"""

from __future__ import annotations

import gc
import os
import re
import ssl
from collections.abc import Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import structlog
from hypothesis import settings

from upwell.form import form

ROOT = Path(__file__).parent
# By group of tests that no change reaches: its files, which are not collected.
LEFT_OUT = pytest.StashKey[dict[str, frozenset[str]]]()

SPREAD = frozenset({"tests/simulation/test_mutants.py"})
LOADS = frozenset(
    {
        "integration/hammer/test_hammer.py",
        "integration/hammer/test_hammer_mutants.py",
        "integration/outages/test_outages.py",
    }
)
# They share a proxy and its Spark (`integration/bulk/filler.py`).
FILLS = frozenset(f"integration/bulk/test_{name}.py" for name in ("audit", "bulk_clusters", "bulk_fills"))
# They share a Vitess, which has to be built the first time; the others have one of their own, which they change.
OWN_VITESS = frozenset(
    f"integration/vitess/test_vitess_{name}.py" for name in ("ddl", "failover", "hammer", "moved_tables", "reshard")
)
VITESS = frozenset(f"integration/vitess/{path.name}" for path in ROOT.glob("integration/vitess/test_*.py")) - OWN_VITESS
TOGETHER = {"loads": LOADS, "fills": FILLS, "vitess": VITESS, "own_vitess": OWN_VITESS}
# Before Vitess is built its tests would wait for that: they begin behind other long pieces, as if they took so long.
WHILE_BUILT = 42
VITESS_BUILT = pytest.StashKey[bool]()
# Seconds that a piece takes, where it is long. `make test` prints the slowest tests.
SECONDS = {
    "own_vitess": 315,
    "vitess": 290,
    "loads": 120,
    "fills": 100,
    "integration/clients/test_clients.py": 90,
    "integration/bulk/test_binlog_on_spark.py": 80,
    "integration/stream/test_lost_history.py": 80,  # much of it waiting
    "integration/driver_suites/test_driver_suites.py": 70,
    "integration/orm_statements/test_orm_statements.py": 70,
    "integration/applications/test_applications.py": 65,
    "integration/prepared/test_surprising_parameters.py": 60,
    "integration/clock/test_clock.py": 60,
    "integration/settings/test_answers_in_collations.py": 60,
    "integration/protocol/test_compression.py": 50,
    "integration/bulk/test_binlog_history.py": 50,
    "tests/simulation/test_simulation.py": 50,
    "tests/proxy/planning/test_process.py": 45,
    "integration/lists/test_cold_lists.py": 45,
    "integration/deploy/test_chart.py": 40,  # 90 the first time: helm is built
    "integration/caches/test_pauses.py": 40,
    "integration/lists/test_random_lists.py": 40,
    "integration/http/test_page.py": 35,
    "integration/loop_steps/test_loop_steps_of_answers.py": 40,
    "integration/stream/test_unnamed_columns.py": 35,
    "integration/commands/test_top.py": 45,
    "integration/commands/test_compare.py": 30,
    "integration/deploy/test_monitoring.py": 30,
    "integration/settings/test_answers_in_modes.py": 28,
    "integration/loop_steps/test_loop_steps_of_large_values.py": 27,
    "integration/lists/test_order_of_lists.py": 27,
    "integration/planner_truth/test_collations_mysql.py": 25,
    "integration/prepared/test_untyped_parameters.py": 25,
    "integration/stream/test_cascades_by_innodb.py": 25,
    "tests/proxy/mysql/text/test_text_matcher.py": 30,
    "integration/outages/test_mysql_outages.py": 25,
    "integration/grpc/test_subscriptions.py": 25,
    "integration/bulk/test_binlog_batches.py": 20,
    "integration/servers/test_private_mysql.py": 20,
    "integration/commands/test_make_run.py": 20,
    "integration/oracle/test_oracle.py": 20,
    "integration/settings/test_session_needs.py": 20,
    "integration/stream/test_vstream_reconnect.py": 20,
    "integration/loop_steps/test_loop_steps_of_changes.py": 20,
    "integration/commands/test_doctor.py": 15,
    "integration/protocol/test_faults.py": 15,
    "integration/trust/test_planted_faults.py": 15,
    "integration/commands/test_sample.py": 15,
    "integration/servers/test_server_pool.py": 15,
    "integration/commands/test_shutdown.py": 15,
    "integration/stream/test_vstream_values.py": 15,
    "tests/vstream/vitess/test_histories.py": 15,  # much of it waiting for streams that are wrong
    "integration/loop_steps/test_loop_steps.py": 15,
    "tests/proxy/mysql/text/test_list_texts.py": 15,
    "tests/dataflow/readers/test_in_steps.py": 15,
    "integration/planner_truth/test_canonical_values.py": 10,
    "integration/planner_truth/test_differential.py": 10,
    "integration/grpc/test_grpc_door.py": 10,
    "integration/protocol/test_hits_same_bytes.py": 10,
    "integration/commands/test_messages.py": 10,
    "integration/protocol/test_mysql_rows.py": 10,
    "integration/protocol/test_pipelined.py": 10,
    "integration/planner_truth/test_plans_mysql.py": 10,
    "integration/settings/test_session_variables.py": 10,
    "integration/commands/test_traffic.py": 10,
    "integration/commands/test_unfit_sources.py": 10,
    "integration/stream/test_unlogged_writes.py": 10,
    "tests/fuzz/test_fuzz.py": 10,
    "tests/proxy/mysql/wire/test_rows.py": 10,
    "tests/bulk/test_access_file.py": 10,
    "tests/planner/test_goldens.py": 8,
    "tests/proxy/mysql/test_large_texts.py": 7,
    "tests/bulk/test_rank_command.py": 7,
    "tests/dataflow/test_memory.py": 6,
    "tests/proxy/port/test_figures.py": 6,
    "tests/examples/test_sample_data.py": 5,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--reached",
        action="store_true",
        help="leave out the groups of tests that no change reaches (tests/support/reached.py), where none are named",
    )
    parser.addoption("--quick", action="store_true", help="leave out unit tests that take long")


def names_tests(config: pytest.Config) -> bool:
    """Whether the command line says which tests are wanted."""
    option = config.option
    by_path = config.args_source is pytest.Config.ArgsSource.ARGS
    return bool(by_path or option.keyword or option.markexpr or option.lf or option.failedfirst)


def leave_out(config: pytest.Config) -> dict[str, frozenset[str]]:
    """What is not collected. Who starts processes of tests decides for all of them."""
    if hasattr(config, "workerinput"):
        given: dict[str, frozenset[str]] = config.workerinput["left_out"]
        return given
    if not config.option.reached or names_tests(config):
        return {}
    from tests.support.reached import left_out

    return left_out(ROOT)


def vitess_is_built(config: pytest.Config) -> bool:
    """Likewise: the order of the tests is the same in all processes."""
    if hasattr(config, "workerinput"):
        built: bool = config.workerinput["vitess_built"]
        return built
    from integration.vitess.built import are_built

    return are_built()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["left_out"] = node.config.stash[LEFT_OUT]
    node.workerinput["vitess_built"] = node.config.stash[VITESS_BUILT]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    path = collection_path.relative_to(ROOT).as_posix()
    long = config.option.quick and path in SPREAD.union(SECONDS)
    return True if long or any(path in files for files in config.stash[LEFT_OUT].values()) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    from tests.support.reached import in_words

    for name, files in config.stash[LEFT_OUT].items():
        terminalreporter.write_line(in_words(name, files))


# What compiled code says to a class of a test's own that stands in for one of its own.
STANDS_IN = re.compile(r"interpreted classes cannot inherit from compiled|object expected; got tests\.")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """A test whose own class stands in for a compiled one is left out, as below."""
    try:
        return (yield)
    except TypeError as error:
        if form().modules and STANDS_IN.search(str(error)):
            pytest.skip(f"stands in for a compiled class: {error}")
        raise


def skip_faults_in(modules: frozenset[str]) -> None:
    """A test that replaces a function of a compiled module, which compiled callers would not see, is left out with a
    line that says so. It runs with the interpreted modules. Other values of a module can be replaced in both forms."""
    plant = pytest.MonkeyPatch.setattr

    def setattr_or_skip(self: pytest.MonkeyPatch, target: Any, name: Any, *arguments: Any, **options: Any) -> None:
        owner = target.__name__ if isinstance(target, ModuleType) else getattr(target, "__module__", "")
        if owner in modules and callable(getattr(target, name, None)):
            pytest.skip(f"replaces {owner}.{name}, which is compiled")
        plant(self, target, name, *arguments, **options)

    pytest.MonkeyPatch.setattr = setattr_or_skip  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    """Cases that hypothesis draws are the same each time, unless a seed is given; a busy machine may take long."""
    running = form()
    if running.stale:
        raise pytest.UsageError(f"compiled modules are {running.stale}")
    if running.modules:
        skip_faults_in(frozenset(path.removesuffix(".py").replace("/", ".") for path in running.modules))
    config.stash[LEFT_OUT] = leave_out(config)
    config.stash[VITESS_BUILT] = vitess_is_built(config)
    settings.register_profile("upwell", deadline=None, derandomize=config.getoption("--hypothesis-seed") is None)
    settings.load_profile("upwell")
    # As `serve` does: with rich, structlog's own choice, one traceback with all local values takes seconds.
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    # Java programs of tests run for seconds: to compile what they run as well as can be takes more than it gains.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # Drivers load the machine's certificates for each connection, in 20 ms. No server of tests has one of them.
    ssl.SSLContext.load_default_certs = lambda *arguments: None  # type: ignore[method-assign]


@pytest.fixture(scope="session", autouse=True)
def state_below_no_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What proxies keep below their user's home is apart for each process of tests: a token that a killed proxy has
    left is found by the clients of the next one at its port."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_collection_finish() -> None:
    """What the tests have loaded stays: no collection of garbage need go over it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """As many processes as processors, and one more where tests wait for MySQL: that is a third of their time."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors + (not all(names_units(argument) for argument in config.args))


def names_units(argument: str) -> bool:
    """Whether an argument names tests that need no MySQL."""
    return Path(argument.partition("::")[0]).absolute().is_relative_to(ROOT / "tests")


def piece_of(nodeid: str) -> str:
    """The piece of work that a test belongs to: each is done by one process."""
    file = nodeid.partition("::")[0]
    for piece, files in TOGETHER.items():
        if file in files:
            return piece
    return nodeid if file in SPREAD else file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long pieces first, in a worker; without workers the order stays."""
    if hasattr(config, "workerinput"):
        late = {} if config.stash[VITESS_BUILT] else dict.fromkeys(("own_vitess", "vitess"), WHILE_BUILT)
        seconds = {**SECONDS, **late}
        items.sort(key=lambda item: -seconds.get(piece_of(item.nodeid), 1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out pieces in the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Pieces(LoadScopeScheduling):  # type: ignore[misc]  # the package has no types
        def _split_scope(self, nodeid: str) -> str:
            return piece_of(nodeid)

    config.option.loadscopereorder = False
    return Pieces(config, log)
