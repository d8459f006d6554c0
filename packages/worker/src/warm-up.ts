/** Warm-up of an instance, on its thread or process: the model's samples, run as batches are before any batch comes. */
import { createCipheriv } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { WarmupInput, WarmupSample } from '@nereid/config';
import {
  DATATYPE_BYTES,
  elementCount,
  type InferRequest,
  NereidError,
  REQUEST_DEFAULTS,
  type Tensor,
} from '@nereid/protocol';
import { packBatch } from './batch-frame.ts';
import { createInstanceCancels } from './instance-cancels.ts';
import { isBuffers, type RequestDetail, type RunOutcome } from './instance-messages.ts';
import { type LoadedModel, type PackedReport, runBatch } from './run-batch.ts';
import { sharedNowNs } from './shared-now.ts';

/** As `@nereid/config` has it, which is not loaded here: that takes longer than starting a thread. */
const WARMUP_FOLDER = 'warmup';
/** Of an element of a BYTES tensor. */
const LENGTH_BYTES = 4;
/** The same random data at each load, so that a sample that fails fails again. */
const RANDOM_KEY = Buffer.alloc(16, 'nereid warm-up');
/** Of a model with sequences, each request is a whole sequence, in a slot of its own. */
const detailOf = (slot: number): RequestDetail => ['', BigInt(slot + 1), true, true, 0n, 0n, {}, [], slot];

/**
 * Runs each sample as often as it says, in order, and drops the answers; a decoupled model's streams
 * are read to their ends. Nothing of it is told to the worker, so it counts nowhere. Returns early
 * once `isStopped`.
 * Throws INVALID_ARG, in Triton's words (backend_model_instance.cc), for the first execution of which a request fails.
 */
export async function warmUp(
  model: LoadedModel,
  samples: readonly WarmupSample[],
  modelDirectory: string,
  isStopped: () => boolean | Promise<boolean>,
): Promise<void> {
  const cancels = createInstanceCancels();
  // None that a batch has: no call that is made for a sample's requests is one for a client's.
  let sequence = 0;
  for (const sample of samples) {
    const requests = await sampleRequests(model, sample, modelDirectory);
    const details = needsDetails(model) ? requests.map((_, index) => detailOf(index)) : [];
    for (let run = 0; run < sample.count && !(await isStopped()); run++) {
      const errors = new Set<string>();
      const note = (outcome: RunOutcome) => {
        if (!outcome.ok) errors.add(outcome.error.message);
      };
      const frame = packBatch(model.signature, requests, --sequence, sharedNowNs(), (size) => new ArrayBuffer(size));
      const line = {
        send: (_: number, chunk: { outcome: RunOutcome }) => note(chunk.outcome),
        room: () => undefined,
      };
      const { report } = await runBatch(model, frame, details, cancels, line);
      for (const outcome of outcomesOf(report)) note(outcome);
      if (errors.size > 0) throw failed(sample, [...errors]);
    }
  }
}

function needsDetails({ instance, sequences }: LoadedModel): boolean {
  return instance.needsRequests || sequences !== undefined;
}

/** A joined result is one of all requests, none of which has failed then. */
function outcomesOf(report: PackedReport['report']): readonly RunOutcome[] {
  return report instanceof ArrayBuffer || isBuffers(report) || report.kind !== 'outcomes' ? [] : report.outcomes;
}

function failed({ name }: WarmupSample, errors: readonly string[]): NereidError {
  return new NereidError('INVALID_ARG', `failed to run warmup sample '${name}': ${errors.join('; ')}`);
}

/** `batchSize` requests of one row each, which share their data. */
async function sampleRequests(
  { signature, version }: LoadedModel,
  sample: WarmupSample,
  modelDirectory: string,
): Promise<InferRequest[]> {
  const inputs: Tensor[] = [];
  for (const [index, input] of sample.inputs.entries()) {
    const { name, datatype, shape } = input;
    try {
      inputs.push({ name, datatype, shape, data: await inputData(input, index, modelDirectory) });
    } catch (cause) {
      throw failed(sample, [`input '${name}': ${cause instanceof Error ? cause.message : String(cause)}`]);
    }
  }
  const request = { ...REQUEST_DEFAULTS, modelName: signature.name, modelVersion: version, inputs };
  return Array.from({ length: sample.batchSize }, () => request);
}

/** As Triton makes them: zeroed bytes, which are false, 0 or empty texts; random bits, but empty texts; a file as it is. */
async function inputData(
  { datatype, shape, bytes }: WarmupInput,
  index: number,
  modelDirectory: string,
): Promise<Uint8Array> {
  if (bytes.kind === 'file') return readFile(join(modelDirectory, WARMUP_FOLDER, bytes.file));
  const zeros = new Uint8Array((DATATYPE_BYTES[datatype] || LENGTH_BYTES) * (elementCount(shape) ?? 0));
  if (bytes.kind === 'zero' || datatype === 'BYTES') return zeros;
  const random = createCipheriv('aes-128-ctr', RANDOM_KEY, Buffer.alloc(16, index)).update(zeros);
  // Any other byte would be a bool that no client can send.
  return datatype === 'BOOL' ? random.map((byte) => byte & 1) : random;
}
