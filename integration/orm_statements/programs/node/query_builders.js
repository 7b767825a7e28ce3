// What a web application asks through TypeORM, Knex and Drizzle; the argument says through which.
"use strict";

const mysql = require("mysql2/promise");
const locked = require("./package-lock.json");

const versionOf = (name) => locked.packages[`node_modules/${name}`].version;

const place = { host: process.env.ORM_HOST, port: Number(process.env.ORM_PORT), user: "root", database: process.env.ORM_DATABASE };
const NOW = new Date(Date.UTC(2026, 4, 10, 12));
const KNOWN = "3ca1602cd317d169352011dc5778ad4a258b77cc6e72a329577b290808d7b380";
const LAST = new Date(Date.UTC(2026, 2, 1, 12));

async function typeorm() {
  const { DataSource, EntitySchema, In, Not, IsNull, MoreThan, LessThan, Between, Like, Raw } = require("typeorm");
  const id = { type: "bigint", unsigned: true, primary: true, generated: true };
  const at = (name, nullable = false) => ({ name, type: "datetime", precision: 6, nullable });
  const User = new EntitySchema({
    name: "User", tableName: "users",
    columns: {
      id, email: { type: String }, name: { type: String }, role: { type: String }, active: { type: Boolean },
      balance: { type: "decimal", precision: 12, scale: 2 }, settings: { type: "json" }, createdAt: at("created_at"),
      deletedAt: { ...at("deleted_at", true), deleteDate: true },
    },
    relations: { posts: { type: "one-to-many", target: "Post", inverseSide: "user" } },
  });
  const Post = new EntitySchema({
    name: "Post", tableName: "posts",
    columns: {
      id, title: { type: String }, slug: { type: String }, status: { type: String }, views: { type: "int" }, meta: { type: "json" },
      createdAt: at("created_at"), deletedAt: { ...at("deleted_at", true), deleteDate: true },
    },
    relations: {
      user: { type: "many-to-one", target: "User", joinColumn: { name: "user_id" }, inverseSide: "posts" },
      tags: {
        type: "many-to-many", target: "Tag",
        joinTable: { name: "posts_tags", joinColumn: { name: "post_id" }, inverseJoinColumn: { name: "tag_id" } },
      },
    },
  });
  const Tag = new EntitySchema({ name: "Tag", tableName: "tags", columns: { id, name: { type: String } } });
  const Session = new EntitySchema({
    name: "Session", tableName: "sessions",
    columns: { id: { type: String, primary: true }, payload: { type: String }, expiresAt: at("expires_at") },
    relations: { user: { type: "many-to-one", target: "User", joinColumn: { name: "user_id" } } },
  });
  const { user: username, ...rest } = place;
  const db = new DataSource({ type: "mysql", connectorPackage: "mysql2", ...rest, username, timezone: "Z", poolSize: 1, entities: [User, Post, Tag, Session] });
  await db.initialize();
  const [users, posts, tags, sessions] = [User, Post, Tag, Session].map((each) => db.getRepository(each));
  await sessions.findOne({ where: { id: KNOWN, expiresAt: MoreThan(NOW) }, relations: { user: true } });
  await users.findOneBy({ id: 4 });
  await users.findOneBy({ email: "user5@example.com" });
  await users.findBy({ id: In([2, 3, 5]) });
  await users.find({ where: { id: Not(In([2, 3, 5])), active: true }, order: { id: "ASC" }, take: 5 });
  await users.find({ where: [{ role: "admin" }, { balance: MoreThan(300) }], order: { id: "ASC" } });
  await users.exists({ where: { email: "user7@example.com" } });
  await posts.find({ where: { user: { id: 3 }, status: Not("draft") }, order: { createdAt: "DESC" } });
  await posts.find({ where: { views: Between(10, 20) }, order: { id: "ASC" } });
  await posts.find({ where: { deletedAt: Not(IsNull()) }, withDeleted: true, order: { id: "ASC" } });
  await posts.findOne({ where: { id: 8 }, relations: { user: true, tags: true } });
  await posts.find({ where: { tags: { name: "lamp" } }, relations: { tags: true }, order: { id: "ASC" } });
  for (const skip of [0, 10]) {
    await posts.findAndCount({ where: { status: "published" }, relations: { user: true }, order: { id: "DESC" }, take: 10, skip });
  }
  await posts.find({ where: { title: Like("%river%") }, order: { id: "ASC" } });
  await posts.find({ where: { createdAt: LessThan(LAST) }, order: { id: "ASC" }, take: 10 });
  await posts.find({ where: { createdAt: Raw((column) => `DATE(${column}) = '2026-04-20'`) }, order: { id: "ASC" } });
  await posts.count();
  await posts.countBy({ status: "published" });
  await posts.sum("views", { status: "published" });
  await posts.createQueryBuilder("p").select("p.status", "status").addSelect("COUNT(*)", "n").groupBy("p.status").orderBy("p.status").getRawMany();
  await posts.createQueryBuilder("p").leftJoinAndSelect("p.user", "u").where("u.role = :role", { role: "admin" }).orderBy("p.id").getMany();
  await posts.createQueryBuilder("p").where("JSON_EXTRACT(p.meta, '$.lang') = :lang", { lang: "en" }).orderBy("p.id").getMany();
  await users.createQueryBuilder("u").where((query) => `EXISTS ${query.subQuery().select("1").from("Post", "p").where("p.user_id = u.id").getQuery()}`).orderBy("u.id").getMany();
  await posts.update(21, { title: "A new title" });
  await posts.findOneBy({ id: 21 });
  await tags.save({ id: 901, name: "new" });
  await tags.findOneBy({ name: "new" });
  await db.destroy();
  return `TypeORM ${versionOf("typeorm")}`;
}

