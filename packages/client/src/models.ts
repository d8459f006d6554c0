/** The models of the repositories (docs/repository.md): what there is, loading and unloading. */
import { toBase64 } from './base64.ts';
import { NereidError } from './error.ts';
import type { Call, CallOptions, Http } from './http.ts';
import { jsonText } from './json.ts';

/** A model's version; of a folder whose model was never loaded the name alone. */
export interface ModelState {
  readonly name: string;
  readonly version?: string;
  readonly state?: 'READY' | 'LOADING' | 'UNLOADING' | 'UNAVAILABLE';
  /** Why it is in that state, where there is anything to say. */
  readonly reason?: string;
}

export interface LoadOptions extends CallOptions {
  /** In place of the model's `config.pbtxt`: a ModelConfig as JSON text, or as what JSON.stringify makes that of. */
  readonly config?: string | object;
  /** The model is made of these alone, by their paths in its folder, such as `1/model.onnx`; `config` is needed too. */
  readonly files?: Readonly<Record<string, Uint8Array>>;
}

export interface UnloadOptions extends CallOptions {
  /** Also what an ensemble was made of, where nobody else wants that. */
  readonly unloadDependents?: boolean;
}

/** Loads and unloads take a server with `--model-control-mode=explicit`; others throw UNAVAILABLE. */
export interface Models {
  /** What the repositories of the cluster hold, by name. */
  models(options?: CallOptions): Promise<readonly ModelState[]>;
  /**
   * Resolves once the model is ready; throws why it is not. What serves goes on meanwhile, and stays where the load fails.
   * Files that carry code may need the server's admin key among the client's `headers`.
   */
  loadModel(model: string, options?: LoadOptions): Promise<void>;
  /** Resolves once no new request is taken, also of a model that nobody knows. */
  unloadModel(model: string, options?: UnloadOptions): Promise<void>;
}

const PATH = '/v2/repository';
const HEADERS = { 'Content-Type': 'application/json' };

export function createModels(http: Http): Models {
  const change = async (options: CallOptions, path: string, parameters: object) => {
    await http.call({ ...options, ...post(`${PATH}/models/${path}`, { parameters }) });
  };

  return {
    async models(options = {}) {
      const index = await http.json({ ...options, ...post(`${PATH}/index`, {}) });
      if (Array.isArray(index)) return index as readonly ModelState[];
      throw new NereidError('INTERNAL', "the server's index of models is no JSON array");
    },
    loadModel: (model, { config, files = {}, ...options } = {}) =>
      change(options, `${encodeURIComponent(model)}/load`, {
        config: typeof config === 'object' ? jsonText(config) : config,
        ...Object.fromEntries(Object.entries(files).map(([path, bytes]) => [`file:${path}`, toBase64(bytes)])),
      }),
    unloadModel: (model, { unloadDependents, ...options } = {}) =>
      change(options, `${encodeURIComponent(model)}/unload`, { unload_dependents: unloadDependents }),
  };
}

/** A second one changes nothing that the first has not. */
function post(path: string, body: object): Call {
  return { method: 'POST', path, headers: HEADERS, body: jsonText(body), repeatable: 'always' };
}
