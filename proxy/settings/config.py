"""The settings of `upwell serve`: from options, the environment, a file and defaults, in that order, checked together.

Every setting has one name, `memory-limit`: the option `--memory-limit`, the variable `UPWELL_MEMORY_LIMIT`, the key
`memory-limit` (or `memory_limit`) of the TOML file. A wrong value raises ConfigError, with one line that says where the
value came from and what would be accepted. What may change while it serves: `proxy/settings/in_effect.py`.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bulk.access_rows import AccessSettings
from bulk.session import DEFAULT_MASTER
from external_upquery.address import is_loopback, parse_upstream
from proxy.port.made_by import BY_FILE, MadeBy
from proxy.settings.automatic import Policy
from proxy.settings.machine import default_memory_limit
from proxy.settings.quantities import (
    DEFAULT_MESSAGE_LIMIT,
    Transactions,
    parse_auto,
    parse_bool,
    parse_cache_name,
    parse_checks,
    parse_count,
    parse_fraction,
    parse_large_count,
    parse_listen,
    parse_log_level,
    parse_memory,
    parse_memory_limit,
    parse_message_size,
    parse_name,
    parse_names,
    parse_packet_size,
    parse_patience,
    parse_pause,
    parse_seconds,
    parse_share,
    parse_spark_master,
    parse_switch,
    parse_text,
    parse_tls,
    parse_transactions,
    parse_whole_seconds,
    size_text,
)
from sqltypes.errors import ConfigError
from upwell.token_file import home_of_user, usual_state_dir

SPARK_MIN_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class CacheDefinition:
    """A cache as a file names it. `database` "": the upstream's default."""

    name: str
    sql: str
    database: str = ""
    made_by: MadeBy = BY_FILE

    def within(self, database: str) -> CacheDefinition:
        """With this database where it names none."""
        return self if self.database else replace(self, database=database)


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a listener listens; port 0: any free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class MysqlSettings:
    """Settings of MySQL's protocol. `tls`: off, on, required. `certificate`, `key`: paths; "": made at start. `idle` 0:
    as long as MySQL allows. `largest_packet`: bytes of one command. `clock_tolerance`: whole seconds."""

    listen: Listen = Listen("127.0.0.1", 3307)
    tls: str = "on"
    certificate: str = ""
    key: str = ""
    transactions: Transactions = Transactions.ON
    read_your_writes: bool = True
    own_writes_wait: float = 1.0
    connections: int = 10_000
    connections_given: bool = True  # not: fewer will do, where open files suffice for fewer
    idle: float = 0.0
    largest_packet: int = 1 << 30
    clock_tolerance: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """A setting's text. `origin`: option, variable, file or SET. `where`: the place, as a message calls it."""

    text: str
    origin: str
    where: str