async function knex() {
  const db = require("knex")({ client: "mysql2", connection: { ...place, timezone: "Z" }, pool: { min: 1, max: 1 } });
  await db("sessions").where("id", KNOWN).andWhere("expires_at", ">", NOW).first();
  await db("users").where({ email: "user5@example.com", active: false }).first();
  await db("users").whereIn("id", [2, 3, 5]).select("id", "name");
  await db("users").whereNotIn("id", [2, 3]).whereNull("deleted_at").orderBy("id").limit(5).offset(5);
  await db("posts").where("user_id", 3).whereNot("status", "draft").orderBy("created_at", "desc");
  await db("posts").whereBetween("views", [10, 20]).orderBy("id");
  await db("posts").where((query) => query.where("user_id", 1).orWhere("user_id", 2)).orderBy("id").pluck("title");
  await db("posts").where("title", "like", "%river%").orderBy("id");
  await db("posts").whereRaw("match (title, body) against (?)", ["river"]).orderBy("id");
  await db("posts").whereJsonPath("meta", "$.lang", "=", "en").orderBy("id").select("id");
  await db("posts").whereRaw("(created_at, id) < (?, ?)", [LAST, 30]).orderBy([{ column: "created_at", order: "desc" }, { column: "id", order: "desc" }]).limit(10);
  await db("posts").join("users", "users.id", "posts.user_id").where("users.role", "admin").select("posts.id", "users.name").orderBy("posts.id");
  await db("users").leftJoin("orders", "orders.user_id", "users.id").whereNull("orders.id").select("users.id").orderBy("users.id");
  await db("users").whereExists(db("posts").select(db.raw("1")).whereRaw("posts.user_id = users.id").where("status", "archived")).orderBy("id");
  await db("users").whereIn("id", db("orders").where("status", "paid").select("user_id")).orderBy("id").select("id");
  await db("posts").count({ n: "*" }).first();
  await db("posts").where("status", "published").countDistinct("user_id as n");
  await db("posts").select("status").count("* as n").groupBy("status").orderBy("status");
  await db("orders").where("user_id", 4).sum("total as total");
  await db("orders").select("user_id").sum("total as spent").groupBy("user_id").having("spent", ">", 200).orderBy("user_id");
  await db.with("spent", db("orders").select("user_id").sum("total as total").groupBy("user_id")).select("*").from("spent").where("user_id", 5);
  await db("posts").select("id").where("status", "draft").union(db("posts").select("id").where("status", "archived")).orderBy("id");
  await db("posts").select("id").rowNumber("n", "created_at", "user_id").where("category_id", 4);
  await db("posts").where({ id: 21 }).increment("views", 1);
  await db("posts").where({ id: 21 }).first("views");
  await db.transaction(async (inside) => {
    await inside("products").where("id", 3).forUpdate().first();
    await inside("products").where("id", 4).first();
  });
  await db.destroy();
  return `Knex ${versionOf("knex")}`;
}

