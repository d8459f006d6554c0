export interface ServerMetadata {
  readonly name: string;
  readonly version: string;
  readonly extensions: readonly string[];
}

/** Triton's list, in its order (http.md of its protocol documents; tritonserver.cc). */
const EXTENSIONS = [
  'classification',
  'sequence',
  'model_repository',
  'model_repository(unload_dependents)',
  'schedule_policy',
  'model_configuration',
  'system_shared_memory',
  'cuda_shared_memory',
  'binary_tensor_data',
  'parameters',
  'statistics',
  'trace',
  'logging',
];

/** What the server tells of itself; it never changes while the server runs. */
export function serverMetadata(name: string, version: string): ServerMetadata {
  return { name, version, extensions: EXTENSIONS };
}
