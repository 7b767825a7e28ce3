"""Which groups of costly tests a change reaches: `python -m tests.support.reached`. `make test` leaves the others out.

Nearly every test imports the whole product, by way of `proxy.app`. So what a group's tests import of the product says
nothing. Instead a few modules of the product are particular to a group: those with one of its words in their path,
those below its paths, and those that only such modules import. A change of one of them reaches the group. So does a
change of its tests, and of whatever else outside of the product they import, directly or not.

A file has changed if the working tree's differs from that of the commit at which this line of work began. That commit
is the merge base with `origin/main`; without one, on another branch than `main`, the merge base with `main`; otherwise
the last tag. Without such a commit, and without git, everything counts as changed.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PRODUCT = ("bulk", "dataflow", "external_upquery", "gtid_tracker", "planner", "proxy", "sqltypes", "upwell", "vstream")
BESIDE = ("integration", "tests", "examples", "benchmarks")
# Unit tests whose imports tell what reaches them, and where what they read lies.
UNITS = tuple(f"tests/{name}/" for name in PRODUCT if name not in ("proxy", "upwell"))
READ = (*PRODUCT, "tests/", "examples/", "protos/", "docs/supported_sql.md")
# A module that a process is to run, within the text of a command.
RUN_IN_TEXT = re.compile(r"(?:^|\s)-m ([\w.]+)")
# What decides how every test runs. Paths, or beginnings of paths.
REACHES_ALL = ("pyproject.toml", "requirements/", "conftest.py", "integration/conftest.py", "tests/support/reached.py")


@dataclass(frozen=True)
class Group:
    """Costly tests of one thing.

    `tests`: their folders and files. `helpers`: modules; a test that imports one belongs to the group.
    `words`: of the product, modules with one of them in their path are particular to it.
    `paths`: what lies below them reaches it; of the product, it is particular to it.
    `direct`: modules of the product that its tests and their helpers import themselves are particular to it, too.
    """

    name: str
    tests: tuple[str, ...]
    helpers: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()
    direct: bool = False

    def has_test(self, path: str) -> bool:
        return path.startswith(self.tests)

    def names(self, path: str) -> bool:
        """Whether a path by itself says that it is the group's."""
        by_word = path.startswith(PRODUCT) and not self.words.isdisjoint(words_of(path))
        return path.startswith((*self.tests, *self.paths)) or by_word


VITESS = frozenset({"vitess", "vindex"})
AUTOMATIC = ("proxy/auto/", "proxy/catalog/automatic_file.py", "proxy/settings/automatic.py")
MEANING = ("sqltypes/", "planner/", "dataflow/")
GROUPS = (
    Group(
        "Vitess",
        ("integration/vitess/",),
        words=VITESS,
        paths=("protos/vstream/", "examples/lobsters/vschema.json"),
    ),
    Group("a scripted vtgate", ("integration/scripted_vtgate/",), words=VITESS | {"shard", "shards"}),
    Group(
        "Spark",
        ("integration/bulk/",),
        helpers=("integration/bulk/filler.py",),
        words=frozenset({"spark"}),
        paths=("bulk/", "proxy/fills/", "examples/lake/"),
    ),
    Group("clients and drivers", ("integration/clients/", "integration/driver_suites/"), paths=("proxy/mysql/",)),
    Group("applications", ("integration/applications/",), paths=AUTOMATIC),
    Group(
        "object-relational mappers",
        ("integration/orm_statements/",),
        helpers=("integration/orm_statements/judge.py",),
        paths=(*AUTOMATIC, "planner/"),
    ),
    Group("make run", ("integration/commands/test_make_run.py",), paths=("examples/", "README.md")),
    Group("make compare", ("integration/commands/test_compare.py",), paths=("benchmarks/compare/",)),
    Group(
        "the hammer's faults",
        ("integration/hammer/test_hammer_mutants.py",),
        paths=("integration/hammer/", "proxy/mysql/"),
    ),
    Group("nonsense", ("tests/fuzz/",), paths=("proxy/mysql/",), direct=True),
    Group("the simulation", ("tests/simulation/",), paths=("gtid_tracker/", *MEANING), direct=True),
    Group(
        "what texts mean",
        (
            "integration/planner_truth/",
            "integration/prepared/test_surprising_parameters.py",
            "integration/settings/test_by_variable.py",
            "integration/settings/test_session_needs.py",
        ),
        paths=("external_upquery/", "proxy/cache/key_binder.py", "proxy/mysql/reads/routes.py", *MEANING),
    ),
    Group("the chart", ("integration/deploy/test_chart.py",), paths=("deploy/helm/", "proxy/settings/")),
    Group(
        "boards and alerts",
        ("integration/deploy/test_monitoring.py",),
        paths=("deploy/monitoring/", "docs/alerts.md", "proxy/http/", "proxy/port/", "proxy/system/"),
    ),
    Group("Docker", ("integration/servers/test_docker.py",)),
)


