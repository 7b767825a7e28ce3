// Serves the site at SITE_ADDRESS once it is whole (Ghost's own server listens before): node serve.js, in Ghost's folder.
require('./settings');
const http = require('http');
const [host, port] = process.env.SITE_ADDRESS.split(':');

require(`${process.cwd()}/core/boot`)({server: false}).then(site => http.createServer(site).listen(port, host));
