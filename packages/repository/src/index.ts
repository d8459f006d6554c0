export { localRepository } from './local-repository.ts';
export { type ModelReader, repositoryReader } from './model-reader.ts';
export { joinRepositories, type ListedModel, type Repositories } from './repositories.ts';
export type { FetchedModel, RepositoryModel, RepositorySource } from './repository-source.ts';
