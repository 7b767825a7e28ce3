"""Repeated reads of Django: a request uses the thread's connection in autocommit and closes it, as it does by default.

`python -m integration.clients.django.reads [--explain]`.
"""

from __future__ import annotations

from django.db import close_old_connections, connections, transaction
from django.db.models import Count, Sum

from integration.clients.canonical import EXPLAIN, ROUNDS, Reads, served_in
from integration.clients.django import configured  # noqa: F401 - before the models
from integration.clients.django.models import Article, Author

AUTHORS = Author.objects.using("data")
ARTICLES = Article.objects.using("data")


def main() -> None:
    reads = Reads()
    for number in range(ROUNDS):
        author_id = (3, 7)[number % 2]
        request(author_id, reads)
        with transaction.atomic(using="data"):  # as ATOMIC_REQUESTS does
            author = AUTHORS.get(pk=author_id)
            reads.note("get in atomic", author_id, author.name, served(reads))
            titles = [article.title for article in author.articles.order_by("id")]
            reads.note("collection in atomic", author_id, titles, served(reads))
        close_old_connections()
    reads.emit()


def request(author_id: int, reads: Reads) -> None:
    author = AUTHORS.get(pk=author_id)
    reads.note("get", author_id, [author.name, author.country], served(reads))
    article = ARTICLES.select_related("author").get(pk=author_id)
    reads.note("select_related", author_id, [article.title, article.author.name], served(reads))
    several = ARTICLES.filter(pk__in=[author_id, 9, 11]).order_by("id")
    reads.note("in list", author_id, [article.title for article in several], served(reads))
    whole = ARTICLES.filter(author_id=author_id).aggregate(Count("id"), Sum("score"))
    reads.note("aggregate", author_id, whole, served(reads))
    name = list(AUTHORS.filter(name=f"author {author_id - 1}").values_list("id", flat=True))
    reads.note("by text", author_id, name, served(reads))


def served(reads: Reads) -> tuple[str, str] | None:
    if not reads.explain:
        return None
    with connections["data"].cursor() as cursor:
        cursor.execute(EXPLAIN)
        (row,) = cursor.fetchall()
        return served_in([column[0] for column in cursor.description], row)


if __name__ == "__main__":
    main()
