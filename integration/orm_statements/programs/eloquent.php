<?php
// What a web application asks through Eloquent, with the connection as Laravel configures it.

namespace App;

use Illuminate\Database\Capsule\Manager as DB;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Database\Eloquent\Relations\Relation;
use Illuminate\Database\Eloquent\SoftDeletes;

require 'Illuminate/Database/autoload.php';

const NOW = '2026-05-10 12:00:00';

$db = new DB();
$db->addConnection([
    'driver' => 'mysql', 'host' => getenv('ORM_HOST'), 'port' => getenv('ORM_PORT'), 'database' => getenv('ORM_DATABASE'),
    'username' => 'root', 'password' => '', 'charset' => 'utf8mb4', 'collation' => 'utf8mb4_unicode_ci', 'strict' => true,
]);
$db->setAsGlobal();
$db->bootEloquent();

Relation::morphMap(['Post' => Post::class, 'Product' => Product::class]);

class User extends Model
{
    use SoftDeletes;
    protected $guarded = [];
    protected $casts = ['active' => 'boolean', 'settings' => 'array'];
    public function posts() { return $this->hasMany(Post::class); }
    public function orders() { return $this->hasMany(Order::class); }
    public function latestOrder() { return $this->hasOne(Order::class)->latestOfMany('placed_at'); }
    public function comments() { return $this->hasMany(Comment::class); }
    public function lines() { return $this->hasManyThrough(Line::class, Order::class); }
}
class Category extends Model
{
    public $timestamps = false;
    public function children() { return $this->hasMany(Category::class, 'parent_id'); }
    public function posts() { return $this->hasMany(Post::class); }
}
class Post extends Model
{
    use SoftDeletes;
    protected $guarded = [];
    public $timestamps = false;
    public function user() { return $this->belongsTo(User::class); }
    public function category() { return $this->belongsTo(Category::class); }
    public function tags() { return $this->belongsToMany(Tag::class, 'posts_tags'); }
    public function comments() { return $this->morphMany(Comment::class, 'commentable'); }
    public function scopePublished($query) { return $query->where('status', 'published'); }
}
class Tag extends Model
{
    protected $guarded = [];
    public $timestamps = false;
    public function posts() { return $this->belongsToMany(Post::class, 'posts_tags'); }
}
class Comment extends Model
{
    protected $guarded = [];
    public $timestamps = false;
    public function commentable() { return $this->morphTo(); }
    public function user() { return $this->belongsTo(User::class); }
}
class Product extends Model
{
    use SoftDeletes;
    public $timestamps = false;
}
class Order extends Model
{
    public function lines() { return $this->hasMany(Line::class); }
    public function user() { return $this->belongsTo(User::class); }
}
class Line extends Model
{
    protected $table = 'order_lines';
    public function product() { return $this->belongsTo(Product::class); }
}
class Token extends Model
{
    public $timestamps = false;
}

function signedIn(): void
{
    DB::table('sessions')->find('3ca1602cd317d169352011dc5778ad4a258b77cc6e72a329577b290808d7b380');
    DB::table('sessions')->where('user_id', 4)->where('expires_at', '>', NOW)->first();
    Token::where('token', '157e5cb60fc7878567fdfe13b440da4eb5ff2c7c4047602551de80dd6e2138b3')
        ->where(fn ($query) => $query->whereNull('expires_at')->orWhere('expires_at', '>', NOW))->first();
    User::find(4);
    User::where('email', 'user5@example.com')->first();
    User::where('uuid', '04801eef-a026-497e-8a24-4cd0f5a744d3')->where('active', false)->firstOrFail();
    User::whereKey(5)->whereNotNull('email')->exists();
    Product::where('public_id', hex2bin('b568ecc3399340aa882ba5dfe42c3578'))->first();
}

function byConditions(): void
{
    User::findMany([2, 3, 5]);
    User::whereIn('role', ['admin', 'editor'])->orderBy('id')->get();
    User::whereNotIn('id', [2, 3, 5])->whereNull('last_seen_at')->get();
    Post::where('user_id', 3)->where('status', '!=', 'draft')->latest()->get();
    Post::onlyTrashed()->where('user_id', 12)->get();
    Post::withTrashed()->find(11);
    Post::whereBetween('views', [10, 20])->orderBy('id')->get();
    Order::where('user_id', 2)->where('placed_at', '>=', '2026-04-01 12:00:00')->oldest('placed_at')->get();
    Product::where('price', '>', '30.00')->where('stock', '<=', 20)->orderBy('id')->get();
    Product::where('category_id', 2)->orWhere('stock', 0)->orderBy('id')->get();
    Category::whereNull('parent_id')->orderBy('position')->get();
    Post::latest('id')->first();
    Post::where('user_id', 4)->orderBy('id')->pluck('title');
    Post::where('category_id', 4)->orderBy('title')->pluck('title', 'id');
    Post::where('id', 9)->value('title');
    Post::published()->where('user_id', 4)->orderBy('id')->get(['id', 'title']);
    Post::select('status')->distinct()->orderBy('status')->get();
    User::where('email', 'user7@example.com')->exists();
    User::where('active', 1)->where('balance', '>', 100)->orderBy('id')->limit(5)->get();
    Post::whereColumn('updated_at', '>', 'created_at')->get();
    Post::orderBy('id')->chunk(20, fn () => true);
    Post::chunkById(25, fn () => true);
}