@dataclass(frozen=True, slots=True)
class Given:
    """What settings are made from, as it was read. `told`: by name; what is not there has its default. `contents`: the
    whole address of the upstream, and the files that settings of gRPC name, by these settings' names."""

    told: Mapping[str, Told] = field(default_factory=dict)
    contents: Mapping[str, str | bytes] = field(default_factory=dict)
    caches: tuple[CacheDefinition, ...] = ()
    usual_state_dir: Path | None = None

    def text(self, name: str) -> str | None:
        return self.told[name].text if name in self.told else None

    def value(self, name: str) -> Any:
        """As its parser has it. Raises ConfigError."""
        setting, told = BY_NAME[name], self.told.get(name)
        if told is None:
            return None if setting.default is None else setting.parse(setting.default)
        try:
            return setting.parse(setting.spelled(told.text))
        except ValueError as error:
            raise ConfigError(f"{told.where} is {told.text!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class Config:
    """All settings. Sizes in bytes, times in seconds; certificate and key in PEM, both or none; token None: none given.

    `upstream` is the whole address, checked, with its password: it is not printed.
    """

    upstream: str = field(repr=False)
    grpc_listen: Listen
    http_listen: Listen
    memory_limit: int
    max_staleness: float
    upquery_connections: int
    upquery_timeout: float
    state_dir: Path
    usual_state_dir: Path | None = None  # of the user, whatever `state_dir` is; None: without a home
    name: str = ""  # of the source in `state_dir`
    mysql: MysqlSettings = MysqlSettings()
    exact_fills: bool = True
    snapshot: float | None = 300.0  # seconds from one to the next; None: none
    warm_up: bool = True
    access_log: AccessSettings | None = None  # None: reads are not logged
    spark_master: str = DEFAULT_MASTER
    spark_min_rows: int = SPARK_MIN_ROWS
    caches: tuple[CacheDefinition, ...] = ()
    grpc_certificate: bytes | None = None
    grpc_key: bytes | None = field(default=None, repr=False)
    grpc_token: str | None = field(default=None, repr=False)
    grpc_token_file: str | None = None  # where it was read
    grpc_insecure: bool = False
    grpc_query: bool = True
    max_message_size: int = DEFAULT_MESSAGE_LIMIT
    shutdown_delay: float = 0.0
    takeover_drain: float = 30.0
    log_level: str = "info"
    log_json: bool = False
    check: bool = False
    otel_query_text: bool = False
    check_sample: float = 0.0  # of all hits
    verify_new_caches: int = 0  # checks that must agree; 0: none
    ahead_fills: bool = True
    auto_cache: Policy | None = None  # None: nothing is cached automatically
    max_caches: int = 5_000
    max_caches_per_account: int = 100
    admin_users: tuple[str, ...] = ()  # who may drop caches and see others' queries: `user` or `user@host`
    given: Given = field(default=Given(), repr=False, compare=False)  # from which all of this is made


SWITCHED = {"true": "on", "yes": "on", "false": "off", "no": "off"}
"""YAML reads `on` as true, and writers of TOML mean it by true."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `parse` raises ValueError with what would be accepted. `default` None: no default, or one that
    depends on other things. `shown`: the value for people where the text is none, or is a secret."""

    name: str
    parse: Callable[[str], Any]
    default: str | None
    metavar: str
    help: str
    shown: Callable[[Config], str] | None = None

    @property
    def is_flag(self) -> bool:
        return self.parse is parse_bool

    def spelled(self, text: str) -> str:
        """`on` or `off` for what YAML and TOML have in their place, where it takes that word; else the text."""
        word = SWITCHED.get(text.lower(), "")
        return word if word in self.metavar.split("|") else text

    @property
    def variable(self) -> str:
        return _variable(self.name)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "upstream",
        parse_text,
        None,
        "URL",
        "the database to cache: mysql://user:password@host:port[/database], or vitess://...",
        lambda config: parse_upstream(config.upstream).redacted,
    ),
    Setting("upstream-file", parse_text, None, "FILE", "a file with that address: command lines are visible to others"),
    Setting("config", parse_text, None, "FILE", "settings and [[cache]] tables as TOML"),
    Setting("mysql-listen", parse_listen, "127.0.0.1:3307", "HOST:PORT", "where MySQL's protocol is spoken"),
    Setting("mysql-tls", parse_tls, "on", "off|on|required", "off, on (clients may use it) or required"),
    Setting("mysql-tls-cert", parse_text, None, "FILE", "certificate chain of that listener, PEM; default: a new one"),
    Setting("mysql-tls-key", parse_text, None, "FILE", "its private key, PEM"),
    Setting("transactions", parse_transactions, "on", "on|strict|off", "hits in transactions; strict: READ COMMITTED"),
    Setting("read-your-writes", parse_switch, "on", "on|off", "hits wait for what the session has written"),
    Setting("own-writes-wait", parse_seconds, "1s", "TIME", "the longest such wait; then MySQL answers"),
    Setting("clock-tolerance", parse_whole_seconds, "0s", "TIME", "how far NOW() may be behind; 0s: not at all"),
    Setting(
        "mysql-connections",
        parse_large_count,
        None,
        "N",
        "clients at a time; default: 10000, if files suffice",
        lambda config: str(config.mysql.connections),
    ),
    Setting("mysql-idle-timeout", parse_seconds, "0s", "TIME", "ends sessions silent for so long; 0s: as MySQL"),
    Setting("mysql-max-packet", parse_packet_size, "1GiB", "SIZE", "the largest command that is forwarded"),
    Setting("grpc-listen", parse_listen, "127.0.0.1:50051", "HOST:PORT", "where gRPC listens"),
    Setting("http-listen", parse_listen, "127.0.0.1:8080", "HOST:PORT", "where /metrics, /healthz and /readyz are"),
    Setting(
        "memory-limit",
        parse_memory,
        None,
        "SIZE",
        "the most for answers; default: a quarter of the machine's",
        lambda config: size_text(config.memory_limit),
    ),
    Setting("max-staleness", parse_seconds, "30s", "TIME", "how long hits are served while MySQL cannot be reached"),
    Setting("upquery-connections", parse_count, "8", "N", "connections to MySQL for misses and passed reads"),
    Setting("upquery-timeout", parse_patience, "30s", "TIME", "the longest that one of these statements may take"),
    Setting("ahead-fills", parse_switch, "on", "on|off", "hold answers that are newer than the stream"),
    Setting("exact-fills", parse_auto, "auto", "auto|off", "auto: may lock rows of hot keys, for milliseconds"),
    Setting("snapshot", parse_pause, "5m", "TIME|off", "how often what is held is written, for the next start"),
    Setting("warm-up", parse_switch, "on", "on|off", "fill at the start the keys that were held before"),
    Setting("access-log", parse_text, None, "DIR", "keep a sample of the reads there, for `upwell rank`"),
    Setting("access-log-sample", parse_fraction, "0.01", "PART", "the part of the reads that is logged"),
    Setting("access-log-limit", parse_memory_limit, "1GiB", "SIZE", "the size of that folder; oldest files go first"),
    Setting("access-log-rotate", parse_patience, "5m", "TIME", "how long until a file is complete and readable"),
    Setting("spark-master", parse_spark_master, DEFAULT_MASTER, "URL|off", "the Spark of large fills; off: none"),
    Setting("spark-min-rows", parse_large_count, str(SPARK_MIN_ROWS), "N", "fills of so many rows or more are Spark's"),
    Setting(
        "state-dir",
        parse_text,
        None,
        "DIR",
        "keeps caches made at run time; one proxy uses it",
        lambda config: str(config.state_dir),
    ),
    Setting("name", parse_name, None, "NAME", "the source's in --state-dir; default: the server's UUID"),
    Setting("grpc-tls-cert", parse_text, None, "FILE", "certificate chain of the gRPC listener, PEM"),
    Setting("grpc-tls-key", parse_text, None, "FILE", "its private key, PEM"),
    Setting("grpc-token-file", parse_text, None, "FILE", "the token that callers must send; default: made at start"),
    Setting("grpc-insecure", parse_bool, "false", "", "let everybody who can reach the gRPC listener call it"),
    Setting("grpc-query", parse_switch, "on", "on|off", "off: callers of gRPC read caches by name, and send no SQL"),
    Setting("max-message-size", parse_message_size, "16MiB", "SIZE", "the largest gRPC request or answer"),
    Setting("shutdown-delay", parse_seconds, "0s", "TIME", "how long /readyz says 503 before the listeners close"),
    Setting(
        "takeover-drain", parse_seconds, "30s", "TIME", "how long sessions go on that another process took over from"
    ),
    Setting("log-level", parse_log_level, "info", "LEVEL", "debug, info, warning or error"),
    Setting("log-json", parse_bool, "false", "", "log lines as JSON"),
    Setting("otel-query-text", parse_switch, "off", "on|off", "on: OpenTelemetry's spans have the queries' texts"),
    Setting("check-sample", parse_share, "on", "on|off|SHARE", "compare a share of hits with MySQL; on: 0.0001"),
    Setting("verify-new-caches", parse_checks, "32", "N|off", "compare a cache's first N answers with MySQL's own"),
    Setting(
        "admin-users",
        parse_names,
        None,
        "NAMES",
        "who may drop caches and see all queries; default: upstream's",
        lambda config: ",".join(config.admin_users),
    ),
    Setting("auto-cache", parse_switch, "off", "on|off", "cache what MySQL is busy with, drop what does not pay"),
    Setting("auto-cache-reads", parse_count, "3", "N", "cache a shape after so many reads in ten minutes"),
    Setting("auto-cache-time", parse_seconds, "5ms", "TIME", "or once two reads or more took MySQL so long"),
    Setting("auto-cache-memory", parse_fraction, "0.5", "PART", "the part of --memory-limit for automatic caches"),
    Setting("max-caches", parse_large_count, "5000", "N", "the most caches in all"),
    Setting("max-caches-per-account", parse_large_count, "100", "N", "the most of an account; administrators: any"),
    Setting("check", parse_bool, "false", "", "check the engine's invariants after every step: slow"),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}