async function drizzle() {
  const { drizzle: over } = require("drizzle-orm/mysql2");
  const m = require("drizzle-orm/mysql-core");
  const { and, asc, between, count, desc, eq, exists, gt, inArray, isNull, like, lt, notInArray, or, relations, sql, sum } = require("drizzle-orm");
  const id = () => m.bigint("id", { mode: "number", unsigned: true }).primaryKey().autoincrement();
  const big = (name) => m.bigint(name, { mode: "number", unsigned: true });
  const at = (name) => m.datetime(name, { fsp: 6 });
  const users = m.mysqlTable("users", { id: id(), email: m.varchar("email", { length: 190 }), name: m.varchar("name", { length: 100 }), role: m.varchar("role", { length: 10 }), active: m.boolean("active"), settings: m.json("settings"), deletedAt: at("deleted_at") });
  const posts = m.mysqlTable("posts", { id: id(), userId: big("user_id"), title: m.varchar("title", { length: 200 }), status: m.varchar("status", { length: 10 }), views: m.int("views"), meta: m.json("meta"), createdAt: at("created_at") });
  const tags = m.mysqlTable("tags", { id: id(), name: m.varchar("name", { length: 60 }) });
  const postsTags = m.mysqlTable("posts_tags", { postId: big("post_id"), tagId: big("tag_id") });
  const sessions = m.mysqlTable("sessions", { id: m.varchar("id", { length: 64 }).primaryKey(), userId: big("user_id"), expiresAt: at("expires_at") });
  const related = {
    ofUsers: relations(users, ({ many }) => ({ posts: many(posts) })),
    ofPosts: relations(posts, ({ one, many }) => ({ user: one(users, { fields: [posts.userId], references: [users.id] }), tags: many(postsTags) })),
    ofPostsTags: relations(postsTags, ({ one }) => ({
      post: one(posts, { fields: [postsTags.postId], references: [posts.id] }), tag: one(tags, { fields: [postsTags.tagId], references: [tags.id] }),
    })),
  };
  const connection = await mysql.createConnection({ ...place, timezone: "Z" });
  const db = over({ client: connection, schema: { users, posts, tags, postsTags, sessions, ...related }, mode: "default" });
  await db.select().from(sessions).where(and(eq(sessions.id, KNOWN), gt(sessions.expiresAt, NOW))).limit(1);
  await db.select().from(users).where(eq(users.email, "user5@example.com"));
  await db.select().from(users).where(inArray(users.id, [2, 3, 5]));
  await db.select().from(users).where(and(notInArray(users.id, [2, 3]), isNull(users.deletedAt))).orderBy(asc(users.id)).limit(5).offset(5);
  await db.select().from(posts).where(between(posts.views, 10, 20)).orderBy(posts.id);
  await db.select().from(posts).where(or(lt(posts.createdAt, LAST), and(eq(posts.createdAt, LAST), lt(posts.id, 30)))).orderBy(desc(posts.createdAt), desc(posts.id)).limit(10);
  await db.select().from(posts).where(like(posts.title, "%river%")).orderBy(posts.id);
  await db.select({ id: posts.id, name: users.name }).from(posts).innerJoin(users, eq(posts.userId, users.id)).where(eq(users.role, "admin")).orderBy(posts.id);
  await db.select({ n: count() }).from(posts).where(eq(posts.userId, 3));
  await db.select({ status: posts.status, n: count(), views: sum(posts.views) }).from(posts).groupBy(posts.status).orderBy(posts.status);
  await db.select().from(users).where(exists(db.select({ one: sql`1` }).from(posts).where(and(eq(posts.userId, users.id), eq(posts.status, "archived"))))).orderBy(users.id);
  await db.select().from(posts).where(sql`DATE(${posts.createdAt}) = ${"2026-04-20"}`).orderBy(posts.id);
  await db.select().from(posts).where(sql`${posts.meta}->>'$.lang' = ${"en"}`).orderBy(posts.id);
  await db.query.users.findFirst({ where: eq(users.id, 4) });
  await db.query.users.findMany({ where: inArray(users.id, [2, 3]), with: { posts: true }, orderBy: users.id });
  await db.query.posts.findMany({ with: { user: true, tags: { with: { tag: true } } }, where: eq(posts.userId, 5), orderBy: posts.id, limit: 5 });
  const spent = db.$with("counted").as(db.select({ userId: posts.userId, n: count().as("n") }).from(posts).groupBy(posts.userId));
  await db.with(spent).select().from(spent).where(eq(spent.userId, 5));
  await db.update(posts).set({ title: "A new title" }).where(eq(posts.id, 21));
  await db.select().from(posts).where(eq(posts.id, 21));
  await connection.end();
  return `Drizzle ${versionOf("drizzle-orm")}`;
}

const BY_NAME = { typeorm, knex, drizzle };
BY_NAME[process.argv[2]]()
  .then((found) => console.log(`${found}, mysql2 ${versionOf("mysql2")}`))
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
