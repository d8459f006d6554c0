import { describe, expect, test } from 'vitest';
import { desiredWorkers } from './desired-workers.ts';
import { choosePlacement, type PlacementWorker } from './placement.ts';

const GIB = 1024 ** 3;
const cpu = (used: number, idle_ms: number | null = null, fixed = 0) => [
  { device: 'cpu', budget: 10 * GIB, used: used * GIB, fixed: fixed * GIB, idle_ms },
];
const worker = (id: string, rest: Partial<PlacementWorker> = {}): PlacementWorker => ({
  id,
  lacks: '',
  holds: 'no',
  cost: { cpu: 4 * GIB },
  devices: cpu(0),
  drawn: id,
  ...rest,
});

describe('the worker that loads a model', () => {
  test.each<readonly [string, readonly PlacementWorker[], string | undefined]>([
    ['is nobody where there is none', [], undefined],
    ['holds it', [worker('a'), worker('b', { holds: 'ready', devices: cpu(10) })], 'b'],
    ['is loading it', [worker('a'), worker('b', { holds: 'loading', devices: cpu(10) })], 'b'],
    ['has room', [worker('a', { devices: cpu(8, 9000) }), worker('b', { devices: cpu(6) })], 'b'],
    ['has no budget on its device', [worker('a', { devices: cpu(8) }), worker('b', { devices: [] })], 'b'],
    ['has what has been idle longest', [worker('a', { devices: cpu(9, 5) }), worker('b', { devices: cpu(9, 7) })], 'b'],
    ['has something that may go', [worker('b', { devices: cpu(9) }), worker('a', { devices: cpu(9, 0) })], 'a'],
    ['is full and busy', [worker('a', { devices: cpu(9) }), worker('b', { lacks: 'no label' })], 'a'],
    ['is none that it can never fit on', [worker('a', { devices: cpu(9, 50, 7) })], undefined],
    ['is none that lacks something', [worker('a', { lacks: 'no worker carries zone=a' })], undefined],
    [
      'is drawn among equals',
      [worker('a', { drawn: '7' }), worker('b', { drawn: '9' }), worker('c', { drawn: '8' })],
      'b',
    ],
  ])('%s', (_, workers, chosen) => {
    expect(choosePlacement(workers).chosen).toBe(chosen);
  });

  test('is told with figures, as are the others', () => {
    const workers = [
      worker('a', { devices: cpu(9, 5) }),
      worker('b', { devices: cpu(3) }),
      worker('c', { devices: cpu(9) }),
      worker('d', { devices: cpu(9, 5, 8) }),
      worker('e', { lacks: 'it drains' }),
    ];
    expect(choosePlacement(workers).considered).toEqual([
      { worker: 'b', standing: 'room', why: '7 GiB of 10 GiB are free on cpu' },
      {
        worker: 'a',
        standing: 'evicts',
        why: '1 GiB of 10 GiB are free on cpu; what goes first has been idle for 5 ms',
      },
      { worker: 'c', standing: 'waits', why: '1 GiB of 10 GiB are free on cpu, and nothing there may go now' },
      { worker: 'd', standing: 'never', why: 'it needs 4 GiB on cpu, where 2 GiB can be had at most' },
      { worker: 'e', standing: 'lacks', why: 'it drains' },
    ]);
  });
});

describe('workers that a model wants', () => {
  test.each([
    [{ waiting: 0, running: 0, instances: 1, batch: 8, scaleToZero: true }, 0],
    [{ waiting: 0, running: 0, instances: 1, batch: 8, scaleToZero: false }, 1],
    [{ waiting: 1, running: 0, instances: 1, batch: 8, scaleToZero: true }, 1],
    [{ waiting: 9, running: 0, instances: 1, batch: 8, scaleToZero: true }, 2],
    [{ waiting: 30, running: 3, instances: 2, batch: 8, scaleToZero: true }, 3],
    [{ waiting: 2, running: 1, instances: 0, batch: 0, scaleToZero: true }, 3],
  ])('%o: %i', (work, workers) => {
    expect(desiredWorkers(work)).toBe(workers);
  });
});