function eager(): void
{
    $post = Post::find(8);
    $post->user; $post->category; $post->tags; $post->comments;
    Post::with(['user', 'category', 'tags', 'comments.user'])->where('user_id', 5)->orderBy('id')->get();
    Post::with('user:id,name')->latest()->take(5)->get();
    Comment::with('commentable')->where('user_id', 3)->orderBy('id')->get();
    Order::with('lines.product')->find(15);
    User::with('latestOrder')->whereIn('id', [2, 3, 4])->orderBy('id')->get();
    User::find(6)->latestOrder;
    User::find(6)->lines()->orderBy('order_lines.id')->get();
    Category::with('children')->whereNull('parent_id')->get();
    Tag::where('name', 'lamp')->first()->posts()->orderBy('posts.id')->get();
    Post::whereHas('tags', fn ($query) => $query->where('name', 'lamp'))->orderBy('id')->get();
    Post::whereHas('user', fn ($query) => $query->where('role', 'admin'))->orderBy('id')->get();
    User::has('posts', '>=', 3)->orderBy('id')->get();
    User::doesntHave('orders')->orderBy('id')->get();
    User::whereHas('orders.lines', fn ($query) => $query->where('product_id', 7))->orderBy('id')->get();
    Comment::whereHasMorph('commentable', [Post::class], fn ($query) => $query->where('status', 'published'))->count();
    Post::join('users', 'users.id', '=', 'posts.user_id')->where('users.role', 'admin')->orderBy('posts.id')
        ->get(['posts.id', 'posts.title', 'users.name']);
    DB::table('users')->leftJoin('orders', 'users.id', '=', 'orders.user_id')->whereNull('orders.id')->orderBy('users.id')->get(['users.id']);
    $post->tags()->where('tags.id', 3)->exists();
    $post->comments()->where('approved', true)->latest()->first();
}

function aggregates(): void
{
    Post::count();
    Post::where('user_id', 3)->count();
    Post::published()->distinct()->count('user_id');
    Post::select('status', DB::raw('count(*) as n'))->groupBy('status')->orderBy('status')->get();
    Post::where('user_id', 3)->selectRaw('status, count(*) as n')->groupBy('status')->get();
    Order::where('user_id', 4)->whereIn('status', ['paid', 'sent'])->sum('total');
    Product::max('price'); Product::where('category_id', 3)->min('price'); Product::avg('price');
    Order::selectRaw('user_id, sum(total) as spent')->groupBy('user_id')->having('spent', '>', 200)->orderBy('user_id')->get();
    User::withCount('posts')->where('role', 'editor')->orderBy('id')->get();
    User::withCount(['posts', 'comments as approved_count' => fn ($query) => $query->where('approved', true)])->find(5);
    User::withSum('orders', 'total')->withMax('orders', 'placed_at')->where('role', 'admin')->orderBy('id')->get();
    User::withExists('orders')->where('role', 'admin')->orderBy('id')->get();
    Post::withCount('tags')->orderByDesc('tags_count')->orderBy('id')->limit(5)->get();
    User::find(4)->loadCount('posts');
    DB::table('order_lines')->where('order_id', 12)->sum(DB::raw('quantity * price'));
    User::addSelect(['last_number' => Order::select('number')->whereColumn('user_id', 'users.id')->latest('placed_at')->limit(1)])
        ->where('role', 'admin')->orderBy('id')->get();
}

function pages(): void
{
    foreach ([1, 2, 3] as $page) {
        Post::published()->latest()->paginate(10, ['*'], 'page', $page);
    }
    Post::whereHas('tags', fn ($query) => $query->where('name', 'lamp'))->orderBy('id')->paginate(5, ['*'], 'page', 2);
    Post::published()->orderBy('id')->simplePaginate(10, ['*'], 'page', 2);
    Post::where(fn ($query) => $query->where('created_at', '<', '2026-03-01 12:00:00')
        ->orWhere(fn ($query) => $query->where('created_at', '2026-03-01 12:00:00')->where('id', '<', 30)))
        ->orderByDesc('created_at')->orderByDesc('id')->limit(11)->get();
    Post::whereRowValues(['created_at', 'id'], '<', ['2026-03-01 12:00:00', 30])->orderByDesc('created_at')->orderByDesc('id')->limit(10)->get();
    Post::where('id', '>', 20)->orderBy('id')->limit(10)->get();
    Post::published()->orderBy('id')->forPage(2, 5)->get();
}

