"""The rows of `integration/clients/data.sql` as SQLAlchemy's classes, and tables of the program's own."""

from __future__ import annotations

import datetime
import decimal
import sys
from typing import Any

import sqlalchemy
from sqlalchemy import DECIMAL, ForeignKey, String, Text
from sqlalchemy.engine import URL, Engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from integration.clients.canonical import address

ADDRESS = address()
DIALECT = {"pymysql": "mysql+pymysql", "mysqlclient": "mysql+mysqldb"}[sys.argv[1]]


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    country: Mapped[str | None] = mapped_column(String(2))
    articles: Mapped[list[Article]] = relationship(back_populates="author", order_by="Article.id")


class Article(Base):
    __tablename__ = "article"
    id: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("author.id"))
    title: Mapped[str] = mapped_column(String(200))
    score: Mapped[int] = mapped_column(default=0)
    price: Mapped[decimal.Decimal | None] = mapped_column(DECIMAL(10, 2))
    published: Mapped[datetime.datetime]
    author: Mapped[Author] = relationship(back_populates="articles")
    comments: Mapped[list[Comment]] = relationship(order_by="Comment.id", cascade="all, delete-orphan")


class Comment(Base):
    __tablename__ = "comment"
    id: Mapped[int] = mapped_column(primary_key=True)
    article_id: Mapped[int] = mapped_column(ForeignKey("article.id"))
    body: Mapped[str] = mapped_column(Text)


def engine(database: str = ADDRESS.database, **special: Any) -> Engine:
    """As `create_engine` makes it from an address, with `special` arguments."""
    url = URL.create(DIALECT, ADDRESS.user, ADDRESS.password, ADDRESS.host, ADDRESS.port, database)
    return sqlalchemy.create_engine(url, **special)
