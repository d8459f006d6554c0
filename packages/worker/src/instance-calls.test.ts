import { describe, expect, test } from 'vitest';
import { TAKEN_CHUNKS_MIN } from './chunk-window.ts';
import { answerWith } from './fixture-caller.ts';
import { createInstanceCalls } from './instance-calls.ts';
import type { InstanceReport } from './instance-messages.ts';
import { int32, int32Values, request } from './worker-harness.ts';

/** The calls of an instance that may have two open. */
function called() {
  const reports: InstanceReport[] = [];
  const calls = createInstanceCalls({ instance: 'm_0', calls_max: 2, post: ({ report }) => void reports.push(report) });
  return {
    calls,
    reports,
    open: () => calls.open(request([int32('X', [1], [5])]), undefined),
    answer: (call: number, last = true) =>
      calls.take({ kind: 'answer', call, outcome: answerWith([call]), last, decoupled: !last, bytes: 4 }),
    kinds: () => reports.map((report) => ('kind' in report ? report.kind : 'frame')),
  };
}

const codeOf = async (next: Promise<{ readonly outcome: { readonly ok: boolean; readonly error?: unknown } }>) =>
  (await next).outcome;

describe('calls of an instance', () => {
  test('are told with a copy of their inputs, and answered by number', async () => {
    const { open, answer, reports } = called();
    const data = new Uint8Array(Int32Array.of(0, 5).buffer, 4);
    const [first, second] = [open(), open()];
    answer(2);
    answer(1);
    expect(await Promise.all([first.next(), second.next()])).toMatchObject([
      { outcome: answerWith([1]) },
      { outcome: answerWith([2]) },
    ]);
    const [told] = reports;
    const input = told !== undefined && 'kind' in told && told.kind === 'call' ? told.request.inputs[0] : undefined;
    expect(int32Values(input)).toEqual(int32Values({ name: 'X', datatype: 'INT32', shape: [1], data }));
  });

  test('beyond the bound are refused until one is over', async () => {
    const { open, answer } = called();
    open();
    open();
    expect(await codeOf(open().next())).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
    answer(1);
    const third = open();
    answer(3);
    expect(await codeOf(third.next())).toMatchObject({ ok: true });
  });

  test('are left once, and not when they are over', () => {
    const { open, answer, kinds } = called();
    const over = open();
    answer(1);
    over.cancel();
    open().cancel();
    expect(kinds()).toEqual(['call', 'call', 'call-left']);
  });

  test('say what has been read of a stream, up to its end', async () => {
    const { open, answer, reports } = called();
    const stream = open();
    for (let i = 0; i < TAKEN_CHUNKS_MIN; i++) answer(1, false);
    for (let i = 0; i < TAKEN_CHUNKS_MIN; i++) await stream.next();
    expect(reports.at(-1)).toEqual({
      kind: 'call-read',
      call: 1,
      chunks: TAKEN_CHUNKS_MIN,
      bytes: 4 * TAKEN_CHUNKS_MIN,
    });
  });

  test('end with the instance, which takes no more', async () => {
    const { calls, open, answer, kinds } = called();
    const left = open();
    calls.close();
    answer(1);
    expect(await codeOf(left.next())).toMatchObject({ ok: false, error: { code: 'CANCELLED' } });
    expect(await codeOf(open().next())).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
    expect(kinds()).toEqual(['call', 'call-left']);
  });
});
