/** `nereid explain` as text: each request as a few lines, in the order in which things happened. */
import type {
  ExplainedBatchJson,
  ExplainedCallJson,
  ExplainedJobJson,
  ExplainedJson,
  ExplainedRequestJson,
  ExplainedRunJson,
} from '@nereid/protocol';

/** A line: when, since the request came, and what. */
type Line = readonly [when: string, what: string];

const INDENT = '  ';
const OTHERS_NAMED_MAX = 8;

const CLOSED: Readonly<Record<string, string>> = {
  single: 'its model runs no batches of several',
  full: 'it was full',
  preferred: 'it had a preferred size',
  delay: 'its oldest request had waited for the queue delay',
  shape: 'the next request had another shape',
  free: 'an instance was free and no delay is set',
  deadline: 'one of its requests had to end soon',
  alone: 'nobody else could come in time',
  strategy: "the model's own strategy closed it",
  drain: 'its queue was draining',
};

export function explainStory({ requests, job, more, unanswered }: ExplainedJson): string {
  const parts = [
    ...(job === undefined ? [] : [jobStory(job)]),
    ...requests.map((request) => requestStory(request, '')),
  ];
  const notes = [
    ...(more ? ['There are more: ask for one of them by its token, or with --limit.'] : []),
    ...(unanswered.length === 0
      ? []
      : [`No answer came from ${unanswered.join(', ')}: what only they know is missing.`]),
  ];
  return [...parts, ...(notes.length === 0 ? [] : [notes.join('\n')])].join('\n\n');
}

function jobStory({
  id,
  state,
  attempts,
  created,
  started,
  finished,
  failed_reason: reason,
}: ExplainedJobJson): string {
  const rows: Line[] = [
    ['created', created],
    ...(started === undefined ? [] : [['started', started] as const]),
    ...(finished === undefined ? [] : [['finished', finished] as const]),
    ['attempts', String(attempts)],
    ...(reason === undefined ? [] : [['reason', reason] as const]),
  ];
  return [`Job ${id}: ${state}`, ...aligned(rows, INDENT)].join('\n');
}

function requestStory(request: ExplainedRequestJson, margin: string): string {
  const { id, step, model, version, request_id: own, trace_id: trace, sequence_id: sequence, job } = request;
  const what = step === undefined ? (request.parent === undefined ? 'Request' : 'Call') : `Step ${step}`;
  const head = [
    `${margin}${what} ${id} of ${model}${version === undefined ? '' : ` version ${version}`}: ${outcome(request)}`,
    ...(own === undefined ? [] : [`${margin}${INDENT}id ${own}`]),
    ...(job === undefined ? [] : [`${margin}${INDENT}job ${job}`]),
    ...(trace === undefined ? [] : [`${margin}${INDENT}trace ${trace}`]),
    ...(sequence === undefined ? [] : [`${margin}${INDENT}sequence ${sequence}`]),
    `${margin}${INDENT}came ${request.arrived}`,
  ];
  const lines = [
    ...(request.call === undefined ? [] : callLines(request.call)),
    // As they happened.
    ...request.runs.toReversed().flatMap((run) => runLines(run, Date.parse(run.arrived) - Date.parse(request.arrived))),
  ];
  const below = request.calls.map((call) => requestStory(call, margin + INDENT));
  return [...head, ...aligned(lines, margin + INDENT), ...below].join('\n');
}

function outcome({ state, took_ms: took, error }: ExplainedRequestJson): string {
  switch (state) {
    case 'ok':
      return `answered after ${ms(took)}`;
    case 'error':
      return `failed after ${ms(took)}: ${error?.code ?? ''} ${error?.message ?? ''}`.trimEnd();
    case 'left':
      return `left after ${ms(took)}`;
    default:
      return `${state} for ${ms(took)}`;
  }
}

function callLines({ process, door, owner, sends, answers, cached, events = [], error }: ExplainedCallJson): Line[] {
  const came: Line = [at(0), `${door === 'inner' ? 'called' : `came over ${door}`} at ${process}`];
  const to = owner === undefined ? '' : `, last to ${owner}`;
  const sent: Line = [
    '',
    cached === true
      ? 'answered from the response cache'
      : sends === 0
        ? `sent to no coordinator${error === undefined ? '' : ': refused where it came'}`
        : `sent ${times(sends)}${to}`,
  ];
  const streamed: Line[] = answers === undefined ? [] : [['', `${answers} answers of its stream came`]];
  return [came, ...events.map(({ after_ms, what }): Line => [at(after_ms), what]), sent, ...streamed];
}

/** `offset`: from the request's coming to its coming there. */
function runLines(run: ExplainedRunJson, offset: number): Line[] {
  const { process, found, priority, queued_ms: queued, batch, events = [], state, error, took_ms: took } = run;
  const from = Math.max(0, offset);
  const level = priority === undefined ? '' : `, priority ${priority}`;
  const sizes = `behind ${found.ahead} of ${found.waiting} waiting, with ${found.running} running`;
  const copies = run.copies === undefined ? '' : `; ${run.copies} more copies of it came`;
  return [
    [at(from), `queued at ${process} ${sizes}${level}${copies}`],
    ...(run.session === undefined ? [] : [['', `a step of session ${run.session}`] as const]),
    ...events.map(({ after_ms, what }): Line => [at(from + after_ms), what]),
    ...(batch === undefined ? [] : batchLines(batch, from + queued)),
    [at(from + took), ended(state, error?.code)],
  ];
}

function batchLines(batch: ExplainedBatchJson, atMs: number): Line[] {
  const { number, close_reason: why, worker, instance, slot, requests, rows, others } = batch;
  const { wait_ms: wait, input_ms: input = 0, infer_ms: infer = 0, output_ms: output = 0 } = batch;
  const reason = why === undefined ? '' : `, closed because ${CLOSED[why] ?? why}`;
  const where = `${worker} instance ${instance}${slot === undefined ? '' : ` slot ${slot}`}`;
  const named = others
    .slice(0, OTHERS_NAMED_MAX)
    .map(({ id, request_id: own }) => (own === undefined ? id : `${id} (${own})`));
  const rest = requests - 1 - named.length;
  return [
    [at(atMs), `sent in batch ${number} of ${requests} requests, ${rows} rows${reason}`],
    ['', `to ${where}`],
    ...(requests > 1 && named.length > 0
      ? [['', `with ${named.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`] as const]
      : []),
    ...(wait === undefined
      ? []
      : [
          [
            at(atMs + wait),
            `began after ${ms(wait)} in the worker; input ${ms(input)}, infer ${ms(infer)}, output ${ms(output)}`,
          ] as const,
        ]),
  ];
}

function ended(state: ExplainedRunJson['state'], code: string | undefined): string {
  switch (state) {
    case 'ok':
      return 'done';
    case 'error':
      return `failed: ${code ?? ''}`.trimEnd();
    case 'left':
      return 'left this coordinator without an outcome';
    default:
      return `still ${state}`;
  }
}

function aligned(lines: readonly Line[], margin: string): string[] {
  const width = Math.max(0, ...lines.map(([when]) => when.length));
  return lines.map(([when, what]) => `${margin}${when.padStart(width)}  ${what.replace(/\s+/g, ' ')}`);
}

function at(value: number): string {
  return `+${ms(value)}`;
}

function ms(value: number): string {
  return `${value.toFixed(value < 100 ? 2 : 0)} ms`;
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`;
}
