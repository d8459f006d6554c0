import { fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { VENV } from '../../deploy/setup/checkout.mjs';

const NODE = fileURLToPath(new URL('producer.mjs', import.meta.url));
const PYTHON = fileURLToPath(new URL('producer.py', import.meta.url));

/** Runs producer.mjs. `stop` lets it wait for what it has added, and gives its exit code. */
export function startProducer(options) {
  const child = fork(NODE, [JSON.stringify(options)]);
  const producer = producerOf(child, () => {
    if (child.connected) child.send('stop');
  });
  child.on('message', producer.heard);
  return producer;
}

/** The Python that has the package `bullmq`, as `npm test` sets it up; undefined where there is none. */
export function findPython() {
  const python = join(process.env.ORACLE_VENV ?? VENV, 'bin', 'python');
  if (!existsSync(python)) return undefined;
  return spawnSync(python, ['-c', 'import bullmq']).status === 0 ? python : undefined;
}

/** Runs producer.py likewise. `url`: of its Redis. */
export function startPythonProducer(python, { url, ...options }) {
  const args = [PYTHON, JSON.stringify({ ...options, connection: url })];
  const child = spawn(python, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const producer = producerOf(child, () => child.stdin.end());
  createInterface({ input: child.stdout }).on('line', (line) => producer.heard(JSON.parse(line)));
  return producer;
}

function producerOf(child, askToStop) {
  const ended = once(child, 'close');
  const jobs = [];
  const refusals = [];
  const here = (ms) => ms - performance.timeOrigin;
  return {
    jobs,
    /** Errors of `add`. */
    refusals,
    heard({ job, refused }) {
      if (job === undefined) refusals.push(refused);
      else jobs.push({ ...job, sentMs: here(job.sentMs), endedMs: here(job.endedMs) });
    },
    async stop() {
      askToStop();
      const [code] = await ended;
      return code;
    },
    kill() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    },
  };
}
