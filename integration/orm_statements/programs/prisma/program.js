// What a web application asks through Prisma. Argument `join`: relations are loaded by joins, else by further queries.
"use strict";

const { PrismaClient } = require("@prisma/client");
const { PrismaMariaDb } = require("@prisma/adapter-mariadb");

const strategy = { relationLoadStrategy: process.argv.includes("join") ? "join" : "query" };
const NOW = new Date(Date.UTC(2026, 4, 10, 12));
const daysAgo = (days) => new Date(NOW.getTime() - days * 86400000);
const KNOWN = "3ca1602cd317d169352011dc5778ad4a258b77cc6e72a329577b290808d7b380";
const TOKEN = "157e5cb60fc7878567fdfe13b440da4eb5ff2c7c4047602551de80dd6e2138b3";

const adapter = new PrismaMariaDb({
  host: process.env.ORM_HOST, port: Number(process.env.ORM_PORT), user: "root", database: process.env.ORM_DATABASE,
  connectionLimit: 1, allowPublicKeyRetrieval: true,
});
const db = new PrismaClient({ adapter });

async function signedIn() {
  await db.session.findFirst({ where: { id: KNOWN, expiresAt: { gt: NOW } }, include: { user: true }, ...strategy });
  await db.token.findFirst({ where: { token: TOKEN, OR: [{ expiresAt: null }, { expiresAt: { gt: NOW } }] } });
  await db.user.findUnique({ where: { id: 4 } });
  await db.user.findUnique({ where: { email: "user5@example.com" } });
  await db.user.findFirst({ where: { uuid: "04801eef-a026-497e-8a24-4cd0f5a744d3", active: false } });
  await db.product.findUnique({ where: { publicId: Buffer.from("b568ecc3399340aa882ba5dfe42c3578", "hex") } });
}

async function byConditions() {
  await db.user.findMany({ where: { id: { in: [2, 3, 5] } } });
  await db.user.findMany({ where: { id: { notIn: [2, 3, 5] }, lastSeenAt: { not: null } }, orderBy: { id: "asc" } });
  await db.post.findMany({ where: { userId: 3, status: { not: "draft" } }, orderBy: { createdAt: "desc" } });
  await db.post.findMany({ where: { userId: 10, deletedAt: { not: null } } });
  await db.post.findMany({ where: { views: { gte: 10, lte: 20 } }, orderBy: { id: "asc" } });
  await db.order.findMany({ where: { userId: 2, placedAt: { gte: daysAgo(40), lt: NOW } }, orderBy: { placedAt: "asc" } });
  await db.product.findMany({ where: { price: { gt: "30.00" }, stock: { lte: 20 } }, orderBy: { id: "asc" } });
  await db.product.findMany({ where: { OR: [{ categoryId: 2 }, { stock: 0 }] }, orderBy: { id: "asc" } });
  await db.category.findMany({ where: { parentId: null }, orderBy: { position: "asc" } });
  await db.post.findFirst({ orderBy: { id: "desc" } });
  await db.post.findMany({ where: { categoryId: 4 }, select: { id: true, title: true }, orderBy: { title: "asc" } });
  await db.post.findMany({ distinct: ["status"], select: { status: true }, orderBy: { status: "asc" } });
  await db.user.findMany({ where: { active: true, role: { in: ["admin", "editor"] } }, orderBy: { id: "asc" }, take: 5 });
  await db.user.findMany({ where: { NOT: { role: "reader" }, deletedAt: null }, orderBy: { id: "asc" } });
  await db.user.findMany({ where: { balance: { gt: 100 } }, orderBy: [{ balance: "desc" }, { id: "asc" }], take: 3 });
}

