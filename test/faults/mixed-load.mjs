import { startJobLoad } from './job-load.mjs';
import { startLoad } from './load.mjs';
import { LARGE_MODEL, LOAD_MODEL } from './load-model.mjs';
import { startSequenceLoad } from './sequence-load.mjs';
import { SEQUENCE_MODEL } from './sequence-model.mjs';
import { startProducer, startPythonProducer } from './start-producer.mjs';
import { startStepLoad } from './step-load.mjs';

/** Of each kind so many, and half of them where the load is to be light. */
const CLIENTS = { requests: 8, jobs: 4, node: 4, python: 2, sequences: 4, steps: 4 };

/** So many jobs over HTTP are under way at most. */
export const JOBS_AT_ONCE = CLIENTS.jobs;
/** The models that jobs are for. */
export const JOB_MODELS = [LOAD_MODEL, LARGE_MODEL, SEQUENCE_MODEL];

/**
 * The load of a run: requests and jobs over HTTP through all doors, and jobs of a plain BullMQ producer in Node; where
 * it is `mixed` also sequences, as waiting requests and as jobs, and, where there is a `python`, a producer in that.
 * `queueOf` gives a model's queue. A `light` load leaves more of the machine to what starts meanwhile.
 */
export function startMixedLoad({ doors, places, queueOf, url, mixed, light, python }) {
  const at = { doors, places };
  const clients = Object.fromEntries(
    Object.entries(CLIENTS).map(([kind, count]) => [kind, light ? Math.ceil(count / 2) : count]),
  );
  const load = startLoad({ ...at, clients: clients.requests });
  const jobLoad = startJobLoad({ ...at, clients: clients.jobs });
  const queue = queueOf(LOAD_MODEL);
  const producer = startProducer({ ...queue, clients: clients.node });
  const inPython =
    python === undefined ? undefined : startPythonProducer(python, { ...queue, url, clients: clients.python });
  const sequences = mixed ? startSequenceLoad({ ...at, clients: clients.sequences, numbered: true }) : undefined;
  const steps = mixed ? startStepLoad({ ...at, clients: clients.steps, queue: queueOf(SEQUENCE_MODEL) }) : undefined;
  const producers = [producer, ...(inPython === undefined ? [] : [inPython])];
  return {
    requests: load.requests,
    oldestSentMs: load.oldestSentMs,
    /** Lets everything end. Resolves with what became of it. */
    async stop() {
      const [requests, producerCodes] = await Promise.all([
        load.stop(),
        Promise.all(producers.map((one) => one.stop())),
        jobLoad.stop(),
        sequences?.stop(),
        steps?.stop(),
      ]);
      const stepSequences = steps?.sequences ?? [];
      return {
        requests: [...requests, ...jobLoad.refusals],
        jobs: [
          ...jobLoad.jobs,
          ...producers.flatMap((one) => one.jobs),
          ...stepSequences.flatMap((sequence) => sequence.steps),
        ],
        sequences: sequences?.sequences ?? [],
        stepSequences,
        producerCodes,
      };
    },
    kill() {
      for (const one of producers) one.kill();
    },
  };
}