function searches(): void
{
    Post::where('title', 'like', '%river%')->orderBy('id')->get();
    User::where('email', 'like', 'user1%')->orderBy('id')->get();
    User::whereRaw('lower(email) = ?', ['user5@example.com'])->first();
    User::where(DB::raw("concat(name, ' ', email)"), 'like', '%stone%')->orderBy('id')->get();
    Post::whereFullText(['title', 'body'], 'river')->orderBy('id')->get();
    Post::whereFullText(['title', 'body'], '+river -stone', ['mode' => 'boolean'])->orderBy('id')->get();
    Post::whereRaw('match (title, body) against (?)', ['river'])->orderBy('id')->get();
    User::where('settings->theme', 'dark')->orderBy('id')->get();
    User::where('settings->page->size', '>', 15)->orderBy('id')->get();
    Post::whereJsonContains('meta->tags', 2)->orderBy('id')->get();
    Post::whereJsonLength('meta->tags', '>', 0)->orderBy('id')->count();
    Post::whereIn('id', [9, 4, 7])->orderByRaw('field(id, ?, ?, ?)', [9, 4, 7])->get();
    Post::where('title', 'like', '%lamp%')->orWhere('body', 'like', '%lamp%')->orderBy('id')->limit(10)->get();
}

function dates(): void
{
    Post::whereDate('created_at', '2026-04-20')->orderBy('id')->get();
    Post::whereDate('created_at', '>=', '2026-04-20')->orderBy('id')->get();
    Order::whereYear('placed_at', 2026)->whereMonth('placed_at', 4)->orderBy('id')->get();
    Order::whereDay('placed_at', 12)->orderBy('id')->get();
    Order::whereTime('placed_at', '>', '11:30:00')->orderBy('id')->get();
    User::where('born', '<', '1970-01-01')->orderBy('id')->get();
    Post::where('published_at', '<=', NOW)->where('user_id', 2)->orderBy('published_at')->get();
    DB::table('sessions')->whereRaw('expires_at > now()')->orderBy('id')->get(['id']);
    Order::selectRaw('date(placed_at) as day, count(*) as n')->where('placed_at', '>=', '2026-04-01 12:00:00')
        ->groupBy('day')->orderBy('day')->get();
}

function advanced(): void
{
    DB::select('select id, name from tags where name = ?', ['lamp']);
    $archived = Post::select('id')->where('status', 'archived');
    Post::select('id')->where('status', 'draft')->union($archived)->orderBy('id')->get();
    Post::selectRaw('id, row_number() over (partition by user_id order by created_at) as n')->where('category_id', 4)->get();
    $spent = Order::selectRaw('user_id, sum(total) as total')->groupBy('user_id');
    DB::table('users')->joinSub($spent, 's', 's.user_id', '=', 'users.id')->where('users.id', 5)->get(['users.name', 's.total']);
    User::whereIn('id', Order::select('user_id')->where('status', 'paid'))->orderBy('id')->get();
    DB::select('with recursive t as (select id, parent_id from categories where id = ? union all select c.id, c.parent_id from categories c join t on c.parent_id = t.id) select id from t', [1]);
    Post::when(true, fn ($query) => $query->where('user_id', 7))->orderBy('id')->get();
    Tag::inRandomOrder()->first();
    DB::transaction(function () {
        Product::lockForUpdate()->find(3);
        Product::sharedLock()->find(4);
        Product::find(3);
    });
}

function writes(): void
{
    $post = Post::find(21);
    $post->update(['title' => 'A new title']);
    $post->refresh();
    Post::where('id', 21)->increment('views');
    Post::find(21);
    Tag::firstOrCreate(['name' => 'new'], ['id' => 901]);
    Tag::firstOrCreate(['name' => 'new'], ['id' => 901]);
    Tag::updateOrCreate(['id' => 901], ['name' => 'newer']);
    $post->tags()->attach(901);
    $post->tags()->get();
    $post->tags()->sync([1, 901]);
    $post->load('tags');
    $post->comments()->create(['id' => 901, 'user_id' => 3, 'body' => 'Yes.', 'created_at' => NOW, 'updated_at' => NOW]);
    $post->comments()->count();
    Comment::find(901)->delete();
    $post->comments()->orderBy('id')->get();
    DB::transaction(function () {
        Product::where('id', 5)->decrement('stock');
        Product::find(5);
    });
    Product::find(5);
}

foreach (['signedIn', 'byConditions', 'eager', 'aggregates', 'pages', 'searches', 'dates', 'advanced', 'writes'] as $request) {
    ('App\\' . $request)();
}
echo 'Eloquent ' . getenv('ORM_VERSION') . ', PDO of PHP ' . PHP_VERSION . "\n";
