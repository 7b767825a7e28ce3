"""Which groups of tests a change reaches, in a small tree with git."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.reached import GROUPS, ROOT, Group, Tree, begun, changed, in_words, left_out, words_of

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
    """A group has tests, and each of its words is in the path of a module or a test: none is left from before."""
    assert REAL.members(group)
    assert REAL.files.issuperset(group.helpers)
    assert [path for path in group.tests if not (ROOT / path).exists()] == []
    found = frozenset().union(*map(words_of, REAL.files))
    assert group.words <= found
