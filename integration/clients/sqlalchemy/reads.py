"""Repeated reads of SQLAlchemy: a session for each request, from the engine's pool; Core statements beside.

`python -m integration.clients.sqlalchemy.reads pymysql|mysqlclient [--explain]`.
"""

from __future__ import annotations

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session, joinedload, selectinload

from integration.clients.canonical import EXPLAIN, ROUNDS, Reads, served_in
from integration.clients.sqlalchemy.models import ADDRESS, Article, Author, engine


def main() -> None:
    reads = Reads()
    base = engine(ADDRESS.data)
    for number in range(ROUNDS):
        with Session(base) as session:
            request(session, (3, 7)[number % 2], reads)
        with Session(base) as session:
            eager(session, (3, 7)[number % 2], reads)
        with base.connect() as connection:
            counted = select(func.count(), func.sum(Article.score)).where(Article.author_id == 4)
            row = connection.execute(counted).one()
            how = served_in(*asked(connection.execute(text(EXPLAIN)).mappings().one())) if reads.explain else None
            reads.note("core aggregate", 4, row, how)
    reads.emit()


def request(session: Session, author_id: int, reads: Reads) -> None:
    author = session.get_one(Author, author_id)
    reads.note("get", author_id, [author.name, author.country], served(session, reads))
    titles = [article.title for article in author.articles]
    reads.note("lazy collection", author_id, titles, served(session, reads))
    name = session.scalars(select(Author.name).where(Author.name == f"author {author_id}")).all()
    reads.note("by text", author_id, name, served(session, reads))
    several = session.scalars(select(Article).where(Article.id.in_([author_id, 9, 11])).order_by(Article.id)).all()
    reads.note("in list", author_id, [article.title for article in several], served(session, reads))
    session.commit()


def eager(session: Session, author_id: int, reads: Reads) -> None:
    joined = select(Article).where(Article.id == author_id).options(joinedload(Article.author))
    article = session.scalars(joined).one()
    reads.note("joined", author_id, [article.title, article.author.name], served(session, reads))
    query = select(Author).where(Author.id == author_id + 1).options(selectinload(Author.articles))
    author = session.scalars(query).one()
    reads.note("selectin", author_id, [author.name, len(author.articles)], served(session, reads))


def served(session: Session, reads: Reads) -> tuple[str, str] | None:
    return served_in(*asked(session.execute(text(EXPLAIN)).mappings().one())) if reads.explain else None


def asked(row: object) -> tuple[list[str], list[object]]:
    named = dict(row)  # type: ignore[call-overload]
    return list(named), list(named.values())


if __name__ == "__main__":
    main()
