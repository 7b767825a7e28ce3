"""What a web application asks through SQLAlchemy: its ORM, and Core where applications use that."""

from __future__ import annotations

import datetime
import decimal
import os
from collections.abc import Iterator
from typing import Any

import pymysql
import sqlalchemy
from sqlalchemy import Date as SqlDate
from sqlalchemy import (
    Executable,
    ForeignKey,
    and_,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.mysql import BINARY, DATETIME, JSON, TINYINT, match
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    aliased,
    contains_eager,
    defer,
    joinedload,
    mapped_column,
    relationship,
    selectinload,
    subqueryload,
)

NOW = datetime.datetime(2026, 5, 10, 12, 0)
DAY = datetime.timedelta(days=1)


class Base(DeclarativeBase):
    type_annotation_map = {datetime.datetime: DATETIME(fsp=6), bool: TINYINT(1)}  # noqa: RUF012


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    name: Mapped[str]
    role: Mapped[str]
    active: Mapped[bool]
    balance: Mapped[decimal.Decimal]
    settings: Mapped[Any] = mapped_column(JSON)
    uuid: Mapped[str]
    born: Mapped[datetime.date | None]
    last_seen_at: Mapped[datetime.datetime | None]
    created_at: Mapped[datetime.datetime] = mapped_column(default=NOW)
    updated_at: Mapped[datetime.datetime] = mapped_column(default=NOW)
    deleted_at: Mapped[datetime.datetime | None]
    posts: Mapped[list[Post]] = relationship(back_populates="user", order_by="Post.id")
    orders: Mapped[list[Order]] = relationship(back_populates="user")


posts_tags = sqlalchemy.Table(
    "posts_tags",
    Base.metadata,
    sqlalchemy.Column("post_id", ForeignKey("posts.id"), primary_key=True),
    sqlalchemy.Column("tag_id", ForeignKey("tags.id"), primary_key=True),
)


class Category(Base):
    __tablename__ = "categories"
    id: Mapped[int] = mapped_column(primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("categories.id"))
    name: Mapped[str]
    position: Mapped[int]
    parent: Mapped[Category | None] = relationship(remote_side="Category.id", back_populates="children")
    children: Mapped[list[Category]] = relationship(back_populates="parent", order_by="Category.position")


class Post(Base):
    __tablename__ = "posts"
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    category_id: Mapped[int | None] = mapped_column(ForeignKey("categories.id"))
    title: Mapped[str]
    slug: Mapped[str]
    body: Mapped[str]
    status: Mapped[str]
    views: Mapped[int] = mapped_column(default=0)
    rating: Mapped[float | None]
    meta: Mapped[Any] = mapped_column(JSON)
    published_at: Mapped[datetime.datetime | None]
    created_at: Mapped[datetime.datetime] = mapped_column(default=NOW)
    updated_at: Mapped[datetime.datetime] = mapped_column(default=NOW)
    deleted_at: Mapped[datetime.datetime | None]
    user: Mapped[User] = relationship(back_populates="posts")
    category: Mapped[Category | None] = relationship()
    tags: Mapped[list[Tag]] = relationship(secondary=posts_tags, order_by="Tag.name", back_populates="posts")
    comments: Mapped[list[Comment]] = relationship(
        primaryjoin="and_(foreign(Comment.commentable_id) == Post.id, Comment.commentable_type == 'Post')",
        order_by="Comment.id",
        viewonly=True,
    )


class Tag(Base):
    __tablename__ = "tags"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    posts: Mapped[list[Post]] = relationship(secondary=posts_tags, back_populates="tags")


class Comment(Base):
    __tablename__ = "comments"
    id: Mapped[int] = mapped_column(primary_key=True)
    commentable_type: Mapped[str]
    commentable_id: Mapped[int]
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    body: Mapped[str]
    approved: Mapped[bool]
    created_at: Mapped[datetime.datetime] = mapped_column(default=NOW)
    updated_at: Mapped[datetime.datetime] = mapped_column(default=NOW)
    user: Mapped[User] = relationship()


