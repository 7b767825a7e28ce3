// What a web application asks through Sequelize.
"use strict";

const { Sequelize, DataTypes, Op, QueryTypes, Transaction } = require("sequelize");

const NOW = new Date(Date.UTC(2026, 4, 10, 12));
const daysAgo = (days) => new Date(NOW.getTime() - days * 86400000);
const KNOWN = "3ca1602cd317d169352011dc5778ad4a258b77cc6e72a329577b290808d7b380";
const TOKEN = "157e5cb60fc7878567fdfe13b440da4eb5ff2c7c4047602551de80dd6e2138b3";

const db = new Sequelize(process.env.ORM_DATABASE, "root", "", {
  host: process.env.ORM_HOST,
  port: Number(process.env.ORM_PORT),
  dialect: "mysql",
  logging: false,
  pool: { max: 1 },
  define: { underscored: true, timestamps: false },
});

const id = { type: DataTypes.BIGINT.UNSIGNED, primaryKey: true, autoIncrement: true };
const at = DataTypes.DATE(6);
const made = { createdAt: at, updatedAt: at };
const { STRING, TEXT, BOOLEAN, INTEGER, DECIMAL, JSON: DOCUMENT, DATEONLY, BIGINT } = DataTypes;

const User = db.define("User", {
  id, email: STRING, name: STRING, role: STRING, active: BOOLEAN, balance: DECIMAL(12, 2), settings: DOCUMENT,
  uuid: DataTypes.UUID, born: DATEONLY, lastSeenAt: at, ...made, deletedAt: at,
}, { tableName: "users", timestamps: true, paranoid: true });
const Category = db.define("Category", { id, parentId: BIGINT, name: STRING, position: INTEGER }, { tableName: "categories" });
const Post = db.define("Post", {
  id, userId: BIGINT, categoryId: BIGINT, title: STRING, slug: STRING, body: TEXT, status: STRING, views: INTEGER,
  rating: DataTypes.DOUBLE, meta: DOCUMENT, publishedAt: at, ...made, deletedAt: at,
}, {
  tableName: "posts", timestamps: true, paranoid: true,
  scopes: { published: { where: { status: "published" } } },
});
const Tag = db.define("Tag", { id, name: STRING }, { tableName: "tags" });
const PostTag = db.define("PostTag", {
  postId: { type: BIGINT, primaryKey: true }, tagId: { type: BIGINT, primaryKey: true },
}, { tableName: "posts_tags" });
const Comment = db.define("Comment", {
  id, commentableType: STRING, commentableId: BIGINT, userId: BIGINT, body: TEXT, approved: BOOLEAN, ...made,
}, { tableName: "comments", timestamps: true });
const Product = db.define("Product", {
  id, categoryId: BIGINT, publicId: STRING(16, true), sku: STRING, name: STRING, price: DECIMAL(10, 2), stock: INTEGER,
  attributes: DOCUMENT, ...made, deletedAt: at,
}, { tableName: "products", timestamps: true, paranoid: true });
const Order = db.define("Order", {
  id, userId: BIGINT, number: STRING, status: STRING, total: DECIMAL(12, 2), placedAt: at, paidAt: at, ...made,
}, { tableName: "orders", timestamps: true });
const Line = db.define("Line", { id, orderId: BIGINT, productId: BIGINT, quantity: INTEGER, price: DECIMAL(10, 2) },
  { tableName: "order_lines" });
const WebSession = db.define("WebSession", { id: { type: STRING, primaryKey: true }, userId: BIGINT, payload: TEXT, expiresAt: at },
  { tableName: "sessions" });
const Token = db.define("Token", { id, userId: BIGINT, token: STRING, abilities: DOCUMENT, lastUsedAt: at, expiresAt: at },
  { tableName: "tokens" });

