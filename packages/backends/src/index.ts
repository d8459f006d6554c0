export type {
  Backend,
  BackendInstance,
  BackendLog,
  Batch,
  BatchRequest,
  BatchResult,
  Device,
  InstanceLoad,
} from './backend.ts';
export { backendNamed } from './backend-named.ts';
