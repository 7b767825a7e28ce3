"""Which groups of tests a change reaches, in a small tree with git."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.reached import (
    GROUPS,
    PRODUCT,
    ROOT,
    Group,
    Tree,
    begun,
    changed,
    imported,
    in_words,
    left_out,
    words_of,
)

VITESS = Group("Vitess", ("integration/vitess/",), words=frozenset({"vitess"}), paths=("protos/vstream/",))
SPARK = Group("Spark", ("integration/bulk/",), ("integration/bulk/filler.py",), words=frozenset({"spark"}))
REAL = Tree(ROOT)
FILES = {
    "dataflow/engine.py": "",
    "dataflow/shards.py": "",
    "proxy/app.py": "import dataflow.engine\nfrom proxy import vitess_source\nfrom proxy import spark\n",
    "proxy/vitess_source.py": "from proxy.keyspace import Keyspace\nfrom dataflow.shards import Shards\n",
    "proxy/keyspace.py": "def late():\n    import proxy.routes\n",
    "proxy/routes.py": "import dataflow.engine\n",
    "proxy/spark.py": "from dataflow.shards import Shards\n",
    "integration/conftest.py": "from integration.support.server import Server\n",
    "integration/support/server.py": "from proxy.app import main\n",
    "integration/support/beside.py": "",
    "integration/vitess/cluster.py": "from integration.support.beside import beside\n",
    "integration/vitess/test_vitess.py": "from integration.vitess.cluster import Cluster\n",
    "integration/bulk/filler.py": "",
    "integration/bulk/test_fills.py": "from integration.bulk.filler import fill\n",
    "integration/loop/test_loop.py": "from integration.bulk import filler\n",
    "tests/units/test_engine.py": "from tests.support.rig import rig\n",
    "tests/support/rig.py": "from dataflow.engine import Engine\n",
    "integration/loop/test_others.py": "from integration.bulk.test_fills import NUMBERS\n",
    "proxy/sidecar.py": "",
    "proxy/spark_process.py": "def run():\n    start('python', '-P', '-m', 'proxy.sidecar')\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name, text in FILES.items():
        write(tmp_path, name, text)
    return Tree(tmp_path)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main")
    subprocess.run(["git", "-C", str(root), *who, *arguments], check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one more")


@pytest.mark.parametrize(
    "path",
    [
        "proxy/vitess_source.py",  # by its words
        "proxy/vitess/pins.py",  # a new one, in a folder of the name
        "proxy/keyspace.py",  # nothing but Vitess' modules imports it
        "proxy/routes.py",  # nor this one, by way of that
        "protos/vstream/vitess.proto",
        "integration/vitess/test_vitess.py",
        "integration/vitess/go.mod",
        "integration/vitess/cluster.py",
        "integration/support/beside.py",  # what its tests import, by way of a helper
        "integration/support/server.py",  # what fixtures of all tests import
        "integration/conftest.py",
        "pyproject.toml",
        "requirements/dev.lock",
    ],
)
def test_what_reaches_a_group(tree: Tree, path: str) -> None:
    assert tree.reached(VITESS, [path])


@pytest.mark.parametrize(
    "path",
    [
        "dataflow/engine.py",  # everything imports it
        "dataflow/shards.py",  # others import it, too
        "proxy/app.py",
        "proxy/spark.py",
        "integration/bulk/filler.py",
        "integration/loop/test_loop.py",
        "README.md",
    ],
)
def test_what_does_not(tree: Tree, path: str) -> None:
    assert not tree.reached(VITESS, [path])


def test_a_test_that_imports_a_groups_helper_belongs_to_it(tree: Tree) -> None:
    """One that imports such a test does not: it may want its constants alone."""
    assert tree.members(SPARK) == {"integration/bulk/test_fills.py", "integration/loop/test_loop.py"}
    assert tree.reached(SPARK, ["integration/loop/test_loop.py"])
    assert not tree.reached(SPARK, ["integration/loop/test_others.py"])


def test_what_tests_import_themselves_counts_where_it_is_said(tree: Tree) -> None:
    loose = Group("units", ("tests/units/",))
    direct = replace(loose, direct=True)
    assert not tree.reached(loose, ["dataflow/engine.py"])
    assert tree.reached(direct, ["dataflow/engine.py"])
    assert not tree.reached(direct, ["dataflow/shards.py"])


def test_modules_that_processes_run_are_imported() -> None:
    source = """