User.hasMany(Post, { foreignKey: "userId", as: "posts" });
Post.belongsTo(User, { foreignKey: "userId", as: "user" });
Post.belongsTo(Category, { foreignKey: "categoryId", as: "category" });
Post.belongsToMany(Tag, { through: PostTag, foreignKey: "postId", otherKey: "tagId", as: "tags", timestamps: false });
Tag.belongsToMany(Post, { through: PostTag, foreignKey: "tagId", otherKey: "postId", as: "posts", timestamps: false });
Post.hasMany(Comment, { foreignKey: "commentableId", constraints: false, scope: { commentableType: "Post" }, as: "comments" });
Comment.belongsTo(User, { foreignKey: "userId", as: "user" });
Category.hasMany(Category, { foreignKey: "parentId", as: "children" });
User.hasMany(Order, { foreignKey: "userId", as: "orders" });
Order.hasMany(Line, { foreignKey: "orderId", as: "lines" });
Line.belongsTo(Product, { foreignKey: "productId", as: "product" });
WebSession.belongsTo(User, { foreignKey: "userId", as: "user" });

async function signedIn() {
  await WebSession.findOne({ where: { id: KNOWN, expiresAt: { [Op.gt]: NOW } }, include: "user" });
  await Token.findOne({ where: { token: TOKEN, expiresAt: { [Op.or]: [null, { [Op.gt]: NOW }] } } });
  await User.findByPk(4);
  await User.findOne({ where: { email: "user5@example.com" } });
  await User.findOne({ where: { uuid: "04801eef-a026-497e-8a24-4cd0f5a744d3", active: true } });
  await Product.findOne({ where: { publicId: Buffer.from("b568ecc3399340aa882ba5dfe42c3578", "hex") } });
}

async function byConditions() {
  await User.findAll({ where: { id: [2, 3, 5] } });
  await User.findAll({ where: { id: { [Op.notIn]: [2, 3, 5] }, lastSeenAt: { [Op.not]: null } }, order: ["id"] });
  await Post.findAll({ where: { userId: 3, status: { [Op.ne]: "draft" } }, order: [["createdAt", "DESC"]] });
  await Post.findAll({ where: { userId: 10, deletedAt: { [Op.not]: null } }, paranoid: false });
  await Post.findAll({ where: { views: { [Op.between]: [10, 20] } }, order: ["id"] });
  await Order.findAll({ where: { userId: 2, placedAt: { [Op.gte]: daysAgo(40), [Op.lt]: NOW } }, order: ["placedAt"] });
  await Product.findAll({ where: { price: { [Op.gt]: "30.00" }, stock: { [Op.lte]: 20 } }, order: ["id"] });
  await Product.findAll({ where: { [Op.or]: [{ categoryId: 2 }, { categoryId: 3, stock: 0 }] }, order: ["id"] });
  await Category.findAll({ where: { parentId: null }, order: ["position"] });
  await Post.findOne({ order: [["id", "DESC"]] });
  await Post.findAll({ attributes: ["id", "title"], where: { categoryId: 4 }, raw: true, order: ["title"] });
  await Post.scope("published").findAll({ where: { userId: 4 }, order: ["id"] });
  await User.findAll({ where: { active: true, role: ["admin", "editor"] }, order: ["id"], limit: 5 });
  await Post.aggregate("status", "DISTINCT", { plain: false });
}

