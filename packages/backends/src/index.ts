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
