import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { type CallHost, callServer } from './server-call.ts';
import { renderTable } from './table.ts';

/** As GET /nereid/v1/sequences tells it. */
interface SequenceJson {
  readonly model: string;
  readonly version: string;
  readonly sequence_id: number | string;
  readonly session: string;
  readonly backlog?: number;
  readonly worker?: string;
  readonly instance?: string;
  readonly slot?: number;
  readonly steps: number;
  readonly waiting: number;
  readonly idle_ms: number;
  readonly age_ms: number;
}

const PATH = '/nereid/v1/sequences';
/** Of one question; there is one after another until all are told. */
const PAGE = '1000';
const HEAD = ['Model', 'Version', 'Sequence', 'Session', 'Where', 'Steps', 'Waiting', 'Idle', 'Age'];

export interface ListOptions {
  readonly url: string;
  readonly model?: string;
  readonly json: boolean;
}

/** `nereid sequences ls`: all sequences that the cluster keeps, as a table or as JSON. */
export async function listSequences(options: ListOptions, host: CallHost): Promise<ExitCode> {
  const { url, model, json } = options;
  const all: SequenceJson[] = [];
  let after: string | undefined;
  do {
    const call = {
      command: 'sequences ls',
      url,
      method: 'GET',
      path: PATH,
      member: 'sequences',
      query: { model, limit: PAGE, after },
    } as const;
    const answer = await callServer(call, host);
    if (!answer.ok) return answer.exitCode;
    const { sequences, next } = answer.body as { readonly sequences: readonly SequenceJson[]; readonly next?: string };
    all.push(...sequences);
    after = next;
  } while (after !== undefined);
  host.stdout(`${json ? JSON.stringify(all) : renderTable(HEAD, all.map(row))}\n`);
  return EXIT_CODE.stopped;
}

export interface EvictOptions {
  readonly url: string;
  readonly model?: string;
  readonly session: string;
}

/** `nereid sequences evict`: ends one sequence. */
export async function evictSequence({ url, model, session }: EvictOptions, host: CallHost): Promise<ExitCode> {
  const path = `${PATH}/${encodeURIComponent(session)}`;
  const call = {
    command: 'sequences evict',
    url,
    method: 'DELETE',
    path,
    member: 'session',
    query: { model },
  } as const;
  const answer = await callServer(call, host);
  if (!answer.ok) return answer.exitCode;
  const evicted = answer.body as SequenceJson;
  host.stdout(`ended sequence ${evicted.sequence_id} of model ${evicted.model} after ${evicted.steps} steps\n`);
  return EXIT_CODE.stopped;
}

function row(sequence: SequenceJson): readonly string[] {
  const { model, version, sequence_id: id, session, backlog, worker, instance, slot, steps, waiting } = sequence;
  return [
    model,
    version,
    String(id),
    session,
    backlog === undefined ? `${worker} ${instance} slot ${slot}` : `backlog ${backlog}`,
    String(steps),
    String(waiting),
    seconds(sequence.idle_ms),
    seconds(sequence.age_ms),
  ];
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
