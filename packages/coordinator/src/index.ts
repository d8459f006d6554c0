export {
  type Coordinator,
  type CoordinatorOptions,
  type CoordinatorParts,
  createCoordinator,
  type LoadFailure,
} from './coordinator.ts';
export type { CoordinatorCounts } from './coordinator-counts.ts';
