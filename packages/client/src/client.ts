import { type Aliases, createAliases } from './aliases.ts';
import { type Batches, createBatches } from './batches.ts';
import { type Blobs, createBlobs } from './blobs.ts';
import { createDeadLetters, type DeadLetters } from './dead-letters.ts';
import { NereidError } from './error.ts';
import { type GenerateAnswer, type GenerateInput, generate, modelPath, stream } from './generate.ts';
import { type CallOptions, createHttp, type Http, type HttpOptions } from './http.ts';
import { decodeAnswer, encodeRequest, HEADER_LENGTH, type InferInput, type InferResult } from './infer.ts';
import { createJobs, type Jobs } from './jobs.ts';
import { createJournal, type Journal } from './journal.ts';
import { createModels, type Models } from './models.ts';
import { createSequence, type Sequence, type SequenceOptions } from './sequence.ts';

/** What a model is asked with and answers (`GET /v2/models/{m}`). */
export interface ModelMetadata {
  readonly name: string;
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorMetadata[];
  readonly outputs: readonly TensorMetadata[];
}

export interface TensorMetadata {
  readonly name: string;
  readonly datatype: string;
  /** -1 for a dimension of any size. */
  readonly shape: readonly number[];
}

/**
 * Calls to a server. Each throws NereidError with the server's code and text, or the reason of its own signal; what
 * fails for a reason that may pass is repeated where that is safe.
 */
export interface Client extends Models {
  /** The answer of a model, with tensors in the binary form both ways. */
  infer(input: InferInput, options?: CallOptions): Promise<InferResult>;
  /** The one answer of a model, in flat JSON. */
  generate(input: GenerateInput, options?: CallOptions): Promise<GenerateAnswer>;
  /** Each answer of a model when it comes, in flat JSON. Leaving the loop cancels the model. */
  stream(input: GenerateInput, options?: CallOptions): AsyncGenerator<GenerateAnswer, void, void>;
  /** Begins with its first step. */
  sequence(options: SequenceOptions): Sequence;
  readonly jobs: Jobs;
  readonly blobs: Blobs;
  readonly batches: Batches;
  readonly deadLetters: DeadLetters;
  readonly journal: Journal;
  readonly aliases: Aliases;
  /** Whether the server, or one of its models, can be asked now. False too where there is no server. */
  isReady(model?: string, options?: CallOptions): Promise<boolean>;
  metadata(model: string, options?: CallOptions): Promise<ModelMetadata>;
}

/** Throws INVALID_ARG where `url` is no address. Nothing has to be closed. */
export function createClient(options: HttpOptions): Client {
  const http = createHttp(options);
  const blobs = createBlobs(http);
  return {
    infer: (input, call = {}) => infer(http, input, call),
    generate: (input, call = {}) => generate(http, input, call),
    stream: (input, call = {}) => stream(http, input, call),
    sequence: (sequence) => createSequence((input, call) => infer(http, input, call), sequence),
    jobs: createJobs(http, blobs),
    blobs,
    batches: createBatches(http),
    deadLetters: createDeadLetters(http),
    journal: createJournal(http),
    aliases: createAliases(http),
    ...createModels(http),
    async isReady(model, call = {}) {
      const path = model === undefined ? '/v2/health/ready' : `${modelPath(model)}/ready`;
      try {
        await http.call({ ...call, method: 'GET', path, repeatable: 'never' });
        return true;
      } catch (thrown) {
        if (thrown instanceof NereidError) return false;
        throw thrown;
      }
    },
    async metadata(model, call = {}) {
      return (await http.json({
        ...call,
        method: 'GET',
        path: modelPath(model),
        repeatable: 'always',
      })) as ModelMetadata;
    },
  };
}

async function infer(http: Http, input: InferInput, options: CallOptions): Promise<InferResult> {
  const { sequence } = input;
  const { body, headers } = await http.call({
    ...options,
    ...encodeRequest(input),
    method: 'POST',
    path: `${modelPath(input.model, input.version)}/infer`,
    // A step without a number may have taken effect though its answer is lost.
    repeatable: sequence === undefined || sequence.step !== undefined ? 'always' : 'if refused',
  });
  return decodeAnswer(body, headers.get(HEADER_LENGTH));
}
