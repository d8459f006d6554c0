import type { InferMessage, InferRequest } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { idsOf, ownerOf, startedCluster } from './fake-apart.ts';
import { batchesOf, type FakeWorker, fakeModel, fakeRequest, serving, settle } from './fake-cluster.ts';
import type { FakeGateway } from './fake-gateway.ts';

const DIRECT = 'max_batch_size: 2 sequence_batching { max_sequence_idle_microseconds: 1000000 }';

const sequences = (options: Parameters<typeof serving>[1] = {}) => serving(DIRECT, options);

/** Sends a step of sequence `correlationId`; its id. A START names its session by itself. */
function send(
  gateway: FakeGateway,
  correlationId: bigint,
  flags: '' | 'start' | 'end' | 'one' = '',
  more: Partial<InferMessage> = {},
  request: Partial<InferRequest> = {},
): string {
  const step = fakeRequest('m', {
    correlationId,
    sequenceStart: flags === 'start' || flags === 'one',
    sequenceEnd: flags === 'end' || flags === 'one',
    ...request,
  });
  return gateway.infer(step, more);
}

/** A sequence whose START is done; its session. */
async function begun({ worker, gateway }: { worker: FakeWorker; gateway: FakeGateway }, correlationId = 5n) {
  const start = send(gateway, correlationId, 'start');
  await settle();
  worker.finish();
  await settle();
  return start;
}

const LOST =
  "INVALID_ARG: inference request for sequence 5 to model 'm' must specify the START flag on the first request of the sequence";

/** `session@slot` of each step that the worker holds, batch by batch. */
const slotsOf = ({ executes }: FakeWorker) =>
  executes.map(({ entries }) => entries.map(({ session, slot }) => `${session}@${slot}`));

test('START, steps and END go to one slot, one at a time (R18)', async () => {
  const { worker, gateway } = await sequences();
  const start = send(gateway, 5n, 'start');
  const step = send(gateway, 5n, '', { session: start, prev: 1 });
  const end = send(gateway, 5n, 'end', { session: start, prev: 2 });
  for (const id of [start, step, end]) {
    await settle();
    expect(batchesOf(worker)).toEqual([[id]]);
    expect(slotsOf(worker)).toEqual([[`${start}@0`]]);
    worker.finish();
  }
  await settle();
  expect([start, step, end].map(gateway.outcome)).toEqual(['ok', 'ok', 'ok']);
  // The session is over: what names it is told that there is none.
  const late = send(gateway, 5n, '', { session: start });
  await settle();
  expect(gateway.moved).toEqual([`${late} → null`]);
});

test('sequences spread over workers, and each stays where it is', async () => {
  const { worker, gateway, addWorker } = await sequences();
  const other = await addWorker('wk-2');
  await settle();
  const starts = [send(gateway, 5n, 'start'), send(gateway, 6n, 'start')];
  await settle();
  expect([batchesOf(worker), batchesOf(other)]).toEqual([[[starts[0]]], [[starts[1]]]]);
  worker.finish();
  other.finish();
  await settle();
  const step = send(gateway, 6n, '', { session: starts[1] ?? null });
  await settle();
  expect([batchesOf(worker), batchesOf(other)]).toEqual([[], [[step]]]);
  other.finish();
  await settle();
});

test('a lost worker: its sequences end with the reason, others go on', async () => {
  const { worker, gateway, addWorker } = await sequences();
  const other = await addWorker('wk-2');
  await settle();
  const lost = send(gateway, 5n, 'start');
  const kept = send(gateway, 6n, 'start');
  await settle();
  worker.finish();
  other.finish();
  await settle();
  const running = send(gateway, 5n, '', { session: lost });
  const queued = send(gateway, 5n, '', { session: lost, prev: 3 });
  await settle();
  await worker.leave();
  await settle();
  const late = send(gateway, 5n, '', { session: lost });
  const step = send(gateway, 6n, 'end', { session: kept });
  await settle();
  other.finish();
  await settle();
  expect([running, queued, late, step].map(gateway.outcome)).toEqual([LOST, LOST, LOST, 'ok']);
});

test('R21: a START whose worker is lost begins elsewhere', async () => {
  const { worker, gateway, addWorker } = await sequences();
  const start = send(gateway, 5n, 'start');
  await settle();
  const other = await addWorker('wk-2');
  await settle();
  await worker.leave();
  await settle();
  expect(slotsOf(other)).toEqual([[`${start}@0`]]);
  other.finish();
  await settle();
  expect(gateway.outcome(start)).toBe('ok');
});