CACHE_KEYS = ("name", "sql", "database")


def load_config(options: Mapping[str, str | None], environment: Mapping[str, str], home: Path | None) -> Config:
    """The settings. `options`: those given on the command line, by name. `home`: the user's; None: there is none.
    Raises ConfigError."""
    return config_of(given_by(options, environment, home))


def config_of(given: Given) -> Config:
    """Reads no file. Raises ConfigError."""
    value = given.value
    grpc_listen = Listen(*value("grpc-listen"))
    insecure = value("grpc-insecure")
    certificate, key, token = _credentials(given, grpc_listen, insecure=insecure)
    state, usual_state = value("state-dir"), given.usual_state_dir
    state_dir = Path(state).expanduser() if state else usual_state
    if state_dir is None:
        raise ConfigError("this user has no home directory: --state-dir must name the folder that keeps the caches")
    upstream = str(given.contents["upstream"])
    memory_limit = value("memory-limit") or default_memory_limit()
    return Config(
        upstream=upstream,
        grpc_listen=grpc_listen,
        http_listen=Listen(*value("http-listen")),
        memory_limit=memory_limit,
        max_staleness=value("max-staleness"),
        upquery_connections=value("upquery-connections"),
        upquery_timeout=value("upquery-timeout"),
        state_dir=state_dir,
        usual_state_dir=usual_state,
        name=value("name") or "",
        mysql=_mysql(given),
        exact_fills=value("exact-fills"),
        snapshot=value("snapshot"),
        warm_up=value("warm-up"),
        access_log=_access_log(value),
        spark_master=value("spark-master"),
        spark_min_rows=value("spark-min-rows"),
        caches=given.caches,
        grpc_certificate=certificate,
        grpc_key=key,
        grpc_token=token,
        grpc_token_file=given.text("grpc-token-file"),
        grpc_insecure=insecure,
        grpc_query=value("grpc-query"),
        max_message_size=value("max-message-size"),
        shutdown_delay=value("shutdown-delay"),
        takeover_drain=value("takeover-drain"),
        log_level=value("log-level"),
        log_json=value("log-json"),
        check=value("check"),
        otel_query_text=value("otel-query-text"),
        check_sample=value("check-sample"),
        verify_new_caches=value("verify-new-caches"),
        ahead_fills=value("ahead-fills"),
        auto_cache=_automatic(value, memory_limit),
        max_caches=value("max-caches"),
        max_caches_per_account=value("max-caches-per-account"),
        admin_users=value("admin-users") or (parse_upstream(upstream).user,),
        given=given,
    )


