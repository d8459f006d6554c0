import { describe, expect, test } from 'vitest';
import { COLUMNS, isDefault } from './columns.mjs';
import { estimateSeconds, plan, takesPart } from './plan.mjs';

const wishes = { quick: false, only: [], concurrencies: [], columns: COLUMNS, isDefault };
const FULL_S_MAX = 40 * 60;
const QUICK_S_MAX = 5 * 60;
/** What repeated turns may add, and what starting takes on a slow machine. */
const RESERVE = 1.2;

describe('plan', () => {
  test.each([
    ['the whole suite in less than 40 minutes', false, FULL_S_MAX],
    ['--quick in less than 5', true, QUICK_S_MAX],
  ])('%s', (_, quick, most) => {
    expect(estimateSeconds(plan({ ...wishes, quick })) * RESERVE).toBeLessThan(most);
  });

  test('five turns at least, of two seconds', () => {
    const { times } = plan(wishes);
    expect(times.turns).toBeGreaterThanOrEqual(5);
    expect(times.seconds).toBe(2);
  });

  test('add_sub in every concurrency and encoding of HTTP, over gRPC at 1 and 64, each other row in binary at 1 and 32', () => {
    const { cells } = plan(wishes);
    const of = (name: string) => cells.filter(({ row }) => row.name === name);
    const asked = of('add_sub').map(({ encoding, concurrency }) => `${encoding} ${concurrency}`);
    const all = ['binary', 'json'].flatMap((encoding) => [1, 8, 32, 64].map((count) => `${encoding} ${count}`));
    expect(asked.sort()).toEqual([...all, 'grpc 1', 'grpc 64'].sort());
    for (const name of ['mlp', 'mlp_1024x8', 'minilm', 'silero_vad', 'identity_600k', 'sleep10']) {
      const binary = of(name).filter(({ encoding }) => encoding === 'binary');
      expect(binary.map(({ concurrency }) => concurrency)).toEqual(expect.arrayContaining([1, 32]));
    }
    expect(of('jobs').map(({ concurrency }) => concurrency)).toEqual([1, 32]);
  });

  test('--only names rows and columns', () => {
    const chosen = plan({ ...wishes, only: ['mlp', 'jobs', 'one', 'raw'] });
    expect(new Set(chosen.cells.map(({ row }) => row.name))).toEqual(new Set(['mlp', 'jobs']));
    expect(chosen.columns.map(({ name }) => name)).toEqual(['one']);
    expect(chosen.raw).toBe(true);
    expect(plan({ ...wishes, only: ['one'] }).raw).toBe(false);
    expect(() => plan({ ...wishes, only: ['nobody'] })).toThrow('nobody is none of');
  });

  test('a column of another build is meant with its column', () => {
    const other = { name: 'old:one', serves: () => true };
    const chosen = plan({ ...wishes, columns: [...COLUMNS, other], only: ['one'] });
    expect(chosen.columns.map(({ name }) => name)).toEqual(['one', 'old:one']);
  });

  test('jobs are for Nereid and for the queue that it is compared with', () => {
    const [cell] = plan({ ...wishes, only: ['jobs'] }).cells;
    const taking = COLUMNS.filter((column) => cell !== undefined && takesPart(column, cell)).map(({ name }) => name);
    expect(taking).toEqual(['one', 'apart', 'doors', 'fastify-bullmq']);
  });

  test('over gRPC: Nereid, Triton, and what the library itself takes', () => {
    const cell = plan({ ...wishes, only: ['add_sub'] }).cells.find(({ encoding }) => encoding === 'grpc');
    const taking = COLUMNS.filter((column) => cell !== undefined && takesPart(column, cell)).map(({ name }) => name);
    expect(taking).toEqual(['one', 'apart', 'doors', 'triton', 'grpc-echo']);
  });
});
