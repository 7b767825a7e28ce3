"""Settings: their order, their texts, and the one line for each that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from proxy.settings.automatic import Policy
from proxy.settings.config import SETTINGS, CacheDefinition, Config, Listen, load_config
from proxy.settings.in_effect import LiveSettings
from proxy.settings.machine import machine_memory
from proxy.settings.quantities import (
    parse_cache_name,
    parse_count,
    parse_listen,
    parse_seconds,
    parse_size,
    parse_whole_seconds,
)
from sqltypes.errors import ConfigError

URL = "mysql://app:secret@db.example:3306/shop"


def load(
    options: Mapping[str, str | None] = {}, environment: Mapping[str, str] = {}, home: Path | None = Path("/srv/app")
) -> Config:
    return load_config({"upstream": URL, **options}, environment, home)


def test_defaults() -> None:
    config = load()
    assert (config.grpc_listen, config.http_listen) == (Listen("127.0.0.1", 50051), Listen("127.0.0.1", 8080))
    assert (config.max_staleness, config.upquery_connections, config.max_message_size) == (30.0, 8, 16 << 20)
    assert config.memory_limit == machine_memory() // 4
    assert config.state_dir == Path("/srv/app/.local/state/upwell")
    assert (config.caches, config.grpc_token, config.check, config.log_json) == ((), None, False, False)


def test_a_user_without_a_home_names_the_state_directory() -> None:
    with pytest.raises(ConfigError, match="no home directory: --state-dir must name"):
        load(home=None)
    named = load({"state-dir": "/srv/state"}, home=None)
    assert (named.state_dir, named.usual_state_dir) == (Path("/srv/state"), None)
    assert load({}, {"XDG_STATE_HOME": "/var/lib"}, home=None).state_dir == Path("/var/lib/upwell")


def test_an_option_comes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "upwell.toml"
    file.write_text('memory-limit = "1MiB"\nmax_staleness = 5\nlog-json = true\nupquery-timeout = "1s"\n')
    environment = {"UPWELL_MEMORY_LIMIT": "2MiB", "UPWELL_MAX_STALENESS": "6s", "UPWELL_CONFIG": str(file)}
    config = load({"memory-limit": "3MiB"}, environment)
    assert (config.memory_limit, config.max_staleness) == (3 << 20, 6.0)
    assert (config.log_json, config.upquery_timeout) == (True, 1.0)


def test_what_locks_can_be_switched_off() -> None:
    assert load().exact_fills and not load({"exact-fills": "off"}).exact_fills


def test_the_share_of_hits_that_is_checked() -> None:
    shares = [load({"check-sample": text}).check_sample for text in ("on", "off", "0", "0.001", "1")]
    assert shares == [0.0001, 0.0, 0.0, 0.001, 1.0] and load().check_sample == 0.0001
    for text in ("2", "-1", "nan", "often"):
        with pytest.raises(ConfigError, match="on, off or a share"):
            load({"check-sample": text})


def test_administrators_are_listed_and_by_default_the_upstreams_account() -> None:
    assert load().admin_users == ("app",)
    assert load({"admin-users": "ops, app@10.0.0.%"}).admin_users == ("ops", "app@10.0.0.%")
    with pytest.raises(ConfigError, match="--admin-users is 'ops,': names with commas between them are accepted"):
        load({"admin-users": "ops,"})


def test_automatic_caching_is_off_unless_it_is_asked_for_with_its_thresholds() -> None:
    assert load().auto_cache is None
    assert load({"auto-cache": "on", "memory-limit": "1MiB"}).auto_cache == Policy(1 << 19, 3, 5.0)
    options = {"auto-cache": "on", "memory-limit": "1MiB", "auto-cache-reads": "5", "auto-cache-time": "1s"}
    assert load({**options, "auto-cache-memory": "0.25"}).auto_cache == Policy(1 << 18, 5, 1000.0)
    for part in ("0", "1.5", "nan", "half"):
        with pytest.raises(ConfigError, match=r"a part above 0 and at most 1 such as 0\.5 is accepted"):
            load({"auto-cache-memory": part})


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load(environment={"UPWELL_MAX_STALENESS": ""}).max_staleness == 30.0


def test_the_state_folder_follows_xdg() -> None:
    assert load(environment={"XDG_STATE_HOME": "/var/state"}).state_dir == Path("/var/state/upwell")
    assert load({"state-dir": "/srv/upwell"}).state_dir == Path("/srv/upwell")


def test_the_upstream_may_come_from_a_file_and_its_password_is_never_printed(tmp_path: Path) -> None:
    file = tmp_path / "upstream"
    file.write_text(URL + "\n")
    config = load_config({"upstream-file": str(file)}, {"UPWELL_UPSTREAM": "mysql://other@host"}, tmp_path)
    assert config.upstream == URL
    assert "secret" not in repr(config)


def test_caches_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "upwell.toml"
    file.write_text(
        '[[cache]]\nname = "story"\nsql = "SELECT 1"\ndatabase = "d"\n[[cache]]\nname = "b"\nsql = "SELECT 2"\n'
    )
    expected = (CacheDefinition("story", "SELECT 1", "d"), CacheDefinition("b", "SELECT 2"))
    assert load({"config": str(file)}).caches == expected


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"upstream": None}, "no upstream: give --upstream mysql://user:password@host:port[/database]"),
        ({"upstream": "postgres://a@b"}, "the upstream's address begins with 'postgres://'"),
        ({"upstream-file": "/nowhere"}, "--upstream and --upstream-file are both given"),
        ({"upstream": None, "upstream-file": "/nowhere"}, "--upstream-file: '/nowhere' cannot be read: No such file"),
        ({"config": "/nowhere"}, "--config: '/nowhere' cannot be read: No such file"),
        ({"memory-limit": "lots"}, "--memory-limit is 'lots': a size such as 512MiB or 2GiB is accepted"),
        ({"memory-limit": "0"}, "--memory-limit is '0': a size above zero"),
        ({"mysql-max-packet": "10"}, "--mysql-max-packet is '10': a size of at least 1KiB such as 16MiB is accepted"),
        (
            {"memory-limit": "1000000TiB"},
            "--memory-limit is '1000000TiB': 1099511627776000000 bytes, and this machine gives ",
        ),
        ({"upquery-timeout": "0s"}, "--upquery-timeout is '0s': a time of at least 10ms such as 30s or 2m is accepted"),
        ({"access-log-rotate": "0s"}, "--access-log-rotate is '0s': a time of at least 10ms"),
        ({"max-message-size": "1"}, "--max-message-size is '1': a size of at least 1KiB such as 16MiB is accepted"),
        ({"max-message-size": "2GiB"}, "--max-message-size is '2GiB': 2147483648 bytes: a size of at most 2047MiB is"),
        ({"spark-master": "local"}, "--spark-master is 'local': no task would run: local[N] with N from 1"),
        ({"spark-master": "local[0]"}, "--spark-master is 'local[0]': no task would run"),
        ({"spark-master": "local[0,3]"}, "--spark-master is 'local[0,3]': no task would run"),
        ({"name": "no/name"}, "--name is 'no/name': up to 64 letters"),
        ({"exact-fills": "always"}, "--exact-fills is 'always': auto or off is accepted"),
        ({"max-staleness": "-1s"}, "--max-staleness is '-1s': a time such as 30s, 500ms or 2m is accepted"),
        ({"upquery-connections": "0"}, "--upquery-connections is '0': a number from 1 to 10000 is accepted"),
        ({"grpc-listen": "50051"}, "--grpc-listen is '50051': HOST:PORT is accepted"),
        ({"http-listen": "h:99999"}, "--http-listen is 'h:99999': HOST:PORT is accepted"),
        ({"log-level": "loud"}, "--log-level is 'loud': one of debug, info, warning, error is accepted"),
        ({"grpc-listen": "0.0.0.0:1"}, "--grpc-listen 0.0.0.0 is not loopback: it needs --grpc-tls-cert"),
        ({"grpc-tls-cert": "a"}, "--grpc-tls-cert and --grpc-tls-key go together"),
        ({"grpc-token-file": "/nowhere"}, "--grpc-token-file: '/nowhere' cannot be read"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_accepted(options: Mapping[str, str | None], line: str) -> None:
    with pytest.raises(ConfigError) as failed:
        load(options)
    assert str(failed.value).startswith(line)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('memory_limt = "1MiB"', "'memory_limt' is not known: is 'memory-limit' meant?"),
        ("zzz = 1", "'zzz' is not known: there are upstream, "),
        ("memory-limit = [1]", "memory-limit is a list: one value is expected"),
        ("[max-staleness]", "max-staleness is a table: one value is expected"),
        ('config = "x"', "'config' is not known"),
        ("memory-limit 1", "is no TOML: "),
        ('memory-limit = "x"', "memory-limit is 'x': a size such as"),
        ("cache = 1", "caches are written as [[cache]] tables"),
        ('[[cache]]\nname = "a"', "[[cache]] number 1 lacks sql"),
        ('[[cache]]\nsql = "a"', "[[cache]] number 1 lacks name"),
        ('[[cache]]\nname = "a"\nqsl = "b"', "[[cache]] number 1: 'qsl' is not known: is 'sql' meant?"),
        ('[[cache]]\nname = "a"\nsql = 1', "[[cache]] number 1: sql is 1: a string is expected"),
        ('[[cache]]\nname = " a"\nsql = "b"', "[[cache]] number 1: name is ' a': up to 64 characters"),
        ('[[cache]]\nname="a"\nsql="b"\n[[cache]]\nname="a"\nsql="c"', "the name 'a' is there already"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(text: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "upwell.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as failed:
        load({"config": str(file)})
    assert str(failed.value).startswith(str(file))
    assert line in str(failed.value)


def test_true_and_false_are_on_and_off_where_these_are_accepted(tmp_path: Path) -> None:
    """`auto-cache: on` in a chart's values is true: YAML reads it so."""
    file = tmp_path / "upwell.toml"
    file.write_text("auto-cache = true\nwarm-up = 'No'\ncheck-sample = false\nexact-fills = false\nsnapshot = 'no'\n")
    config = load({"config": str(file), "transactions": "false", "mysql-tls": "false", "spark-master": "no"})
    assert config.auto_cache is not None and config.mysql.tls == "off"
    assert not any((config.warm_up, config.check_sample, config.exact_fills, config.snapshot))
    shown = {info.name: info.value for info in LiveSettings(config).listed()}
    assert (shown["auto-cache"], shown["transactions"], shown["warm-up"]) == ("on", "off", "off")
    with pytest.raises(ConfigError, match="exact-fills is 'true': auto or off is accepted"):
        load({"exact-fills": "true"})
    assert load({"name": "true"}).name == "true"


