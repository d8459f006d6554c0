import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { backendNamed } from '@nereid/backends';
import { modelConfigJson, modelSignature, parseModelConfig } from '@nereid/config';
import type { Tensor } from '@nereid/protocol';
import { packBatch } from './batch-frame.ts';
import { noCaller } from './fixture-line.ts';
import { loadInitialStates } from './initial-states.ts';
import { createInstanceCancels } from './instance-cancels.ts';
import {
  type InstanceSetup,
  isBuffers,
  type RequestDetail,
  type RunOutcome,
  type StreamChunk,
} from './instance-messages.ts';
import { splitTensor } from './join-split.ts';
import { openResult } from './result-frame.ts';
import { type LoadedModel, runBatch } from './run-batch.ts';
import { createSequenceRunner } from './sequence-run.ts';
import { request } from './worker-harness.ts';

const ONNX_FIXTURES = fileURLToPath(new URL('../../backends/fixtures', import.meta.url));
const RECORDED = fileURLToPath(new URL('../../../test/conformance/repo/onnx', import.meta.url));

export interface FixtureStep {
  readonly id: bigint | string;
  readonly slot: number;
  readonly start?: boolean;
  readonly end?: boolean;
  readonly inputs: readonly Tensor[];
}

export interface SequenceModel {
  readonly model: LoadedModel;
  /** What an instance's thread makes of a batch of these steps. */
  run(...steps: readonly FixtureStep[]): Promise<RunOutcome[]>;
  /** Chunks that were sent. */
  readonly chunks: StreamChunk[];
  close(): Promise<void>;
}

/** For tests: an ONNX model with sequences of this package's fixtures, or of those of the recorded cases. */
export function onnxSequences(name: string, recorded = false): Promise<SequenceModel> {
  return sequenceModel(join(recorded ? RECORDED : ONNX_FIXTURES, name));
}

/** For tests: a JavaScript model of this source. */
export async function javascriptSequences(source: string, config: string): Promise<SequenceModel> {
  const directory = await mkdtemp(join(tmpdir(), 'nereid-sequences-'));
  await mkdir(join(directory, '1'));
  await writeFile(join(directory, '1', 'model.mjs'), source);
  await writeFile(join(directory, 'config.pbtxt'), `name: "m" backend: "javascript" ${config}`);
  const loaded = await sequenceModel(directory);
  return {
    ...loaded,
    async close() {
      await loaded.close();
      await rm(directory, { recursive: true });
    },
  };
}

/** For tests: what an instance of a model of the fixtures, or of the recorded cases, is told to load. */
export async function sequenceSetup(name: string, recorded = false): Promise<InstanceSetup> {
  return readSetup(join(recorded ? RECORDED : ONNX_FIXTURES, name));
}

async function readSetup(modelDirectory: string): Promise<InstanceSetup> {
  const config = parseModelConfig(await readFile(join(modelDirectory, 'config.pbtxt'), 'utf8'), 'config.pbtxt');
  return {
    config,
    signature: modelSignature(config),
    configJson: modelConfigJson(config),
    version: '1',
    modelDirectory,
    versionDirectory: join(modelDirectory, '1'),
    instanceName: 'm_0',
    device: { kind: 'cpu', id: 0 },
    settings: {},
    warmup: [],
    callsMax: 0,
  };
}

async function sequenceModel(modelDirectory: string): Promise<SequenceModel> {
  const setup = await readSetup(modelDirectory);
  const { signature } = setup;
  const backend = await backendNamed(setup.config.backend);
  const instance = await backend.load({
    ...setup,
    log: { info() {}, warn() {}, error() {} },
    calls: { open: noCaller },
  });
  const initial = await loadInitialStates(signature, modelDirectory);
  const { sequence } = signature;
  const sequences = sequence && createSequenceRunner({ signature, sequence, instance, initial });
  const model: LoadedModel = { signature, version: '1', instance, sequences };
  const cancels = createInstanceCancels();
  const chunks: StreamChunk[] = [];
  let number = 0;
  return {
    model,
    chunks,
    async run(...steps) {
      const requests = steps.map(({ inputs }) => request(inputs));
      const details = steps.map(({ id, start = false, end = false, slot }): RequestDetail => {
        return ['r', id, start, end, 0n, 0n, {}, [], slot];
      });
      const frame = packBatch(signature, requests, ++number, 0, (size) => new ArrayBuffer(size));
      const line = { send: (_: number, chunk: StreamChunk) => void chunks.push(chunk), room: () => undefined };
      const { report } = await runBatch(model, frame, details, cancels, line);
      if (!(report instanceof ArrayBuffer) && !isBuffers(report)) {
        return report.kind === 'outcomes' ? [...report.outcomes] : [];
      }
      const [head = new ArrayBuffer(0), ...others] = report instanceof ArrayBuffer ? [report] : report;
      const { outputs } = openResult(signature, head, others);
      const ones = steps.map(() => 1);
      const split = outputs.map((output) => splitTensor(output, ones));
      return steps.map((_, index) => ({
        ok: true,
        parameters: {},
        outputs: split.flatMap((parts) => parts[index] ?? []),
      }));
    },
    close: () => instance.finalize(),
  };
}