class Product(Base):
    __tablename__ = "products"
    id: Mapped[int] = mapped_column(primary_key=True)
    category_id: Mapped[int] = mapped_column(ForeignKey("categories.id"))
    public_id: Mapped[bytes] = mapped_column(BINARY(16))
    sku: Mapped[str]
    name: Mapped[str]
    price: Mapped[decimal.Decimal]
    stock: Mapped[int]
    attributes: Mapped[Any] = mapped_column(JSON)
    created_at: Mapped[datetime.datetime]
    updated_at: Mapped[datetime.datetime]
    deleted_at: Mapped[datetime.datetime | None]


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    number: Mapped[str]
    status: Mapped[str]
    total: Mapped[decimal.Decimal]
    placed_at: Mapped[datetime.datetime]
    paid_at: Mapped[datetime.datetime | None]
    created_at: Mapped[datetime.datetime]
    updated_at: Mapped[datetime.datetime]
    user: Mapped[User] = relationship(back_populates="orders")
    lines: Mapped[list[Line]] = relationship(back_populates="order", order_by="Line.id")


class Line(Base):
    __tablename__ = "order_lines"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    product_id: Mapped[int] = mapped_column(ForeignKey("products.id"))
    quantity: Mapped[int]
    price: Mapped[decimal.Decimal]
    order: Mapped[Order] = relationship(back_populates="lines")
    product: Mapped[Product] = relationship()


class WebSession(Base):
    __tablename__ = "sessions"
    id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id"))
    payload: Mapped[str]
    expires_at: Mapped[datetime.datetime]
    user: Mapped[User | None] = relationship()


class Token(Base):
    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    token: Mapped[str]
    expires_at: Mapped[datetime.datetime | None]


def main() -> None:
    address = f"{os.environ['ORM_HOST']}:{os.environ['ORM_PORT']}/{os.environ['ORM_DATABASE']}"
    engine = sqlalchemy.create_engine(f"mysql+pymysql://root@{address}?charset=utf8mb4", pool_size=1, max_overflow=0)
    for request in (signed_in, by_conditions, eager, aggregates, pages, writes):
        with Session(engine) as session:
            request(session)
            session.commit()
    for statement in (*searches(), *dates(), *advanced()):
        with Session(engine) as session:
            session.execute(statement).all()
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    for request in (signed_in, by_conditions):
        with Session(autocommit) as session:
            request(session)
    print(f"SQLAlchemy {sqlalchemy.__version__}, PyMySQL {pymysql.__version__}")


def signed_in(db: Session) -> None:
    known = "3ca1602cd317d169352011dc5778ad4a258b77cc6e72a329577b290808d7b380"
    token = "157e5cb60fc7878567fdfe13b440da4eb5ff2c7c4047602551de80dd6e2138b3"
    db.scalars(select(WebSession).where(WebSession.id == known, WebSession.expires_at > NOW)).one_or_none()
    live = or_(Token.expires_at.is_(None), Token.expires_at > NOW)
    db.scalars(select(Token).where(Token.token == token, live)).first()
    db.get(User, 4)
    db.scalars(select(User).where(User.email == "user5@example.com")).one_or_none()
    db.scalars(select(User).where(User.uuid == "04801eef-a026-497e-8a24-4cd0f5a744d3")).one()
    db.scalars(select(Product).where(Product.public_id == bytes.fromhex("b568ecc3399340aa882ba5dfe42c3578"))).first()
    db.query(User).filter_by(email="USER6@example.com", active=True).first()


