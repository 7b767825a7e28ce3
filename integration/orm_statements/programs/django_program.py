"""What a web application asks through Django's models, on PyMySQL in the place of mysqlclient."""

from __future__ import annotations

import datetime
import decimal
import os
import sys

import django
import pymysql
from django.apps import AppConfig
from django.conf import settings


class Shop(AppConfig):
    path = os.path.dirname(__file__)


pymysql.install_as_MySQLdb()
settings.configure(
    INSTALLED_APPS=[Shop("shop", sys.modules["__main__"])],
    USE_TZ=True,
    TIME_ZONE="UTC",
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.mysql",
            "HOST": os.environ["ORM_HOST"],
            "PORT": os.environ["ORM_PORT"],
            "USER": "root",
            "NAME": os.environ["ORM_DATABASE"],
        }
    },
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402
from django.db.models import Avg, Count, Exists, F, Max, Min, OuterRef, Prefetch, Q, Subquery, Sum, Value, Window  # noqa: E402
from django.db.models.functions import Coalesce, Concat, Lower, RowNumber, TruncDate  # noqa: E402

UTC = datetime.UTC
NOW = datetime.datetime(2026, 5, 10, 12, tzinfo=UTC)
DAY = datetime.timedelta(days=1)


class Model(models.Model):
    class Meta:
        abstract = True
        app_label = "shop"


class User(Model):
    email = models.CharField(max_length=190, unique=True)
    name = models.CharField(max_length=100)
    role = models.CharField(max_length=10)
    active = models.BooleanField()
    balance = models.DecimalField(max_digits=12, decimal_places=2)
    settings = models.JSONField()
    uuid = models.CharField(max_length=36)
    born = models.DateField(null=True)
    last_seen_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True)

    class Meta(Model.Meta):
        db_table = "users"
        abstract = False


class Category(Model):
    parent = models.ForeignKey("self", models.PROTECT, null=True, related_name="children")
    name = models.CharField(max_length=100)
    position = models.IntegerField()

    class Meta(Model.Meta):
        db_table = "categories"
        abstract = False


class Tag(Model):
    name = models.CharField(max_length=60)

    class Meta(Model.Meta):
        db_table = "tags"
        abstract = False


class Post(Model):
    user = models.ForeignKey(User, models.PROTECT, related_name="posts")
    category = models.ForeignKey(Category, models.PROTECT, null=True)
    title = models.CharField(max_length=200)
    slug = models.SlugField(max_length=190)
    body = models.TextField()
    status = models.CharField(max_length=10)
    views = models.IntegerField()
    rating = models.FloatField(null=True)
    meta = models.JSONField()
    published_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True)
    tags = models.ManyToManyField(Tag, through="PostTag", related_name="posts")

    class Meta(Model.Meta):
        db_table = "posts"
        abstract = False


class PostTag(Model):
    pk = models.CompositePrimaryKey("post_id", "tag_id")
    post = models.ForeignKey(Post, models.CASCADE)
    tag = models.ForeignKey(Tag, models.CASCADE)

    class Meta(Model.Meta):
        db_table = "posts_tags"
        abstract = False


class Comment(Model):
    commentable_type = models.CharField(max_length=40)
    commentable_id = models.PositiveBigIntegerField()
    user = models.ForeignKey(User, models.PROTECT)
    body = models.TextField()
    approved = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta(Model.Meta):
        db_table = "comments"
        abstract = False


class Product(Model):
    category = models.ForeignKey(Category, models.PROTECT)
    public_id = models.BinaryField(max_length=16)
    sku = models.CharField(max_length=40)
    name = models.CharField(max_length=120)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    stock = models.IntegerField()
    attributes = models.JSONField()

    class Meta(Model.Meta):
        db_table = "products"
        abstract = False


