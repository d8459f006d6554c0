import { readFile } from 'node:fs/promises';
import { encodeModelConfig, parseModelConfig } from '@nereid/config';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { inOneLine } from './printable.ts';
import { type CallHost, callServer } from './server-call.ts';
import { renderTable } from './table.ts';

/** As POST /v2/repository/index tells it; a folder that was never loaded has its name alone. */
interface IndexJson {
  readonly name: string;
  readonly version?: string;
  readonly state?: string;
  readonly reason?: string;
}

export interface ModelsListOptions {
  readonly url: string;
  readonly json: boolean;
}

export interface ModelLoadOptions {
  readonly url: string;
  readonly model: string;
  /** A file: JSON by its name, else as config.pbtxt is written. */
  readonly config?: string;
  /** Each `<path in the model's folder>=<file>`. */
  readonly file?: readonly string[];
}

export interface ModelUnloadOptions {
  readonly url: string;
  readonly model: string;
  readonly unloadDependents: boolean;
}

const PATH = '/v2/repository';
const HEAD = ['Model', 'Version', 'State', 'Reason'];
const NONE = '-';
/** A load is answered once the model is ready; Node gives up an answer that has not begun after 300 s. */
const CHANGE_MS_MAX = 290_000;

/** `nereid models ls`: what the repositories of the cluster hold, as a table or as JSON. */
export async function listIndex({ url, json }: ModelsListOptions, host: CallHost): Promise<ExitCode> {
  // Its answer is an array.
  const call = { command: 'models ls', url, method: 'POST', path: `${PATH}/index`, member: 'length' } as const;
  const answer = await callServer(call, host);
  if (!answer.ok) return answer.exitCode;
  const index = answer.body as readonly IndexJson[];
  host.stdout(`${json ? JSON.stringify(index) : renderTable(HEAD, index.map(row))}\n`);
  return EXIT_CODE.stopped;
}

/** `nereid models load`: ends once the model is ready, or says why it is not. */
export async function loadModel(options: ModelLoadOptions, host: CallHost): Promise<ExitCode> {
  const { url, model } = options;
  let body: string;
  try {
    body = await loadBody(options);
  } catch (failure) {
    host.stderr(`nereid models load: ${inOneLine((failure as Error).message)}\n`);
    return EXIT_CODE.usage;
  }
  return change({ action: 'load', done: 'loaded', url, model, body }, host);
}

/** `nereid models unload`: ends once the model takes no new request. */
export function unloadModel({ url, model, unloadDependents }: ModelUnloadOptions, host: CallHost): Promise<ExitCode> {
  const body = JSON.stringify({ parameters: { unload_dependents: unloadDependents } });
  return change({ action: 'unload', done: 'unloaded', url, model, body }, host);
}

interface Change {
  readonly action: 'load' | 'unload';
  readonly done: string;
  readonly url: string;
  readonly model: string;
  readonly body: string;
}

async function change({ action, done, url, model, body }: Change, host: CallHost): Promise<ExitCode> {
  const path = `${PATH}/models/${encodeURIComponent(model)}/${action}`;
  const call = { command: `models ${action}`, url, method: 'POST', path, body, callMsMax: CHANGE_MS_MAX } as const;
  const answer = await callServer(call, host);
  if (!answer.ok) return answer.exitCode;
  host.stdout(`${done} ${model}\n`);
  return EXIT_CODE.stopped;
}

/** Throws where a file cannot be read. */
async function loadBody({ config, file = [] }: ModelLoadOptions): Promise<string> {
  const parameters: [string, string][] = [];
  if (config !== undefined) parameters.push(['config', await configJson(config)]);
  for (const given of file) {
    const at = given.indexOf('=');
    if (at < 1) throw new Error(`--file=${given} must be <path>=<file>, such as 1/model.onnx=./model.onnx`);
    const bytes = await contents('--file', given.slice(at + 1));
    parameters.push([`file:${given.slice(0, at)}`, bytes.toString('base64')]);
  }
  return JSON.stringify({ parameters: Object.fromEntries(parameters) });
}

/** The server takes JSON. */
async function configJson(path: string): Promise<string> {
  const text = (await contents('--config', path)).toString('utf8');
  return path.endsWith('.json') ? text : encodeModelConfig(parseModelConfig(text, path));
}

async function contents(flag: string, path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (failure) {
    throw new Error(`${flag}: cannot read ${path}: ${(failure as Error).message}`, { cause: failure });
  }
}

function row({ name, version = NONE, state = NONE, reason = '' }: IndexJson): readonly string[] {
  return [name, version, state, reason];
}
