"""Settings of a running process: what is told of each, what may change, and what SIGHUP and SET do to each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from proxy.settings.config import Config, load_config
from proxy.settings.in_effect import LiveSettings
from sqltypes.errors import BadSetting, ConfigError

URL = "mysql://app:secret@db.example:3306/shop"
LIVE = ("max-staleness", "memory-limit", "admin-users", "auto-cache", "auto-cache-memory", "grpc-tls-cert")


def read(values: Mapping[str, str | None] = {}, environment: Mapping[str, str] = {}) -> Config:
    return load_config({"upstream": URL, **values}, environment, Path("/srv/app"))


class Process:
    """`applied`: the names whose values were put into effect."""

    def __init__(self, config: Config) -> None:
        self.applied: list[str] = []
        self.settings = LiveSettings(config)
        self.settings.apply = {name: lambda config, name=name: self.applied.append(name) for name in LIVE}  # type: ignore[misc]

    def told(self, name: str) -> tuple[str, str, str]:
        (info,) = (info for info in self.settings.listed() if info.name == name)
        return info.value, info.origin, info.live


def test_value_and_origin_of_each_setting_are_told_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "upwell.toml"
    file.write_text("log-level = 'debug'\n")
    process = Process(read({"config": str(file), "name": "shop"}, {"UPWELL_MAX_STALENESS": "6s"}))
    told = process.told
    assert told("upstream") == ("mysql://app@db.example:3306/shop", "option", "no")
    assert told("max-staleness") == ("6s", "variable", "yes")
    assert told("log-level") == ("debug", "file", "no")
    assert told("admin-users") == ("app", "default", "yes")
    assert told("grpc-tls-cert") == ("", "default", "SIGHUP")
    assert told("mysql-connections")[0] == "10000" and told("memory-limit")[0].endswith("B")
    assert told("state-dir")[0] == "/srv/app/.local/state/upwell"
    assert "secret" not in str(process.settings.listed())


def test_a_value_is_set_and_taken_back() -> None:
    process = Process(read({"max-staleness": "7s"}))
    process.settings.set("MAX_STALENESS", "5s")
    assert (process.settings.config.max_staleness, process.told("max-staleness")) == (5.0, ("5s", "SET", "yes"))
    process.settings.set("max-staleness", None)
    assert (process.settings.config.max_staleness, process.told("max-staleness")) == (7.0, ("7s", "option", "yes"))
    assert process.applied == ["max-staleness"] * 2


def test_what_depends_on_a_value_follows_it() -> None:
    process = Process(read({"auto-cache": "on", "memory-limit": "4MiB"}))
    process.settings.set("memory-limit", "2MiB")
    policy = process.settings.config.auto_cache
    assert policy is not None and policy.memory == 1 << 20


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("max-staleness", "soon", "SET UPWELL max-staleness is 'soon': a time such as 30s, 500ms or 2m is accepted"),
        ("max-stalenes", "1s", "'max-stalenes' is not known: is 'max-staleness' meant?"),
        ("upstream", URL, "upstream cannot change while Upwell serves: it takes effect at the next start"),
        ("grpc-tls-cert", "/a", "grpc-tls-cert cannot change while Upwell serves: SIGHUP has it read again"),
        ("memory-limit", "10", "SET UPWELL memory-limit is '10': 10 bytes: a size of at least 1MiB"),
    ],
)
def test_what_cannot_be_set_gets_a_sentence_and_changes_nothing(name: str, value: str, why: str) -> None:
    process = Process(read())
    before = process.settings.config
    with pytest.raises(BadSetting) as failed:
        process.settings.set(name, value)
    assert failed.value.message.startswith(why)
    assert process.settings.config == before and process.applied == []


def test_what_is_read_anew_takes_effect_where_it_can() -> None:
    process = Process(read({"upquery-connections": "4"}))
    for _ in range(2):  # what needs a restart is told each time
        changed, left = process.settings.take(read({"upquery-connections": "5", "max-staleness": "9s"}))
        assert left == ["upquery-connections"]
        assert process.settings.config.max_staleness == 9.0 and process.settings.config.upquery_connections == 4
        assert process.told("upquery-connections") == ("4", "option", "no")
    assert changed == [] and process.applied == ["max-staleness"]
    assert process.settings.take(read({"upquery-connections": "4"})) == (["max-staleness"], [])


def test_what_was_set_stays_until_the_file_has_another_value_for_it() -> None:
    process = Process(read({"max-staleness": "7s"}))
    process.settings.set("max-staleness", "5s")
    assert process.settings.take(read({"max-staleness": "7s", "admin-users": "ops"})) == (["admin-users"], [])
    assert process.told("max-staleness") == ("5s", "SET", "yes")
    assert process.settings.take(read({"max-staleness": "8s", "admin-users": "ops"})) == (["max-staleness"], [])
    assert process.told("max-staleness") == ("8s", "option", "yes")


def test_files_that_have_changed_at_their_paths_count(tmp_path: Path) -> None:
    def config(certificate: str, token: str) -> Config:
        for name, text in (("cert", certificate), ("key", "k"), ("token", token)):
            (tmp_path / name).write_text(text)
        files = {"grpc-tls-cert": "cert", "grpc-tls-key": "key", "grpc-token-file": "token"}
        return read({name: str(tmp_path / file) for name, file in files.items()})

    process = Process(config("one", "a"))
    assert process.settings.take(config("two", "b")) == (["grpc-tls-cert"], ["grpc-token-file"])
    assert (process.settings.config.grpc_certificate, process.settings.config.grpc_token) == (b"two", "a")


def test_what_cannot_be_used_beside_what_needs_a_restart_changes_nothing() -> None:
    process = Process(read({"grpc-listen": "0.0.0.0:1", "grpc-insecure": "true"}))
    before = process.settings.config
    process.settings.apply = {**process.settings.apply, "grpc-insecure": process.settings.apply["max-staleness"]}
    with pytest.raises(ConfigError, match="is not loopback"):
        process.settings.take(read({"max-staleness": "9s"}))
    assert process.settings.config == before and process.applied == []
