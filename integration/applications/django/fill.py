"""Installs the site into its empty database: `python -m integration.applications.django.fill ARTICLES`.

The same rows each time, but for Django's own hashes of passwords and the admin log's times.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "integration.applications.django.settings")
django.setup()

from django.contrib.admin.models import CHANGE, LogEntry  # noqa: E402 - django.setup() comes before models
from django.contrib.auth.models import Group, Permission, User  # noqa: E402

from integration.applications.django.newsroom.models import Article, Comment, Section, Tag, Writer  # noqa: E402

WORDS = ("harbour", "winter", "engine", "letter", "garden", "bridge", "market", "island", "copper", "signal", "paper")
SECTIONS = ("World", "Business", "Science", "Culture", "Sport", "Travel")
BEGAN = datetime(2022, 3, 1, 6, 30, tzinfo=UTC)
LOGGED = 5  # changes of so many articles are in the admin's log


def words(number: int, count: int) -> str:
    """Some that differ from number to number."""
    return " ".join(WORDS[(number * 7 + at * at * 5 + at) % len(WORDS)] for at in range(count))


def staff() -> User:
    """Who may do everything in the newsroom by a group, and nothing as administrator."""
    editors = Group.objects.create(name="Editors")
    models = ("article", "comment", "section", "tag", "writer", "user", "group", "logentry")
    editors.permissions.set(Permission.objects.filter(content_type__model__in=models))
    ann = User.objects.create_user("ann", "ann@example.com", "secret of ann", is_staff=True, first_name="Ann")
    ann.groups.add(editors)
    return ann


def newsroom(articles: int) -> None:
    sections = [Section.objects.create(name=name, slug=name.lower(), position=at) for at, name in enumerate(SECTIONS)]
    tags = [Tag.objects.create(name=word.title(), slug=word) for word in WORDS]
    writers = []
    for number in range(articles // 20 + 3):
        user = User.objects.create(username=f"writer{number}", password="!", first_name=f"Writer {number}")
        writers.append(Writer.objects.create(user=user, name=f"Writer {number}", biography=words(number, 30)))
    made = Article.objects.bulk_create(
        Article(
            title=f"{words(number, 4).capitalize()} {number}",
            slug=f"article-{number}",
            summary=words(number + 3, 12),
            body=". ".join(words(number + part, 20).capitalize() for part in range(12)),
            section=sections[number % len(sections)],
            editor=writers[number % 3],
            status=Article.Status.values[(0, 2, 2, 2, 1, 2, 2)[number % 7]],
            featured=number % 11 == 0,
            published=BEGAN + timedelta(days=number * 900 // articles, hours=number % 9),
        )
        for number in range(articles)
    )
    made = list(Article.objects.order_by("slug")) if made[0].pk is None else made  # MySQL returns no ids
    for at, article in enumerate(made):
        article.writers.set({writers[at % len(writers)], writers[(at * 3 + 1) % len(writers)]})
        article.tags.set({tags[at % len(tags)], tags[(at * 5 + 2) % len(tags)], tags[(at // 3) % len(tags)]})
    Comment.objects.bulk_create(
        Comment(
            article=article, name=f"Reader {at % 17}", body=words(at + number, 25), approved=(at + number) % 4 != 0,
            written=article.published + timedelta(hours=number + 1),
        )
        for at, article in enumerate(made) for number in range(at % 5)
    )  # fmt: skip


def main() -> None:
    call_command("migrate", verbosity=0)
    call_command("migrate", run_syncdb=True, verbosity=0)  # the newsroom, which has no migrations and refers to users
    ann = staff()
    newsroom(int(sys.argv[1]))
    for article in Article.objects.order_by("-published")[:LOGGED]:
        LogEntry.objects.log_actions(
            ann.pk, [article], CHANGE, [{"changed": {"fields": ["Title"]}}], single_object=True
        )


if __name__ == "__main__":
    main()
