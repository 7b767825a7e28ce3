// What the programs for mysql2 share: the address, and one line of JSON for each outcome, the same for the same outcome.
"use strict";

const crypto = require("node:crypto");
const mysql = require("mysql2/promise");

const LONG = 200;
const env = process.env;
const ADDRESS = {
  host: env.CLIENT_HOST,
  port: Number(env.CLIENT_PORT),
  user: env.CLIENT_USER,
  password: env.CLIENT_PASSWORD,
  database: env.CLIENT_DATABASE,
};

function canonical(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "bigint") return { bigint: String(value) };
  if (typeof value === "string") {
    return value.length <= LONG ? value : { characters: value.length, digest: digest(value) };
  }
  if (typeof value !== "object") return value;
  if (Buffer.isBuffer(value)) {
    return value.length <= LONG ? { bytes: value.toString("hex") } : { bytes: value.length, digest: digest(value) };
  }
  if (value instanceof Date) return { date: Number.isNaN(value.getTime()) ? "invalid" : value.toISOString() };
  if (Array.isArray(value)) return value.map(canonical);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, canonical(member)]));
}

function digest(whole) {
  return crypto.createHash("sha256").update(whole).digest("hex").slice(0, 16);
}

function emit(line) {
  process.stdout.write(JSON.stringify(canonical(line)) + "\n");
}

async function runSteps(steps) {
  for (const [step, run] of Object.entries(steps)) {
    try {
      emit({ step, outcome: await run() });
    } catch (error) {
      // A program's top level: what it was is printed, and the test fails.
      process.stdout.write(JSON.stringify({ step, failed: String(error.stack).slice(0, 500) }) + "\n");
    }
  }
}

// As mysql2 connects by default, with `special` options.
function connect(special = {}) {
  return mysql.createConnection({ ...ADDRESS, ...special });
}

async function session(special, work) {
  const connection = await connect(special);
  try {
    return await work(connection);
  } finally {
    connection.destroy();
  }
}

// What mysql2 shows of the error that `promise` ends in.
async function shown(promise) {
  try {
    await promise;
  } catch (error) {
    return { code: error.code, number: error.errno, sqlstate: error.sqlState, text: error.sqlMessage };
  }
  return "no error";
}

module.exports = { ADDRESS, DATA: env.CLIENT_DATA, canonical, connect, digest, emit, env, mysql, runSteps, session, shown };
