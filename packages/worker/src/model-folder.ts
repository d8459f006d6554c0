/** A model's files, opened for this worker: they stay as they are until `release`. */
export interface OpenedModel {
  readonly directory: string;
  /** Of the files that are there (see ModelSource). */
  readonly contentHash: string;
  /** Idempotent. */
  release(): void;
}

/**
 * Opens a model in this worker's own repositories; of several contents that it has, the one that is asked for. `override`:
 * what it is made of in place of these, as config's override-ref has it.
 */
export type OpenModel = (name: string, contentHash: string, override?: string) => Promise<OpenedModel>;

/** A folder that the versions of a load share. It is opened when the first asks, and given back once none holds it. */
export interface ModelFolder {
  /** Rejects with a NereidError that says why the files cannot be used. */
  directory(): Promise<string>;
  /** To be called before the others have given back. The returned call gives back, and is idempotent. */
  hold(): () => void;
}

export function createModelFolder(open: () => Promise<OpenedModel>): ModelFolder {
  let opened: Promise<OpenedModel> | undefined;
  let holders = 0;
  return {
    async directory() {
      opened ??= open();
      return (await opened).directory;
    },
    hold() {
      holders += 1;
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        holders -= 1;
        if (holders > 0) return;
        opened?.then(
          ({ release }) => release(),
          () => {},
        );
      };
    },
  };
}
