/** Recordings in memory, and steps to put into them; only tests import this. */
import { encodeModelConfig, type ModelRecord } from '@nereid/config';
import {
  type ErrorInfo,
  type RecordedAnswer,
  type RecordedStep,
  type RecordedTensor,
  type Recording,
  sha256,
  type Tensor,
} from '@nereid/protocol';
import { type JournalReader, parseRecordingId } from '@nereid/transport';

export function int32(name: string, ...values: number[]): Tensor {
  return { name, datatype: 'INT32', shape: [1, values.length], data: new Uint8Array(Int32Array.from(values).buffer) };
}

export function outputs(...tensors: RecordedTensor[]): RecordedAnswer {
  return { ok: true, parameters: {}, outputs: tensors };
}

export function failure(error: ErrorInfo): RecordedAnswer {
  return { ok: false, error };
}

type StepParts = Partial<Omit<RecordedStep, 'request'>> & { readonly request?: Partial<RecordedStep['request']> };

/** A step number `step` that has one input and one answer. */
export function recordedStep(step: number, { request, ...rest }: StepParts = {}): RecordedStep {
  return {
    step,
    token: `gw-0:${step + 1}`,
    request: {
      id: '',
      correlationId: 5n,
      sequenceStart: step === 0,
      sequenceEnd: false,
      priority: 0n,
      timeoutUs: 0n,
      parameters: {},
      inputs: [int32('INPUT', step)],
      requestedOutputs: [],
      ...request,
    },
    modelVersion: '1',
    configSha256: '',
    contentHash: '',
    worker: 'wk-1',
    instance: 0,
    slot: 0,
    batchSize: 1,
    receivedMs: 1_000 + step * 100,
    timing: { waitNs: 1, inputNs: 2, inferNs: 3, outputNs: 4 },
    effect: 'applied',
    answers: [outputs(int32('OUTPUT', step))],
    ...rest,
  };
}

export function recordingOf(id: string, steps: readonly RecordedStep[], parts: Partial<Recording> = {}): Recording {
  return {
    id,
    model: parseRecordingId(id)?.model ?? '',
    version: '1',
    kind: 'sequence',
    correlationId: 5n,
    requestId: '',
    state: 'ended',
    steps: steps.length,
    bytes: 100,
    startedMs: steps[0]?.receivedMs ?? 0,
    lastMs: steps.at(-1)?.receivedMs ?? 0,
    worker: 'wk-1',
    configSha256: '',
    contentHash: '',
    imported: false,
    ...parts,
  };
}

/** As the worker has it. */
export function configSha256({ config }: ModelRecord): string {
  return sha256(Buffer.from(encodeModelConfig(config)));
}

export interface MemoryJournal extends JournalReader {
  /** As the worker would have. */
  add(recording: Recording, steps: readonly RecordedStep[]): void;
}

export function memoryJournal(): MemoryJournal {
  const kept = new Map<string, { readonly recording: Recording; readonly steps: readonly RecordedStep[] }>();
  const add = (recording: Recording, steps: readonly RecordedStep[]) =>
    void kept.set(recording.id, { recording, steps });
  return {
    add,
    models: async () => [...new Set([...kept.values()].map(({ recording }) => recording.model))],
    async list({ model, limit, after }) {
      const all = [...kept.values()].map(({ recording }) => recording).filter((recording) => recording.model === model);
      all.sort((a, b) => b.startedMs - a.startedMs);
      const begin = after === '' ? 0 : all.findIndex(({ id }) => `@${id}` === after) + 1;
      const recordings = all.slice(begin, begin + limit);
      return { recordings, next: recordings.length < limit ? '' : `@${recordings.at(-1)?.id}` };
    },
    find: async (id) => kept.get(id)?.recording,
    steps: async (id, from, limit) => kept.get(id)?.steps.slice(from, from + limit) ?? [],
    remove: async (id) => kept.delete(id),
    async put(recording, steps) {
      const held: RecordedStep[] = [];
      for await (const step of steps) held.push(step);
      const whole = { ...recording, steps: held.length };
      add(whole, held);
      return whole;
    },
  };
}
