import { beforeEach, describe, expect, test } from 'vitest';
import { batchesOf, fakeRequest, serving, settle } from './fake-cluster.ts';

const ONE_SLOT = 'max_batch_size: 1 sequence_batching { max_sequence_idle_microseconds: 60000000 }';

type Serving = Awaited<ReturnType<typeof serving>>;

let made: Serving;

/** Sends a step; its id, by which a START names its session. */
function send(correlationId: bigint | string, start: boolean, session: string | null = null): string {
  return made.gateway.infer(fakeRequest('m', { correlationId, sequenceStart: start }), { session });
}

async function told() {
  await settle();
  return made.gateway.listed.at(-1);
}

beforeEach(async () => {
  made = await serving(ONE_SLOT);
});

describe('the list of sequences', () => {
  test('tells of each its slot or its place in the backlog, its steps, and times', async () => {
    const first = send(5n, true);
    await settle();
    made.worker.finish();
    await made.pass(100);
    send(5n, false, first);
    send(5n, false, first);
    send('é', true);
    send(7n, true);
    await settle();
    await made.pass(25);
    made.gateway.list('m');
    const answer = await told();
    expect(answer?.more).toBe(false);
    const rest = { version: '1', steps: 0, waiting: 1, idleUs: 25_000, ageUs: 25_000, place: null };
    expect(answer?.sequences).toEqual([
      {
        version: '1',
        session: first,
        correlationId: 5n,
        place: { worker: 'wk-1', instance: 0, instanceName: 'm_0_0', slot: 0 },
        backlog: -1,
        steps: 1,
        // The other one runs.
        waiting: 1,
        idleUs: 25_000,
        ageUs: 125_000,
      },
      { ...rest, session: 'gw-1:4', correlationId: 'é', backlog: 0 },
      { ...rest, session: 'gw-1:5', correlationId: 7n, backlog: 1 },
    ]);
  });

  test('goes by the text of the sessions, behind one of them and up to a limit', async () => {
    for (const id of [1n, 2n, 3n]) send(id, true);
    await settle();
    made.gateway.list('m', '', 2);
    expect((await told())?.sequences.map(({ session }) => session)).toEqual(['gw-1:1', 'gw-1:2']);
    expect((await told())?.more).toBe(true);
    made.gateway.list('m', 'gw-1:2', 2);
    expect(await told()).toMatchObject({ sequences: [{ session: 'gw-1:3' }], more: false });
  });

  test('is told under its present epoch alone (R6)', async () => {
    const question = made.gateway.list('m', '', 1, { number: 77, owner: 'co-1' });
    await settle();
    expect(made.gateway.stale).toMatchObject([{ id: question, known: made.directory.owner('m') }]);
    expect(made.gateway.listed).toEqual([]);
  });
});

describe('evicting a sequence', () => {
  const LOST =
    "INVALID_ARG: inference request for sequence 5 to model 'm' must specify the START flag on the first request of the sequence";

  test('frees its slot, loses its waiting steps and lets the one that runs end', async () => {
    const start = send(5n, true);
    await settle();
    const waits = send(5n, false, start);
    const other = send(6n, true);
    await settle();
    made.gateway.evict('m', start);
    expect(await told()).toMatchObject({ sequences: [{ session: start, correlationId: 5n, waiting: 1 }] });
    expect(made.gateway.outcome(waits)).toBe(LOST);
    expect(made.worker.frees).toEqual([start]);
    made.worker.finish();
    await settle();
    expect(made.gateway.outcome(start)).toBe('ok');
    // The slot is the next one's.
    expect(batchesOf(made.worker)).toEqual([[other]]);
    const late = send(5n, false, start);
    await settle();
    expect(made.gateway.moved).toEqual([`${late} → null`]);
    made.gateway.list('m');
    expect((await told())?.sequences.map(({ session }) => session)).toEqual([other]);
  });

  test('ends one in the backlog', async () => {
    send(4n, true);
    const waits = send(5n, true);
    await settle();
    made.gateway.evict('m', waits);
    expect(await told()).toMatchObject({ sequences: [{ session: waits, backlog: 0 }] });
    expect(made.gateway.outcome(waits)).toBe(LOST);
    expect(made.worker.frees).toEqual([]);
  });

  test('tells nothing where there is none', async () => {
    made.gateway.evict('m', 'gw-1:7');
    expect(await told()).toMatchObject({ sequences: [], more: false });
  });
});

describe('a request of an iterative model', () => {
  const ITERATIVE = 'max_batch_size: 4 sequence_batching { iterative_sequence: true oldest { } }';

  beforeEach(async () => {
    made = await serving(ITERATIVE);
  });

  /** The requests of the oldest batch: session, and whether it is told to be a START. */
  const batch = () =>
    made.worker.executes[0]?.entries.map(({ session, slot, request }) => {
      return `${session}@${slot}${request.sequenceStart ? ' START' : ''}${request.sequenceEnd ? ' END' : ''}`;
    });

  test('is a sequence of its own, which runs until its model has done with it; each run is a step', async () => {
    const [a, b] = [made.gateway.infer(fakeRequest('m')), made.gateway.infer(fakeRequest('m'))];
    await settle();
    expect(batch()).toEqual([`${a}@0 START`]);
    made.worker.finish('again');
    await settle();
    // What comes back shares a batch with what waited.
    expect(batch()?.toSorted()).toEqual([`${a}@0`, `${b}@1 START`]);
    made.gateway.list('m');
    expect((await told())?.sequences).toMatchObject([
      { session: a, correlationId: a, steps: 1 },
      { session: b, correlationId: b, steps: 0 },
    ]);
    made.worker.finish('again');
    await settle();
    expect(batch()?.toSorted()).toEqual([`${a}@0`, `${b}@1`]);
    made.worker.finish();
    await settle();
    made.gateway.list('m');
    expect((await told())?.sequences).toEqual([]);
    expect(made.coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
  });

  test('that is cancelled runs no more', async () => {
    const id = made.gateway.infer(fakeRequest('m'));
    await settle();
    made.gateway.cancel('m', id);
    await settle();
    made.worker.mute = true;
    made.worker.finish('again');
    await settle();
    expect(batch()).toBeUndefined();
    expect(made.gateway.outcome(id)).toMatch(/^CANCELLED/);
    expect(made.worker.frees).toEqual([id]);
  });

  test('is over where its worker is gone after a run of it', async () => {
    const id = made.gateway.infer(fakeRequest('m'));
    await settle();
    made.worker.mute = true;
    made.worker.finish('again');
    await settle();
    await made.addWorker('wk-2');
    await made.worker.leave();
    await made.pass(1);
    expect(made.gateway.outcome(id)).toMatch(/^UNAVAILABLE: the request ended between its runs/);
  });
});
