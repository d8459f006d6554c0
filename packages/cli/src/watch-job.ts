import { readEvents, type ServerEvent } from './event-reader.ts';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { type JobJson, type JobOptions, jobPath, stateText } from './jobs.ts';
import { adminHeaders, type CallHost, noServer, parsed, refusalOf, targetOf, wrongUrl } from './server-call.ts';

export interface WatchHost extends CallHost {
  /** Resolves after so many milliseconds. */
  readonly pause: (ms: number) => Promise<void>;
}

export interface WatchOptions extends JobOptions {
  /** Each event as a line of JSON. */
  readonly json: boolean;
}

const RETRY_MS = 1_000;
/** Tries one after another without an event; then no gateway will come back. */
const TRIES_MAX = 60;
const NO_CONTENT_STATUS = 204;

/**
 * `nereid jobs watch`: tells what becomes of a job until it is over, through broken connections too: whichever gateway
 * answers next goes on behind the last event. Ends with 0 where the job has completed.
 */
export async function watchJob(options: WatchOptions, host: WatchHost): Promise<ExitCode> {
  const { url, id, json } = options;
  const fail = (text: string, exitCode: ExitCode = EXIT_CODE.failed): ExitCode => {
    host.stderr(`nereid jobs watch: ${text.replace(/\s*[\r\n]+\s*/g, ' ')}\n`);
    return exitCode;
  };
  const target = targetOf(url, `${jobPath(id)}/events`);
  if (target === undefined) return fail(wrongUrl(url), EXIT_CODE.usage);
  let last: string | undefined;
  let isKnown = false;
  let failure: unknown = 'the connection ended';
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    if (tries > 0) await host.pause(RETRY_MS);
    try {
      const resumed = last === undefined ? {} : { 'Last-Event-ID': last };
      const response = await host.fetch(target, { headers: { ...adminHeaders(host), ...resumed } });
      if (response.status === NO_CONTENT_STATUS) return EXIT_CODE.stopped;
      if (!response.ok || response.body === null) {
        failure = response.status;
        const text = refusalOf(url, response.status, parsed(await response.text()));
        // A gateway that stops, or has no Redis at the moment, is as good as none.
        if (!isKnown || response.status < 500) return fail(text);
        continue;
      }
      isKnown = true;
      for await (const event of readEvents(response.body)) {
        tries = 0;
        if (event.id !== '') last = event.id;
        host.stdout(`${json ? jsonLine(event) : textLine(event)}\n`);
        if (event.name !== 'end') continue;
        const { state } = parsed(event.data) as Pick<JobJson, 'state'>;
        return state === 'completed' ? EXIT_CODE.stopped : EXIT_CODE.failed;
      }
    } catch (thrown) {
      failure = thrown;
      if (!isKnown) return fail(noServer(url, thrown));
    }
  }
  return fail(noServer(url, failure));
}

function jsonLine({ id, name, data }: ServerEvent): string {
  return JSON.stringify({ event: name, ...(id === '' ? {} : { id }), data: parsed(data) });
}

function textLine({ name, data }: ServerEvent): string {
  const value = parsed(data);
  switch (name) {
    case 'state':
    case 'end':
      return stateText(value as JobJson);
    case 'output': {
      const { n, outputs, error } = value as {
        readonly n: number;
        readonly outputs?: unknown;
        readonly error?: unknown;
      };
      return `output ${n} ${JSON.stringify(error ?? outputs)}`;
    }
    default:
      return `${name} ${data}`;
  }
}
