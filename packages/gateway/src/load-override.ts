/** What a load brings in place of a model's own files: checked, and put where coordinators and workers find it. */
import { encodeOverride, LIMITS, type ModelConfig, type OverrideRef, parseModelConfigJson } from '@nereid/config';
import { NereidError, thrownError } from '@nereid/protocol';
import type { Uploads } from '@nereid/transport';
import { type CodeUploader, type CodeUploadRules, codeIn, codeRefusal } from './code-upload.ts';

/** What a load may be given: `config` as text, `file:<path>` as bytes. */
export interface LoadParameter {
  readonly name: string;
  readonly value: string | Uint8Array;
}

export interface LoadOverride {
  /** ModelConfig as JSON. */
  readonly config?: string;
  /** By path in the model's folder. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** What has been put, until `done`. */
export interface PutOverride {
  /** As messages have it; '' for none. */
  readonly text: string;
  readonly done: () => Promise<void>;
}

const FILE_PREFIX = 'file:';
const FILES_MAX = 1_024;
const PATH_BYTES_MAX = 1_024;

/** True of parameters that are files, whose values are bytes. */
export function isFileParameter(name: string): boolean {
  return name.startsWith(FILE_PREFIX);
}

/** Throws INVALID_ARG for a parameter that there is none of. */
export function loadOverride(parameters: readonly LoadParameter[]): LoadOverride {
  const files = new Map<string, Uint8Array>();
  let config: string | undefined;
  for (const { name, value } of parameters) {
    if (name === 'config' && typeof value === 'string') config = value;
    else if (isFileParameter(name) && typeof value !== 'string') files.set(name.slice(FILE_PREFIX.length), value);
    else {
      throw new NereidError('INVALID_ARG', `unrecognized load parameter '${name}'.`, { field: `parameters.${name}` });
    }
  }
  return config === undefined ? { files } : { config, files };
}

/** Throws INVALID_ARG where it cannot be what a model is made of, or `caller` may not bring it. */
export function checkOverride(
  model: string,
  { config: text, files }: LoadOverride,
  rules: CodeUploadRules,
  caller: CodeUploader,
): void {
  if (text === undefined && files.size === 0) return;
  if (text === undefined) {
    // Triton's first words (server.cc).
    const message = `failed to load '${model}', failed to poll from model repository: with files the parameter 'config' is needed`;
    throw new NereidError('INVALID_ARG', message, { field: 'parameters.config' });
  }
  if (files.size > FILES_MAX) {
    throw new NereidError('INVALID_ARG', `failed to load '${model}': ${files.size} files are more than ${FILES_MAX}`);
  }
  for (const path of files.keys()) checkPath(model, path);
  const config = parsed(model, text);
  const code = codeIn(config, [...files.keys()]);
  const refusal = code === undefined ? undefined : codeRefusal(rules, caller, code);
  if (refusal !== undefined) throw thrownError(refusal);
}

/** Puts it; what was put before a failure is let go of. */
export async function putOverride(uploads: Uploads, { config, files }: LoadOverride): Promise<PutOverride> {
  if (config === undefined) return { text: '', done: async () => {} };
  const names: string[] = [];
  const put = async (bytes: Uint8Array) => {
    const name = await uploads.put(bytes);
    names.push(name);
    return name;
  };
  try {
    const configName = await put(Buffer.from(config));
    const entries: [string, string][] = [];
    for (const [path, bytes] of files) entries.push([path, await put(bytes)]);
    const ref: OverrideRef = {
      config: configName,
      ...(files.size === 0 ? {} : { files: Object.fromEntries(entries) }),
    };
    return { text: encodeOverride(ref), done: () => uploads.done(names) };
  } catch (error) {
    await uploads.done(names);
    throw error;
  }
}

/** A relative path that stays in its folder, on any system. */
function checkPath(model: string, path: string): void {
  const parts = path.split('/');
  const isWrong = parts.some((part) => part === '' || part === '.' || part === '..') || /[\0\\]/.test(path);
  if (!isWrong && Buffer.byteLength(path) <= PATH_BYTES_MAX) return;
  const message = `failed to load '${model}': 'file:${path}' must name a file inside the model's folder, such as 'file:1/model.onnx'`;
  throw new NereidError('INVALID_ARG', message, { field: `parameters.file:${path}` });
}

function parsed(model: string, text: string): ModelConfig {
  if (Buffer.byteLength(text) > LIMITS.config_bytes_max) {
    const message = `failed to load '${model}': the parameter 'config' is longer than ${LIMITS.config_bytes_max} bytes`;
    throw new NereidError('INVALID_ARG', message, { field: 'parameters.config' });
  }
  try {
    return parseModelConfigJson(text, "the parameter 'config'");
  } catch (cause) {
    const message = `failed to load '${model}': ${cause instanceof Error ? cause.message : cause}`;
    throw new NereidError('INVALID_ARG', message, { field: 'parameters.config', cause });
  }
}
