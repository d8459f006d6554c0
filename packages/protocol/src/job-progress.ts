/** The progress of a job of a decoupled model: its answer number n, from 1. */
import { isJsonObject, type JsonObject } from './job-json.ts';
import { decodeJobResult, jsonOrBase64 } from './job-result.ts';
import type { RequestLimits } from './protocol-limits.ts';

/** `{n, outputs}`, or `{n, error}` for an answer that is an error. */
export function isStreamProgress(progress: unknown): progress is JsonObject {
  return (
    isJsonObject(progress) &&
    typeof progress.n === 'number' &&
    (Array.isArray(progress.outputs) || isJsonObject(progress.error))
  );
}

/** The same outputs, those in base64 as JSON where they have such a form and `isBinary` does not ask for their bytes. */
export function readableOutputs(outputs: unknown, isBinary: (name: string) => boolean, limits: RequestLimits): unknown {
  if (!Array.isArray(outputs)) return outputs;
  return outputs.map((output: unknown) => {
    if (!isJsonObject(output) || typeof output.b64 !== 'string' || isBinary(String(output.name))) return output;
    try {
      const [tensor] = decodeJobResult({ outputs: [output] }, { modelName: '', limits }).outputs;
      return tensor === undefined ? output : jsonOrBase64(tensor);
    } catch {
      // Whoever wrote it knows what it is.
      return output;
    }
  });
}