async function eager() {
  const post = await Post.findByPk(8);
  await post.getUser();
  await post.getTags();
  await post.getComments({ order: ["id"] });
  await post.countComments();
  await post.hasTag(3);
  await Post.findAll({ where: { userId: 5 }, include: ["user", "category"], order: ["id"] });
  await Post.findAll({ where: { userId: 5 }, include: [{ association: "tags" }], order: ["id", ["tags", "name"]] });
  await Post.findAll({ where: { userId: 5 }, include: [{ association: "comments", separate: true, order: ["id"] }], order: ["id"] });
  await Post.findAll({ include: [{ association: "user", where: { role: "admin" } }], order: ["id"] });
  await Post.findAll({ include: [{ association: "tags", where: { name: "lamp" } }], order: ["id"] });
  await Post.findAll({ include: [{ association: "comments", required: false }], order: [["id", "DESC"]], limit: 5 });
  await Post.findAll({ include: [{ association: "tags", where: { name: "paper" } }], order: ["id"], limit: 5, offset: 5 });
  await Order.findOne({ where: { id: 15 }, include: [{ association: "lines", include: ["product"] }] });
  await User.findByPk(6, { include: [{ association: "orders", include: ["lines"] }] });
  await User.findAll({ where: { "$orders.id$": null }, include: ["orders"], order: ["id"] });
  await Category.findAll({ where: { parentId: null }, include: ["children"], order: ["id", ["children", "id"]] });
  await Comment.findAll({ where: { commentableType: "Post", commentableId: [4, 5, 6] }, order: ["id"] });
  const tag = await Tag.findOne({ where: { name: "stone" } });
  await tag.getPosts({ order: ["id"], joinTableAttributes: [] });
}

async function aggregates() {
  await Post.count();
  await Post.count({ where: { userId: 3 } });
  await Post.count({ attributes: ["status"], group: "status" });
  await Post.count({ distinct: true, col: "user_id", where: { status: "published" } });
  await Post.count({ include: [{ association: "tags", where: { name: "lamp" } }] });
  await Order.sum("total", { where: { userId: 4, status: ["paid", "sent"] } });
  await Product.max("price");
  await Product.min("price", { where: { categoryId: 3 } });
  const count = db.fn("COUNT", db.col("id"));
  await Post.findAll({ attributes: ["status", [count, "n"]], where: { userId: 3 }, group: ["status"], raw: true });
  const spent = db.fn("SUM", db.col("total"));
  await Order.findAll({
    attributes: ["userId", [spent, "spent"]], group: ["userId"], having: db.where(spent, Op.gt, 200), order: ["userId"], raw: true,
  });
  const comments = db.literal("(SELECT COUNT(*) FROM comments WHERE comments.user_id = `User`.`id`)");
  await User.findAll({ attributes: ["id", "name", [comments, "comments"]], where: { role: "editor" }, order: ["id"] });
  const total = db.fn("SUM", db.literal("quantity * price"));
  await Line.findOne({ attributes: [[total, "total"]], where: { orderId: 12 }, raw: true });
}

async function pages() {
  for (const page of [0, 1, 2]) {
    await Post.findAndCountAll({ where: { status: "published" }, order: [["createdAt", "DESC"]], limit: 10, offset: 10 * page });
  }
  await Post.findAndCountAll({ include: [{ association: "user", where: { role: "admin" } }], order: [["id", "DESC"]], limit: 10 });
  const last = new Date(Date.UTC(2026, 2, 1, 12));
  await Post.findAll({
    where: { [Op.or]: [{ createdAt: { [Op.lt]: last } }, { createdAt: last, id: { [Op.lt]: 30 } }] },
    order: [["createdAt", "DESC"], ["id", "DESC"]], limit: 10,
  });
  await Post.findAll({
    where: db.literal("(`Post`.`created_at`, `Post`.`id`) < ('2026-03-01 12:00:00', 30)"),
    order: [["createdAt", "DESC"], ["id", "DESC"]], limit: 10,
  });
  await Post.findAll({ where: { id: { [Op.gt]: 20 } }, order: ["id"], limit: 10 });
}

async function searches() {
  await Post.findAll({ where: { title: { [Op.like]: "%river%" } }, order: ["id"] });
  await User.findAll({ where: { email: { [Op.startsWith]: "user1" } }, order: ["id"] });
  await User.findAll({ where: { name: { [Op.substring]: "Paper" } }, order: ["id"] });
  await User.findOne({ where: db.where(db.fn("lower", db.col("email")), "user5@example.com") });
  const both = db.fn("CONCAT", db.col("name"), " ", db.col("email"));
  await User.findAll({ where: db.where(both, Op.like, "%stone%"), order: ["id"] });
  await Post.findAll({ where: db.literal("MATCH (title, body) AGAINST ('river')"), order: ["id"] });
  await db.query("SELECT id FROM posts WHERE MATCH (title, body) AGAINST (:words IN BOOLEAN MODE) ORDER BY id",
    { replacements: { words: "+river -stone" }, type: QueryTypes.SELECT });
  await User.findAll({ where: { "settings.theme": "dark" }, order: ["id"] });
  await User.findAll({ where: { settings: { page: { size: { [Op.gt]: 15 } } } }, order: ["id"] });
  await Post.findAll({ where: { id: [9, 4, 7] }, order: [db.fn("FIELD", db.col("id"), 9, 4, 7)] });
}

