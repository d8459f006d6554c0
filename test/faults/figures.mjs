import { PLACES } from './members.mjs';

/** What the load saw of a fault: outcomes, the longest time without an answer, when the new worker first answered. */
export function withFigures(fault, requests) {
  const during = requests.filter(({ endedMs }) => endedMs >= fault.atMs && endedMs <= fault.endMs);
  const right = during.filter(({ outcome }) => outcome === 'right');
  const times = [fault.atMs, ...right.map(({ endedMs }) => endedMs).sort((a, b) => a - b), fault.endMs];
  const gapMs = Math.max(...times.slice(1).map((time, index) => time - times[index]));
  const first = right.find(({ pid }) => pid !== undefined && pid === fault.pid);
  const waits = right.map(({ sentMs, endedMs }) => endedMs - sentMs);
  const countOf = (outcome) => during.filter((one) => one.outcome === outcome).length;
  return {
    ...fault,
    gapMs: Math.round(gapMs),
    slowestMs: Math.round(Math.max(0, ...waits)),
    joinMs: first === undefined ? undefined : Math.round(first.endedMs - fault.mendedMs),
    healthyMs: Math.round(Math.max(fault.readyMs, answeringAfterMs(requests, fault.mendedMs))),
    right: right.length,
    wrong: countOf('wrong'),
    refused: countOf('refused'),
    broken: countOf('broken'),
  };
}

/** How long after that time each gateway had given a right answer to a request of after it. */
export function answeringAfterMs(requests, mendedMs) {
  const first = Array.from({ length: PLACES }, (_, place) =>
    requests.find((one) => one.place === place && one.sentMs >= mendedMs && one.outcome === 'right'),
  );
  return Math.max(...first.map((one) => (one?.endedMs ?? Number.POSITIVE_INFINITY) - mendedMs));
}

/**
 * What no fault excuses: a wrong answer, a 503 that does not say when to come again, one of an ensemble that does not name
 * the step's model, or a connection that broke though its gateway was not killed while it waited.
 */
export function unexcused({ faults, requests }) {
  const ofDeadGateway = ({ place, sentMs, endedMs }) =>
    faults.some(
      (one) =>
        one.kind === 'kill' &&
        one.role === 'gateway' &&
        one.place === place &&
        sentMs <= one.atMs &&
        one.atMs <= endedMs,
    );
  return requests.filter(
    (request) =>
      request.outcome === 'wrong' ||
      (request.outcome === 'refused' && (request.retryAfter === null || isNameless(request))) ||
      (request.outcome === 'broken' && !ofDeadGateway(request)),
  );
}

/** In Triton's own words a full queue and a time-out name no model. */
function isNameless({ text = '' }) {
  if (!text.includes('in ensemble')) return false;
  return !/'(twice_and_one|large)'|Exceeds maximum queue size|Request timeout expired/.test(text);
}

/** The longest gaps after the deaths of a role, in the order of the rounds. */
export function gapsMs(faults, role) {
  return faults.filter((one) => one.kind === 'kill' && one.role === role).map(({ gapMs }) => gapMs);
}

/** The middle of them; undefined where there was none. */
export function medianGapMs(faults, role) {
  const gaps = gapsMs(faults, role).sort((a, b) => a - b);
  return gaps[Math.floor((gaps.length - 1) / 2)];
}
