import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { type CallHost, callServer, inPath, type ServerCall } from './server-call.ts';
import { renderTable } from './table.ts';

/** As GET /v2/jobs/{id} tells it. */
export interface JobJson {
  readonly id: string;
  readonly state: string;
  readonly created_at: string;
  readonly attempts_made: number;
  readonly attempts_max: number;
  readonly tags?: readonly string[];
  readonly error?: { readonly code: string; readonly message: string };
}

const PATH = '/v2/jobs';
/** Of one question; there is one after another until enough are told. */
const PAGE_MAX = 100;
const HEAD = ['Job', 'State', 'Created', 'Attempts', 'Tags', 'Error'];

export interface JobsListOptions {
  readonly url: string;
  readonly model?: string;
  readonly state?: string;
  readonly tag?: string;
  /** Jobs told at most. */
  readonly limit: number;
  readonly json: boolean;
}

/** `nereid jobs ls`: the jobs that match, as a table or as JSON. */
export async function listJobs(options: JobsListOptions, host: CallHost): Promise<ExitCode> {
  const { url, model, state, tag, limit, json } = options;
  const all: JobJson[] = [];
  let after: string | undefined;
  do {
    const page = String(Math.min(PAGE_MAX, limit - all.length));
    const query = { model, state, tag, limit: page, after };
    const answer = await callServer({ ...call('ls', url), query, member: 'jobs' }, host);
    if (!answer.ok) return answer.exitCode;
    const { jobs, next } = answer.body as { readonly jobs: readonly JobJson[]; readonly next?: string };
    all.push(...jobs);
    after = next;
  } while (after !== undefined && all.length < limit);
  host.stdout(`${json ? JSON.stringify(all) : renderTable(HEAD, all.map(row))}\n`);
  if (after !== undefined) host.stderr(`nereid jobs ls: there may be more than ${limit}: raise --limit\n`);
  return EXIT_CODE.stopped;
}

export interface JobOptions {
  readonly url: string;
  readonly id: string;
}

/** `nereid jobs show`: all that is known of one job. */
export async function showJob({ url, id, json }: JobOptions & { readonly json: boolean }, host: CallHost) {
  return told({ ...call('show', url, id), member: 'id' }, host, (job) =>
    json ? JSON.stringify(job) : jobText(job as JobJson),
  );
}

/** `nereid jobs retry`: runs a failed or cancelled job anew. */
export async function retryJob({ url, id }: JobOptions, host: CallHost): Promise<ExitCode> {
  const retry = call('retry', url, id);
  return told({ ...retry, method: 'POST', path: `${retry.path}/retry`, member: 'id' }, host, (job) =>
    stateText(job as JobJson),
  );
}

/** `nereid jobs cancel`: ends a job that is not over. */
export async function cancelJob({ url, id }: JobOptions, host: CallHost): Promise<ExitCode> {
  const cancel = { ...call('cancel', url, id), method: 'DELETE', query: { only: 'cancel' }, member: 'id' } as const;
  return told(cancel, host, (job) => stateText(job as JobJson));
}

/** `nereid jobs rm`: removes a job that is over, with its result. */
export async function removeJob({ url, id }: JobOptions, host: CallHost): Promise<ExitCode> {
  const remove = { ...call('rm', url, id), method: 'DELETE', query: { only: 'remove' } } as const;
  return told(remove, host, () => `removed ${id}`);
}

function call(name: string, url: string, id?: string): ServerCall {
  return { command: `jobs ${name}`, url, method: 'GET', path: id === undefined ? PATH : jobPath(id) };
}

export function jobPath(id: string): string {
  return `${PATH}/${inPath(id)}`;
}

async function told(asked: ServerCall, host: CallHost, text: (body: unknown) => string): Promise<ExitCode> {
  const answer = await callServer(asked, host);
  if (!answer.ok) return answer.exitCode;
  host.stdout(`${text(answer.body)}\n`);
  return EXIT_CODE.stopped;
}

function row(job: JobJson): readonly string[] {
  const { id, state, created_at: created, attempts_made: made, attempts_max: most, tags = [], error } = job;
  return [id, state, created, `${made} of ${most}`, tags.join(', '), error === undefined ? '' : errorText(error)];
}

/** `state`, with its error where it has one. */
export function stateText({ id, state, error }: Pick<JobJson, 'id' | 'state' | 'error'>): string {
  return `${id} ${state}${error === undefined ? '' : `: ${errorText(error)}`}`;
}

function errorText({ code, message }: { readonly code: string; readonly message: string }): string {
  return `${code}: ${message}`;
}

/** A line for each that is known. */
function jobText(job: JobJson): string {
  const members = Object.entries(job);
  const width = Math.max(...members.map(([name]) => name.length));
  return members.map(([name, value]) => `${name.padEnd(width)}  ${valueText(name, value)}`).join('\n');
}

function valueText(name: string, value: unknown): string {
  if (name === 'error') return errorText(value as { readonly code: string; readonly message: string });
  if (Array.isArray(value)) return value.join(', ');
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}
