"""The frameworks whose statements are noted, and how each one's program is run."""

from __future__ import annotations

import functools
import gzip
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from integration.applications import php
from integration.clients import tools
from integration.clients.tools import NotObtainable, Tool

PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True, slots=True)
class Framework:
    """`program`: put behind the tool's command; the last line that it prints has the versions of what it has run with.
    `tool`: raises NotObtainable."""

    name: str
    tool: Callable[[], Tool]
    program: tuple[str, ...]


@functools.cache
def node() -> Tool:
    return tools.node_with("orms", PROGRAMS / "node")


@functools.cache
def prisma() -> Tool:
    """Node.js with Prisma's client for the schema beside the program. Its queries need no engine: the one that
    `prisma generate` would fetch is for migrations."""
    program, npm = tools.node_and_npm()
    of_it = PROGRAMS / "prisma"
    files = ("package.json", "package-lock.json", "schema.prisma")

    def make(folder: Path) -> None:
        for file in files:
            shutil.copy(of_it / file, folder)
        path = os.pathsep.join((str(Path(program).parent), os.environ.get("PATH", os.defpath)))
        told = {"PATH": path, "PRISMA_SCHEMA_ENGINE_BINARY": "/bin/true", "CHECKPOINT_DISABLE": "1"}
        tools.checked(*npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder, environment=told)
        tools.checked(program, "node_modules/prisma/build/index.js", "generate", cwd=folder, environment=told)

    folder = tools.kept("prisma", b"".join((of_it / file).read_bytes() for file in files), make)
    return Tool((program,), {"NODE_PATH": str(folder / "node_modules")})


@functools.cache
def laravel() -> Tool:
    """PHP that finds Laravel's database packages, those of the distribution."""
    beside = ("php-illuminate-events", "php-illuminate-pagination")
    root = tools.debian("php-illuminate-database", beside=beside)
    usual = php.php()
    found = {"ORM_VERSION": packaged(root, "php-illuminate-database")}
    return Tool((*usual.command, "-d", f"include_path={root}/usr/share/php"), usual.environment | found)


@functools.cache
def rails() -> Tool:
    """Ruby with Active Record and mysql2, those of the distribution."""
    root = tools.debian("ruby-activerecord", beside=("ruby-mysql2", "ruby"))
    programs = sorted(root.glob("usr/bin/ruby[0-9]*.[0-9]"))
    if not programs:
        raise NotObtainable("the package ruby holds no Ruby that can be run from a folder")
    folders = [
        root / "usr/share/rubygems-integration/all/gems",
        *root.glob("usr/share/rubygems-integration/[0-9]*/gems"),
    ]
    folders = [lib for folder in folders for lib in (*folder.glob("*/lib"), *folder.glob("*/lib/concurrent-ruby"))]
    for top in (root / "usr/lib/ruby", *root.glob("usr/lib/*/ruby")):
        folders += [top / "vendor_ruby", *top.glob("vendor_ruby/[0-9]*"), *top.glob("[0-9]*")]
    folders += [folder for each in list(folders) for folder in each.glob("*-linux*") if folder.is_dir()]
    (plugins,) = root.glob("usr/lib/*/libmariadb3/plugin")
    specified = {found.parent.parent for found in root.glob("usr/**/specifications/*.gemspec")}
    environment = {
        "RUBYLIB": os.pathsep.join(map(str, folders)),
        "GEM_PATH": os.pathsep.join(sorted(map(str, specified))),
        "MARIADB_PLUGIN_DIR": str(plugins),
    }
    return Tool((*tools.loaded(root), str(programs[-1])), environment)


@functools.cache
def hibernate() -> Tool:
    """Java with Hibernate, Connector/J and the program on its class path. Maven, on PATH, fetches them."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NotObtainable("there is no mvn on PATH")
    java = tools.java_that_compiles()
    wanted, source = PROGRAMS / "java/pom.xml", PROGRAMS / "java/HibernateProgram.java"

    def fetch(folder: Path) -> None:
        told = ("-q", "-B", "-f", str(wanted), "dependency:copy-dependencies", f"-DoutputDirectory={folder}")
        tools.checked(str(maven), *told)

    jars = tools.kept("hibernate", wanted.read_bytes(), fetch)

    library = os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))

    def build(folder: Path) -> None:
        compiler = (java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-encoding", "UTF-8", "-proc:none")
        tools.checked(*compiler, "-cp", library, "-d", str(folder), str(source))

    classes = tools.kept("hibernate-program", source.read_bytes() + java.encode() + str(jars).encode(), build)
    return Tool((java, "-cp", os.pathsep.join((str(classes), library))))


def packaged(root: Path, package: str) -> str:
    """The version of a package that was unpacked there."""
    with gzip.open(root / "usr/share/doc" / package / "changelog.Debian.gz", "rt") as changes:
        return changes.readline().split("(")[1].split(")")[0]


FRAMEWORKS = (
    Framework("sqlalchemy", tools.python, ("sqlalchemy_program.py",)),
    Framework("django", tools.python, ("django_program.py",)),
    Framework("sequelize", node, ("node/sequelize.js",)),
    Framework("typeorm", node, ("node/query_builders.js", "typeorm")),
    Framework("knex", node, ("node/query_builders.js", "knex")),
    Framework("drizzle", node, ("node/query_builders.js", "drizzle")),
    Framework("prisma", prisma, ("prisma/program.js",)),
    Framework("prisma_join", prisma, ("prisma/program.js", "join")),
    Framework("eloquent", laravel, ("eloquent.php",)),
    Framework("hibernate", hibernate, ("HibernateProgram",)),
    Framework("hibernate_prepared", hibernate, ("HibernateProgram", "prepared")),
    Framework("activerecord", rails, ("active_record.rb",)),
    Framework("activerecord_prepared", rails, ("active_record.rb", "prepared")),
)
