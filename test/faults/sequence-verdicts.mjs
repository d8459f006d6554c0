// What sequences may come to while processes die: right, or lost with the worker that had them.

/** The START error, with or without its reason, or of a numbered step before whose turn a lost one is missing. */
const LOST = /^INVALID_ARG: .*(?:must specify the START flag|waits for nereid_step)/;

/**
 * Whether a step's job may have failed: its sequence is lost with a worker that was killed while the sequence was there,
 * or was cut off (`lapsed`, pids).
 */
export function stepMayFail(sequences, faults, lapsed) {
  const ofStep = new Map(sequences.flatMap((sequence) => sequence.steps.map((step) => [step.id, sequence])));
  return ({ id, endedMs }, reason) => {
    const sequence = ofStep.get(id);
    return (
      sequence !== undefined &&
      LOST.test(reason) &&
      mayBeLost({ ...sequence, pid: pidOf(sequence), endedMs }, faults, lapsed)
    );
  };
}

/** What is wrong with the steps of sequences beside what is wrong with each: one that is right behind one that is not. */
export function stepProblems(sequences) {
  return sequences.flatMap(({ steps }) => {
    const first = steps.findIndex(({ outcome }) => outcome !== 'right');
    if (first < 0) return [];
    const behind = steps.slice(first).filter(({ outcome }) => outcome === 'right');
    return behind.map(
      ({ sequence, index }) => `step ${index} of sequence ${sequence} is right though step ${first} is not`,
    );
  });
}

/** What is wrong with sequences of waiting requests: all but what is right, or lost with its worker. */
export function sequenceProblems(sequences, faults, lapsed) {
  return sequences
    .filter(({ outcome }) => outcome !== 'right')
    .filter((one) => one.outcome !== 'lost' || !mayBeLost(one, faults, lapsed))
    .map(({ id, outcome, steps, text }) => `sequence ${id} is ${outcome} after ${steps} steps: ${text}`);
}

function pidOf({ steps }) {
  return steps.find(({ pid }) => pid !== undefined)?.pid;
}

/** Where nobody has heard of its process it may have been any that was killed. */
function mayBeLost({ pid, begunMs, endedMs }, faults, lapsed) {
  const isIts = (other) => pid === undefined || pid === other;
  const died = faults.some(
    ({ kind, role, atMs, deadPid }) =>
      kind === 'kill' && role === 'worker' && begunMs <= atMs && atMs <= endedMs && isIts(deadPid),
  );
  return died || lapsed.some(isIts);
}
