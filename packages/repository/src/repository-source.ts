/** A model as a repository has it now. */
export interface RepositoryModel {
  readonly name: string;
  /** Another text whenever a file of the model that counts was added, removed or changed. Nothing else is to be read from it. */
  readonly signature: string;
}

/** A model's files in a local folder. They stay there, and as they are if the repository is in the cloud, until `release`. */
export interface FetchedModel {
  /** Absolute. */
  readonly directory: string;
  /** As a listing has it now; absent where the files stay as they are. */
  readonly signature?: () => Promise<string>;
  /** One holder more of the same folder. */
  hold(): FetchedModel;
  /** Idempotent. */
  release(): void;
}

/** One `--model-repository`. */
export interface RepositorySource {
  /** Where it is, as errors and logs name it; two with an equal place are one repository. */
  readonly place: string;
  /** The models' names. Throws a NereidError where the repository cannot be listed. */
  names(): Promise<readonly string[]>;
  /** The models with their signatures. It reads no contents. Throws as `names` does. */
  list(): Promise<readonly RepositoryModel[]>;
  /** Throws a NereidError where the model is not there, or cannot be had. */
  fetch(name: string): Promise<FetchedModel>;
  /** Frees what it keeps on this machine. Idempotent. */
  close(): Promise<void>;
}
