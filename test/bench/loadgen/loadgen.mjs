/**
 * The load generator in Node, for machines without Go: the flags of main.go that the bench uses, HTTP only, and the same
 * line and file as output.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { busySeconds, treeSeconds } from '../proc-cpu.mjs';

const HEADER_LENGTH = 'inference-header-content-length';
const NO_HEADER = -1;
const text = { type: 'string' };
const many = { type: 'string', multiple: true, default: [] };

// Go's flags have one dash.
const { values: flags } = parseArgs({
  args: process.argv.slice(2).map((word) => (/^-[a-zA-Z-]+$/.test(word) ? `-${word}` : word)),
  options: {
    addr: text,
    path: text,
    body: many,
    H: many,
    pid: many,
    c: text,
    d: text,
    w: text,
    n: text,
    sample: text,
    samples: text,
    follow: text,
    'follow-query': text,
    own: { type: 'boolean' },
  },
});

const [host, port] = flags.addr.split(':');
const bodies = flags.body.map((file) => readFileSync(file));
const headers = Object.fromEntries(flags.H.map((line) => line.split(/: */, 2)));
const pids = Object.fromEntries(flags.pid.map((entry) => entry.split('=')));
const agent = new Agent({ keepAlive: true, maxSockets: Number(flags.c) });
const every = Number(flags.sample ?? 0);
const countMax = Number(flags.n ?? 0) || Number.POSITIVE_INFINITY;

const state = { phase: 'warm-up', done: 0, errors: 0, lastError: undefined, times: [], kept: [], full: () => {} };

function ask(method, path, body) {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': body.length };
    const sent = httpRequest({ agent, host, port, method, path, headers: { ...headers, ...length } }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const answer = Buffer.concat(chunks);
        if (Math.floor(response.statusCode / 100) !== 2) reject(new Error(`HTTP ${response.statusCode}: ${answer}`));
        else resolve({ body: answer, header: Number(response.headers[HEADER_LENGTH] ?? NO_HEADER) });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

async function call(index) {
  const first = await ask('POST', flags.path, bodies[index]);
  if (flags.follow === undefined) return first;
  const to = JSON.parse(first.body)[flags.follow];
  return ask('GET', `${to}${flags['follow-query'] ?? ''}`);
}

async function work(worker) {
  for (let count = 0; state.phase !== 'over'; count += 1) {
    const index = (flags.own ? worker : worker + count) % bodies.length;
    const start = performance.now();
    try {
      const answer = await call(index);
      if (state.phase === 'measured') state.times.push(performance.now() - start);
      if (every > 0 && count % every === 0) state.kept.push({ index, ...answer });
    } catch (error) {
      state.errors += 1;
      state.lastError = error.message;
    }
    state.done += 1;
    if (state.done === countMax) state.full();
  }
}

const ownSeconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const look = () => ({ at: performance.now(), own: ownSeconds(), busy: busySeconds(), cpu: treeSeconds(pids) });

const full = new Promise((resolve) => {
  state.full = resolve;
});
const workers = Array.from({ length: Number(flags.c) }, (_, worker) => work(worker));
await delay(Number(flags.w) * 1000);
const before = look();
state.phase = 'measured';
await Promise.race([delay(Number(flags.d) * 1000), full]);
state.phase = 'over';
const after = look();
await Promise.all(workers);
agent.destroy();

const secs = (after.at - before.at) / 1000;
const sorted = state.times.toSorted((a, b) => a - b);
const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? -1;
const cpu = Object.fromEntries(Object.entries(after.cpu).map(([name, s]) => [name, s - before.cpu[name]]));
const servers = Object.values(cpu).reduce((sum, s) => sum + s, 0);
const own = after.own - before.own;
if (flags.samples !== undefined) {
  const parts = state.kept.flatMap(({ index, header, body }) => {
    const head = Buffer.alloc(12);
    for (const [place, value] of [index, header, body.length].entries()) head.writeInt32LE(value, place * 4);
    return [head, body];
  });
  writeFileSync(flags.samples, Buffer.concat(parts));
}
console.log(
  JSON.stringify({
    c: Number(flags.c),
    rps: sorted.length / secs,
    p50_ms: at(0.5),
    p90_ms: at(0.9),
    p99_ms: at(0.99),
    max_ms: at(1),
    n: sorted.length,
    all: state.done,
    sampled: state.kept.length,
    errors: state.errors,
    secs,
    lg_cpu: own / secs,
    cpu_s: cpu,
    other_cpu: Math.max(0, after.busy - before.busy - own - servers) / secs,
    steal: 0,
    ...(state.lastError === undefined ? {} : { last_error: state.lastError }),
  }),
);
process.exit(0);