test('R21: but not one that was cancelled', async () => {
  const { worker, gateway, addWorker } = await sequences();
  const start = send(gateway, 5n, 'start');
  await settle();
  gateway.cancel('m', start);
  const other = await addWorker('wk-2');
  await settle();
  await worker.leave();
  await settle();
  expect([batchesOf(other), gateway.outcome(start)]).toEqual([[], 'CANCELLED: Request cancelled']);
});

test('R38: a worker that drains goes on with its sequences, and new ones go elsewhere', async () => {
  const { worker, gateway, addWorker } = await sequences();
  const session = await begun({ worker, gateway });
  const other = await addWorker('wk-2');
  await worker.drain();
  await settle();
  const start = send(gateway, 6n, 'start');
  const step = send(gateway, 5n, '', { session });
  await settle();
  expect([batchesOf(worker), batchesOf(other)]).toEqual([[[step]], [[start]]]);
  worker.finish();
  other.finish();
  await settle();
});

test('R38: also where it is the last one; a START is refused then', async () => {
  const { worker, gateway, directory } = await sequences();
  const stateNow = () => directory.record('m')?.versions.map(({ state }) => state);
  const session = await begun({ worker, gateway });
  await worker.drain();
  await settle();
  // Gateways would send nothing to what is not READY.
  expect(stateNow()).toEqual(['READY']);
  const start = send(gateway, 6n, 'start');
  const end = send(gateway, 5n, 'end', { session });
  await settle();
  expect(gateway.outcome(start)).toContain('no available versions');
  expect(batchesOf(worker)).toEqual([[end]]);
  worker.finish();
  await settle();
  expect(gateway.outcome(end)).toBe('ok');
  await worker.leave();
  await settle();
  expect(stateNow()).toEqual(['UNAVAILABLE']);
});

test('R38: a START that it gives back begins elsewhere', async () => {
  const { worker, gateway, addWorker } = await sequences();
  const start = send(gateway, 5n, 'start');
  await settle();
  const other = await addWorker('wk-2');
  await settle();
  worker.giveBack();
  await settle();
  expect([batchesOf(worker), batchesOf(other)]).toEqual([[], [[start]]]);
  other.finish();
  await settle();
});

test('R29: a START without its data gives its slot back, and goes on when it comes again', async () => {
  const { worker, gateway } = await serving('max_batch_size: 1 sequence_batching { }');
  const start = send(gateway, 5n, 'start');
  const step = send(gateway, 5n, '', { session: start, prev: 1 });
  const other = send(gateway, 6n, 'one');
  await settle();
  worker.finish('blob', false);
  await settle();
  expect(gateway.missing).toEqual([start]);
  expect(batchesOf(worker)).toEqual([[other]]);
  worker.finish();
  await settle();
  send(gateway, 5n, 'start', { id: start, g: 1, sends: 2 });
  for (const id of [start, step]) {
    await settle();
    expect(batchesOf(worker)).toEqual([[id]]);
    worker.finish();
  }
  await settle();
});

test('R29: a later step keeps its place', async () => {
  const { worker, gateway } = await sequences();
  const session = await begun({ worker, gateway });
  const step = send(gateway, 5n, '', { session });
  const next = send(gateway, 5n, '', { session, prev: 2 });
  await settle();
  worker.finish('blob', false);
  await settle();
  expect([gateway.missing, batchesOf(worker)]).toEqual([[step], []]);
  send(gateway, 5n, '', { id: step, g: 2, session, sends: 2 });
  for (const id of [step, next]) {
    await settle();
    expect(batchesOf(worker)).toEqual([[id]]);
    worker.finish();
  }
  await settle();
});

test('R19: a step that is cancelled as it waits ends its sequence, whose slot is free', async () => {
  const { worker, gateway } = await sequences();
  const session = await begun({ worker, gateway });
  const [running, waiting, behind] = [0, 2, 3].map((prev) => send(gateway, 5n, '', { session, prev }));
  await settle();
  gateway.cancel('m', waiting ?? '');
  await settle();
  worker.finish();
  await settle();
  expect([running, waiting, behind].map((id) => gateway.outcome(id ?? ''))).toEqual([
    'ok',
    'CANCELLED: Request cancelled',
    'CANCELLED: Request cancelled',
  ]);
  expect(worker.frees).toEqual([session]);
});