def _access_log(value: Callable[[str], Any]) -> AccessSettings | None:
    folder, share = value("access-log"), value("access-log-sample")
    limit, rotate = value("access-log-limit"), value("access-log-rotate")
    return AccessSettings(Path(folder).expanduser().absolute(), share, limit, rotate) if folder else None


def _automatic(value: Callable[[str], Any], memory_limit: int) -> Policy | None:
    policy = Policy(
        memory=int(value("auto-cache-memory") * memory_limit),
        few_reads=value("auto-cache-reads"),
        busy_ms=value("auto-cache-time") * 1000,
    )
    return policy if value("auto-cache") else None


# -- where values come from --------------------------------------------------------------------------------------------

Layer = Mapping[str, Told]
CONTENTS = {
    "grpc-tls-cert": "the gRPC listener's TLS file",
    "grpc-tls-key": "the gRPC listener's TLS file",
    "grpc-token-file": "--grpc-token-file",
}
"""The settings that name files which are read with them, as a message calls these."""


def given_by(options: Mapping[str, str | None], environment: Mapping[str, str], home: Path | None) -> Given:
    """What the settings are made from, read. Raises ConfigError."""
    layers, caches = _layers(options, environment)
    contents: dict[str, str | bytes] = {"upstream": _upstream(layers)}
    told = {name: one for layer in reversed(layers) for name, one in layer.items()}
    if ("grpc-tls-cert" in told) != ("grpc-tls-key" in told):
        raise ConfigError("--grpc-tls-cert and --grpc-tls-key go together: only one of them is given")
    for name, what in CONTENTS.items():
        if name in told:
            read = read_text if name == "grpc-token-file" else read_bytes
            contents[name] = read(told[name].text, what)
    return Given(told, contents, caches, usual_state_dir(environment, home))