def by_conditions(db: Session) -> None:
    db.scalars(select(User).where(User.id.in_([2, 3, 5]))).all()
    db.scalars(select(User).where(User.id.not_in([2, 3, 5]), User.deleted_at.is_(None))).all()
    db.scalars(select(Post).where(Post.user_id == 3, Post.status != "draft").order_by(Post.created_at.desc())).all()
    db.scalars(select(Post).where(Post.user_id == 3, Post.deleted_at.is_not(None))).all()
    db.scalars(select(Post).where(Post.views.between(10, 20)).order_by(Post.id)).all()
    db.scalars(select(Order).where(Order.user_id == 2, Order.placed_at >= NOW - 40 * DAY, Order.placed_at < NOW)).all()
    db.scalars(select(Product).where(Product.price > decimal.Decimal("30.00"), Product.stock <= 20)).all()
    db.scalars(select(Product).where(or_(Product.category_id == 2, Product.category_id == 3))).all()
    db.scalars(select(Category).where(Category.parent_id.is_(None)).order_by(Category.position)).all()
    db.scalars(select(Post).order_by(Post.id.desc()).limit(1)).first()
    db.scalars(select(Post.title).where(Post.user_id == 4).order_by(Post.id)).all()
    db.execute(select(Post.id, Post.title).where(Post.category_id == 4).order_by(Post.title)).all()
    db.scalars(select(Post.status).distinct().order_by(Post.status)).all()
    db.scalar(select(exists().where(User.email == "user7@example.com")))
    db.scalar(select(exists().where(Order.user_id == 7, Order.status == "open")))
    db.scalars(select(User).where(User.active.is_(True), User.role == "admin").order_by(User.id)).all()
    db.scalars(select(User).where(User.active, User.balance > 100).order_by(User.id).limit(5)).all()
    db.scalars(select(User).options(defer(User.settings)).where(User.id == 9)).one()


def eager(db: Session) -> None:
    post = db.get_one(Post, 8)
    assert post.user and post.category and post.tags and post.comments
    by_user = select(Post).where(Post.user_id == 5).order_by(Post.id)
    db.scalars(by_user.options(joinedload(Post.user), joinedload(Post.category))).unique().all()
    db.scalars(by_user.options(selectinload(Post.tags), selectinload(Post.comments))).all()
    db.expire_all()
    db.scalars(by_user.options(subqueryload(Post.tags))).all()
    db.scalars(select(Post).where(Post.id == 12).options(joinedload(Post.tags))).unique().one()
    db.scalars(select(Post).where(Post.id == 12).options(joinedload(Post.user, innerjoin=True))).one()
    db.scalars(select(Post).join(Post.user).where(User.name == "Paper Letter 2").order_by(Post.id)).all()
    db.scalars(select(Post).join(Post.tags).where(Tag.name == "lamp").order_by(Post.id)).all()
    db.scalars(select(User).join(User.posts).where(Post.category_id == 3).distinct().order_by(User.id)).all()
    order = select(Order).where(Order.id == 15).options(selectinload(Order.lines).joinedload(Line.product))
    db.scalars(order).one()
    nested = select(Order).join(Order.lines).options(contains_eager(Order.lines)).where(Order.user_id == 6)
    db.scalars(nested.order_by(Order.id, Line.id)).unique().all()
    db.scalars(select(User).outerjoin(User.orders).where(Order.id.is_(None)).order_by(User.id)).all()
    parent = aliased(Category)
    db.execute(
        select(Category.name, parent.name).join(parent, Category.parent_id == parent.id).order_by(Category.id)
    ).all()
    db.scalars(select(Post).where(Post.tags.any(Tag.name == "paper")).order_by(Post.id)).all()
    db.scalars(select(User).where(User.posts.any(Post.status == "archived")).order_by(User.id)).all()
    db.scalars(select(User).where(~User.orders.any()).order_by(User.id)).all()
    db.scalars(select(Post).where(Post.user.has(User.role == "admin")).order_by(Post.id)).all()
    db.scalars(select(Comment).where(Comment.commentable_type == "Post", Comment.commentable_id == 9)).all()
    db.scalars(select(Comment).where(Comment.commentable_type == "Post", Comment.commentable_id.in_([4, 5, 6]))).all()


