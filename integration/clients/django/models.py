"""The tables of `integration/clients/data.sql` as Django's models, and one with kinds of fields that they lack."""

from __future__ import annotations

from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=100, unique=True)
    country = models.CharField(max_length=2, null=True)

    class Meta:
        db_table = "author"


class Article(models.Model):
    author = models.ForeignKey(Author, models.CASCADE, related_name="articles")
    title = models.CharField(max_length=200)
    score = models.IntegerField(default=0)
    price = models.DecimalField(max_digits=10, decimal_places=2, null=True)
    published = models.DateTimeField()

    class Meta:
        db_table = "article"


class Comment(models.Model):
    article = models.ForeignKey(Article, models.CASCADE, related_name="comments")
    body = models.TextField()

    class Meta:
        db_table = "comment"


class Document(models.Model):
    """Kinds of fields that the others do not have."""

    content = models.JSONField()
    day = models.DateField()
    hour = models.TimeField()
    lasted = models.DurationField()
    raw = models.BinaryField()
    key = models.UUIDField()
    good = models.BooleanField(null=True)
    weight = models.FloatField()
    big = models.BigIntegerField()


MODELS = (Author, Article, Comment, Document)
