# What a web application asks through Active Record, with the connection as Rails configures it.

require "logger"
require "active_record"

NOW = Time.utc(2026, 5, 10, 12)
ActiveRecord::Base.default_timezone = :utc
ActiveRecord::Base.establish_connection(
  adapter: "mysql2", host: ENV["ORM_HOST"], port: ENV["ORM_PORT"].to_i, username: "root",
  database: ENV["ORM_DATABASE"], encoding: "utf8mb4", pool: 1,
  prepared_statements: ARGV.include?("prepared")
)

class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true
  self.record_timestamps = false
end

class User < ApplicationRecord
  has_many :posts
  has_many :orders
  has_many :comments
  has_many :lines, through: :orders
  has_one :last_order, -> { order(placed_at: :desc) }, class_name: "Order"
  scope :kept, -> { where(deleted_at: nil) }
  enum role: { reader: "reader", editor: "editor", admin: "admin" }
end

class Category < ApplicationRecord
  belongs_to :parent, class_name: "Category", optional: true
  has_many :children, class_name: "Category", foreign_key: :parent_id
  has_many :posts
end

class Post < ApplicationRecord
  belongs_to :user
  belongs_to :category, optional: true
  has_and_belongs_to_many :tags, join_table: "posts_tags"
  has_many :comments, as: :commentable
  scope :kept, -> { where(deleted_at: nil) }
  scope :published, -> { where(status: "published") }
end

class Tag < ApplicationRecord
  has_and_belongs_to_many :posts, join_table: "posts_tags"
end

class Comment < ApplicationRecord
  belongs_to :commentable, polymorphic: true
  belongs_to :user
end

class Product < ApplicationRecord
  self.ignored_columns = ["attributes"] # a method of every record has this name
  has_many :comments, as: :commentable
  has_many :lines
end

class Order < ApplicationRecord
  belongs_to :user
  has_many :lines
end

class Line < ApplicationRecord
  self.table_name = "order_lines"
  belongs_to :order
  belongs_to :product
end

class Session < ApplicationRecord
  belongs_to :user, optional: true
end

class Token < ApplicationRecord
  belongs_to :user
end

def signed_in
  Session.where("expires_at > ?", NOW).find_by(id: "3ca1602cd317d169352011dc5778ad4a258b77cc6e72a329577b290808d7b380")
  Session.where(expires_at: NOW..).find_by(user_id: 4)
  Token.where(expires_at: nil).or(Token.where(expires_at: NOW..))
    .find_by(token: "157e5cb60fc7878567fdfe13b440da4eb5ff2c7c4047602551de80dd6e2138b3")
  User.find(4)
  User.find_by(email: "user5@example.com")
  User.find_by!(uuid: "04801eef-a026-497e-8a24-4cd0f5a744d3", active: false)
  Product.find_by(public_id: ["b568ecc3399340aa882ba5dfe42c3578"].pack("H*"))
  User.exists?(7)
  User.where(email: "user7@example.com").exists?
end

def by_conditions
  User.find(2, 3, 5)
  User.where(id: [2, 3, 5]).to_a
  User.where.not(id: [2, 3, 5]).where(last_seen_at: nil).order(:id).to_a
  User.admin.order(:id).to_a
  User.where(active: true, role: %w[admin editor]).order(:id).limit(5).to_a
  User.where("balance > ?", 100).order(:id).to_a
  Post.where(user_id: 3).where.not(status: "draft").order(created_at: :desc).to_a
  Post.where(user_id: 10).where.not(deleted_at: nil).to_a
  Post.where(views: 10..20).order(:id).to_a
  Post.where(views: 10...20, user_id: [1, 2, nil]).order(:id).to_a
  Order.where(user_id: 2, placed_at: (NOW - 40 * 86_400)...NOW).order(:placed_at).to_a
  Product.where(price: 30..).where("stock <= ?", 20).order(:id).to_a
  Product.where(category_id: 2).or(Product.where(stock: 0)).order(:id).to_a
  Category.where(parent_id: nil).order(:position).to_a
  Post.first
  Post.last
  Post.take
  Post.second
  Post.first(3)
  Post.order(:title).last
  Post.where(user_id: 4).order(:id).pluck(:title)
  Post.where(category_id: 4).order(:title).pluck(:id, :title)
  Post.where(user_id: 4).ids
  Post.where(id: 9).pick(:title)
  Post.distinct.order(:status).pluck(:status)
  Post.published.kept.where(user_id: 4).order(:id).select(:id, :title).to_a
  Post.where(user_id: 3).any?
  Post.where(user_id: 3).none?
  Post.where(user_id: 3).many?
  Post.find_each(batch_size: 25) { |post| post }
  Post.where("published_at IS NULL AND views > :least", least: 30).order(:id).to_a