test('R19: as does one whose sender gives up a step that is not here', async () => {
  const { worker, gateway, transport } = await sequences();
  const session = await begun({ worker, gateway });
  const epoch = { number: 1, owner: 'co-1' };
  const other = transport.open('gw-9', () => {});
  other.send('co-1', { kind: 'cancel', model: 'm', epoch, id: 'gw-9:1', g: 1, low: 1, session });
  await settle();
  expect(worker.frees).toEqual([session]);
  await other.close();
});

test('R24: a step that is too late ends its sequence', async () => {
  const { worker, gateway, pass } = await sequences();
  const session = await begun({ worker, gateway });
  const running = send(gateway, 5n, '', { session });
  const late = send(gateway, 5n, '', { session, prev: 2, msLeft: 100 });
  const behind = send(gateway, 5n, '', { session, prev: 3 });
  await settle();
  await pass(100);
  expect([running, late, behind].map(gateway.outcome)).toEqual(['none', 'UNAVAILABLE: Request timeout expired', LOST]);
  worker.finish();
  await settle();
});

test('R24: also one that is held', async () => {
  const { worker, gateway, pass } = await sequences();
  const session = await begun({ worker, gateway });
  const held = send(gateway, 5n, '', { session, prev: 7, g: 8, msLeft: 100 });
  await settle();
  await pass(99);
  expect(gateway.outcome(held)).toBe('none');
  await pass(1);
  expect(gateway.outcome(held)).toBe('UNAVAILABLE: Request timeout expired');
  expect(worker.frees).toEqual([session]);
});

test('R24: for 10 s at most, whatever else was held before', async () => {
  const { worker, gateway, pass } = await serving(
    'max_batch_size: 2 sequence_batching { max_sequence_idle_microseconds: 60000000 }',
  );
  const sessions = [await begun({ worker, gateway }, 5n), await begun({ worker, gateway }, 6n)];
  send(gateway, 5n, '', { session: sessions[0] ?? null, prev: 7, g: 8 });
  await settle();
  await pass(1_500);
  const held = send(gateway, 6n, '', { session: sessions[1] ?? null, prev: 7, g: 8 });
  await settle();
  await pass(9_999);
  expect(gateway.outcome(held)).toBe('none');
  await pass(1_001);
  expect(gateway.outcome(held)).toContain('sequence 6');
  expect(worker.frees).toEqual(sessions);
});

test('R37: a sequence of which a step waits for another is not idle', async () => {
  const { worker, gateway, pass } = await sequences();
  const session = await begun({ worker, gateway });
  const held = send(gateway, 5n, '', { session, id: 'gw-1:3', g: 3, prev: 2 });
  await settle();
  await pass(3_000);
  // What was lost comes again.
  const lost = send(gateway, 5n, '', { session, id: 'gw-1:2', g: 2, sends: 2 });
  for (const id of [lost, held]) {
    await settle();
    expect(batchesOf(worker)).toEqual([[id]]);
    worker.finish();
  }
  await pass(999);
  expect(worker.frees).toEqual([]);
  await pass(1);
  expect(worker.frees).toEqual([session]);
});

test('R37: an idle sequence ends, and its worker is told', async () => {
  const { worker, gateway, pass } = await sequences();
  const session = await begun({ worker, gateway });
  await pass(1_000);
  expect(worker.frees).toEqual([session]);
  const late = send(gateway, 5n, '', { session });
  await settle();
  expect(gateway.moved).toEqual([`${late} → null`]);
});

test('R37: an owner without a sure lease ends no idle sequence; its next owner counts anew', async () => {
  const world = await startedCluster([fakeModel('m', DIRECT)]);
  const gateway = world.gateway();
  const session = await begun({ worker: world.worker, gateway });
  world.worker.slots = [slotWith(session, 1)];
  await world.pass(999);
  world.unsure.add('m');
  await world.pass(1);
  world.unsure.clear();
  await world.pass(500);
  expect([world.directory.owner('m')?.number, world.worker.frees]).toEqual([2, []]);
  const end = send(gateway, 5n, 'end', { session });
  await settle();
  world.worker.slots = [];
  world.worker.finish();
  await settle();
  expect(gateway.outcome(end)).toBe('ok');
});

