// As an administrator would write it into config.production.json; what differs between two sites of one database is in
// the environment. Ghost takes settings from there, under names with two underscores.
const {env} = process;
const [host, port] = env.SITE_MYSQL.split(':');
const never = {freeRetries: 100000, minWait: 1, maxWait: 1, lifetime: 1};

const settings = {
    url: env.SITE_URL,
    database: {
        client: 'mysql2',
        connection: {host, port, user: env.SITE_USER, password: env.SITE_PASSWORD, database: env.SITE_DATABASE}
    },
    logging: {level: 'warn', transports: '["stdout"]'},
    mail: {transport: 'stub', from: 'ann@example.com'},
    privacy: {useTinfoil: true}, // it asks nobody on the internet
    backgroundJobs: {emailAnalytics: false, clickTrackingLastSeenAtUpdater: false},
    security: {staffDeviceVerification: false}, // which would send a mail
    spam: {user_login: never, global_block: never, content_api_key: never}
};

function set(name, value) {
    if (typeof value === 'object') {
        Object.entries(value).forEach(([key, each]) => set(name ? `${name}__${key}` : key, each));
    } else {
        env[name] = value;
    }
}

set('', settings);
env.NODE_ENV = 'production';
