// What a web application asks through Hibernate: entities, HQL and criteria, with Connector/J as it comes, or (with
// `prepared`) with prepared statements of the server's.

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.FetchType;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.JoinColumn;
import jakarta.persistence.JoinTable;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToMany;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.OrderBy;
import jakarta.persistence.Table;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.hibernate.Hibernate;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.BatchSize;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.annotations.SQLRestriction;
import org.hibernate.cfg.Configuration;
import org.hibernate.type.SqlTypes;

public class HibernateProgram {
    static final LocalDateTime NOW = LocalDateTime.of(2026, 5, 10, 12, 0);

    public enum Role { reader, editor, admin }

    public enum Status { draft, published, archived }

    @Entity(name = "User") @Table(name = "users")
    public static class User {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) public Long id;
        public String email;
        public String name;
        @Enumerated(EnumType.STRING) @JdbcTypeCode(SqlTypes.VARCHAR) public Role role;
        public boolean active;
        public BigDecimal balance;
        @JdbcTypeCode(SqlTypes.JSON) public Map<String, Object> settings;
        public String uuid;
        public LocalDate born;
        @Column(name = "last_seen_at") public LocalDateTime lastSeenAt;
        @Column(name = "created_at") public LocalDateTime createdAt;
        @Column(name = "updated_at") public LocalDateTime updatedAt;
        @Column(name = "deleted_at") public LocalDateTime deletedAt;
        @OneToMany(mappedBy = "user") @OrderBy("id") public List<Post> posts;
        @OneToMany(mappedBy = "user") public List<Order> orders;
    }

    @Entity(name = "Category") @Table(name = "categories")
    public static class Category {
        @Id public Long id;
        @ManyToOne(fetch = FetchType.LAZY) @JoinColumn(name = "parent_id") public Category parent;
        public String name;
        public int position;
        @OneToMany(mappedBy = "parent") @BatchSize(size = 10) public List<Category> children;
    }

    @Entity(name = "Post") @Table(name = "posts") @SQLRestriction("deleted_at is null")
    public static class Post {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) public Long id;
        @ManyToOne(fetch = FetchType.LAZY) @JoinColumn(name = "user_id") public User user;
        @ManyToOne @JoinColumn(name = "category_id") public Category category;
        public String title;
        public String slug;
        public String body;
        @Enumerated(EnumType.STRING) @JdbcTypeCode(SqlTypes.VARCHAR) public Status status;
        public int views;
        public Double rating;
        @JdbcTypeCode(SqlTypes.JSON) public Map<String, Object> meta;
        @Column(name = "published_at") public LocalDateTime publishedAt;
        @Column(name = "created_at") public LocalDateTime createdAt;
        @Column(name = "updated_at") public LocalDateTime updatedAt;
        @ManyToMany @OrderBy("name")
        @JoinTable(name = "posts_tags", joinColumns = @JoinColumn(name = "post_id"), inverseJoinColumns = @JoinColumn(name = "tag_id"))
        public List<Tag> tags;
    }

    @Entity(name = "Tag") @Table(name = "tags")
    public static class Tag {
        @Id public Long id;
        public String name;
        @ManyToMany(mappedBy = "tags") public List<Post> posts;
    }

    @Entity(name = "Comment") @Table(name = "comments")
    public static class Comment {
        @Id public Long id;
        @Column(name = "commentable_type") public String commentableType;
        @Column(name = "commentable_id") public Long commentableId;
        @ManyToOne(fetch = FetchType.LAZY) @JoinColumn(name = "user_id") public User user;
        public String body;
        public boolean approved;
        @Column(name = "created_at") public LocalDateTime createdAt;
        @Column(name = "updated_at") public LocalDateTime updatedAt;
    }

    @Entity(name = "Product") @Table(name = "products")
    public static class Product {
        @Id public Long id;
        @ManyToOne(fetch = FetchType.LAZY) @JoinColumn(name = "category_id") public Category category;
        @Column(name = "public_id") public byte[] publicId;
        public String sku;
        public String name;
        public BigDecimal price;
        public int stock;
        @JdbcTypeCode(SqlTypes.JSON) public Map<String, Object> attributes;
    }

    @Entity(name = "Order") @Table(name = "orders")
    public static class Order {
        @Id public Long id;
        @ManyToOne(fetch = FetchType.LAZY) @JoinColumn(name = "user_id") public User user;
        public String number;
        public String status;
        public BigDecimal total;
        @Column(name = "placed_at") public LocalDateTime placedAt;
        @Column(name = "paid_at") public LocalDateTime paidAt;
        @OneToMany(mappedBy = "order") public List<Line> lines;
    }

    @Entity(name = "Line") @Table(name = "order_lines")
    public static class Line {
        @Id public Long id;
        @ManyToOne(fetch = FetchType.LAZY) @JoinColumn(name = "order_id") public Order order;
        @ManyToOne @JoinColumn(name = "product_id") public Product product;
        public int quantity;
        public BigDecimal price;
    }

    @Entity(name = "WebSession") @Table(name = "sessions")
    public static class WebSession {
        @Id public String id;
        @ManyToOne @JoinColumn(name = "user_id") public User user;
        public String payload;
        @Column(name = "expires_at") public LocalDateTime expiresAt;
    }

    @Entity(name = "Token") @Table(name = "tokens")
    public static class Token {
        @Id public Long id;
        @ManyToOne(fetch = FetchType.LAZY) @JoinColumn(name = "user_id") public User user;
        public String token;
        @Column(name = "expires_at") public LocalDateTime expiresAt;
    }

    static final List<Class<?>> ENTITIES = List.of(User.class, Category.class, Post.class, Tag.class, Comment.class,
        Product.class, Order.class, Line.class, WebSession.class, Token.class);

    public static void main(String[] arguments) {
        boolean prepared = List.of(arguments).contains("prepared");
        String options = "?sslMode=DISABLED&allowPublicKeyRetrieval=true" + (prepared ? "&useServerPrepStmts=true&cachePrepStmts=true" : "");
        Map<String, String> told = System.getenv();
        Configuration configuration = new Configuration()
            .setProperty("hibernate.connection.url", "jdbc:mysql://" + told.get("ORM_HOST") + ":" + told.get("ORM_PORT") + "/" + told.get("ORM_DATABASE") + options)
            .setProperty("hibernate.connection.username", "root")
            .setProperty("hibernate.connection.password", "")
            .setProperty("hibernate.connection.pool_size", "1");
        ENTITIES.forEach(configuration::addAnnotatedClass);
        try (SessionFactory factory = configuration.buildSessionFactory()) {
            List<Consumer<Session>> requests = List.of(HibernateProgram::signedIn, HibernateProgram::byConditions, HibernateProgram::ranges,
                HibernateProgram::eager, HibernateProgram::joins, HibernateProgram::aggregates, HibernateProgram::pages,
                HibernateProgram::searches, HibernateProgram::dates, HibernateProgram::advanced, HibernateProgram::locks);
            for (Consumer<Session> request : requests) {
                factory.inTransaction(request::accept);
            }
            writes(factory);
        }
        System.out.println("Hibernate " + org.hibernate.Version.getVersionString() + ", Connector/J " + com.mysql.cj.conf.PropertyDefinitions.class.getPackage().getImplementationVersion());
    }

    static boolean separately = false; // each query is a transaction

    static <T> List<T> all(Session db, String hql, Class<T> type, Object... values) {
        var query = db.createQuery(hql, type);
        for (int at = 0; at < values.length; at++) {
            query.setParameter(at + 1, values[at]);
        }
        List<T> found = query.getResultList();
        if (separately) {
            db.getTransaction().commit();
            db.beginTransaction();
        }
        return found;
    }

    static void signedIn(Session db) {
        all(db, "from WebSession s join fetch s.user where s.id = ?1 and s.expiresAt > ?2", WebSession.class,
            "3ca1602cd317d169352011dc5778ad4a258b77cc6e72a329577b290808d7b380", NOW);
        all(db, "from Token t where t.token = ?1 and (t.expiresAt is null or t.expiresAt > ?2)", Token.class,
            "157e5cb60fc7878567fdfe13b440da4eb5ff2c7c4047602551de80dd6e2138b3", NOW);
        db.find(User.class, 5L);
        db.createQuery("from User where email = :email", User.class).setParameter("email", "user6@example.com").uniqueResult();
        all(db, "from User where uuid = ?1 and active = ?2", User.class, "04801eef-a026-497e-8a24-4cd0f5a744d3", false);
        all(db, "from Product where publicId = ?1", Product.class, (Object) HexFormat.of().parseHex("b568ecc3399340aa882ba5dfe42c3578"));
    }

    static void byConditions(Session db) {
        all(db, "from User where id in (?1, ?2, ?3)", User.class, 2L, 3L, 5L);
        db.createQuery("from User where id in :ids", User.class).setParameter("ids", List.of(2L, 3L, 5L, 8L)).getResultList();
        db.byMultipleIds(Post.class).multiLoad(List.of(4L, 5L, 6L));
        all(db, "from User where id not in (2, 3, 5) and lastSeenAt is not null order by id", User.class);
        all(db, "from User where active and role = ?1 order by id", User.class, Role.admin);
        all(db, "from User where role in (admin, editor) order by id limit 5", User.class);
        all(db, "from Post where user.id = ?1 and status <> ?2 order by createdAt desc", Post.class, 3L, Status.draft);
        all(db, "from Category where parent is null order by position", Category.class);
        all(db, "select title from Post where user.id = ?1 order by id", String.class, 4L);
        all(db, "select id, title from Post where category.id = ?1 order by title", Object[].class, 4L);
        all(db, "select distinct status from Post order by status", Status.class);
        all(db, "from Post order by id desc limit 1", Post.class);
        db.createQuery("select count(u) > 0 from User u where u.email = ?1", Boolean.class).setParameter(1, "user7@example.com").getSingleResult();
    }

    static void ranges(Session db) {
        all(db, "from Post where views between ?1 and ?2 order by id", Post.class, 10, 20);
        all(db, "from Order where user.id = ?1 and placedAt >= ?2 and placedAt < ?3 order by placedAt", Order.class, 2L, NOW.minusDays(40), NOW);
        all(db, "from Product where price > ?1 and stock <= ?2 order by id", Product.class, new BigDecimal("30.00"), 20);
        all(db, "from Product where category.id = ?1 or stock = ?2 order by id", Product.class, 2L, 0);
    }

    static void eager(Session db) {
        Post post = Hibernate.unproxy(db.find(Post.class, 8L), Post.class);
        Hibernate.initialize(post.user);
        post.tags.size();
        all(db, "from Post p join fetch p.user left join fetch p.tags where p.user.id = ?1 order by p.id", Post.class, 5L);
        all(db, "from Order o left join fetch o.lines l left join fetch l.product where o.id = ?1", Order.class, 15L);
        for (Category category : all(db, "from Category where parent is null order by id", Category.class)) {
            Hibernate.unproxy(category, Category.class).children.size();
        }
        Hibernate.unproxy(db.find(User.class, 9L), User.class).posts.size();
        all(db, "from Comment where commentableType = ?1 and commentableId = ?2 order by id", Comment.class, "Post", 9L);
        all(db, "from Comment where commentableType = ?1 and commentableId in (4, 5, 6) order by id", Comment.class, "Post");
    }

    static void joins(Session db) {
        separately = true;
        all(db, "from Post p where p.user.role = admin order by p.id", Post.class);
        all(db, "select p from Post p join p.tags t where t.name = ?1 order by p.id", Post.class, "lamp");
        all(db, "select distinct u from User u join u.posts p where p.category.id = ?1 order by u.id", User.class, 3L);
        all(db, "from User u where u.orders is empty order by u.id", User.class);
        all(db, "from User u where size(u.posts) >= 3 order by u.id", User.class);
        all(db, "from User u where exists (select 1 from Post p where p.user = u and p.status = ?1) order by u.id", User.class, Status.archived);
        all(db, "from Post p where ?1 member of p.tags order by p.id", Post.class, db.getReference(Tag.class, 3L));
        all(db, "select u.name, o.number from User u left join Order o on o.user = u and o.status = ?1 where u.id < 5 order by u.id, o.id", Object[].class, "paid");
    }

    static void aggregates(Session db) {
        all(db, "select count(*) from Post", Long.class);
        all(db, "select count(p) from Post p where p.user.id = ?1", Long.class, 3L);
        all(db, "select count(distinct p.user.id) from Post p where p.status = published", Long.class);
        all(db, "select status, count(*) from Post group by status order by status", Object[].class);
        all(db, "select sum(total) from Order where user.id = ?1 and status in ('paid', 'sent')", BigDecimal.class, 4L);
        all(db, "select coalesce(sum(l.quantity * l.price), 0) from Line l where l.order.id = ?1", BigDecimal.class, 12L);
        all(db, "select min(price), max(price), avg(price) from Product", Object[].class);
        all(db, "select o.user.id, sum(o.total) from Order o group by o.user.id having sum(o.total) > ?1 order by o.user.id", Object[].class, new BigDecimal(200));
        all(db, "select u.id, (select count(*) from Comment c where c.user = u) from User u where u.role = editor order by u.id", Object[].class);
        all(db, "select u.id, size(u.posts) from User u where u.id = ?1", Object[].class, 4L);
        all(db, "select count(*), sum(case when o.status = 'paid' then o.total else 0 end) from Order o where o.user.id = ?1", Object[].class, 8L);
    }

    static void pages(Session db) {
        for (int page = 0; page < 3; page++) {
            db.createQuery("from Post where status = published order by createdAt desc", Post.class)
                .setFirstResult(10 * page).setMaxResults(10).getResultList();
            all(db, "select count(*) from Post where status = published", Long.class);
        }
        LocalDateTime last = LocalDateTime.of(2026, 3, 1, 12, 0);
        all(db, "from Post where createdAt < ?1 or createdAt = ?1 and id < ?2 order by createdAt desc, id desc limit 10", Post.class, last, 30L);
        all(db, "from Post where (createdAt, id) < (?1, ?2) order by createdAt desc, id desc limit 10", Post.class, last, 30L);
        all(db, "from Post where id > ?1 order by id limit 10", Post.class, 20L);
    }

    static void searches(Session db) {
        all(db, "from Post where title like ?1 order by id", Post.class, "%river%");
        all(db, "from User where email like concat(?1, '%') order by id", User.class, "user1");
        all(db, "from User where lower(name) like lower(?1) order by id", User.class, "%PAPER%");
        all(db, "from User where name || ' ' || email like ?1 order by id", User.class, "%stone%");
        all(db, "from User where locate(?1, name) > 0 order by id", User.class, "Paper");
        db.createNativeQuery("select * from posts where match (title, body) against (?1) order by id", Post.class).setParameter(1, "river").getResultList();
        db.createNativeQuery("select id from users where settings->>'$.theme' = :theme order by id", Long.class).setParameter("theme", "dark").getResultList();
        all(db, "from Post where function('json_extract', meta, '$.reading.minutes') > 4 order by id", Post.class);
    }

    static void dates(Session db) {
        all(db, "from Post where cast(createdAt as LocalDate) = ?1 order by id", Post.class, LocalDate.of(2026, 4, 20));
        all(db, "from Order where year(placedAt) = ?1 and month(placedAt) = ?2 order by id", Order.class, 2026, 4);
        all(db, "from User where born < ?1 order by id", User.class, LocalDate.of(1970, 1, 1));
        all(db, "from Post where publishedAt <= ?1 and user.id = ?2 order by publishedAt", Post.class, NOW, 2L);
        all(db, "select cast(placedAt as LocalDate), count(*) from Order where placedAt >= ?1 group by 1 order by 1", Object[].class, NOW.minusDays(30));
        all(db, "from WebSession where expiresAt > local datetime order by id", WebSession.class);
        all(db, "select count(*) from Token where expiresAt < current_timestamp", Long.class);
    }

    static void advanced(Session db) {
        all(db, "select id, row_number() over (partition by user.id order by createdAt) from Post where category.id = ?1", Object[].class, 4L);
        all(db, "select id from Post where status = draft union all select id from Post where status = archived", Long.class);
        all(db, "with spent as (select o.user.id as who, sum(o.total) as total from Order o group by o.user.id)"
            + " select u.name, s.total from User u join spent s on s.who = u.id where u.id = ?1", Object[].class, 5L);
        all(db, "select u.id, d.most from User u join lateral (select max(o.total) as most from Order o where o.user = u) d where u.role = admin order by u.id", Object[].class);
        all(db, "from User where id in (select o.user.id from Order o where o.status = ?1) order by id", User.class, "paid");
        db.createNativeQuery("select id, name from tags where name = ?1", Object[].class).setParameter(1, "lamp").getResultList();
        var build = db.getCriteriaBuilder();
        var query = build.createQuery(Post.class);
        var post = query.from(Post.class);
        query.where(build.equal(post.get("user").get("id"), 7L), build.greaterThan(post.get("views"), 5)).orderBy(build.asc(post.get("id")));
        db.createQuery(query).getResultList();
    }

    static void locks(Session db) {
        separately = false;
        db.find(Product.class, 3L, LockModeType.PESSIMISTIC_WRITE);
        db.find(Product.class, 4L, LockModeType.PESSIMISTIC_READ);
        db.find(Product.class, 5L);
    }

    static void writes(SessionFactory factory) {
        factory.inTransaction(db -> db.find(Post.class, 21L).title = "A new title");
        factory.inTransaction(db -> db.find(Post.class, 21L));
        factory.inTransaction(db -> db.createMutationQuery("update Post set views = views + 1 where id = ?1").setParameter(1, 21L).executeUpdate());
        factory.inTransaction(db -> db.find(Post.class, 21L));
        factory.inTransaction(db -> {
            Tag tag = new Tag();
            tag.id = 901L;
            tag.name = "new";
            db.persist(tag);
            db.flush();
            all(db, "from Tag where name = ?1", Tag.class, "new");
            db.find(Post.class, 21L).tags.add(tag);
        });
        factory.inTransaction(db -> db.find(Post.class, 21L).tags.size());
        factory.inTransaction(db -> db.merge(db.find(Product.class, 5L)).stock--);
        factory.inTransaction(db -> db.find(Product.class, 5L));
    }
}
