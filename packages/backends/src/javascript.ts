/**
 * Models that are JavaScript modules (`backend: "javascript"`, `model.mjs`). The module is imported
 * anew at each load, in its instance's own thread, so instances share nothing.
 */
import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type ModelSignature, modelShape } from '@nereid/config';
import { NereidError, thrownText } from '@nereid/protocol';
import type { Backend, BackendInstance, Batch, BatchResult, InstanceLoad } from './backend.ts';
import { batchInputTensors } from './batch-inputs.ts';
import type { ModelContext, ModelModule, ModelTensor } from './javascript-model.ts';
import { modelRequest, modelTensor, type ReshapedInputs } from './javascript-request.ts';
import { modelError, modelOutcome } from './javascript-response.ts';
import { isResponseStream, onlyOutcome, outcomeStream } from './javascript-stream.ts';

const DEFAULT_FILENAME = 'model.mjs';

/**
 * The `javascript` backend. A load fails with UNAVAILABLE for a missing file, INVALID_ARG for a
 * module without `execute`, and with what the module itself throws (INTERNAL unless its `code`
 * says otherwise).
 */
export const javascriptBackend: Backend = {
  name: 'javascript',
  async load(load: InstanceLoad): Promise<BackendInstance> {
    const { signature } = load;
    const module = await importModel(load);
    try {
      await module.initialize?.({
        modelConfig: JSON.parse(load.configJson),
        instanceName: load.instanceName,
        device: load.device,
        version: load.version,
        context: modelContext(load),
      });
    } catch (cause) {
      throw thrownAtLoad(signature.name, 'initialize failed', cause);
    }
    const reshaped = reshapedInputs(signature);
    return {
      needsRequests: true,
      execute: (batch) => execute(signature, load.version, module, reshaped, batch),
      async finalize() {
        await module.finalize?.();
      },
    };
  },
};

async function importModel(load: InstanceLoad): Promise<ModelModule> {
  const filename = load.config.defaultModelFilename || DEFAULT_FILENAME;
  const path = join(load.versionDirectory, filename);
  try {
    await stat(path);
  } catch (cause) {
    throw new NereidError('UNAVAILABLE', `unable to find '${path}' for model instance '${load.instanceName}'`, {
      cause,
    });
  }
  const url = pathToFileURL(path);
  // Node caches modules by URL: without this a reload would run the old code.
  url.searchParams.set('load', randomUUID());
  let module: Partial<ModelModule>;
  try {
    module = await import(url.href);
  } catch (cause) {
    throw thrownAtLoad(load.config.name, `cannot import ${filename}`, cause);
  }
  const { initialize, execute, finalize } = module;
  if (typeof execute !== 'function') {
    throw new NereidError('INVALID_ARG', `model '${load.config.name}': ${filename} must export a function 'execute'`);
  }
  return {
    execute,
    ...(typeof initialize === 'function' ? { initialize } : {}),
    ...(typeof finalize === 'function' ? { finalize } : {}),
  };
}

function thrownAtLoad(model: string, what: string, cause: unknown): NereidError {
  const { code, message } = modelError(cause instanceof Error ? cause : new Error(thrownText(cause)));
  return new NereidError(code, `model '${model}': ${what}: ${message}`, { cause });
}

function modelContext(load: InstanceLoad): ModelContext {
  const notYet = (what: string) =>
    new NereidError('UNSUPPORTED', `${what} is not available to JavaScript models yet (model '${load.config.name}')`);
  return {
    log: load.log,
    async infer() {
      throw notYet('context.infer');
    },
    get metrics(): unknown {
      throw notYet('context.metrics');
    },
  };
}

const NO_BATCH_INPUTS: ReadonlyMap<string, ModelTensor> = new Map();

function batchInputs(signature: ModelSignature, batch: Batch): ReadonlyMap<string, ModelTensor> {
  if (signature.batchInputs.length === 0) return NO_BATCH_INPUTS;
  return new Map(batchInputTensors(signature, batch).map((made) => [made.name, modelTensor(made)]));
}

function reshapedInputs(signature: ModelSignature): ReshapedInputs {
  const batching = signature.maxBatchSize > 0;
  const reshaped = signature.inputs.filter((input) => input.reshape !== null);
  return new Map(reshaped.map((input) => [input.name, (shape) => modelShape(input, shape, batching)]));
}

async function execute(
  signature: ModelSignature,
  version: string,
  module: ModelModule,
  reshaped: ReshapedInputs,
  batch: Batch,
): Promise<BatchResult> {
  const requests = batch.requests.map((request) => modelRequest(request, reshaped));
  let returned: unknown;
  try {
    returned = await module.execute(requests, batchInputs(signature, batch));
  } catch (cause) {
    throw new NereidError('INTERNAL', thrownText(cause), { cause });
  }
  if (!Array.isArray(returned) || returned.length !== requests.length) {
    const what = Array.isArray(returned) ? `${returned.length} responses` : `no array of responses`;
    throw new NereidError('INTERNAL', `model '${signature.name}' returned ${what} for ${requests.length} requests`);
  }
  const outcomes = batch.requests.map(({ request }, index) => {
    const outcome = (answer: unknown) => modelOutcome(signature, request, version, answer);
    const answer: unknown = returned[index];
    if (!isResponseStream(answer)) return outcome(answer);
    const stream = outcomeStream(answer, outcome);
    return signature.decoupled ? stream : onlyOutcome(stream);
  });
  return { kind: 'each', outcomes: await Promise.all(outcomes) };
}