class Order(Model):
    user = models.ForeignKey(User, models.PROTECT, related_name="orders")
    number = models.CharField(max_length=20)
    status = models.CharField(max_length=10)
    total = models.DecimalField(max_digits=12, decimal_places=2)
    placed_at = models.DateTimeField()
    paid_at = models.DateTimeField(null=True)

    class Meta(Model.Meta):
        db_table = "orders"
        abstract = False


class Line(Model):
    order = models.ForeignKey(Order, models.PROTECT, related_name="lines")
    product = models.ForeignKey(Product, models.PROTECT)
    quantity = models.IntegerField()
    price = models.DecimalField(max_digits=10, decimal_places=2)

    class Meta(Model.Meta):
        db_table = "order_lines"
        abstract = False


class WebSession(Model):
    id = models.CharField(max_length=64, primary_key=True)
    user = models.ForeignKey(User, models.PROTECT, null=True)
    payload = models.TextField()
    expires_at = models.DateTimeField()

    class Meta(Model.Meta):
        db_table = "sessions"
        abstract = False


class Token(Model):
    user = models.ForeignKey(User, models.PROTECT)
    token = models.CharField(max_length=64)
    expires_at = models.DateTimeField(null=True)

    class Meta(Model.Meta):
        db_table = "tokens"
        abstract = False


def main() -> None:
    for request in (signed_in, by_conditions, eager, aggregates, pages, searches, dates, advanced, writes):
        request()
    with transaction.atomic():
        signed_in()
    print(f"Django {django.get_version()}, PyMySQL {pymysql.__version__}")


def signed_in() -> None:
    known = "3ca1602cd317d169352011dc5778ad4a258b77cc6e72a329577b290808d7b380"
    token = "157e5cb60fc7878567fdfe13b440da4eb5ff2c7c4047602551de80dd6e2138b3"
    WebSession.objects.filter(id=known, expires_at__gt=NOW).first()
    WebSession.objects.select_related("user").get(id=known)
    Token.objects.filter(Q(expires_at=None) | Q(expires_at__gt=NOW), token=token).first()
    User.objects.get(pk=4)
    User.objects.get(email="user5@example.com")
    User.objects.filter(uuid="04801eef-a026-497e-8a24-4cd0f5a744d3", active=False).first()
    User.objects.filter(email__iexact="USER6@example.com").first()
    Product.objects.filter(public_id=bytes.fromhex("b568ecc3399340aa882ba5dfe42c3578")).first()


def by_conditions() -> None:
    list(User.objects.filter(id__in=[2, 3, 5]))
    User.objects.in_bulk([2, 3, 5])
    list(User.objects.exclude(id__in=[2, 3, 5]).filter(last_seen_at__isnull=False).order_by("id"))
    list(User.objects.filter(active=True, role="admin").order_by("id"))
    list(Post.objects.filter(user_id=3).exclude(status="draft").order_by("-created_at"))
    list(Post.objects.filter(user_id=10, deleted_at__isnull=False))
    list(Post.objects.filter(views__range=(10, 20)).order_by("id"))
    list(Order.objects.filter(user_id=2, placed_at__gte=NOW - 40 * DAY, placed_at__lt=NOW).order_by("placed_at"))
    list(Product.objects.filter(price__gt=decimal.Decimal("30.00"), stock__lte=20).order_by("id"))
    list(Product.objects.filter(Q(category_id=2) | Q(stock=0)).order_by("id"))
    list(Category.objects.filter(parent=None).order_by("position"))
    Post.objects.order_by("id").first()
    Post.objects.order_by("id").last()
    Post.objects.latest("created_at")
    list(Post.objects.filter(user_id=4).order_by("id").values_list("title", flat=True))
    list(Post.objects.filter(category_id=4).order_by("title").values("id", "title"))
    list(Post.objects.order_by("status").values_list("status", flat=True).distinct())
    list(Post.objects.filter(user_id=4).only("id", "title").order_by("id"))
    list(Post.objects.filter(user_id=4).defer("body").order_by("id"))
    User.objects.filter(email="user7@example.com").exists()
    list(Post.objects.filter(updated_at__gt=F("created_at")))
    list(User.objects.filter(balance__gt=100).order_by("-balance", "id")[:3])
    User.objects.none().exists()