async function eager() {
  const post = { id: 8 };
  await db.post.findUnique({ where: post, include: { user: true, category: true, tags: { include: { tag: true } } }, ...strategy });
  await db.post.findMany({ where: { userId: 5 }, include: { tags: { include: { tag: true }, orderBy: { tagId: "asc" } } }, orderBy: { id: "asc" }, ...strategy });
  await db.post.findMany({ where: { userId: 5 }, include: { user: { select: { name: true } } }, orderBy: { id: "asc" }, ...strategy });
  await db.post.findUnique({ where: post }).user();
  await db.order.findUnique({ where: { id: 15 }, include: { lines: { include: { product: true } } }, ...strategy });
  await db.user.findMany({ where: { id: { in: [2, 3] } }, include: { orders: { orderBy: { placedAt: "desc" }, take: 1 } }, orderBy: { id: "asc" }, ...strategy });
  await db.category.findMany({ where: { parentId: null }, include: { children: true }, orderBy: { id: "asc" }, ...strategy });
  await db.post.findMany({ where: { user: { role: "admin" } }, orderBy: { id: "asc" } });
  await db.post.findMany({ where: { tags: { some: { tag: { name: "lamp" } } } }, orderBy: { id: "asc" } });
  await db.user.findMany({ where: { posts: { none: { status: "archived" } } }, orderBy: { id: "asc" } });
  await db.user.findMany({ where: { posts: { every: { views: { lt: 60 } } } }, orderBy: { id: "asc" } });
  await db.user.findMany({ where: { orders: { none: {} } }, orderBy: { id: "asc" } });
  await db.comment.findMany({ where: { commentableType: "Post", commentableId: { in: [4, 5, 6] } }, include: { user: true }, orderBy: { id: "asc" }, ...strategy });
  await db.post.findMany({ orderBy: [{ user: { name: "asc" } }, { id: "asc" }], take: 5 });
}

async function aggregates() {
  await db.post.count();
  await db.post.count({ where: { userId: 3 } });
  await db.post.count({ where: { tags: { some: { tag: { name: "lamp" } } } } });
  await db.post.groupBy({ by: ["status"], _count: true, orderBy: { status: "asc" } });
  await db.post.groupBy({ by: ["status"], where: { userId: 3 }, _count: { _all: true }, _max: { views: true } });
  await db.order.aggregate({ _sum: { total: true }, where: { userId: 4, status: { in: ["paid", "sent"] } } });
  await db.product.aggregate({ _min: { price: true }, _max: { price: true }, _avg: { price: true } });
  await db.order.groupBy({ by: ["userId"], _sum: { total: true }, having: { total: { _sum: { gt: 200 } } }, orderBy: { userId: "asc" } });
  await db.user.findMany({ where: { role: "editor" }, include: { _count: { select: { posts: true, comments: true } } }, orderBy: { id: "asc" } });
  await db.user.findUnique({ where: { id: 5 }, include: { _count: { select: { comments: { where: { approved: true } } } } } });
  await db.user.findMany({ orderBy: [{ posts: { _count: "desc" } }, { id: "asc" }], take: 5 });
}

async function pages() {
  const shown = { status: "published", deletedAt: null };
  for (const page of [0, 1, 2]) {
    await db.$transaction([
      db.post.findMany({ where: shown, orderBy: { createdAt: "desc" }, take: 10, skip: 10 * page }),
      db.post.count({ where: shown }),
    ]);
  }
  await db.post.findMany({ where: shown, orderBy: { id: "asc" }, take: 10 });
  await db.post.findMany({ where: shown, orderBy: { id: "asc" }, cursor: { id: 21 }, skip: 1, take: 10 });
  await db.post.findMany({ orderBy: [{ createdAt: "desc" }, { id: "desc" }], cursor: { id: 30 }, skip: 1, take: 10 });
  const last = new Date(Date.UTC(2026, 2, 1, 12));
  await db.post.findMany({
    where: { OR: [{ createdAt: { lt: last } }, { createdAt: last, id: { lt: 30 } }] },
    orderBy: [{ createdAt: "desc" }, { id: "desc" }], take: 10,
  });
}

