// Makes Ghost's tables, and writes authors, tags, posts and pages: node fill.js POSTS, in Ghost's folder.
require('./settings');
const ghost = path => require(`${process.cwd()}/core/${path}`);
const posts = Number(process.argv[2]);
const internal = {context: {internal: true}};
const words = ['harbour', 'winter', 'engine', 'letter', 'garden', 'bridge', 'market', 'island', 'copper', 'signal'];
const titles = ['Wind', 'Água', 'Feuer', '石', 'O\'Hara "quoted"'];
const began = Date.parse('2023-01-01T08:00:00Z');

const text = value => ({type: 'extended-text', text: value, format: 0, style: '', detail: 0, mode: 'normal', version: 1});
const paragraph = value => ({type: 'paragraph', children: [text(value)], direction: 'ltr', format: '', indent: 0, version: 1});
const lexical = lines => JSON.stringify({
    root: {type: 'root', children: lines.map(paragraph), direction: 'ltr', format: '', indent: 0, version: 1}
});

async function people(models) {
    const owner = await models.User.findOne({role: 'Owner', status: 'all'}, internal);
    const ann = {name: 'Ann Lee', email: 'ann@example.com', password: 'the secret of ann', status: 'active'};
    await models.User.setup(ann, {...internal, id: owner.id});
    const role = await models.Role.findOne({name: 'Author'}, internal);
    const found = [owner];
    for (const name of ['Bob', 'Cleo', 'Dora']) {
        found.push(await models.User.add({
            name: `${name} Lee`, email: `${name.toLowerCase()}@example.com`, password: `the secret of ${name}`,
            bio: `${name} writes about ${words[name.length]}s.`, status: 'active', roles: [role.id]
        }, internal));
    }
    return found.map(one => one.id);
}

async function tags(models) {
    const found = [];
    for (let n = 0; n < 17; n++) {
        const given = {name: n % 8 === 7 ? `#hidden ${n}` : `Tag ${n}`, slug: `tag-${n}`, description: `About ${words[n % 10]}.`};
        found.push((await models.Tag.add(given, internal)).id);
    }
    return found;
}

async function write(models, authors, ofTags, n) {
    const at = new Date(began + n * 40000000);
    const lines = Array.from({length: 1 + n % 7}, (_, line) => `Paragraph ${line} of post ${n}, about a ${words[(n + line) % 10]}.`);
    await models.Post.add({
        title: `Post ${n}: ${titles[n % 5]}`, slug: `post-${n}`, lexical: lexical(lines),
        status: n % 20 === 0 ? 'draft' : 'published', type: n % 15 === 0 ? 'page' : 'post',
        published_at: n % 20 === 0 ? null : at, featured: n % 9 === 0, custom_excerpt: n % 4 ? null : `What post ${n} is about.`,
        authors: [...new Set([authors[n % 4], authors[n % 7 % 4]])].map(id => ({id})),
        tags: [...new Set([ofTags[n % 17], ofTags[n * 3 % 17]])].map(id => ({id}))
    }, {...internal, importing: true});
}

async function fill() {
    await ghost('boot')({frontend: false, server: false});
    const models = ghost('server/models');
    const knex = ghost('server/data/db').knex;
    for (const old of await models.Post.findAll(internal)) {
        await models.Post.destroy({...internal, id: old.id}); // which tells of itself, with pictures of another site
    }
    const [authors, ofTags] = [await people(models), await tags(models)];
    for (let n = 1; n <= posts; n++) {
        await write(models, authors, ofTags, n);
    }
    const key = {type: 'content', secret: process.env.SITE_CONTENT_KEY};
    await models.Integration.add({name: 'A reader', api_keys: [key]}, internal);
    await knex('settings').whereIn('key', ['cover_image', 'logo', 'icon']).update({value: null}); // nor are these fetched
    await knex('settings').where('key', 'title').update({value: 'A site'});
    // What is listed by the time of its last change is to have one of its own.
    for (const table of ['posts', 'tags']) {
        for (const [n, {id}] of (await knex(table).orderBy('slug').select('id')).entries()) {
            await knex(table).where({id}).update({updated_at: new Date(began + n * 50000000)});
        }
    }
    await knex('users').update({cover_image: null, profile_image: null});
}

fill().then(() => process.exit(0), error => {
    console.error(error);
    process.exit(1);
});
