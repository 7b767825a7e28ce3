"""The newspaper in Django's admin: of each thing that the admin's lists and forms can do, an example."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from integration.applications.django.newsroom.models import Article, Comment, Section, Tag, Writer


class Comments(admin.TabularInline):
    model = Comment
    extra = 1


class Wrote(admin.TabularInline):
    model = Article.writers.through
    extra = 0
    raw_id_fields = ("article",)


@admin.register(Article)
class ArticleAdmin(admin.ModelAdmin):
    list_display = ("title", "section", "editor", "status", "featured", "published")
    list_filter = ("status", "featured", "section", ("tags", admin.RelatedOnlyFieldListFilter), "published")
    list_select_related = ("section", "editor")
    list_per_page = 20
    search_fields = ("title", "summary", "section__name", "writers__name")
    date_hierarchy = "published"
    autocomplete_fields = ("writers",)
    filter_horizontal = ("tags",)
    prepopulated_fields = {"slug": ("title",)}  # noqa: RUF012 - as Django's documentation has it
    inlines = (Comments,)


@admin.register(Comment)
class CommentAdmin(admin.ModelAdmin):
    list_display = ("name", "article", "approved", "written")
    list_editable = ("approved",)
    list_filter = ("approved", "article__section")
    list_select_related = ("article",)
    list_per_page = 20
    search_fields = ("name", "body")
    raw_id_fields = ("article",)


@admin.register(Section)
class SectionAdmin(admin.ModelAdmin):
    list_display = ("name", "position", "articles")

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(count=Count("articles"))

    @admin.display(ordering="count")
    def articles(self, section: Section) -> int:
        return int(section.count)


@admin.register(Tag)
class TagAdmin(admin.ModelAdmin):
    list_display = ("name", "slug")
    search_fields = ("name",)


@admin.register(Writer)
class WriterAdmin(admin.ModelAdmin):
    list_display = ("name", "user", "written")  # a query for each row's user
    search_fields = ("name", "user__username")
    inlines = (Wrote,)

    @admin.display(description="articles")
    def written(self, writer: Writer) -> int:
        return int(writer.articles.count())


@admin.register(LogEntry)
class LogAdmin(admin.ModelAdmin):
    list_display = ("object_repr", "user", "content_type", "action_flag")
    list_filter = ("user", "content_type", "action_flag")
    list_select_related = ("user", "content_type")
