import { createLog, systemClock } from '@nereid/runtime';
import { describe, expect, it } from 'vitest';
import { type Carrier, startCarrier } from './carrier.ts';
import { noCaller } from './fixture-line.ts';
import { sequenceSetup } from './fixture-sequences.ts';
import type { InstanceBatch } from './instance-batch.ts';
import type { RunOutcome } from './instance-messages.ts';
import { processLine } from './process-line.ts';
import { spawnProcess } from './spawn-process.ts';
import { spawnThread } from './spawn-thread.ts';
import { threadLine } from './thread-line.ts';
import { bytes, request } from './worker-harness.ts';

const log = createLog({ level: 'silent' });
const clock = systemClock();
const LINES = [
  ['thread', threadLine(spawnThread)],
  ['process', processLine(spawnProcess, { prefix: [] }, clock, log)],
] as const;

interface Said {
  readonly id: bigint | string;
  readonly slot: number;
  readonly text: string;
  readonly start?: boolean;
}

function batchOf(steps: readonly Said[], settle: InstanceBatch['settle']): InstanceBatch {
  return {
    batch: 1,
    requests: steps.map(({ id, text, start = false }) =>
      request([bytes('TEXT', [1, 1], [Buffer.from(text)])], { correlationId: id, sequenceStart: start }),
    ),
    slots: steps.map(({ slot }) => slot),
    receivedNs: 0,
    cancelled: undefined,
    settle,
  };
}

function texts(outcome: RunOutcome | undefined): unknown {
  if (outcome?.ok !== true) return outcome?.error;
  return outcome.outputs
    .filter(({ datatype }) => datatype === 'BYTES')
    .map(({ data }) => Buffer.from(data.subarray(4)).toString());
}

describe.each(LINES)('in a %s', (_kind, open) => {
  it('steps keep their slots, ids of any kind and states', async () => {
    const setup = await sequenceSetup('sequence_text');
    let over = () => {};
    const ended = new Promise<void>((resolve) => {
      over = resolve;
    });
    const carrier = await new Promise<Carrier>((resolve, reject) => {
      const started: Carrier = startCarrier({
        setup,
        open,
        clock,
        log,
        executionTimeoutMs: undefined,
        caller: noCaller,
        loaded: () => resolve(started),
        returned() {},
        ended: (why) => {
          reject(new Error(why.message));
          over();
        },
      });
    });
    const run = (...steps: readonly Said[]) =>
      new Promise<unknown[]>((resolve) => {
        carrier.post(batchOf(steps, ({ outcomes }) => resolve(outcomes.map(texts))));
      });
    const big = 2n ** 64n - 1n;
    const first = await run(
      { id: 'naïve-✓', slot: 2, text: 'one', start: true },
      { id: big, slot: 0, text: 'un', start: true },
    );
    expect(first).toEqual([
      ['', 'naïve-✓'],
      ['', String(big)],
    ]);
    expect(await run({ id: big, slot: 0, text: 'deux' }, { id: 'naïve-✓', slot: 2, text: 'two' })).toEqual([
      ['un', String(big)],
      ['one', 'naïve-✓'],
    ]);
    carrier.stop();
    await ended;
  });
});
