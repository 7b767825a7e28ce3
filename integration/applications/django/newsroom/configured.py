"""The site's own application, as Django installs it."""

from __future__ import annotations

from pathlib import Path

from django.apps import AppConfig


class Newsroom(AppConfig):
    name = "integration.applications.django.newsroom"
    label = "newsroom"
    path = str(Path(__file__).parent)
