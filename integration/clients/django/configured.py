"""Django with MySQL's backend, configured for this one program: to be imported before its models.

`data` are the rows of `integration/clients/data.sql`; `default` is the program's own database, with the same tables.
"""

from __future__ import annotations

from pathlib import Path

import django
from django.apps import AppConfig
from django.conf import settings

from integration.clients.canonical import address

ADDRESS = address()


class Clients(AppConfig):
    name = "integration.clients.django"
    label = "clients"
    path = str(Path(__file__).parent)


def server(database: str) -> dict[str, object]:
    return {
        "ENGINE": "django.db.backends.mysql",
        "HOST": ADDRESS.host,
        "PORT": ADDRESS.port,
        "USER": ADDRESS.user,
        "PASSWORD": ADDRESS.password,
        "NAME": database,
    }


settings.configure(
    DATABASES={"default": server(ADDRESS.database), "data": server(ADDRESS.data)},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["integration.clients.django.configured.Clients"],
    USE_TZ=False,
)
django.setup()
