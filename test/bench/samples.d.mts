export declare function readSamples(
  file: Buffer,
): readonly { readonly request: number; readonly headers: Headers; readonly body: Buffer }[];