end

def eager
  post = Post.find(8)
  [post.user, post.category, post.tags.to_a, post.comments.to_a]
  Post.where(user_id: 5).order(:id).includes(:user, :category, :tags, comments: :user).to_a
  Post.where(user_id: 5).order(:id).preload(:tags).to_a
  Post.where(user_id: 5).order(:id).eager_load(:user, :tags).to_a
  Post.includes(:user).references(:user).where(users: { role: "admin" }).order(:id).to_a
  Post.eager_load(:comments).order(id: :desc).limit(5).to_a
  Post.joins(:user).where(users: { role: "admin" }).order(:id).to_a
  Post.joins(:tags).where(tags: { name: "lamp" }).order(:id).to_a
  User.joins(:posts).where(posts: { category_id: 3 }).distinct.order(:id).to_a
  User.left_joins(:orders).where(orders: { id: nil }).order(:id).to_a
  User.where.missing(:orders).order(:id).to_a
  Order.includes(lines: :product).find(15)
  User.find(6).lines.order(:id).to_a
  User.find(6).last_order
  User.find(6).orders.order(:placed_at).last
  User.find(6).posts.size
  Comment.where(user_id: 3).order(:id).includes(:commentable).to_a
  Comment.where(commentable: post).order(:id).to_a
  Category.where(parent_id: nil).includes(:children).to_a
  Tag.find_by(name: "lamp").posts.order(:id).to_a
  post.tag_ids
  post.tags.include?(Tag.find(3))
  post.comments.where(approved: true).order(created_at: :desc).first
  post.comments.exists?
end

def aggregates
  Post.count
  Post.where(user_id: 3).count
  Post.published.distinct.count(:user_id)
  Post.group(:status).count
  Post.where(user_id: 3).group(:status).count
  Post.group(:status).order(:status).average(:views)
  Order.where(user_id: 4, status: %w[paid sent]).sum(:total)
  Line.where(order_id: 12).sum("quantity * price")
  Product.maximum(:price)
  Product.where(category_id: 3).minimum(:price)
  Product.average(:price)
  Order.group(:user_id).having("SUM(total) > ?", 200).order(:user_id).sum(:total)
  User.joins(:orders).group("users.id").order(Arel.sql("SUM(orders.total) DESC")).limit(5).pluck("users.id", Arel.sql("SUM(orders.total)"))
  User.select("users.*, (SELECT COUNT(*) FROM posts WHERE posts.user_id = users.id) AS posts_count").where(role: "editor").order(:id).to_a
  User.left_joins(:posts).select("users.id, COUNT(posts.id) AS n").group("users.id").order("n DESC, users.id").limit(5).to_a
  Post.joins(:tags).group("tags.name").order("tags.name").count
  Post.limit(5).count
  Comment.group(:commentable_type, :approved).count
end

def pages
  shown = Post.published.kept
  3.times do |page|
    shown.order(created_at: :desc).limit(10).offset(10 * page).to_a
    shown.count
  end
  last = Time.utc(2026, 3, 1, 12)
  shown.where("created_at < ? OR (created_at = ? AND id < ?)", last, last, 30).order(created_at: :desc, id: :desc).limit(11).to_a
  shown.where("(created_at, id) < (?, ?)", last, 30).order(created_at: :desc, id: :desc).limit(10).to_a
  shown.where("id > ?", 20).order(:id).limit(10).to_a
  shown.where(id: 21..).order(:id).limit(10).to_a
