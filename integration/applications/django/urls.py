"""What is at which path of the site."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.urls import path

from integration.applications.django.newsroom import views

urlpatterns = [
    path("", views.Home.as_view(), name="home"),
    path("article/<int:pk>/", views.Detail.as_view(), name="article"),
    path("section/<slug:slug>/", views.OfSection.as_view(), name="section"),
    path("tag/<slug:slug>/", views.OfTag.as_view(), name="tag"),
    path("writer/<int:pk>/", views.OfWriter.as_view(), name="writer"),
    path("archive/<int:year>/<int:month>/", views.OfMonth.as_view(month_format="%m"), name="month"),
    path("login/", LoginView.as_view(template_name="newsroom/login.html"), name="login"),
    path("account/", views.Account.as_view(), name="account"),
    path("admin/", admin.site.urls),
]
