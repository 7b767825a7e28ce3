"""Django's settings, as `startproject` writes them but for the database and the site's own parts."""

from __future__ import annotations

import os

HOST, PORT = os.environ["SITE_MYSQL"].split(":")

ALLOWED_HOSTS = ["127.0.0.1"]
SECRET_KEY = "of a site that nobody else sees"
ROOT_URLCONF = "integration.applications.django.urls"
WSGI_APPLICATION = "integration.applications.django.serve.application"
STATIC_URL = "static/"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "integration.applications.django.newsroom.configured.Newsroom",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.mysql",
        "HOST": HOST,
        "PORT": PORT,
        "NAME": os.environ["SITE_DATABASE"],
        "USER": os.environ["SITE_USER"],
        "PASSWORD": os.environ["SITE_PASSWORD"],
        "CONN_MAX_AGE": int(os.environ["SITE_CONN_MAX_AGE"]),  # seconds; 0: a connection for each request
    },
}
USE_TZ = True
TIME_ZONE = "UTC"
# What goes wrong is in the log of the server.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"log": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["log"], "level": "WARNING"},
}
