import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { type CallHost, callServer } from './server-call.ts';
import { renderTable } from './table.ts';

interface VersionJson {
  readonly version: string;
  readonly weight: number;
}

/** As GET /nereid/v1/aliases tells it. */
interface AliasJson {
  readonly name: string;
  readonly model: string;
  readonly versions: readonly VersionJson[];
  readonly shadow?: { readonly version: string; readonly share: number };
  readonly before?: readonly VersionJson[];
}

const PATH = '/nereid/v1/aliases';
const HEAD = ['Alias', 'Model', 'Versions', 'Shadow', 'Before'];
const NONE = '-';

export interface AliasesListOptions {
  readonly url: string;
  readonly json: boolean;
}

/** `nereid aliases ls`: all aliases of the cluster, as a table or as JSON. */
export async function listAliases({ url, json }: AliasesListOptions, host: CallHost): Promise<ExitCode> {
  const call = { command: 'aliases ls', url, method: 'GET', path: PATH, member: 'aliases' } as const;
  const answer = await callServer(call, host);
  if (!answer.ok) return answer.exitCode;
  const { aliases } = answer.body as { readonly aliases: readonly AliasJson[] };
  host.stdout(`${json ? JSON.stringify(aliases) : renderTable(HEAD, aliases.map(row))}\n`);
  return EXIT_CODE.stopped;
}

export interface AliasOptions {
  readonly url: string;
  readonly name: string;
}

export interface AliasSetOptions extends AliasOptions {
  readonly model: string;
  /** Each `<version>=<weight>`, or a version alone for weight 1. */
  readonly versions: readonly string[];
  /** `<version>`, or `<version>=<share>`. */
  readonly shadow?: string;
  readonly atol?: string;
  readonly rtol?: string;
}

/** `nereid aliases set`: makes an alias, or replaces it. */
export async function setAlias(options: AliasSetOptions, host: CallHost): Promise<ExitCode> {
  const { name, model, versions, shadow, atol, rtol } = options;
  const [copied, share] = shadow === undefined ? [] : pairOf(shadow);
  const body = {
    model,
    versions: versions.map((text) => {
      const [version, weight = 1] = pairOf(text);
      return { version, weight };
    }),
    ...(copied === undefined ? {} : { shadow: { version: copied, share, atol: numberOf(atol), rtol: numberOf(rtol) } }),
  };
  return change('set', options, { method: 'PUT', path: pathOf(name), body: JSON.stringify(body) }, host);
}

export interface AliasPromoteOptions extends AliasOptions {
  readonly version: string;
}

/** `nereid aliases promote`: all requests to that version from now on. */
export function promoteAlias(options: AliasPromoteOptions, host: CallHost): Promise<ExitCode> {
  const { name, version } = options;
  const body = JSON.stringify({ version });
  return change('promote', options, { method: 'POST', path: `${pathOf(name)}/promote`, body }, host);
}

/** `nereid aliases rollback`: as before the last change of its weights. */
export function rollBackAlias(options: AliasOptions, host: CallHost): Promise<ExitCode> {
  return change('rollback', options, { method: 'POST', path: `${pathOf(options.name)}/rollback` }, host);
}

/** `nereid aliases rm` */
export async function removeAlias({ url, name }: AliasOptions, host: CallHost): Promise<ExitCode> {
  const call = { command: 'aliases rm', url, method: 'DELETE', path: pathOf(name), member: 'name' } as const;
  const answer = await callServer(call, host);
  if (!answer.ok) return answer.exitCode;
  host.stdout(`removed alias ${name}\n`);
  return EXIT_CODE.stopped;
}

async function change(
  command: string,
  { url }: Pick<AliasOptions, 'url'>,
  call: { readonly method: 'PUT' | 'POST'; readonly path: string; readonly body?: string },
  host: CallHost,
): Promise<ExitCode> {
  const answer = await callServer({ command: `aliases ${command}`, url, member: 'versions', ...call }, host);
  if (!answer.ok) return answer.exitCode;
  const { name, model, versions } = answer.body as AliasJson;
  host.stdout(`${name} stands for ${model}: ${versionsText(versions)}\n`);
  return EXIT_CODE.stopped;
}

function pathOf(name: string): string {
  return `${PATH}/${encodeURIComponent(name)}`;
}

/** What is no number goes along as it is: the server says which member is wrong. */
function pairOf(text: string): readonly [string, (number | string)?] {
  const at = text.indexOf('=');
  return at < 0 ? [text] : [text.slice(0, at), numberOf(text.slice(at + 1))];
}

function numberOf(text: string): number | string;
function numberOf(text: string | undefined): number | string | undefined;
function numberOf(text: string | undefined): number | string | undefined {
  return text === undefined || text.trim() === '' || Number.isNaN(Number(text)) ? text : Number(text);
}

function row({ name, model, versions, shadow, before }: AliasJson): readonly string[] {
  return [
    name,
    model,
    versionsText(versions),
    shadow === undefined ? NONE : `${shadow.version} (${percent(shadow.share)})`,
    before === undefined ? NONE : versionsText(before),
  ];
}

function versionsText(versions: readonly VersionJson[]): string {
  const total = versions.reduce((sum, { weight }) => sum + weight, 0);
  return versions.map(({ version, weight }) => `${version} (${percent(weight / total)})`).join(', ');
}

function percent(part: number): string {
  return `${Number((part * 100).toFixed(2))} %`;
}
