/** JavaScript models complete their configuration themselves: `autoComplete(config)` of their module. */
import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { NereidError } from '@nereid/protocol';
import type { CompletionAnswer, CompletionTask } from './auto-complete-thread.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { type JsonNode, readJsonTree } from './json-tree.ts';
import { LIMITS } from './limits.ts';
import { modelConfigJson } from './model-config-json.ts';
import { parseModelConfigJson } from './parse-model-config-json.ts';

/** A thread needs JavaScript: where this runs from the sources (tests), it is taken from the build. */
const ENTRY = new URL(
  import.meta.url.endsWith('.ts') ? '../dist/auto-complete-thread.js' : './auto-complete-thread.js',
  import.meta.url,
);

/** What says which model it is, and by what its files were chosen: done before the module is asked. */
const FIXED = ['name', 'platform', 'backend', 'runtime', 'defaultModelFilename'] as const;

/**
 * Whether a module can export `autoComplete`, by its text: the name has to be in it, or that of another module whose
 * exports are all its own. So that other models cost no thread at each load.
 */
export async function mayAutoComplete(module: string): Promise<boolean> {
  const text = await readFile(module, 'utf8');
  return text.includes('autoComplete') || /\bexport\s*\*/.test(text);
}

/**
 * The config as the module's `autoComplete` returns it, or changes it in place; as it is where there is none. The code
 * runs in a thread of its own, which is ended after `timeoutMs`. The result is still to be normalised and checked.
 * Throws INVALID_ARG, naming model and module, for what cannot be imported, throws, takes too long or gives no config.
 */
export async function autoCompleteJavascript(
  config: ModelConfig,
  module: string,
  timeoutMs: number = LIMITS.auto_complete_timeout_ms,
): Promise<ModelConfig> {
  const refuse = (what: string): never => {
    throw new NereidError('INVALID_ARG', `model '${config.name}' cannot be completed by '${module}': ${what}`);
  };
  const answer = await askThread({ url: pathToFileURL(module).href, config: plainConfig(config) }, timeoutMs);
  if ('error' in answer) return refuse(answer.error);
  if (answer.config === null) return config;
  const completed = parseModelConfigJson(answer.config, `autoComplete of ${module}`);
  const changed = FIXED.find((field) => completed[field] !== config[field]);
  if (changed !== undefined) refuse(`autoComplete must not change '${changed}'`);
  const versions = (each: ModelConfig) => modelConfigJson({ ...config, versionPolicy: each.versionPolicy });
  if (versions(completed) !== versions(config)) refuse("autoComplete must not change 'version_policy'");
  return completed;
}

function askThread(task: CompletionTask, timeoutMs: number): Promise<CompletionAnswer> {
  // No options of this process: a test runner's loaders do not belong into a model's thread.
  const thread = new Worker(ENTRY, { workerData: task, name: 'autoComplete', execArgv: [] });
  return new Promise<CompletionAnswer>((resolve) => {
    const timer = setTimeout(() => resolve({ error: `it took more than ${timeoutMs} ms` }), timeoutMs);
    thread.once('message', resolve);
    thread.once('error', ({ message }) => resolve({ error: `its thread failed: ${message}` }));
    thread.once('exit', () => {
      clearTimeout(timer);
      resolve({ error: 'its thread ended without an answer' });
    });
  }).finally(() => {
    // Not waited for: code that is in a call of the system cannot be ended before that returns.
    thread.terminate().catch(() => {});
  });
}

/** As `initialize` gets it, but exact: an integer that a number cannot hold is a text, which is read again as it was. */
function plainConfig(config: ModelConfig): unknown {
  return plain(readJsonTree(modelConfigJson(config)));
}

function plain(node: JsonNode): unknown {
  switch (node.kind) {
    case 'object':
      return Object.fromEntries(node.members.map(({ name, value }) => [name, plain(value)]));
    case 'array':
      return node.items.map(plain);
    case 'number': {
      const value = Number(node.digits);
      return Number.isInteger(value) && !Number.isSafeInteger(value) ? node.digits : value;
    }
    case 'null':
      return null;
    default:
      return node.value;
  }
}