def test_names_of_caches_are_those_that_can_be_shown() -> None:
    for name in ("a", "q" * 64, "emoji 🦀", '<"`>', "größe", "a.b/c"):
        assert parse_cache_name(name) == name
    for name in ("", " ", "a ", " a", "q" * 65, "a\nb", "\x1b[31m", "a\u202eb", "a\x00"):
        with pytest.raises(ValueError, match="up to 64 characters that can be printed"):
            parse_cache_name(name)


def test_a_wrong_variable_is_named_as_such() -> None:
    with pytest.raises(ConfigError, match=r"^UPWELL_UPQUERY_TIMEOUT is 'soon': a time such as"):
        load(environment={"UPWELL_UPQUERY_TIMEOUT": "soon"})


def test_a_listener_beyond_loopback_needs_tls_and_a_token_or_the_word_insecure(tmp_path: Path) -> None:
    for name in ("cert", "key"):
        (tmp_path / name).write_text("pem of " + name)
    (tmp_path / "token").write_text("  s3cret\n")
    secure = {f"grpc-tls-{name}": str(tmp_path / name) for name in ("cert", "key")}
    with pytest.raises(ConfigError, match="not loopback"):
        load({"grpc-listen": "[::]:1", **secure})
    config = load({"grpc-listen": "[::]:1", **secure, "grpc-token-file": str(tmp_path / "token")})
    assert (config.grpc_certificate, config.grpc_key, config.grpc_token) == (b"pem of cert", b"pem of key", "s3cret")
    assert load({"grpc-listen": "0.0.0.0:1", "grpc-insecure": "true"}).grpc_token is None


