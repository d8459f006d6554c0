/** The thread in which a JavaScript model completes its configuration; ended by who started it. */
import { parentPort, workerData } from 'node:worker_threads';

/** What is given to the thread. */
export interface CompletionTask {
  /** Of the module. */
  readonly url: string;
  /** As `initialize` gets it, but that integers which JavaScript cannot hold are texts. */
  readonly config: unknown;
}

/** JSON of the completed config, null where the module exports no `autoComplete`; else what went wrong. */
export type CompletionAnswer = { readonly config: string | null } | { readonly error: string };

async function complete({ url, config }: CompletionTask): Promise<CompletionAnswer> {
  let during = 'it cannot be imported';
  try {
    const { autoComplete } = await import(url);
    if (autoComplete === undefined) return { config: null };
    if (typeof autoComplete !== 'function') return { error: 'its export autoComplete is no function' };
    during = 'autoComplete failed';
    const completed: unknown = (await autoComplete(config)) ?? config;
    during = 'what autoComplete returned is no configuration';
    return { config: JSON.stringify(completed, (_, value) => (typeof value === 'bigint' ? String(value) : value)) };
  } catch (cause) {
    return { error: `${during}: ${cause instanceof Error ? cause.message : String(cause)}` };
  }
}

parentPort?.postMessage(await complete(workerData));
