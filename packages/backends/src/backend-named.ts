import { NereidError } from '@nereid/protocol';
import type { Backend } from './backend.ts';

/** The backends that this build has, loaded only where they are used (onnxruntime is 45 MB). */
const BACKENDS: Readonly<Record<string, () => Promise<Backend>>> = {
  onnxruntime: async () => (await import('./onnx.ts')).onnxruntimeBackend,
  javascript: async () => (await import('./javascript.ts')).javascriptBackend,
};

/** The backend of a config's `backend` field. Throws INVALID_ARG for one that does not exist here. */
export async function backendNamed(name: string): Promise<Backend> {
  const load = Object.hasOwn(BACKENDS, name) ? BACKENDS[name] : undefined;
  if (load === undefined) {
    const known = Object.keys(BACKENDS).join(', ');
    throw new NereidError('INVALID_ARG', `unable to find backend '${name}'; this server has: ${known}`);
  }
  return load();
}