@pytest.mark.parametrize(("content", "line"), [(b" \n", "is empty"), (b"\xff", "is not text"), ("é".encode(), "ASCII")])
def test_a_token_file_that_holds_no_token(content: bytes, line: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match=line):
        load({"grpc-token-file": str(tmp_path / "token")})


def test_sizes_times_counts_and_addresses() -> None:
    sizes = ("512MiB", "1.5GiB", "64 kib", "1GB", "1000", "2M", "1b")
    assert [parse_size(text) for text in sizes] == [512 << 20, 3 << 29, 65536, 10**9, 1000, 2 * 10**6, 1]
    assert [parse_seconds(text) for text in ("30s", "500ms", "2m", "1h", "1.5", "0")] == [30, 0.5, 120, 3600, 1.5, 0]
    assert [parse_whole_seconds(text) for text in ("0", "5s", "2m", "24h")] == [0, 5, 120, 86_400]
    for text in ("1.5", "500ms", "25h", "-1", "soon"):
        with pytest.raises(ValueError, match="a time"):
            parse_whole_seconds(text)
    assert parse_count("17") == 17
    assert [parse_listen(text) for text in ("[::1]:5", "localhost:0")] == [("::1", 5), ("localhost", 0)]
    for text in ("i", "-1", "1e3", "MiB", "1 PiB"):
        with pytest.raises(ValueError, match="size"):
            parse_size(text)
    for text in (":1", "::1:5", "h:", "h:x", "[]:1", "h:-1", "h:²"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            parse_listen(text)


def test_every_default_is_one_that_would_be_accepted() -> None:
    for setting in SETTINGS:
        if setting.default is not None:
            setting.parse(setting.default)


def test_the_tightest_control_group_bounds_the_memory(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:cpu:/x\n4:memory:/old\n0::/outer/inner\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
        "sys/fs/cgroup/outer/memory.max": "300000000\n",
        "sys/fs/cgroup/memory/old/memory.limit_in_bytes": "400000000\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine_memory(tmp_path) == 300_000_000
    assert machine_memory(tmp_path / "nowhere") > 300_000_000