end

def searches
  Post.where("title LIKE ?", "%river%").order(:id).to_a
  User.where("email LIKE ?", "#{User.sanitize_sql_like("user1")}%").order(:id).to_a
  User.where(User.arel_table[:name].matches("%PAPER%")).order(:id).to_a
  User.where("LOWER(email) = ?", "user5@example.com").first
  User.where("CONCAT(name, ' ', email) LIKE ?", "%stone%").order(:id).to_a
  Post.where("MATCH (title, body) AGAINST (?)", "river").order(:id).to_a
  Post.where("MATCH (title, body) AGAINST (? IN BOOLEAN MODE)", "+river -stone").order(:id).to_a
  User.where("settings->>'$.theme' = ?", "dark").order(:id).to_a
  User.where("JSON_EXTRACT(settings, '$.page.size') > ?", 15).order(:id).to_a
  Post.where("JSON_CONTAINS(meta, ?, '$.tags')", "2").order(:id).to_a
  Post.where(id: [9, 4, 7]).order(Arel.sql("FIELD(id, 9, 4, 7)")).to_a
  Post.where("title LIKE :q OR body LIKE :q", q: "%lamp%").order(:id).limit(10).to_a
end

def dates
  Post.where("DATE(created_at) = ?", Date.new(2026, 4, 20)).order(:id).to_a
  Post.where(created_at: Time.utc(2026, 4, 20).all_day).order(:id).to_a
  Order.where("YEAR(placed_at) = ? AND MONTH(placed_at) = ?", 2026, 4).order(:id).to_a
  User.where(born: ...Date.new(1970, 1, 1)).order(:id).to_a
  Post.where(user_id: 2, published_at: ..NOW).order(:published_at).to_a
  Session.where("expires_at > NOW()").order(:id).to_a
  Order.where(placed_at: Time.utc(2026, 4, 10)..).group("DATE(placed_at)").count
end

def advanced
  Post.find_by_sql(["SELECT id, title FROM posts WHERE user_id = ? ORDER BY id", 4])
  ActiveRecord::Base.connection.select_all("SELECT id, name FROM tags WHERE name = 'lamp'")
  Post.from(Post.where(status: "draft").select(:id, :title), :posts).order(:id).pluck(:id)
  Post.select("id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY created_at) AS n").where(category_id: 4).to_a
  User.where(id: Order.where(status: "paid").select(:user_id)).order(:id).to_a
  User.where("EXISTS (SELECT 1 FROM posts WHERE posts.user_id = users.id AND posts.status = ?)", "archived").order(:id).to_a
  Post.where(id: Post.group(:user_id).select("MAX(id)")).order(:id).to_a
  Tag.order(Arel.sql("RAND()")).first
  Post.where(user_id: 1).merge(Post.published).in_order_of(:id, [20, 40]).to_a if Post.respond_to?(:in_order_of)
  Product.transaction do
    Product.lock.find(3)
    Product.find(3)
  end
  Product.transaction do
    Product.find(4)
    Product.find(5)
  end
end

def writes
  post = Post.find(21)
  post.update!(title: "A new title")
  post.reload
  Post.where(id: 21).update_all("views = views + 1")
  Post.find(21)
  Tag.create_with(id: 901).find_or_create_by!(name: "new")
  Tag.create_with(id: 901).find_or_create_by!(name: "new")
  post.tags << Tag.find(901)
  post.tags.reload.to_a
  post.comments.create!(id: 901, user_id: 3, body: "Yes.", created_at: NOW, updated_at: NOW)
  post.comments.count
  Comment.find(901).destroy!
  post.comments.reload.to_a
  Product.transaction do
    Product.find(5).decrement!(:stock)
    Product.find(5)
  end
  Product.find(5)
  post.touch(time: NOW)
  Post.find(21)
end

[:signed_in, :by_conditions, :eager, :aggregates, :pages, :searches, :dates, :advanced, :writes].each { |request| send(request) }
puts "Active Record #{ActiveRecord.version}, mysql2 #{Mysql2::VERSION}"