'''As `python -m dataflow.told` does.'''
run([sys.executable, "-m", "upwell", "serve"], f"exec {python} -m integration.stand_in 1", "-m", given, "--m a.b")
"""
    assert set(imported(source)) == {"upwell", "integration.stand_in"}


def test_what_runs_a_module_imports_it(tree: Tree) -> None:
    assert tree.reached(SPARK, ["proxy/sidecar.py"])
    write(tree.root, "proxy/app.py", "run('python -m proxy.sidecar')\n")
    assert not Tree(tree.root).reached(SPARK, ["proxy/sidecar.py"])
    write(tree.root, "examples/sample/__main__.py", "import integration.support.beside\n")
    write(tree.root, "integration/vitess/cluster.py", "run([python, '-m', 'examples.sample'])\n")
    assert Tree(tree.root).reached(VITESS, ["examples/sample/__main__.py"])
    assert Tree(tree.root).reached(VITESS, ["integration/support/beside.py"])


@pytest.mark.parametrize(
    "path", ["proxy/keyspace.py", "integration/support/beside.py", "integration/vitess/cluster.py"]
)
def test_a_module_that_is_gone_is_imported_by_what_names_it(tree: Tree, path: str) -> None:
    (tree.root / path).unlink()
    assert Tree(tree.root, frozenset({path})).reached(VITESS, [path])


def test_a_module_that_became_a_package_is_both(tree: Tree) -> None:
    (tree.root / "integration/vitess/cluster.py").unlink()
    write(tree.root, "integration/vitess/cluster/__init__.py", "from integration.support.beside import beside\n")
    both = frozenset({"integration/vitess/cluster.py", "integration/vitess/cluster/__init__.py"})
    reached = Tree(tree.root, both).beside(VITESS)
    assert reached >= both and "integration/support/beside.py" in reached


def test_the_packages_of_a_module_are_imported_with_it(tree: Tree) -> None:
    write(tree.root, "dataflow/__init__.py", "")
    write(tree.root, "tests/dataflow/test_engine.py", "from dataflow.engine import Engine\n")
    assert Tree(tree.root).unreached_units(frozenset({"dataflow/__init__.py"})) == set()
    write(tree.root, "integration/support/__init__.py", "")
    assert Tree(tree.root).reached(VITESS, ["integration/support/__init__.py"])


def test_unit_tests_of_what_nothing_has_changed_are_left_out(tree: Tree) -> None:
    write(tree.root, "dataflow/graph.py", "import dataflow.engine\n")
    engine, graph = "tests/dataflow/test_engine.py", "tests/dataflow/test_graph.py"
    write(tree.root, engine, "from tests.support.rig import rig\n")
    write(tree.root, graph, "import dataflow.graph\n")
    assert tree.unreached_units(frozenset({"proxy/app.py"})) == {engine, graph}
    assert tree.unreached_units(frozenset({"dataflow/graph.py", "README.md"})) == {engine}
    assert tree.unreached_units(frozenset({"tests/support/rig.py"})) == {graph}
    for read in ("tests/fixtures/plans/a.sql", "sqltypes/data/a.zlib", "requirements/dev.lock"):
        assert tree.unreached_units(frozenset({read})) == set()


def test_words_are_whole() -> None:
    assert words_of("proxy/vtgate_watch.py") == {"proxy", "vtgate_watch", "vtgate", "watch"}
    assert not VITESS.names("proxy/invitessed.py")


def test_changes_are_those_since_the_branch_and_of_the_working_tree(tree: Tree) -> None:
    root = tree.root
    git(root, "init", "-q")
    commit(root)
    assert changed(root) is None  # on main, with no tag: nobody can tell
    git(root, "tag", "v1")
    assert changed(root) == frozenset()
    git(root, "checkout", "-qb", "work")
    write(root, "proxy/spark.py", "x = 1\n")
    commit(root)
    write(root, "proxy/new.py", "")
    git(root, "mv", "proxy/keyspace.py", "proxy/places.py")
    (root / "proxy/app.py").unlink()
    there = frozenset({"proxy/spark.py", "proxy/new.py", "proxy/keyspace.py", "proxy/places.py", "proxy/app.py"})
    assert changed(root) == there
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")  # as behind a push
    assert changed(root) == there - {"proxy/spark.py"}
    git(root, "checkout", "-q", "--detach")
    assert begun(root) is not None


def test_without_git_nothing_is_left_out(tree: Tree) -> None:
    assert changed(tree.root) is None
    assert left_out(tree.root) == {}


def test_groups_that_nothing_reaches_are_left_out(tree: Tree) -> None:
    root = tree.root
    git(root, "init", "-q")
    commit(root)
    git(root, "tag", "v1")
    vitess, fills = {"integration/vitess/test_vitess.py"}, "integration/bulk/test_fills.py"
    assert left_out(root)["Vitess"] == vitess
    assert fills in left_out(root)["Spark"]
    write(root, "bulk/frames.py", "")
    assert left_out(root)["Vitess"] == vitess
    assert "Spark" not in left_out(root)


def test_what_is_left_out_is_told() -> None:
    line = in_words("Vitess", frozenset({"a", "b"}))
    assert line == "left out: 2 files of tests of Vitess, no change reaches them; `make test ALL=1` runs them"


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_what_the_table_names_is_there(group: Group) -> None:
    """A group has tests, and each of its words is in the path of a module of the product: none is left from before."""
    assert REAL.members(group)
    assert REAL.files.issuperset(group.helpers)
    assert [path for path in (*group.tests, *group.paths) if not (ROOT / path).exists()] == []
    assert group.words <= frozenset().union(*(words_of(path) for path in REAL.files if path.startswith(PRODUCT)))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_the_document_has_the_table(group: Group) -> None:
    """Each group has a row with all of its words and paths, and none that reach others."""
    (row,) = re.findall(rf"^\| {group.name} \| (.*) \|$", (ROOT / "docs/testing.md").read_text(), re.M)
    assert set(re.findall(r"`([^`]+)`", row)) == group.words | set(group.paths)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Vitess", "external_upquery/vitess/shard_of_key.py"),
        ("Vitess", "planner/text/vindex_hints.py"),
        ("Vitess", "examples/lobsters/vschema.json"),
        ("a scripted vtgate", "dataflow/fills/shards.py"),
        ("a scripted vtgate", "tests/support/vtgate_sql.py"),
        ("Spark", "upwell/spark.py"),
        ("Spark", "bulk/sidecar.py"),
        ("Spark", "external_upquery/rows_apart.py"),
        ("clients and drivers", "proxy/mysql/reads/gate.py"),
        ("clients and drivers", "integration/clients/django/work.py"),
        ("applications", "proxy/auto/decisions.py"),
        ("applications", "proxy/settings/automatic.py"),
        ("object-relational mappers", "proxy/catalog/automatic_file.py"),
        ("make run", "examples/lobsters/demo.py"),
        ("make compare", "benchmarks/compare/base.py"),
        ("the simulation", "dataflow/fills/state.py"),
        ("what texts mean", "proxy/cache/key_binder.py"),
        ("what texts mean", "proxy/mysql/reads/routes.py"),
        ("Docker", "integration/servers/docker_stand_in.py"),
    ],
)
def test_what_reaches_a_real_group(name: str, path: str) -> None:
    (group,) = [group for group in GROUPS if group.name == name]
    assert (ROOT / path).exists()
    assert REAL.reached(group, [path])


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Vitess", "tests/support/vtgate_sql.py"),
        ("Vitess", "docs/vitess.md"),
        ("Vitess", "vstream/__init__.py"),  # the binlog's stream imports it, too
        ("applications", "docs/automatic_caching.md"),
        ("Docker", "compose.yaml"),  # `tests/test_containers.py` reads it, and runs always
        ("Docker", "dataflow/engine.py"),
    ],
)
def test_what_does_not_reach_a_real_group(name: str, path: str) -> None:
    (group,) = [group for group in GROUPS if group.name == name]
    assert (ROOT / path).exists()
    assert not REAL.reached(group, [path])