def aggregates(db: Session) -> None:
    db.scalar(select(func.count()).select_from(Post))
    db.scalar(select(func.count(Post.id)).where(Post.user_id == 3))
    db.scalar(select(func.count()).select_from(select(Post).where(Post.status == "published").subquery()))
    db.query(Post).filter(Post.user_id == 6).count()
    db.execute(select(Post.status, func.count()).group_by(Post.status).order_by(Post.status)).all()
    db.execute(select(Post.status, func.count(Post.id)).where(Post.user_id == 3).group_by(Post.status)).all()
    db.scalar(select(func.sum(Order.total)).where(Order.user_id == 4, Order.status.in_(["paid", "sent"])))
    db.scalar(select(func.coalesce(func.sum(Line.quantity * Line.price), 0)).where(Line.order_id == 12))
    db.execute(select(func.min(Product.price), func.max(Product.price), func.avg(Product.price))).one()
    spent = func.sum(Order.total).label("spent")
    by_user = select(User.id, User.name, spent).join(User.orders).group_by(User.id, User.name)
    db.execute(by_user.having(spent > 200).order_by(spent.desc(), User.id).limit(5)).all()
    counted = select(func.count(Comment.id)).where(Comment.user_id == User.id).scalar_subquery()
    db.execute(select(User.id, counted.label("comments")).where(User.role == "editor").order_by(User.id)).all()
    db.scalar(select(func.count(Post.user_id.distinct())).where(Post.status == "published"))
    paid = func.sum(case((Order.status == "paid", Order.total), else_=0))
    db.execute(select(func.count(), paid).where(Order.user_id == 8)).one()
    day = func.date(Order.placed_at)
    db.execute(select(day, func.count()).where(Order.placed_at >= NOW - 30 * DAY).group_by(day).order_by(day)).all()


def pages(db: Session) -> None:
    shown = select(Post).where(Post.status == "published", Post.deleted_at.is_(None))
    for page in (0, 1, 2):
        db.scalars(shown.order_by(Post.created_at.desc()).limit(10).offset(10 * page)).all()
        db.scalar(select(func.count()).select_from(shown.order_by(None).subquery()))
    last = datetime.datetime(2026, 3, 1, 12, 0)
    after = or_(Post.created_at < last, and_(Post.created_at == last, Post.id < 30))
    db.scalars(shown.where(after).order_by(Post.created_at.desc(), Post.id.desc()).limit(10)).all()
    row = tuple_(Post.created_at, Post.id) < tuple_(last, 30)
    db.scalars(shown.where(row).order_by(Post.created_at.desc(), Post.id.desc()).limit(10)).all()
    db.scalars(shown.where(Post.id > 20).order_by(Post.id).limit(10)).all()


def searches() -> Iterator[Executable]:
    yield select(Post).where(Post.title.like("%river%")).order_by(Post.id)
    yield select(Post).where(Post.title.contains("lamp", autoescape=True)).order_by(Post.id)
    yield select(User).where(User.email.startswith("user1")).order_by(User.id)
    yield select(User).where(User.name.ilike("%PAPER%")).order_by(User.id)
    yield select(User).where(func.lower(User.email) == "user5@example.com")
    yield select(User).where(func.concat(User.name, " ", User.email).like("%stone%")).order_by(User.id)
    yield select(Post).where(match(column("title"), column("body"), against="river")).order_by(Post.id)
    yield select(User).where(User.settings["theme"].as_string() == "dark").order_by(User.id)
    yield select(Post).where(Post.meta[("reading", "minutes")].as_integer() > 4).order_by(Post.id)
    yield select(Post.id, Post.meta["lang"]).where(Post.user_id == 7).order_by(Post.id)
    yield select(Post).where(func.json_contains(Post.meta, "2", "$.tags")).order_by(Post.id)
    yield select(Post).where(Post.id.in_([9, 4, 7])).order_by(func.field(Post.id, 9, 4, 7))


