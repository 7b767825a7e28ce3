"""The common work of Django on mysqlclient: `python -m integration.clients.django.work`."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, IntegrityError, connection, connections, transaction
from django.db.models import Avg, Count, F, Max, Prefetch, Q, Sum

from integration.clients.canonical import Step, run_steps
from integration.clients.django.configured import ADDRESS  # before the models
from integration.clients.django.models import MODELS, Article, Author, Comment, Document
from integration.clients.statements import DEFAULTS, ERRORS, EVERY_BUT_A_YEAR, EVERY_TYPE

STEPS: list[Step] = []
PUBLISHED = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


def all_of(sql: str, values: Any = None, using: str = "default") -> list[tuple[Any, ...]]:
    with connections[using].cursor() as cursor:
        cursor.execute(sql, values)
        return [tuple(row) for row in cursor.fetchall()]


def shown(action: Callable[[], object]) -> object:
    """What Django shows of an error."""
    try:
        action()
    except DatabaseError as error:
        return {"class": type(error).__name__, "shown": [str(argument) for argument in error.args]}
    return "no error"


@step
def settings_of_a_new_session() -> object:
    return dict(all_of(DEFAULTS))


@step
def tables_made() -> object:
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)
    with connection.cursor() as cursor:
        tables = sorted(connection.introspection.table_names(cursor))
        columns = [list(column) for column in connection.introspection.get_table_description(cursor, "article")]
        keys = sorted(connection.introspection.get_relations(cursor, "article").items())
    return {"tables": tables, "columns": columns, "keys": keys, "features": connection.features.supports_transactions}


@step
def every_type_in_text() -> object:
    within_a_day = EVERY_BUT_A_YEAR.replace("a_time, a_fine_time, ", "")  # Django takes a TIME for a time of day
    return all_of(EVERY_TYPE.format(data=ADDRESS.data).replace("*", within_a_day), using="data")


@step
def objects_read() -> object:
    authors = Author.objects.using("data")
    articles = Article.objects.using("data")
    some = Prefetch("articles", queryset=articles.filter(score__gt=20).order_by("id"))
    return {
        "get": authors.get(pk=3).name,
        "missing": authors.filter(name="nobody").first(),
        "select_related": [
            [one.title, one.author.name] for one in articles.select_related("author").order_by("id")[10:13]
        ],
        "prefetch_related": [
            [one.name, [each.title for each in one.articles.all()]]
            for one in authors.filter(id__in=[1, 2]).order_by("id").prefetch_related(some)
        ],
        "reverse": [comment.body for comment in articles.get(pk=7).comments.order_by("-id")],
        "values": list(authors.filter(country__isnull=True).order_by("id").values_list("id", "name")),
        "in_bulk": sorted((key, one.name) for key, one in authors.in_bulk([1, 5, 9]).items()),
        "exists": [articles.filter(score=30).exists(), articles.filter(score=31).exists()],
        "dates": list(articles.dates("published", "day", order="DESC")[:3]),
        "or": articles.filter(Q(score__lt=3) | Q(price__gte=decimal.Decimal("49.5"))).count(),
        "text": articles.filter(title__icontains="CLE 19", author__name__startswith="author 1").count(),
    }


@step
def aggregates() -> object:
    articles = Article.objects.using("data")
    by_author = articles.values("author").annotate(n=Count("id"), best=Max("score")).order_by("-best", "author")[:4]
    return {
        "whole": articles.aggregate(Count("id"), Sum("score"), Avg("score"), Max("price")),
        "groups": [list(row.items()) for row in by_author],
        "annotated": [
            [author.name, author.total]
            for author in Author.objects.using("data")
            .annotate(total=Sum("articles__score"))
            .order_by("-total", "id")[:3]
        ],
    }


@step
def objects_written() -> object:
    author, made = Author.objects.get_or_create(name="new 🐬", defaults={"country": "NZ"})
    same, again = Author.objects.get_or_create(name="new 🐬", defaults={"country": "IS"})
    updated, created = Author.objects.update_or_create(name="new 🐬", defaults={"country": "UY"})
    many = [Article(author=author, title=f"title {n}", score=n, published=PUBLISHED) for n in range(250)]
    Article.objects.bulk_create(many, batch_size=100)
    changed = Article.objects.filter(score__gte=200).update(score=F("score") * 2)
    Author.objects.bulk_create([Author(name="one"), Author(name="new 🐬", country="IS")], ignore_conflicts=True)
    upserted = [Author(name="one", country="IS"), Author(name="two", country="IS")]
    Author.objects.bulk_create(upserted, update_conflicts=True, update_fields=["country"])
    first = Article.objects.order_by("id")[0]
    first.comments.create(body="a comment")
    first.refresh_from_db()
    deleted = Article.objects.filter(score__lt=100).delete()
    return {
        "got or made": [made, same.pk == author.pk, again, updated.country, created],
        "changed": changed,
        "published": first.published,
        "deleted": [deleted[0], sorted(deleted[1].items())],
        "authors": list(Author.objects.order_by("name").values_list("name", "country")),
        "left": [Article.objects.count(), Comment.objects.count()],
    }


@step
def kinds_of_fields() -> object:
    Document.objects.create(
        content={"ü🐬": [1, 2.5, None]},
        day=datetime.date(2024, 2, 29),
        hour=datetime.time(23, 59, 59, 1),
        lasted=datetime.timedelta(days=2, microseconds=3),
        raw=bytes(range(256)),
        key=uuid.UUID(int=1),
        weight=0.1,
        big=-(2**63),
    )
    found = Document.objects.filter(content__has_key="ü🐬", key=uuid.UUID(int=1), good__isnull=True)
    return [found.values_list("content", "day", "hour", "lasted", "raw", "key", "good", "weight", "big")[0]]


@step
def atomic_blocks() -> object:
    outcome: list[object] = []

    def names() -> list[str]:
        return list(Author.objects.filter(name__startswith="atomic").order_by("name").values_list("name", flat=True))

    with transaction.atomic():
        Author.objects.create(name="atomic 1")
        try:
            with transaction.atomic():
                Author.objects.create(name="atomic 2")
                Author.objects.create(name="atomic 1")
        except IntegrityError as error:
            outcome.append(error.args)
        outcome.append([names(), Author.objects.select_for_update().get(name="atomic 1").country])
        transaction.on_commit(lambda: outcome.append("committed"))
    outcome.append(names())
    try:
        with transaction.atomic():
            Author.objects.create(name="atomic 3")
            raise KeyError
    except KeyError:
        outcome.append(names())
    return outcome


@step
def errors() -> object:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE taken (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO taken VALUES (1)")
        outcome = {sql: shown(lambda sql=sql: cursor.execute(sql)) for sql in ERRORS}  # type: ignore[misc]
        cursor.execute("DROP TABLE taken")
    return outcome | {"after them": all_of("SELECT 1")}


@step
def rows_streamed() -> object:
    with connections["data"].cursor() as cursor:
        cursor.execute("SELECT n, label FROM number ORDER BY n")
        rows = 0
        while part := cursor.fetchmany(2000):
            rows += len(part)
    return [rows, sum(1 for _ in Article.objects.using("data").iterator(chunk_size=50))]


@step
def session_killed_between_requests() -> object:
    (((session_id,),), data) = all_of("SELECT CONNECTION_ID()"), connections["data"]
    with data.cursor() as killer:
        killer.execute(f"KILL {session_id}")
        there = 1
        while there:  # each try is a round trip
            there = killer.execute(f"SELECT id FROM performance_schema.processlist WHERE id = {session_id}")
    lost = shown(lambda: Author.objects.count())
    connection.close_if_unusable_or_obsolete()  # as Django does between requests
    return {"lost": lost != "no error", "again": Author.objects.filter(name="one").count()}


@step
def tables_removed() -> object:
    with connection.schema_editor() as editor:
        for model in reversed(MODELS):
            editor.delete_model(model)
    return connection.introspection.table_names()


if __name__ == "__main__":
    run_steps(STEPS)
