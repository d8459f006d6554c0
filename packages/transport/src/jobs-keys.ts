import { createHash } from 'node:crypto';
import { encodeName } from './encode-name.ts';
import type { KeyedJob } from './jobs.ts';
import type { RedisClient } from './redis-connection.ts';

/** A key of a submission is remembered so long. */
const KEPT_S = 86_400;

/**
 * Which job a client's own key stands for: one string per model and key, beside the model's queue and, in a Cluster, in
 * its slot.
 */
export interface JobKeys {
  /** The job that the key stands for: this one, unless an earlier one has it. */
  claim(model: string, key: string, job: KeyedJob): Promise<KeyedJob>;
  /** The key's job is in its queue; from now on it is not added again, however long its key outlives it. */
  added(model: string, key: string, job: KeyedJob): Promise<void>;
}

export interface JobKeysParts {
  readonly ask: <T>(question: () => Promise<T>) => Promise<T>;
  readonly client: () => Pick<RedisClient, 'set'>;
  /** Of a model's queue. */
  readonly prefix: (model: string) => string;
}

export function createJobKeys({ ask, client, prefix }: JobKeysParts): JobKeys {
  const nameOf = (model: string, key: string) =>
    `${prefix(model)}:keys.${encodeName(model)}:${createHash('sha256').update(key).digest('hex')}`;

  return {
    claim: (model, key, job) =>
      ask(async () => {
        const held = await client().set(nameOf(model, key), JSON.stringify(job), 'EX', KEPT_S, 'NX', 'GET');
        return held === null ? job : (JSON.parse(String(held)) as KeyedJob);
      }),
    async added(model, key, job) {
      const text = JSON.stringify({ ...job, added: true });
      await ask(() => client().set(nameOf(model, key), text, 'KEEPTTL', 'XX'));
    },
  };
}