async function searches() {
  await db.post.findMany({ where: { title: { contains: "river" } }, orderBy: { id: "asc" } });
  await db.user.findMany({ where: { email: { startsWith: "user1" } }, orderBy: { id: "asc" } });
  await db.post.findMany({ where: { title: { search: "river" }, body: { search: "river" } }, orderBy: { id: "asc" } });
  await db.post.findMany({ where: { OR: [{ title: { contains: "lamp" } }, { body: { contains: "lamp" } }] }, orderBy: { id: "asc" }, take: 10 });
  await db.user.findMany({ where: { settings: { path: "$.theme", equals: "dark" } }, orderBy: { id: "asc" } });
  await db.user.findMany({ where: { settings: { path: "$.page.size", gt: 15 } }, orderBy: { id: "asc" } });
  await db.post.findMany({ where: { meta: { path: "$.tags", array_contains: [2] } }, orderBy: { id: "asc" } });
  await db.$queryRaw`SELECT id FROM posts WHERE MATCH (title, body) AGAINST (${"river"}) ORDER BY id`;
  await db.$queryRaw`SELECT id, title FROM posts WHERE id IN (9, 4, 7) ORDER BY FIELD(id, ${9}, ${4}, ${7})`;
}

async function dates() {
  await db.$queryRaw`SELECT id FROM posts WHERE DATE(created_at) = ${"2026-04-20"} ORDER BY id`;
  await db.post.findMany({ where: { createdAt: { gte: daysAgo(20), lt: daysAgo(19) } }, orderBy: { id: "asc" } });
  await db.user.findMany({ where: { born: { lt: new Date(Date.UTC(1970, 0, 1)) } }, orderBy: { id: "asc" } });
  await db.post.findMany({ where: { userId: 2, publishedAt: { lte: NOW } }, orderBy: { publishedAt: "asc" } });
  await db.$queryRaw`SELECT id FROM sessions WHERE expires_at > NOW() ORDER BY id`;
}

async function advanced() {
  await db.$queryRaw`SELECT id, name FROM tags WHERE name = ${"lamp"}`;
  await db.$queryRawUnsafe("SELECT id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY created_at) AS n FROM posts WHERE category_id = ?", 4);
  await db.$queryRaw`SELECT * FROM products WHERE id = ${3} FOR UPDATE`;
  await db.$transaction(async (inside) => {
    await inside.product.findUnique({ where: { id: 3 } });
    await inside.product.findUnique({ where: { id: 4 } });
  });
}

async function writes() {
  await db.post.update({ where: { id: 21 }, data: { title: "A new title" } });
  await db.post.update({ where: { id: 21 }, data: { views: { increment: 1 } } });
  await db.post.findUnique({ where: { id: 21 } });
  await db.tag.upsert({ where: { name: "new" }, create: { id: 901, name: "new" }, update: {} });
  await db.tag.upsert({ where: { name: "new" }, create: { id: 901, name: "new" }, update: {} });
  await db.postTag.create({ data: { postId: 21, tagId: 901 } });
  await db.post.findUnique({ where: { id: 21 }, include: { tags: { include: { tag: true } } }, ...strategy });
  await db.comment.create({
    data: { id: 901, commentableType: "Post", commentableId: 21, userId: 3, body: "Yes.", createdAt: NOW, updatedAt: NOW },
  });
  await db.comment.count({ where: { commentableType: "Post", commentableId: 21 } });
  await db.comment.delete({ where: { id: 901 } });
  await db.comment.findMany({ where: { commentableType: "Post", commentableId: 21 }, orderBy: { id: "asc" } });
  await db.product.updateMany({ where: { id: 5, stock: { gte: 1 } }, data: { stock: { decrement: 1 } } });
  await db.product.findUnique({ where: { id: 5 } });
}

async function main() {
  for (const request of [signedIn, byConditions, eager, aggregates, pages, searches, dates, advanced, writes]) {
    await request();
  }
  await db.$disconnect();
  console.log(`Prisma ${require("@prisma/client/package.json").version}, mariadb for Node.js`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
