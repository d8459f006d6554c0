import {
  callJson,
  type ExplainedCall,
  type ExplainedJson,
  type ExplainedRequestJson,
  type ExplainedRun,
  type ExplainedRunJson,
  requestHead,
  runJson,
} from '@nereid/protocol';
import type { Known } from './explain.ts';

/** Calls within calls that are told: none is deeper but by a mistake. */
const DEPTH_MAX = 16;

interface Joined {
  readonly id: string;
  call: ExplainedCall | undefined;
  readonly runs: ExplainedRun[];
}

/**
 * What was told by one process and another, as one request each, the newest first, with what was called for it below
 * it. `stored`: runs that stay with a job, of which those that are not known otherwise are told too.
 */
export function explainedRequests(
  known: Pick<Known, 'calls' | 'runs' | 'more'>,
  stored: readonly ExplainedRunJson[],
  limit: number,
): Pick<ExplainedJson, 'requests' | 'more'> {
  const joined = new Map<string, Joined>();
  const of = (id: string): Joined => {
    const request = joined.get(id) ?? { id, call: undefined, runs: [] };
    joined.set(id, request);
    return request;
  };
  for (const call of known.calls) of(call.id).call = call;
  for (const run of known.runs) of(run.id).runs.push(run);

  const inner = new Map<string, Joined[]>();
  const outer: Joined[] = [];
  for (const request of joined.values()) {
    const parent = firstSight(request)?.parent?.id;
    if (parent === undefined || !joined.has(parent)) outer.push(request);
    else inner.set(parent, [...(inner.get(parent) ?? []), request]);
  }

  const json = (request: Joined, depth: number): ExplainedRequestJson[] => {
    const { call, runs, id } = request;
    const sight = firstSight(request);
    if (sight === undefined || depth > DEPTH_MAX) return [];
    const newest = runs.toSorted((a, b) => b.arrivedMs - a.arrivedMs);
    const below = (inner.get(id) ?? []).toSorted((a, b) => arrivedMs(a) - arrivedMs(b));
    const job = newest.find((run) => run.job !== '')?.job;
    // The caller says which version was asked for, the owner which one it was.
    const version = newest[0]?.version ?? '';
    return [
      {
        ...requestHead(sight),
        ...(version === '' ? {} : { version }),
        ...(job === undefined ? {} : { job }),
        ...(call === undefined ? {} : { call: callJson(call) }),
        runs: newest.map(runJson),
        calls: below.flatMap((each) => json(each, depth + 1)),
      },
    ];
  };

  const live = outer.toSorted((a, b) => arrivedMs(b) - arrivedMs(a)).flatMap((request) => json(request, 0));
  const kept = stored.filter(({ id, arrived }) => !isKnown(joined.get(id), arrived)).map(storedRequest);
  const requests = [...live, ...kept];
  return { requests: requests.slice(0, limit), more: known.more || requests.length > limit };
}

/** By whoever saw it first and last: its caller, or its owner's latest run. */
function firstSight({ call, runs }: Joined): ExplainedCall | ExplainedRun | undefined {
  return (
    call ??
    runs.reduce<ExplainedRun | undefined>((a, b) => (a === undefined || b.arrivedMs > a.arrivedMs ? b : a), undefined)
  );
}

function arrivedMs(request: Joined): number {
  return firstSight(request)?.arrivedMs ?? 0;
}

/** A step that is a job has one token whenever it runs, so that the time tells its runs apart. */
function isKnown(request: Joined | undefined, arrived: string): boolean {
  return request?.runs.some((run) => Math.abs(run.arrivedMs - Date.parse(arrived)) < SAME_MS) === true;
}

/** Two looks at the wall clock may differ. */
const SAME_MS = 5;

function storedRequest(run: ExplainedRunJson): ExplainedRequestJson {
  const { id, request_id, trace_id, job, model, version, arrived, took_ms, state, error } = run;
  return {
    id,
    ...(request_id === undefined ? {} : { request_id }),
    ...(trace_id === undefined ? {} : { trace_id }),
    ...(job === undefined ? {} : { job }),
    ...{ model, version, arrived, took_ms, state },
    ...(error === undefined ? {} : { error }),
    runs: [run],
    calls: [],
  };
}
