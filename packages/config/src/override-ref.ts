import { z } from 'zod';

/** What a load takes in place of the repository's files: names of uploads, which are the SHA-256 of what they hold. */
export interface OverrideRef {
  /** The model's configuration, as JSON. */
  readonly config?: string;
  /** By path in the model's folder: all that the model then is made of. */
  readonly files?: Readonly<Record<string, string>>;
}

const schema = z.object({ config: z.string().optional(), files: z.record(z.string(), z.string()).optional() });

/** The text of one in messages and records; the same for the same override. */
export function encodeOverride({ config, files }: OverrideRef): string {
  const sorted = files === undefined ? undefined : Object.fromEntries(Object.entries(files).sort());
  return JSON.stringify({ config, files: sorted });
}

/** Undefined for '' and for what is no override. */
export function decodeOverride(text: string): OverrideRef | undefined {
  if (text === '') return undefined;
  try {
    const { config, files } = schema.parse(JSON.parse(text));
    return { ...(config === undefined ? {} : { config }), ...(files === undefined ? {} : { files }) };
  } catch {
    return undefined;
  }
}

/** Names of all uploads that it refers to. */
export function overrideUploads({ config, files = {} }: OverrideRef): readonly string[] {
  return [...(config === undefined ? [] : [config]), ...Object.values(files)];
}
