/** Tensors of jobs that stand beside their data: written with a submission, read with a result. */
import {
  blobRefs,
  blobTensors,
  type DecodedRequest,
  encodeJobData,
  isJsonObject,
  type JobBlobs,
  type JobSettings,
  type JsonObject,
  type Tensor,
} from '@nereid/protocol';
import type { JobPayloads, StoredJob } from '@nereid/transport';

export interface JobToAdd {
  readonly data: JsonObject;
  /** What the data only name. */
  readonly blobs: JobBlobs;
}

/** Data of a job of that id; the inputs of one that is large stand beside them. */
export function jobToAdd(
  payloads: Pick<JobPayloads, 'inputRef'>,
  id: string,
  decoded: DecodedRequest,
  settings: JobSettings,
): JobToAdd {
  const { modelName, inputs } = decoded.request;
  const beside = blobTensors(inputs);
  const blobs = new Map<string, Uint8Array>();
  const refOf = (input: Tensor) => {
    if (!beside.has(input)) return undefined;
    const ref = payloads.inputRef(modelName, id, inputs.indexOf(input));
    blobs.set(ref, input.data);
    return ref;
  };
  return { data: encodeJobData(decoded, settings, refOf), blobs };
}

/** The payloads that the job's result names; undefined where one is gone. */
export async function resultBlobs(
  payloads: Pick<JobPayloads, 'read'>,
  { result }: StoredJob,
): Promise<JobBlobs | undefined> {
  const refs = isJsonObject(result) ? blobRefs(result.outputs) : [];
  if (refs.length === 0) return new Map();
  const blobs = await payloads.read(refs);
  return refs.every((ref) => blobs.has(ref)) ? blobs : undefined;
}
