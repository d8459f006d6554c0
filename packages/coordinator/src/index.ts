export {
  type Coordinator,
  type CoordinatorOptions,
  type CoordinatorParts,
  createCoordinator,
  type LoadFailure,
} from './coordinator.ts';
export type { CoordinatorCounts } from './coordinator-counts.ts';
export { type ModelReader, repositoryReader } from './model-reader.ts';