def _layers(
    options: Mapping[str, str | None], environment: Mapping[str, str]
) -> tuple[list[Layer], tuple[CacheDefinition, ...]]:
    """The sources of values, the strongest first, and the caches of the file."""
    variables = {name: _variable(name) for name in BY_NAME if environment.get(_variable(name))}
    layers: list[Layer] = [
        {name: Told(text, "option", f"--{name}") for name, text in options.items() if text is not None},
        {name: Told(environment[variable], "variable", variable) for name, variable in variables.items()},
    ]
    caches: tuple[CacheDefinition, ...] = ()
    path = next((layer["config"].text for layer in layers if "config" in layer), None)
    if path is not None:
        values, caches = read_file(Path(path))
        layers.append({name: Told(text, "file", f"{path}: {name}") for name, text in values.items()})
    return layers, caches


def _variable(name: str) -> str:
    return "UPWELL_" + name.replace("-", "_").upper()


def _upstream(layers: Sequence[Layer]) -> str:
    for layer in layers:
        url, file = layer.get("upstream"), layer.get("upstream-file")
        if url is not None and file is not None:
            raise ConfigError(f"{url.where} and {file.where} are both given: one is")
        address = url.text if url is not None else None
        if file is not None:
            address = read_text(file.text, file.where)
        if address is not None:
            parse_upstream(address)
            return address
    raise ConfigError(
        "no upstream: give --upstream mysql://user:password@host:port[/database], --upstream-file or UPWELL_UPSTREAM"
    )


def _mysql(given: Given) -> MysqlSettings:
    value = given.value
    listen = Listen(*value("mysql-listen"))
    tls, certificate, key = value("mysql-tls"), given.text("mysql-tls-cert"), given.text("mysql-tls-key")
    if key is not None and certificate is None:
        raise ConfigError("--mysql-tls-key stands alone: expected --mysql-tls-cert beside it")
    if tls == "off" and not listen.is_loopback:
        raise ConfigError(f"--mysql-listen {listen.host} is not loopback: --mysql-tls is on or required there")
    return MysqlSettings(
        listen=listen,
        tls=tls,
        certificate=certificate or "",
        key=key or "",
        transactions=value("transactions"),
        read_your_writes=value("read-your-writes"),
        own_writes_wait=value("own-writes-wait"),
        connections=value("mysql-connections") or 10_000,
        connections_given=value("mysql-connections") is not None,
        idle=value("mysql-idle-timeout"),
        largest_packet=value("mysql-max-packet"),
        clock_tolerance=value("clock-tolerance"),
    )


