"""A Spark session: on this machine, on a cluster, or behind Spark Connect."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from upwell.extras import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2,3]"  # two tasks at once; one that fails is tried three times in all
NO_JAVA = (
    "there is no Java: install one (Debian: openjdk-17-jre-headless; 17 or newer), and put `java` on PATH or set"
    " JAVA_HOME"
)
APP_DIR = Path(__file__).resolve().parents[1]
DECODER = (
    *(f"external_upquery/{name}.py" for name in ("__init__", "columns", "protocol", "rowcode", "rows_apart")),
    *(f"sqltypes/{name}.py" for name in ("__init__", "errors", "expression", "schema")),
)
REACHED_WITHIN = 5.0  # seconds
CONNECT_RETRIES = 2  # a Connect client would try a dead server again for ten minutes


@dataclass(frozen=True)
class SparkSettings:
    """`master`: `local[N]`, the address of a cluster, or `sc://host:port` of Spark Connect. `folder`: for what Spark
    writes on this machine. `java`: the folder of a Java runtime, "" for the machine's own."""

    master: str = DEFAULT_MASTER
    folder: str = ""
    java: str = ""
    more: Mapping[str, str] = field(default_factory=dict)  # of Spark's own settings

    @property
    def is_connect(self) -> bool:
        return self.master.startswith("sc://")

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def address(self) -> str:
        """The master without a token."""
        return self.master.partition(";")[0]

    @property
    def slots(self) -> int:
        """How many tasks run at once, where the address tells."""
        found = re.fullmatch(r"local(?:-cluster)?\[(\d+|\*)(?:,\s*(\d+).*)?\]", self.master)
        if found is None or found[1] == "*":
            return os.cpu_count() or 2 if self.is_local else 4
        return int(found[1]) * (int(found[2] or 1) if self.master.startswith("local-cluster") else 1)


def find_java(environment: Mapping[str, str]) -> str | None:
    """The program `java` that Spark would run."""
    home = environment.get("JAVA_HOME")
    if home:
        program = Path(home, "bin", "java")
        return str(program) if os.access(program, os.X_OK) else None
    return shutil.which("java", path=environment.get("PATH"))


def why_unavailable(settings: SparkSettings, environment: Mapping[str, str] = os.environ) -> str:
    """What is missing on this machine, and what to do; "" if nothing is."""
    for package in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed: {how_to_install('spark')}"
    if not settings.is_connect and not settings.java and find_java(environment) is None:
        home = environment.get("JAVA_HOME")
        return NO_JAVA if not home else f"JAVA_HOME is {home!r}, where there is no bin/java"
    return ""


def open_session(settings: SparkSettings) -> SparkSession:
    """Begins a session. Call it once in a process, before anything of PySpark is used. Raises what Spark raises."""
    _check_reachable(settings)
    environment = os.environ
    environment.pop("SPARK_HOME", None)  # PySpark has a Spark of its own
    environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if settings.java:
        environment["JAVA_HOME"] = settings.java
    from pyspark import cloudpickle

    import bulk.questions
    import bulk.slice_source

    for module in (bulk.questions, bulk.slice_source):  # executors have nothing of ours
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    session = _connect(settings) if settings.is_connect else _classic(settings)
    for name, value in settings.more.items():
        session.conf.set(name, value)
    if not settings.is_local:  # there the tasks find it by PYTHONPATH
        session.addArtifacts(str(decoder_archive(Path(settings.folder or "."))), pyfile=True)
    return session


def decoder_archive(folder: Path) -> Path:
    """Writes what executors need to decode MySQL's rows."""
    path = folder / "upwell_decoder.zip"
    with ZipFile(path, "w") as archive:
        for name in DECODER:
            archive.write(APP_DIR / name, name)
    return path


def _check_reachable(settings: SparkSettings) -> None:
    """Raises OSError where nobody answers at the master: Spark would try for a minute, or for ten."""
    found = re.match(r"(?:spark|sc)://([^:/;,]+|\[[^]]+\]):(\d+)(?![^;/]*,)", settings.master)
    if found is None:
        return  # several masters, or another kind
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), REACHED_WITHIN).close()
    except OSError as error:
        raise OSError(f"nobody answers there ({error.strerror or error})") from None


def _classic(settings: SparkSettings) -> SparkSession:
    if settings.is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(settings.master).appName("upwell")
    folder = settings.folder or "."
    for name, value in {
        "spark.driver.memory": "1g",
        "spark.driver.maxResultSize": "0",  # what a job brings is bounded by what is asked in it
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": str(Path(folder, "warehouse")),
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if settings.is_local else {}),
        **settings.more,
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _connect(settings: SparkSettings) -> SparkSession:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session = SparkSession.builder.remote(settings.master).appName("upwell").getOrCreate()
    policy = DefaultPolicy(max_retries=CONNECT_RETRIES, initial_backoff=50, max_backoff=500)
    session.client.set_retry_policies([policy])
    session.range(1).collect()  # whether anybody answers shows here
    return session