def eager() -> None:
    post = Post.objects.get(pk=8)
    post.user, post.category, list(post.tags.all()), list(post.user.posts.all())
    list(Post.objects.select_related("user", "category").filter(user_id=5).order_by("id"))
    list(Post.objects.prefetch_related("tags").filter(user_id=5).order_by("id"))
    lines = Prefetch("lines", Line.objects.select_related("product").order_by("id"))
    list(Order.objects.prefetch_related(lines).filter(id=15))
    list(Post.objects.filter(user__role="admin").order_by("id"))
    list(Post.objects.filter(tags__name="lamp").order_by("id"))
    list(User.objects.filter(posts__category_id=3).distinct().order_by("id"))
    list(User.objects.filter(orders=None).order_by("id"))
    list(User.objects.exclude(posts__status="archived").order_by("id"))
    list(Post.objects.exclude(tags__name="paper").order_by("id"))
    paid = Order.objects.filter(user=OuterRef("pk"), status="paid")
    list(User.objects.filter(Exists(paid)).order_by("id"))
    list(User.objects.annotate(has_paid=Exists(paid)).order_by("id"))
    newest = Order.objects.filter(user=OuterRef("pk")).order_by("-placed_at").values("number")[:1]
    list(User.objects.annotate(number=Subquery(newest)).filter(role="admin").order_by("id"))
    list(Comment.objects.filter(commentable_type="Post", commentable_id__in=[4, 5, 6]).order_by("id"))
    list(Category.objects.filter(parent=None).prefetch_related("children").order_by("id"))
    list(Post.objects.filter(user__in=User.objects.filter(role="editor")).order_by("id"))
    post.tags.filter(id=3).exists()


def aggregates() -> None:
    Post.objects.count()
    Post.objects.filter(user_id=3).count()
    Post.objects.filter(tags__name="lamp").distinct().count()
    list(Post.objects.values("status").annotate(n=Count("id")).order_by("status"))
    list(Post.objects.filter(user_id=3).values("status").annotate(n=Count("*"), most=Max("views")).order_by())
    Order.objects.filter(user_id=4, status__in=["paid", "sent"]).aggregate(Sum("total"))
    Line.objects.filter(order_id=12).aggregate(total=Coalesce(Sum(F("quantity") * F("price")), decimal.Decimal(0)))
    Product.objects.aggregate(Min("price"), Max("price"), Avg("price"))
    list(User.objects.annotate(n=Count("posts")).order_by("-n", "id")[:5])
    list(User.objects.annotate(spent=Sum("orders__total")).filter(spent__gt=200).order_by("id"))
    kept = Count("posts", filter=Q(posts__deleted_at=None))
    list(User.objects.annotate(kept=kept).filter(role="editor").order_by("id"))
    Post.objects.aggregate(authors=Count("user", distinct=True))
    list(Category.objects.annotate(n=Count("post")).values_list("name", "n").order_by("id"))


def pages() -> None:
    shown = Post.objects.filter(status="published", deleted_at=None)
    for page in (0, 1, 2):
        shown.count()
        list(shown.order_by("-created_at")[10 * page : 10 * page + 10])
    last = datetime.datetime(2026, 3, 1, 12, tzinfo=UTC)
    after = Q(created_at__lt=last) | Q(created_at=last, id__lt=30)
    list(shown.filter(after).order_by("-created_at", "-id")[:10])
    list(shown.filter(id__gt=20).order_by("id")[:10])


