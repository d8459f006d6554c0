/**
 * Models that are JavaScript modules (`backend: "javascript"`, `model.mjs`). The module is imported
 * anew at each load, in its instance's own thread, so instances share nothing.
 */
import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ModelSignature } from '@nereid/config';
import { modelShape } from '@nereid/config/reshape.js';
import { NereidError, thrownText } from '@nereid/protocol';
import type { Backend, BackendInstance, Batch, BatchRequest, BatchResult, InstanceLoad } from './backend.ts';
import { batchInputTensors } from './batch-inputs.ts';
import { contextInfer } from './javascript-call.ts';
import type { ModelContext, ModelModule, ModelRequest, ModelTensor } from './javascript-model.ts';
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
    const origins: Origins = new WeakMap();
    try {
      await module.initialize?.({
        modelConfig: JSON.parse(load.configJson),
        instanceName: load.instanceName,
        device: load.device,
        version: load.version,
        context: modelContext(load, origins),
      });
    } catch (cause) {
      throw thrownAtLoad(signature.name, 'initialize failed', cause);
    }
    const loaded = { signature, version: load.version, module, reshaped: reshapedInputs(signature), origins };
    return {
      needsRequests: true,
      execute: (batch) => execute(loaded, batch),
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

function modelContext(load: InstanceLoad, origins: Origins): ModelContext {
  return {
    log: load.log,
    infer: contextInfer(load.calls, (request) => origins.get(request)),
    get metrics(): unknown {
      const text = `context.metrics is not available to JavaScript models yet (model '${load.config.name}')`;
      throw new NereidError('UNSUPPORTED', text);
    },
  };
}

/** What the requests that a model has were made of. */
type Origins = WeakMap<ModelRequest, BatchRequest>;

interface LoadedModule {
  readonly signature: ModelSignature;
  readonly version: string;
  readonly module: ModelModule;
  readonly reshaped: ReshapedInputs;
  readonly origins: Origins;
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

async function execute(loaded: LoadedModule, batch: Batch): Promise<BatchResult> {
  const { signature, version, module, reshaped, origins } = loaded;
  const requests = batch.requests.map((from) => {
    const request = modelRequest(from, reshaped);
    origins.set(request, from);
    return request;
  });
  let returned: unknown;
  try {
    returned = await module.execute(requests, batchInputs(signature, batch));
  } catch (cause) {
    // What a call threw keeps its code on its way through; its field and reason are of a request that no client sent.
    if (cause instanceof NereidError) throw new NereidError(cause.code, cause.message, { cause });
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