async function dates() {
  await Post.findAll({ where: db.where(db.fn("DATE", db.col("created_at")), "2026-04-20"), order: ["id"] });
  await Order.findAll({ where: db.where(db.fn("YEAR", db.col("placed_at")), 2026), order: ["id"] });
  await User.findAll({ where: { born: { [Op.lt]: "1970-01-01" } }, order: ["id"] });
  await WebSession.findAll({ where: { expiresAt: { [Op.gt]: db.fn("NOW") } }, order: ["id"] });
  await Post.findAll({ where: { publishedAt: { [Op.lte]: NOW }, userId: 2 }, order: ["publishedAt"] });
  const day = db.fn("DATE", db.col("placed_at"));
  await Order.findAll({
    attributes: [[day, "day"], [db.fn("COUNT", db.col("id")), "n"]], where: { placedAt: { [Op.gte]: daysAgo(30) } },
    group: [day], order: [day], raw: true,
  });
}

async function advanced() {
  const ask = (sql, replacements) => db.query(sql, { replacements, type: QueryTypes.SELECT });
  await ask("SELECT id, name FROM tags WHERE name = ?", ["lamp"]);
  await ask("SELECT p.id, ROW_NUMBER() OVER (PARTITION BY p.user_id ORDER BY p.created_at) AS n FROM posts p WHERE p.category_id = ?", [4]);
  await ask("WITH spent AS (SELECT user_id, SUM(total) AS total FROM orders GROUP BY user_id) SELECT u.name, s.total FROM users u JOIN spent s ON s.user_id = u.id WHERE u.id = :id", { id: 5 });
  await db.query("SELECT id, name FROM tags WHERE id = $1", { bind: [3], type: QueryTypes.SELECT });
  await Tag.findOne({ order: db.random() });
  await db.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.READ_COMMITTED }, async (transaction) => {
    await Product.findByPk(3, { transaction, lock: transaction.LOCK.UPDATE });
    await Product.findByPk(4, { transaction });
  });
}

async function writes() {
  const post = await Post.findByPk(21);
  await post.update({ title: "A new title", updatedAt: NOW }, { silent: true });
  await post.reload();
  await Post.increment("views", { where: { id: 21 }, silent: true });
  await Post.findByPk(21);
  await Tag.findOrCreate({ where: { name: "new" }, defaults: { id: 901 } });
  await Tag.findOrCreate({ where: { name: "new" }, defaults: { id: 901 } });
  await post.addTag(901);
  await post.getTags({ order: ["name"] });
  await Comment.create({ id: 901, commentableType: "Post", commentableId: 21, userId: 3, body: "Yes.", approved: true, createdAt: NOW, updatedAt: NOW }, { silent: true });
  await post.countComments();
  await Comment.destroy({ where: { id: 901 } });
  await post.getComments({ order: ["id"] });
  await db.transaction(async (transaction) => {
    await Product.decrement("stock", { where: { id: 5 }, transaction });
    await Product.findByPk(5, { transaction });
  });
  await Product.findByPk(5);
}

async function main() {
  for (const request of [signedIn, byConditions, eager, aggregates, pages, searches, dates, advanced, writes]) {
    await request();
  }
  await db.close();
  console.log(`Sequelize ${require("sequelize/package.json").version}, mysql2 ${require("mysql2/package.json").version}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