def dates() -> Iterator[Executable]:
    today = datetime.date(2026, 4, 20)
    yield select(Post).where(func.date(Post.created_at) == today).order_by(Post.id)
    yield select(Post).where(cast(Post.created_at, SqlDate) == today).order_by(Post.id)
    yield select(Order).where(func.year(Order.placed_at) == 2026, func.month(Order.placed_at) == 4)
    yield select(Order).where(sqlalchemy.extract("year", Order.placed_at) == 2026).order_by(Order.id)
    yield select(User).where(User.born < datetime.date(1970, 1, 1)).order_by(User.id)
    yield select(WebSession).where(WebSession.expires_at > func.now()).order_by(WebSession.id)
    yield select(func.count()).select_from(Token).where(Token.expires_at < func.current_timestamp())
    yield select(Post).where(Post.published_at <= NOW, Post.user_id == 2).order_by(Post.published_at)


def advanced() -> Iterator[Executable]:
    rank = func.row_number().over(partition_by=Post.user_id, order_by=Post.created_at.desc()).label("rank")
    ranked = select(Post.id, Post.user_id, rank).where(Post.status == "published").subquery()
    yield select(ranked).where(ranked.c.rank == 1).order_by(ranked.c.user_id)
    spent = select(Order.user_id, func.sum(Order.total).label("total")).group_by(Order.user_id).cte("spent")
    yield select(User.name, spent.c.total).join(spent, spent.c.user_id == User.id).where(User.id == 5)
    tree = select(Category.id, Category.parent_id).where(Category.id == 1).cte("tree", recursive=True)
    child = select(Category.id, Category.parent_id).join(tree, Category.parent_id == tree.c.id)
    yield select(tree.union_all(child))
    drafts, old = select(Post.id).where(Post.status == "draft"), select(Post.id).where(Post.status == "archived")
    yield drafts.union(old).order_by("id")
    yield select(Post.id).where(Post.user_id == 2).union_all(select(Post.id).where(Post.user_id == 3))
    newest = select(func.max(Order.id)).where(Order.user_id == User.id).correlate(User).scalar_subquery()
    yield select(User.id, Order.number).join(Order, Order.id == newest).order_by(User.id)
    ids = select(Order.user_id).where(Order.status == "paid")
    yield select(User).where(User.id.in_(ids)).order_by(User.id)
    yield text("SELECT id, name FROM tags WHERE name = :name").bindparams(name="lamp")
    yield select(Product).where(Product.id == 3).with_for_update()
    yield select(Product).where(Product.id == 3).with_for_update(read=True)
    yield select(Tag).order_by(func.random()).limit(1)


def writes(db: Session) -> None:
    post = db.get_one(Post, 21)
    post.title, post.views = "A new title", Post.views + 1
    db.commit()
    db.scalars(select(Post).where(Post.id == 21)).one()
    db.execute(update(Product).where(Product.id == 5).values(stock=Product.stock - 1))
    db.scalars(select(Product.stock).where(Product.id == 5)).one()
    db.commit()
    db.scalars(select(Product.stock).where(Product.id == 5)).one()
    if db.scalars(select(Tag).where(Tag.name == "new")).first() is None:
        db.add(Tag(id=901, name="new"))
    db.commit()
    db.scalars(select(Tag).where(Tag.name == "new")).one()
    post.tags.append(db.get_one(Tag, 901))
    db.add(Comment(id=901, commentable_type="Post", commentable_id=21, user_id=3, body="Yes.", approved=True))
    db.commit()
    db.refresh(post)
    assert post.tags and post.comments
    db.scalar(select(func.count(Comment.id)).where(Comment.commentable_type == "Post", Comment.commentable_id == 21))
    db.execute(insert(Tag), [{"id": 902, "name": "second"}, {"id": 903, "name": "third"}])
    db.execute(delete(Tag).where(Tag.id.in_([902, 903])))
    db.delete(db.get_one(Comment, 901))
    db.commit()
    db.scalars(select(Comment).where(Comment.commentable_type == "Post", Comment.commentable_id == 21)).all()


if __name__ == "__main__":
    main()
