export { isCloudPlace } from './cloud/cloud-place.ts';
export { type ModelFiles, type ModelReader, repositoryReader } from './model-reader.ts';
export { openRepositories } from './open-repositories.ts';
export { createOverrideFolders, type OverrideFolders } from './override-folders.ts';
export type { ListedModel, Repositories } from './repositories.ts';
export type { FetchedModel, RepositoryModel, RepositorySource } from './repository-source.ts';