def words_of(path: str) -> frozenset[str]:
    """The words of a path, in lower case: `external_upquery/shard_pin.py` has external_upquery,
    external, upquery, shard_pin, shard and pin."""
    parts = [part.partition(".")[0].lower() for part in PurePosixPath(path).parts]
    return frozenset(parts).union(*(part.split("_") for part in parts))


@dataclass(frozen=True)
class Tree:
    """The Python files below a folder, by their paths from there, and what they import of each other.

    `changed`: paths that may be gone. A module that is gone is still imported by the files that name it.
    """

    root: Path
    changed: frozenset[str] = frozenset()
    _known: dict[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def files(self) -> frozenset[str]:
        found = (path for top in (*PRODUCT, *BESIDE) for path in (self.root / top).rglob("*.py"))
        return frozenset(path.relative_to(self.root).as_posix() for path in found)

    def imports(self, path: str) -> frozenset[str]:
        """The files that are imported with a file: those that it names, and the `__init__.py` of its packages; for a
        test also the `conftest.py` of its folder and of those above."""
        if path not in self._known:
            names = imported((self.root / path).read_text()) if path in self.files else ()
            found = {file for name in names for file in _files_of(name)}
            beside = ("__init__.py", "conftest.py") if path.startswith("integration/") else ("__init__.py",)
            found |= {f"{folder}/{name}" for folder in PurePosixPath(path).parents for name in beside}
            self._known[path] = (frozenset(found) & (self.files | self.changed)) - {path}
        return self._known[path]

    @cached_property
    def importers(self) -> dict[str, frozenset[str]]:
        """By each file of the product, the product's files that import it."""
        found: dict[str, set[str]] = {}
        for path in self.files:
            if path.startswith(PRODUCT):
                for other in self.imports(path):
                    found.setdefault(other, set()).add(path)
        return {path: frozenset(others) for path, others in found.items()}

    def members(self, group: Group) -> frozenset[str]:
        """The group's files of tests."""
        tests = {path for path in self.files if path.startswith(("integration/", "tests/")) and is_test(path)}
        return frozenset(
            path for path in tests if group.has_test(path) or not self.imports(path).isdisjoint(group.helpers)
        )

    def closure(self, paths: Iterable[str], within: tuple[str, ...] = ("",)) -> frozenset[str]:
        """These files and what they import, directly or not, by way of files whose paths begin so."""
        seen: set[str] = set()
        left = list(paths)
        while left:
            path = left.pop()
            if path not in seen:
                seen.add(path)
                left += [other for other in self.imports(path) if other.startswith(within)]
        return frozenset(seen)

    def beside(self, group: Group) -> frozenset[str]:
        """What the group's tests import, directly or not, but for what only the product imports."""
        return self.closure(self.members(group), BESIDE)

    def particular(self, group: Group) -> frozenset[str]:
        """The modules of the product that the group's words and folders name, and what only such ones import."""
        found = {path for path in self.files if path.startswith(PRODUCT) and group.names(path)}
        grown = True
        while grown:
            more = {path for path, others in self.importers.items() if path not in found and others <= found}
            grown = bool(more)
            found |= more
        if group.direct:
            beside = self.beside(group)
            found |= {other for path in beside for other in self.imports(path) if other.startswith(PRODUCT)}
        return frozenset(found)

    def unreached_units(self, paths: frozenset[str]) -> frozenset[str]:
        """The unit tests of the packages below `proxy` that import nothing that has changed, directly or not. Where
        what is no module has changed, which a test may read, there are none."""
        if any(path.startswith(REACHES_ALL) or (path.startswith(READ) and not path.endswith(".py")) for path in paths):
            return frozenset()
        units = {path for path in self.files if path.startswith(UNITS) and is_test(path)}
        return frozenset(path for path in units if paths.isdisjoint(self.closure([path])))

    def reached(self, group: Group, changed: Iterable[str]) -> bool:
        """Whether one of these changed files reaches the group's tests."""
        paths = set(changed)
        return any(group.names(path) or path.startswith(REACHES_ALL) for path in paths) or not paths.isdisjoint(
            self.beside(group) | self.particular(group)
        )


def _files_of(module: str) -> tuple[str, ...]:
    """Where a module may be: as a file, as a package, or as a package that is run by `python -m`."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"


def is_test(path: str) -> bool:
    return PurePosixPath(path).name.startswith("test_")


def imported(source: str) -> Iterator[str]:
    """The names of modules that a file may import, `from a import b` as a and a.b; anywhere in it. So do the modules
    count that it has a process run, by "-m" and a string behind it, or within one string."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield from RUN_IN_TEXT.findall(node.value)
        else:
            items = node.args if isinstance(node, ast.Call) else getattr(node, "elts", ())
            texts = [item.value if isinstance(item, ast.Constant) else None for item in items]
            yield from (module for option, module in pairwise(texts) if option == "-m" and isinstance(module, str))


def git(root: Path, *arguments: str) -> str | None:
    """What git prints, or None where it fails or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def begun(root: Path) -> str | None:
    """The commit at which this line of work began. None where nobody can tell."""
    if found := git(root, "merge-base", "HEAD", "origin/main"):
        return found
    if git(root, "rev-parse", "--abbrev-ref", "HEAD") != "main" and (found := git(root, "merge-base", "HEAD", "main")):
        return found
    return git(root, "describe", "--tags", "--abbrev=0")


def changed(root: Path) -> frozenset[str] | None:
    """The paths of what has changed since then, what is gone and what is new included. None: nobody can tell."""
    commit = begun(root)
    if not commit:
        return None
    since = git(root, "diff", "--name-only", "--no-renames", "--relative", commit)
    new = git(root, "ls-files", "--others", "--exclude-standard")
    return None if since is None or new is None else frozenset(since.splitlines()) | frozenset(new.splitlines())


def left_out(root: Path) -> dict[str, frozenset[str]]:
    """The groups that no change reaches, by their names, each with its files of tests. A file that also belongs to a
    group which is reached is in none of them. Unit tests are no group: each file counts by itself."""
    paths = changed(root)
    if paths is None:
        return {}
    tree = Tree(root, paths)
    by_group = {group: tree.members(group) for group in GROUPS}
    reached = {group for group in GROUPS if tree.reached(group, paths)}
    run = frozenset().union(*(by_group[group] for group in reached))
    found = {group.name: by_group[group] - run for group in GROUPS if group not in reached}
    if units := tree.unreached_units(paths):
        found["parts that are as before"] = units
    return found


def in_words(name: str, files: frozenset[str]) -> str:
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    return f"left out: {count} of tests of {name}, no change reaches them; `make test ALL=1` runs them"


def main() -> None:
    paths = changed(ROOT)
    print("everything counts as changed" if paths is None else f"{len(paths)} files have changed")
    for name, files in left_out(ROOT).items():
        print(in_words(name, files))


if __name__ == "__main__":
    main()
