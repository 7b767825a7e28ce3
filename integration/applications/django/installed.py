"""A site made with Django, its admin above all: Django is in the clients' environment, the site is in this folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from integration.applications.application import Application, Part
from integration.applications.forms import fields
from integration.applications.sites import Service, Site
from integration.clients.tools import ROOT, Tool, checked, python_with_mysqlclient

USER = {"username": "ann", "password": "secret of ann"}
ADMIN, ARTICLES = "/admin/newsroom", "/admin/newsroom/article/"
# Of each kind of page one at least; links lead to many more.
PUBLIC = Part(
    starts=("/", "/?q=harbour", "/login/"),
    paths=re.compile(r"^/(?:$|\?(?!q=)|article/|section/|tag/|writer/|archive/)"),
)
USERS = Part(
    starts=(
        "/admin/", "/account/", ARTICLES, f"{ARTICLES}1/change/", f"{ARTICLES}?q=harbour",
        f"{ARTICLES}?published__year=2022&published__month=4", f"{ADMIN}/comment/", f"{ADMIN}/writer/",
        f"{ARTICLES}?section__id__exact=2&featured__exact=0&o=-1.3", f"{ARTICLES}?p=2", f"{ARTICLES}1/history/",
        f"{ADMIN}/section/", f"{ADMIN}/writer/1/change/", "/admin/auth/user/", "/",
        f"{ARTICLES}?q=writer+winter&status__exact=published", f"{ARTICLES}2/delete/", f"{ARTICLES}add/",
        f"{ADMIN}/comment/?q=reader+3&approved__exact=1", f"{ADMIN}/comment/1/change/", "/admin/auth/user/?q=ann",
        "/admin/auth/group/1/change/", "/admin/admin/logentry/", f"{ARTICLES}?_facets=True",
        "/admin/autocomplete/?term=wri&app_label=newsroom&model_name=article&field_name=writers",
    ),
    paths=re.compile(r"^/admin/(?!logout|login|jsi18n|password_change)"),
)  # fmt: skip


def program(*arguments: str) -> Tool:
    tool = python_with_mysqlclient()
    return replace(tool, command=(*tool.command, "-m", *arguments))


def service(address: str) -> Service:
    return Service(program("integration.applications.django.serve", address), ROOT)


def environment(connection_seconds: int) -> dict[str, str]:
    return {"SITE_CONN_MAX_AGE": str(connection_seconds)}


def fill(told: Mapping[str, str], articles: int) -> None:
    tool = program("integration.applications.django.fill", str(articles))
    checked(*tool.command, cwd=ROOT, environment={**tool.environment, **told})


def log_in(site: Site) -> None:
    form = dict(fields(site.get("/login/").text))
    site.submit("/login/", form | USER)


def change(site: Site, path: str, words: str) -> None:
    """Gives an article another title, with the admin's form."""
    given = fields(site.get(path).text, "article_form")
    site.submit(path, [*((name, value) for name, value in given if name != "title"), ("title", words)])
    site.get(path)  # which says so, once


# Tokens against forgery, which are masked anew for each page.
NOISE = re.compile(r'name="csrfmiddlewaretoken" value="\w+"')


def application(name: str, connection_seconds: int) -> Application:
    return Application(
        name=name,
        public=PUBLIC,
        users=USERS,
        noise=NOISE,
        environment=partial(environment, connection_seconds),
        service=service,
        fill=fill,
        log_in=log_in,
        written=f"{ARTICLES}1/change/",
        write=change,
    )


# By default Django has a connection for each request.
DJANGO = application("Django", 0), application("Django, kept connections", 600)
