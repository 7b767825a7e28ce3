"""A newspaper: articles in sections, by writers, with tags and comments."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone


class Section(models.Model):
    name = models.CharField(max_length=60, unique=True)
    slug = models.SlugField(unique=True)
    position = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering = ("position",)

    def __str__(self) -> str:
        return str(self.name)

    def get_absolute_url(self) -> str:
        return str(reverse("section", args=[self.slug]))


class Tag(models.Model):
    name = models.CharField(max_length=60, unique=True)
    slug = models.SlugField(unique=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return str(self.name)


class Writer(models.Model):
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True)
    name = models.CharField(max_length=100)
    biography = models.TextField(blank=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return str(self.name)

    def get_absolute_url(self) -> str:
        return str(reverse("writer", args=[self.pk]))


class ArticleQuerySet(models.QuerySet):
    def public(self) -> models.QuerySet:
        """As Django's own tutorial does it: each request asks with another time."""
        return self.filter(status=Article.Status.PUBLISHED, published__lte=timezone.now())


class Article(models.Model):
    class Status(models.TextChoices):
        DRAFT = "draft"
        REVIEW = "review"
        PUBLISHED = "published"

    title = models.CharField(max_length=200)
    slug = models.SlugField(unique=True)
    summary = models.CharField(max_length=300, blank=True)
    body = models.TextField()
    section = models.ForeignKey(Section, models.PROTECT, related_name="articles")
    editor = models.ForeignKey(Writer, models.SET_NULL, null=True, blank=True, related_name="edited")
    writers = models.ManyToManyField(Writer, related_name="articles")
    tags = models.ManyToManyField(Tag, blank=True, related_name="articles")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.DRAFT)
    featured = models.BooleanField(default=False)
    published = models.DateTimeField(db_index=True)

    objects = ArticleQuerySet.as_manager()

    class Meta:
        ordering = ("-published", "-id")
        indexes = (models.Index(fields=["status", "published"]),)

    def __str__(self) -> str:
        return str(self.title)

    def get_absolute_url(self) -> str:
        return str(reverse("article", args=[self.pk]))


class Comment(models.Model):
    article = models.ForeignKey(Article, models.CASCADE, related_name="comments")
    name = models.CharField(max_length=60)
    body = models.TextField()
    approved = models.BooleanField(default=False)
    written = models.DateTimeField()

    class Meta:
        ordering = ("written", "id")

    def __str__(self) -> str:
        return f"{self.name} on {self.article_id}"
