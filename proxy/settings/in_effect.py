"""The settings of a running process: what each is, where it comes from, and whether it can change.

A value that was SET stands before all others until the process ends, or the file has another value for it than before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from proxy.port.api import SettingInfo
from proxy.settings.config import BY_NAME, SETTINGS, Config, Setting, Told, config_of, unknown
from sqltypes.errors import BadSetting, ConfigError

SET = "SET"  # an origin
FILE = "FILE"  # as `Setting.metavar`: what it names is read again at SIGHUP
CACHES = "caches"  # of the file of settings, in a list of what has changed


class LiveSettings:
    """`config`: as it is in effect. `apply`: by a setting's name, what puts its value into effect.

    Invariants:
    1. `config` is made of what was `_read`, but for what was SET.
    2. In `config` a setting that is not in `apply` is as it was at the start.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.apply: Mapping[str, Callable[[Config], None]] = {}
        self._read = config.given

    def listed(self) -> list[SettingInfo]:
        """In the order of `upwell serve --help`."""
        return [self._info(setting) for setting in SETTINGS]

    def set(self, name: str, text: str | None) -> SettingInfo:
        """Puts a value into effect; None: the one that it has without SET. Raises BadSetting."""
        name = name.lower().replace("_", "-")
        setting = BY_NAME.get(name)
        if setting is None:
            raise BadSetting(unknown(name, [one.name for one in SETTINGS if self._live(one) == "yes"]))
        if self._live(setting) != "yes":
            how = "SIGHUP has it read again" if self._live(setting) == "SIGHUP" else "it takes effect at the next start"
            raise BadSetting(f"{name} cannot change while Upwell serves: {how}")
        told = dict(self.config.given.told)
        before = self._read.told.get(name) if text is None else Told(text, SET, f"SET UPWELL {name}")
        if before is None:
            told.pop(name, None)
        else:
            told[name] = before
        try:
            config = config_of(replace(self.config.given, told=told))
        except ConfigError as error:
            raise BadSetting(error.message) from None
        self._put(config, [name])
        return self._info(setting)

    def take(self, read: Config) -> tuple[list[str], list[str]]:
        """Puts into effect what was read anew. The names of what has changed by that, and of what has changed and needs
        a restart. Raises ConfigError; then nothing has changed."""
        fresh, now = read.given, self.config.given
        told, contents = dict(now.told), dict(now.contents)
        for name in self.apply:
            was_set = name in now.told and now.told[name].origin == SET
            if was_set and fresh.text(name) == self._read.text(name):
                continue
            told.pop(name, None)
            if name in fresh.told:
                told[name] = fresh.told[name]
            if name in fresh.contents:
                contents[name] = fresh.contents[name]
        config = config_of(replace(fresh, told=told, contents=contents))
        changed = [name for name in BY_NAME if _differ(name, self.config, config)]
        left = [name for name in BY_NAME if name not in self.apply and _differ(name, config, read)]
        self._read = fresh
        self._put(config, changed)
        return [CACHES] * (now.caches != fresh.caches) + changed, left

    def _put(self, config: Config, names: list[str]) -> None:
        self.config = config
        for name in names:
            self.apply[name](config)

    def _live(self, setting: Setting) -> str:
        if setting.name not in self.apply:
            return "no"
        return "SIGHUP" if setting.metavar == FILE else "yes"

    def _info(self, setting: Setting) -> SettingInfo:
        told = self.config.given.told.get(setting.name)
        value = setting.spelled(told.text) if told is not None else setting.default or ""
        if setting.shown is not None:
            value = setting.shown(self.config)
        origin = told.origin if told is not None else "default"
        return SettingInfo(setting.name, value, origin, self._live(setting), setting.help)


def _differ(name: str, one: Config, other: Config) -> bool:
    values = [(config.given.value(name), config.given.contents.get(name)) for config in (one, other)]
    return values[0] != values[1]
