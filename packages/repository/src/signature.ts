import { createHash } from 'node:crypto';

/** Made of what a listing says of a model's files. */
export interface Signature {
  /** Files and folders are to be added in the same order each time. */
  add(path: string, ...marks: readonly (string | number | bigint)[]): void;
  readonly files: number;
  text(): string;
}

export function createSignature(): Signature {
  const hash = createHash('sha256');
  let files = 0;
  return {
    add(path, ...marks) {
      files += 1;
      hash.update(`${JSON.stringify([path, ...marks.map(String)])}\n`);
    },
    get files() {
      return files;
    },
    text: () => hash.digest('hex'),
  };
}
