"""SQLAlchemy's ORM: sessions, relationships, lazy and eager loads, flushes."""

from __future__ import annotations

import datetime

from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, joinedload, selectinload, subqueryload

from integration.clients.canonical import Step
from integration.clients.sqlalchemy.models import ADDRESS, Article, Author, Base, Comment, engine

STEPS: list[Step] = []
PUBLISHED = datetime.datetime(2024, 2, 29, 12)


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


@step
def objects_loaded_lazily() -> object:
    with Session(engine(ADDRESS.data)) as session:
        author = session.get_one(Author, 3)
        titles = [article.title for article in author.articles]
        first = author.articles[0]
        return [author.name, titles, [comment.body for comment in first.comments], first.author is author]


@step
def objects_loaded_eagerly() -> object:
    outcome: list[object] = []
    with Session(engine(ADDRESS.data)) as session:
        for how in (selectinload, subqueryload, joinedload):
            session.expunge_all()
            query = select(Author).where(Author.id.in_([1, 2, 5])).order_by(Author.id).options(how(Author.articles))
            authors = session.scalars(query).unique().all()
            outcome.append([[author.name, len(author.articles), author.articles[-1].price] for author in authors])
        query_of_articles = select(Article).options(joinedload(Article.author), selectinload(Article.comments))
        article = session.scalars(query_of_articles.where(Article.id == 42)).one()
        outcome.append([article.title, article.author.name, [comment.body for comment in article.comments]])
    return outcome


@step
def queries_with_joins_and_aggregates() -> object:
    with Session(engine(ADDRESS.data)) as session:
        best = (
            select(
                Author.name, func.count(Article.id).label("articles"), func.sum(Article.score), func.avg(Article.score)
            )
            .join(Article)
            .group_by(Author.id)
            .having(func.count(Article.id) > 5)
            .order_by(func.sum(Article.score).desc(), Author.id)
            .limit(3)
        )
        ranked = select(Article.id, func.rank().over(order_by=Article.score.desc())).where(Article.author_id == 4)
        exists = select(func.count()).where(Article.comments.any(Comment.body.like("comment 1%")))
        return [session.execute(query).all() for query in (best, ranked.order_by(Article.id), exists)]


@step
def objects_written() -> object:
    base = engine()
    Base.metadata.create_all(base)
    with Session(base) as session:
        author = Author(name="new 🐬", country=None)
        author.articles = [Article(title=f"title {n}", score=n, published=PUBLISHED) for n in range(3)]
        author.articles[0].comments = [Comment(body="first"), Comment(body="second")]
        session.add(author)
        session.commit()
        ids = [author.id, [article.id for article in author.articles]]
        author.articles[1].score += 10
        del author.articles[0].comments[0]
        session.flush()
        session.execute(update(Article).where(Article.score > 5).values(title=Article.title + "!"))
        session.commit()
        scores = session.execute(select(Article.title, Article.score).order_by(Article.id)).all()
        bodies = session.scalars(select(Comment.body)).all()
        with session.begin_nested():
            session.add(Author(name="kept"))
        problem = ""
        try:
            with session.begin_nested():
                session.add(Author(name="kept"))
        except IntegrityError as error:
            problem = str(error.orig.args[0]) if error.orig else ""
        session.commit()
        locked = session.scalars(select(Author).where(Author.id == author.id).with_for_update()).one()
        session.refresh(locked)
        names = session.scalars(select(Author.name).order_by(Author.name)).all()
        merged = session.merge(Author(id=author.id, name="merged"))
        session.rollback()
        outcome = {
            "ids": ids,
            "scores": scores,
            "bodies": bodies,
            "problem": problem,
            "names": names,
            "name": merged.name,
        }
    Base.metadata.drop_all(base)
    return outcome


@step
def a_read_after_a_write_in_another_session() -> object:
    base = engine()
    Base.metadata.create_all(base)
    seen: list[object] = []
    for number in range(5):
        with Session(base) as session, session.begin():
            session.add(Author(name=f"author {number}"))
        with Session(base) as session:
            seen.append(session.scalar(select(func.count()).select_from(Author)))
    Base.metadata.drop_all(base)
    return seen
