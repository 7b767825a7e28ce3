"""`upwell settings`, `upwell set`: the settings of a running proxy."""

from __future__ import annotations

from typing import Any

import click

from upwell.client import Client
from upwell.command import asked, connection_options, json_option, print_json, print_table
from upwell.v1 import upwell_pb2 as pb

COLUMNS = ("name", "value", "origin", "live", "help")


def as_dict(setting: pb.Setting) -> dict[str, str]:
    return {name: getattr(setting, name) for name in COLUMNS}


def show(settings: list[pb.Setting], *, as_json: bool) -> None:
    shown = [as_dict(setting) for setting in settings]
    if as_json:
        print_json(shown)
    else:
        print_table(COLUMNS, [[setting[name] for name in COLUMNS] for setting in shown])


@click.command()
@json_option
@connection_options
def settings(as_json: bool, connection: dict[str, Any]) -> None:
    """Show the settings of the running proxy, where each comes from, and whether it can change while it serves."""
    with Client(**connection) as client:
        show(client.settings(), as_json=as_json)


def setting_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of settings that begin so, and can change."""
    live = asked(context, lambda client: [setting.name for setting in client.settings() if setting.live == "yes"])
    return [name for name in live if name.startswith(incomplete)]


@click.command("set", context_settings={"ignore_unknown_options": True})  # a value may begin with a minus
@click.argument("name", default="", shell_complete=setting_names)
@click.argument("value", required=False)
@click.option("--default", is_flag=True, help="the value that it has without `set`")
@json_option
@connection_options
def set_setting(name: str, value: str | None, default: bool, as_json: bool, connection: dict[str, Any]) -> None:
    """Set NAME to VALUE, until the proxy ends; without both, show all settings that can be set."""
    if (value is not None) == default and name:
        raise click.UsageError("a name with a value, or with --default, is accepted")
    with Client(**connection) as client:
        if not name:
            show([setting for setting in client.settings() if setting.live == "yes"], as_json=as_json)
            return
        setting = client.set(name, value)
    if as_json:
        print_json(as_dict(setting))
    else:
        click.echo(f"{setting.name} is {setting.value} ({setting.origin})")