def searches() -> None:
    list(Post.objects.filter(title__icontains="river").order_by("id"))
    list(Post.objects.filter(title__contains="River").order_by("id"))
    list(User.objects.filter(email__startswith="user1").order_by("id"))
    list(User.objects.annotate(low=Lower("email")).filter(low="user5@example.com"))
    both = Concat("name", Value(" "), "email")
    list(User.objects.annotate(both=both).filter(both__icontains="stone").order_by("id"))
    list(User.objects.filter(settings__theme="dark").order_by("id"))
    list(User.objects.filter(settings__page__size__gt=15).order_by("id"))
    list(Post.objects.filter(meta__tags__contains=2).order_by("id"))
    list(Post.objects.filter(meta__has_key="lang").order_by("id"))
    list(Post.objects.filter(title__regex="^River").order_by("id"))
    list(Post.objects.filter(Q(title__icontains="lamp") | Q(body__icontains="lamp")).order_by("id")[:10])


def dates() -> None:
    list(Post.objects.filter(created_at__date=datetime.date(2026, 4, 20)).order_by("id"))
    list(Order.objects.filter(placed_at__year=2026, placed_at__month=4).order_by("id"))
    list(User.objects.filter(born__lt=datetime.date(1970, 1, 1)).order_by("id"))
    list(User.objects.filter(born__year=1970).order_by("id"))
    list(Post.objects.filter(published_at__lte=NOW, user_id=2).order_by("published_at"))
    day = TruncDate("placed_at")
    list(Order.objects.annotate(day=day).values("day").annotate(n=Count("id")).order_by("day"))
    list(Post.objects.dates("created_at", "month"))
    list(WebSession.objects.filter(expires_at__gt=models.functions.Now()).order_by("id"))


def advanced() -> None:
    number = Window(RowNumber(), partition_by="user_id", order_by="created_at")
    list(Post.objects.annotate(number=number).filter(category_id=4).order_by("id"))
    list(Post.objects.annotate(number=number).filter(number=1).order_by("id"))
    drafts, old = (Post.objects.filter(status=status).values_list("id") for status in ("draft", "archived"))
    list(drafts.union(old).order_by("id"))
    list(Post.objects.raw("SELECT id, title FROM posts WHERE user_id = %s ORDER BY id", [4]))
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, name FROM tags WHERE name = %s", ["lamp"])
        cursor.execute("SELECT id FROM posts WHERE MATCH (title, body) AGAINST (%s) ORDER BY id", ["river"])
        cursor.execute("SELECT id FROM posts WHERE id IN (9, 4, 7) ORDER BY FIELD(id, %s, %s, %s)", [9, 4, 7])
    Tag.objects.order_by("?").first()
    with transaction.atomic():
        Product.objects.select_for_update().get(pk=3)
        Product.objects.get(pk=4)
    with transaction.atomic():
        Product.objects.get(pk=4)
        Product.objects.get(pk=5)


def writes() -> None:
    post = Post.objects.get(pk=21)
    post.title = "A new title"
    post.save()
    post.refresh_from_db()
    Post.objects.filter(pk=21).update(views=F("views") + 1)
    Post.objects.get(pk=21)
    Tag.objects.get_or_create(name="new", defaults={"id": 901})
    Tag.objects.get_or_create(name="new", defaults={"id": 901})
    Tag.objects.update_or_create(id=901, defaults={"name": "newer"})
    post.tags.add(901)
    list(post.tags.order_by("name"))
    said = {"commentable_type": "Post", "commentable_id": 21, "user_id": 3, "created_at": NOW, "updated_at": NOW}
    Comment.objects.create(id=901, body="Yes.", **said)
    Comment.objects.filter(commentable_type="Post", commentable_id=21).count()
    Comment.objects.filter(id=901).delete()
    list(Comment.objects.filter(commentable_type="Post", commentable_id=21).order_by("id"))
    with transaction.atomic():
        Product.objects.filter(pk=5).update(stock=F("stock") - 1)
        Product.objects.get(pk=5)
    Product.objects.get(pk=5)


if __name__ == "__main__":
    main()
