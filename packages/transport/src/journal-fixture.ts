/** What the suites of the journal share. */
import type { RecordedStep, RecordedTensor } from '@nereid/protocol';
import type { JournalBounds, NewStep } from './journal.ts';
import { recordingId } from './journal-names.ts';

export const BOUNDS: JournalBounds = {
  steps: 1_000,
  recording_bytes: 67_108_864,
  recordings: 100,
  bytes: 268_435_456,
  age_s: 3_600,
};

export function recordedTensor(name: string, bytes: number, fill = 0): RecordedTensor {
  return { name, datatype: 'UINT8', shape: [bytes], data: new Uint8Array(bytes).fill(fill) };
}

export function recordedStep(step: number, more: Partial<RecordedStep> = {}): RecordedStep {
  return {
    step,
    token: `gw-1:${step}`,
    request: {
      id: `c${step}`,
      correlationId: 18446744073709551615n,
      sequenceStart: step === 0,
      sequenceEnd: false,
      priority: 0n,
      timeoutUs: 0n,
      parameters: {},
      inputs: [recordedTensor('A', 8, step)],
      requestedOutputs: [],
    },
    modelVersion: '1',
    configSha256: 'c',
    contentHash: 'h',
    worker: 'wk-1',
    instance: 0,
    slot: 0,
    batchSize: 1,
    receivedMs: 1_790_000_000_000.25 + step,
    timing: { waitNs: 1, inputNs: 2, inferNs: 3, outputNs: 4 },
    effect: 'applied',
    answers: [{ ok: true, parameters: {}, outputs: [recordedTensor('B', 4, step)] }],
    ...more,
  };
}

/** Steps `from` to `until`, that one not, of a sequence; all but the last leave it open. */
export function stepsOf(session: string, from: number, until: number, more: Partial<NewStep> = {}): NewStep[] {
  const model = more.model ?? 'm';
  return Array.from({ length: until - from }, (_, index) => ({
    id: recordingId(model, session),
    model,
    kind: 'sequence' as const,
    step: recordedStep(from + index),
    state: 'open' as const,
    ...more,
  }));
}
