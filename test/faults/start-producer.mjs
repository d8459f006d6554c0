import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const PRODUCER = fileURLToPath(new URL('producer.mjs', import.meta.url));

/** Runs producer.mjs. `stop` lets it wait for what it has added, and gives its exit code. */
export function startProducer(options) {
  const child = fork(PRODUCER, [JSON.stringify(options)]);
  const ended = once(child, 'exit');
  const jobs = [];
  const refusals = [];
  child.on('message', ({ job, refused }) => {
    if (job === undefined) refusals.push(refused);
    else
      jobs.push({ ...job, sentMs: job.sentMs - performance.timeOrigin, endedMs: job.endedMs - performance.timeOrigin });
  });
  return {
    jobs,
    /** Errors of `add`. */
    refusals,
    async stop() {
      if (child.connected) child.send('stop');
      const [code] = await ended;
      return code;
    },
    kill() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    },
  };
}