def _credentials(given: Given, listen: Listen, *, insecure: bool) -> tuple[bytes | None, bytes | None, str | None]:
    """(certificate, key, token) of the gRPC listener; refuses one beyond loopback that lacks them."""
    certificate, key, token = (given.contents.get(name) for name in CONTENTS)
    assert not isinstance(certificate, str) and not isinstance(key, str) and not isinstance(token, bytes)
    if token is not None and not (token.isascii() and token.isprintable()):
        file = given.text("grpc-token-file")
        raise ConfigError(f"--grpc-token-file {file!r}: the token is one line of printable ASCII")
    if not listen.is_loopback and not insecure and (certificate is None or token is None):
        raise ConfigError(
            f"--grpc-listen {listen.host} is not loopback: it needs --grpc-tls-cert, --grpc-tls-key and"
            " --grpc-token-file (or --grpc-insecure)"
        )
    return certificate, key, token


def read_bytes(path: str, what: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"{what}: {path!r} cannot be read: {error.strerror}") from None


def read_text(path: str, what: str) -> str:
    """The file's text without white space around it; empty is an error."""
    try:
        text = read_bytes(path, what).decode().strip()
    except UnicodeDecodeError:
        raise ConfigError(f"{what}: {path!r} is not text") from None
    if not text:
        raise ConfigError(f"{what}: {path!r} is empty")
    return text


# -- the file ----------------------------------------------------------------------------------------------------------


def read_file(path: Path) -> tuple[dict[str, str], tuple[CacheDefinition, ...]]:
    """The settings and the caches of a TOML file. Raises ConfigError."""
    text = read_bytes(str(path), "--config")
    try:
        document = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from None
    tables = document.pop("cache", [])
    values = {}
    for key, value in document.items():
        name = key.replace("_", "-")
        if name == "config" or name not in BY_NAME:
            raise ConfigError(f"{path}: {unknown(key, [*BY_NAME, 'cache'])}")
        if isinstance(value, (dict, list)):
            raise ConfigError(
                f"{path}: {key} is a {'table' if isinstance(value, dict) else 'list'}: one value is expected"
            )
        values[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return values, _cache_tables(path, tables)


def _cache_tables(path: Path, tables: object) -> tuple[CacheDefinition, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{path}: caches are written as [[cache]] tables with name, sql and database")
    caches: dict[str, CacheDefinition] = {}
    for number, table in enumerate(tables, 1):
        where = f"{path}: [[cache]] number {number}"
        for key, value in table.items():
            if key not in CACHE_KEYS:
                raise ConfigError(f"{where}: {unknown(key, CACHE_KEYS)}")
            if not isinstance(value, str):
                raise ConfigError(f"{where}: {key} is {value!r}: a string is expected")
        if not table.get("name") or not table.get("sql"):
            raise ConfigError(f"{where} lacks {'sql' if table.get('name') else 'name'}")
        cache = CacheDefinition(**table)
        try:
            parse_cache_name(cache.name)
        except ValueError as error:
            raise ConfigError(f"{where}: name is {cache.name!r}: {error}") from None
        if cache.name in caches:
            raise ConfigError(f"{where}: the name {cache.name!r} is there already")
        caches[cache.name] = cache
    return tuple(caches.values())


def unknown(name: str, known: Sequence[str]) -> str:
    """A sentence for a name that is not known, with the nearest that is."""
    near = difflib.get_close_matches(name.replace("_", "-"), known, 1, 0.5)
    return f"{name!r} is not known" + (f": is {near[0]!r} meant?" if near else f": there are {', '.join(known)}")


def from_process(options: Mapping[str, str | None]) -> Config:
    """`load_config` with this process's environment."""
    return load_config(options, os.environ, home_of_user())


def upstream_from_process(options: Mapping[str, str | None]) -> tuple[str, int]:
    """(upstream, upquery connections) alone, for who serves nothing. Raises ConfigError."""
    layers, _ = _layers(options, os.environ)
    told = {name: one for layer in reversed(layers) for name, one in layer.items()}
    connections: int = Given(told).value("upquery-connections")
    return _upstream(layers), connections
