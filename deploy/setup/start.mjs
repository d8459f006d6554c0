import { spawn } from 'node:child_process';
import { constants as osConstants } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { COMMAND, MODEL_REPOSITORY, ROOT, setting, toolEnvironment } from './checkout.mjs';
import { firstAnswers } from './first-answer.mjs';
import { firstJobs } from './first-jobs.mjs';
import { whenNpmEnds } from './parent.mjs';
import { becomesReady } from './ready.mjs';
import { sampleRepository } from './samples.mjs';
import { exitWith, setUp } from './setup.mjs';

// npm start -- FLAGS: set-up, then the server in the foreground with one real inference as proof.

const READY_LIMIT_MS = 120_000;
/** A server that logs elsewhere does not say here where it listens: after so long its flags are believed. */
const SILENT_MS = 5_000;
const STARTED_HTTP = /Started HTTPService at (\S+):(\d+)/;
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

const flags = process.argv.slice(2).filter((flag) => flag !== '--yes');

whenNpmEnds(() => process.kill(process.pid, 'SIGTERM'));
try {
  await setUp(process.argv.includes('--yes') ? { mayInstall: true } : {});
} catch (error) {
  exitWith(error);
}
await serve();

async function serve() {
  const env = toolEnvironment(process.stdout.isTTY ? { FORCE_COLOR: setting('FORCE_COLOR') ?? '1' } : {});
  const server = spawn(COMMAND, ['serve', ...repositoryFlags(), ...flags], {
    cwd: ROOT,
    // It becomes the Node.js that this is.
    env: { ...env, PATH: `${dirname(process.execPath)}:${env.PATH}` },
    stdio: ['inherit', 'pipe', 'pipe'],
  });
  const ended = new Promise((resolve, reject) => {
    server.on('error', reject);
    server.on('close', (code, signal) => resolve(code ?? 128 + osConstants.signals[signal]));
  });
  for (const signal of STOP_SIGNALS) process.on(signal, () => server.kill(signal === 'SIGHUP' ? 'SIGTERM' : signal));

  let endedWith;
  const url = Promise.race([httpUrl(server), delay(SILENT_MS, undefined, { ref: false }).then(urlOfFlags)]);
  void ended.then((code) => {
    endedWith = code;
  });
  try {
    const started = await Promise.race([url, ended.then(() => undefined)]);
    const hasEnded = () => endedWith !== undefined;
    if (started !== undefined && (await becomesReady(started, hasEnded, READY_LIMIT_MS))) {
      for (const line of await firstAnswers(started)) console.log(line);
      for (const line of await firstJobs(started)) console.log(line);
      console.log(`serving on ${started}; Ctrl-C stops it`);
    } else if (!hasEnded()) {
      console.error(
        `the server is not ready after ${READY_LIMIT_MS / 1000} s: its log above says which model is missing`,
      );
    }
  } catch (error) {
    if (endedWith === undefined) console.error(`the first inference failed: ${error.cause?.message ?? error.message}`);
  }
  process.exitCode = await ended;
}

/** Ours, unless the caller names a repository. */
function repositoryFlags() {
  const isRepository = (flag) => /^--(model-repository|model-store)(=|$)/.test(flag);
  if (flags.some(isRepository) || setting('NEREID_MODEL_REPOSITORY')) return [];
  return [MODEL_REPOSITORY, sampleRepository()].filter(Boolean).map((folder) => `--model-repository=${folder}`);
}

/** Passes the server's output on and resolves with its address when it says where it listens. */
function httpUrl(server) {
  return new Promise((resolve) => {
    for (const [from, to] of [
      [server.stdout, process.stdout],
      [server.stderr, process.stderr],
    ]) {
      let seen = '';
      from.on('data', (chunk) => {
        to.write(chunk);
        if (seen === undefined) return;
        seen += chunk.toString();
        const [, host, port] = STARTED_HTTP.exec(seen) ?? [];
        seen = port === undefined ? seen.slice(seen.lastIndexOf('\n') + 1) : undefined;
        if (port !== undefined) resolve(`http://${reachable(host)}:${port}`);
      });
    }
  });
}

/** Where the flags, the environment or the defaults say that HTTP is served; never where they do not tell. */
function urlOfFlags() {
  const isServed = !['false', '0'].includes(lastFlag('allow-http') ?? setting('NEREID_ALLOW_HTTP'));
  const host = lastFlag('http-address') ?? setting('NEREID_HTTP_ADDRESS') ?? '0.0.0.0';
  const port = Number(lastFlag('http-port') ?? setting('NEREID_HTTP_PORT') ?? 8000);
  return isServed && port > 0 ? `http://${reachable(host)}:${port}` : new Promise(() => {});
}

/** The value of a flag, given as `--name=value` or `--name value`. */
function lastFlag(name) {
  const at = flags.findLastIndex((flag) => flag === `--${name}` || flag.startsWith(`--${name}=`));
  if (at === -1) return undefined;
  return flags[at].includes('=') ? flags[at].slice(name.length + 3) : flags[at + 1];
}

/** A host that a client on this machine can use. */
function reachable(host) {
  const name = host.replace(/^\[|\]$/g, '');
  if (name === '0.0.0.0' || name === '::') return '127.0.0.1';
  return name.includes(':') ? `[${name}]` : name;
}