test('statistics count what ran, and the metric what lives', async () => {
  const { worker, gateway, metrics } = await serving(
    'max_batch_size: 1 sequence_batching { max_sequence_idle_microseconds: 1000000 }',
  );
  await begun({ worker, gateway });
  send(gateway, 6n, 'start');
  send(gateway, 7n, 'start');
  await settle();
  const text = await metrics();
  expect(text).toContain('nereid_sequences{model="m",version="1",place="slot"} 1');
  expect(text).toContain('nereid_sequences{model="m",version="1",place="backlog"} 2');
  expect(text).toContain('nv_inference_request_success{model="m",version="1"} 1');
  expect(text).toContain('nv_inference_pending_request_count{model="m",version="1"} 2');
});

test('while the owner stops, sequences go on and none begins', async () => {
  const { worker, gateway, coordinator } = await sequences();
  const session = await begun({ worker, gateway });
  const running = send(gateway, 5n, '', { session });
  await settle();
  const stopped = coordinator.stop();
  await settle();
  const start = send(gateway, 6n, 'start');
  const end = send(gateway, 5n, 'end', { session, prev: 2 });
  await settle();
  worker.finish();
  await settle();
  worker.finish();
  await stopped;
  expect([running, start, end].map(gateway.outcome)).toEqual([
    'ok',
    'UNAVAILABLE: Server is stopping, scheduler for model has stopped accepting new inference requests',
    'ok',
  ]);
});

/** The slot in which an earlier owner put the session, with what it has applied. */
const slotWith = (session: string, steps: number) => ({
  instance: 0,
  slot: 0,
  session,
  correlationId: 5n,
  bind: { epoch: 1, n: 1 },
  marks: [['gw-1', steps] as const],
  steps,
});

test('R9: the next owner learns what workers have; until all have said it, steps wait and new sequences begin', async () => {
  const world = await startedCluster([fakeModel('m', DIRECT)]);
  const other = await world.addWorker('wk-2');
  await world.startAnother('co-2');
  const gateway = world.gateway();
  const session = send(gateway, 5n, 'start');
  await settle();
  world.worker.finish();
  await settle();
  const running = send(gateway, 5n, '', { session });
  await settle();
  // Applied, and the answer was lost with the owner.
  world.worker.executes.splice(0);
  world.worker.slots = [slotWith(session, 2)];
  world.worker.slow = true;
  await world.killFirst();
  await world.pass(500);
  expect(ownerOf(world)).toBe('co-2');
  send(gateway, 5n, '', { session, id: running, g: 2, sends: 2 });
  const unknown = send(gateway, 6n, '', { session: 'gw-9:1' });
  const begins = send(gateway, 7n, 'start');
  await settle();
  expect([idsOf(world.worker), idsOf(other), gateway.moved]).toEqual([[], [begins], []]);
  world.worker.slow = false;
  await world.pass(1_000);
  expect(slotsOf(world.worker)).toEqual([[`${session}@0`]]);
  expect(idsOf(world.worker)).toEqual([running]);
  expect(gateway.moved).toEqual([`${unknown} → null`]);
  world.worker.finish('replayed');
  other.finish();
  await settle();
});

test('R9, R38: it asks workers that drain, too', async () => {
  const world = await startedCluster([fakeModel('m', DIRECT)]);
  await world.startAnother('co-2');
  const gateway = world.gateway();
  const session = send(gateway, 5n, 'start');
  await settle();
  world.worker.finish();
  await world.addWorker('wk-2');
  await world.worker.drain();
  world.worker.slots = [slotWith(session, 1)];
  await settle();
  await world.killFirst();
  await world.pass(500);
  const step = send(gateway, 5n, '', { session });
  await settle();
  expect(idsOf(world.worker)).toEqual([step]);
  expect(world.worker.controls.map(({ action }) => action)).toEqual(['load']);
  world.worker.finish();
  await settle();
});

test('an owner that hands over does not wait for what waits for another step', async () => {
  const world = await startedCluster([fakeModel('m', DIRECT)]);
  await world.startAnother('co-2');
  const gateway = world.gateway();
  const session = send(gateway, 5n, 'start');
  await settle();
  world.worker.finish();
  await settle();
  send(gateway, 5n, '', { session, prev: 7, g: 8 });
  await settle();
  await world.coordinator.stop();
  await world.pass(250);
  expect(ownerOf(world)).toBe('co-2');
  expect(world.worker.frees).toEqual([]);
});
