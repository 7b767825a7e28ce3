"""The newspaper's pages, made of Django's generic views."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Count, Q, QuerySet
from django.shortcuts import get_object_or_404
from django.views.generic import DetailView, ListView, TemplateView
from django.views.generic.dates import MonthArchiveView

from integration.applications.django.newsroom.models import Article, Section, Tag, Writer

RELATED, MONTHS = 5, 12


class Menu:
    """What is beside every page."""

    def get_context_data(self, **given: Any) -> dict[str, Any]:
        public = Article.objects.public()
        beside = {
            "sections": Section.objects.all(),
            "popular": Tag.objects.annotate(count=Count("articles")).order_by("-count", "name")[:RELATED],
            "months": public.dates("published", "month", order="DESC")[:MONTHS],
            "featured": public.filter(featured=True)[:RELATED],
        }
        return super().get_context_data(**beside, **given)  # type: ignore[misc]


class Articles(Menu, ListView):
    template_name = "newsroom/list.html"
    paginate_by = 10

    def get_queryset(self) -> QuerySet:
        return Article.objects.public().select_related("section").prefetch_related("writers")


class Home(Articles):
    """The newest, or those in which the words that are searched occur."""

    def get_queryset(self) -> QuerySet:
        words = self.request.GET.get("q", "")
        found = super().get_queryset()
        return found.filter(Q(title__icontains=words) | Q(summary__icontains=words)) if words else found


class OfSection(Articles):
    def get_queryset(self) -> QuerySet:
        return super().get_queryset().filter(section=get_object_or_404(Section, slug=self.kwargs["slug"]))


class OfTag(Articles):
    def get_queryset(self) -> QuerySet:
        return super().get_queryset().filter(tags__slug=self.kwargs["slug"])


class OfWriter(Articles):
    def get_queryset(self) -> QuerySet:
        return super().get_queryset().filter(writers=get_object_or_404(Writer, pk=self.kwargs["pk"]))


class OfMonth(Menu, MonthArchiveView):
    queryset = Article.objects.public().select_related("section")
    date_field = "published"
    template_name = "newsroom/list.html"


class Detail(Menu, DetailView):
    template_name = "newsroom/detail.html"

    def get_queryset(self) -> QuerySet:
        return Article.objects.public().select_related("section", "editor").prefetch_related("writers", "tags")

    def get_context_data(self, **given: Any) -> dict[str, Any]:
        shown = self.object
        more = Article.objects.public().filter(tags__in=shown.tags.all()).exclude(pk=shown.pk).distinct()[:RELATED]
        comments = shown.comments.filter(approved=True)
        return super().get_context_data(related=more, comments=comments, **given)


class Account(LoginRequiredMixin, Menu, TemplateView):
    template_name = "newsroom/account.html"
