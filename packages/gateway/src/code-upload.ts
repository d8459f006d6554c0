/** Whether a client may load a model from files of its own that carry code: with them it may run anything here. */
import type { ModelConfig } from '@nereid/config';
import type { ErrorInfo } from '@nereid/protocol';
import { bringsKey, type RestrictedKey } from './restricted.ts';

/** What a server allows. */
export interface CodeUploadRules {
  /** `--allow-code-upload`. */
  readonly allowed: boolean;
  /** Of `--admin-key`; undefined for none. */
  readonly key: RestrictedKey | undefined;
}

/** Who asks, as the door sees it. */
export interface CodeUploader {
  /** The door listens on a loopback address alone, and the call comes from this machine. */
  readonly isLocal: boolean;
  /** The key that came along. */
  readonly key: string | undefined;
  /** It is the process that has the server, and runs what it likes. */
  readonly isServer?: true;
}

/** The reason of a refusal, which HTTP answers with 403. */
export const CODE_UPLOAD = 'code_upload';

/** Backends that run no code of a model's folder: they read its files. */
const DATA_BACKENDS: ReadonlySet<string> = new Set(['onnxruntime']);
const DATA_PLATFORMS: ReadonlySet<string> = new Set(['onnxruntime_onnx', 'ensemble']);
/** Code by its name, whatever the backend; libraries may have a version behind that. */
const CODE_FILE = /\.(?:[cm]?[jt]sx?|py[cdox]?|pyw|so(?:\.[\d.]+)?|dll|dylib|node|wasm|sh|exe|jar)$/i;
const ONNX_FILE = 'model.onnx';
const STRATEGY_PARAMETER = 'TRITON_BATCH_STRATEGY_PATH';

/** What of it is code, in words; undefined for nothing. Only the paths of the files are looked at. */
export function codeIn(config: ModelConfig, paths: readonly string[]): string | undefined {
  const libraries = config.modelOperations?.opLibraryFilename ?? [];
  if (libraries.length > 0) return `model_operations names the library '${libraries[0]}'`;
  if (STRATEGY_PARAMETER in config.parameters) return `the parameter ${STRATEGY_PARAMETER} names a library`;
  const [first] = paths;
  if (first === undefined) return undefined;
  const file = paths.find((path) => CODE_FILE.test(path));
  if (file !== undefined) return `'file:${file}' is code`;
  if (isData(config, paths)) return undefined;
  return `the backend '${config.backend || config.platform || 'of its files'}' may run 'file:${first}'`;
}

/** Of a config without backend and platform the backend is that of its model files. */
function isData({ backend, platform, defaultModelFilename }: ModelConfig, paths: readonly string[]): boolean {
  if (backend !== '' || platform !== '') {
    return (backend === '' || DATA_BACKENDS.has(backend)) && (platform === '' || DATA_PLATFORMS.has(platform));
  }
  const versions = new Set(paths.flatMap((path) => /^\d+(?=\/)/.exec(path) ?? []));
  const hasGraph = (version: string) => paths.some((path) => path.startsWith(`${version}/${ONNX_FILE}`));
  return (defaultModelFilename === '' || defaultModelFilename === ONNX_FILE) && [...versions].every(hasGraph);
}

/** Why code is not taken from that caller; undefined where it is. */
export function codeRefusal(
  { allowed, key }: CodeUploadRules,
  caller: CodeUploader,
  what: string,
): ErrorInfo | undefined {
  if (allowed || caller.isServer === true || (key === undefined ? caller.isLocal : bringsKey(key, caller.key)))
    return undefined;
  const fix =
    key === undefined
      ? 'start the server with --admin-key and send that key as Nereid-Admin-Key, have it listen on a loopback address only, or start it with --allow-code-upload'
      : 'send the key of --admin-key as Nereid-Admin-Key';
  return { code: 'INVALID_ARG', message: `code is not taken from this caller: ${what}; ${fix}`, reason: CODE_UPLOAD };
}
