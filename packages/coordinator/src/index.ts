export {
  type Coordinator,
  type CoordinatorCounts,
  type CoordinatorOptions,
  type CoordinatorParts,
  createCoordinator,
  type LoadFailure,
} from './coordinator.ts';
export { type ModelReader, repositoryReader } from './model-reader.ts';
