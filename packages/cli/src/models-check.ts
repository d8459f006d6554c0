import { readdir } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import {
  type ConfigFinding,
  checkEnsembleModels,
  decodeModelConfig,
  ensembleModels,
  ensembleReadiness,
  inspectModel,
  listModels,
  type ModelRecord,
  type ModelSource,
  modelVersions,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import type { WriteText } from './log-destination.ts';
import { inOneLine } from './printable.ts';
import { renderTable } from './table.ts';

export interface ModelsCheckOptions {
  /** Folders of models, or of one model each. */
  readonly repositories: readonly string[];
  readonly json: boolean;
  readonly autoComplete: boolean;
  readonly modelConfigName: string;
  /** Whether models may complete their configs by their own code. */
  readonly runCode: boolean;
  readonly stdout: WriteText;
  readonly stderr: WriteText;
}

interface CheckedModel {
  readonly model: string;
  readonly versions: readonly string[];
  readonly findings: readonly ConfigFinding[];
  /** Undefined where it could not be read. */
  readonly source?: ModelSource;
}

interface Folder {
  readonly name: string;
  readonly directory: string;
  readonly conflict: string | null;
}

function mistake(message: string): ConfigFinding {
  return { level: 'error', code: 'INVALID_ARG', message };
}

function errorsOf({ findings }: CheckedModel): readonly ConfigFinding[] {
  return findings.filter(({ level }) => level === 'error');
}

async function checkModel(folder: Folder, options: ModelsCheckOptions): Promise<CheckedModel> {
  const { name: model, conflict } = folder;
  if (conflict !== null) return { model, versions: [], findings: [mistake(conflict)] };
  // Without GPUs, so that a repository checks alike on any machine.
  const { source, findings } = await inspectModel(folder, {
    autoComplete: options.autoComplete,
    modelConfigName: options.modelConfigName,
    runCode: options.runCode,
    gpus: 0,
  });
  const isRight = findings.every(({ level, code }) => level === 'warning' || code === 'UNSUPPORTED');
  return source !== undefined && isRight
    ? { model, versions: source.versions, findings, source }
    : { model, versions: [], findings };
}

/** The folder itself where it is a model, else those of the repository that it is. */
async function foldersOf(path: string): Promise<readonly Folder[]> {
  const directory = resolve(path);
  if (await isModel(directory)) return [{ name: basename(directory), directory, conflict: null }];
  return listModels([directory]);
}

/** A model has a config, or a file of its in a version folder. */
async function isModel(directory: string): Promise<boolean> {
  const inside: readonly string[] = await readdir(directory).catch(() => []);
  if (inside.includes('config.pbtxt')) return true;
  const versions = inside.length === 0 ? [] : await modelVersions(directory);
  for (const version of versions) {
    const files = await readdir(join(directory, version), { withFileTypes: true });
    if (files.some((file) => file.isFile() && file.name.startsWith('model.'))) return true;
  }
  return false;
}

/** Those that are right by themselves and made of others, as `serve` would find them with all of the others loaded. */
function checkEnsembles(alone: readonly CheckedModel[]): readonly CheckedModel[] {
  const records = new Map(alone.map((each) => [each.model, expectedRecord(each)]));
  const find = (model: string) => records.get(model);
  const isEnsemble = ({ source }: CheckedModel) => source !== undefined && ensembleModels(source.config).length > 0;
  const problems = new Map<string, string>();
  const open = openModels(alone);
  for (const { model, source } of alone.filter(isEnsemble)) {
    if (open.has(model)) continue;
    const problem = source && (checkEnsembleModels(source.config, find) ?? ensembleReadiness(source.config, find));
    if (problem !== undefined) problems.set(model, problem);
  }
  // One that is wrong has no version for others; the set grows while it is walked.
  for (const wrong of problems.keys()) {
    const record = find(wrong);
    if (record !== undefined) records.set(wrong, { ...record, versions: [] });
    for (const { model, source } of alone.filter(isEnsemble)) {
      const problem =
        source && !problems.has(model) && !open.has(model) ? ensembleReadiness(source.config, find) : undefined;
      if (problem !== undefined) problems.set(model, problem);
    }
  }
  return alone.map((each) => {
    const problem = problems.get(each.model);
    if (problem !== undefined) return { ...each, findings: [mistake(problem), ...each.findings] };
    if (!isEnsemble(each) || !open.has(each.model)) return each;
    const message =
      'not checked: whether it fits its models, one of which may complete its config by code that was not run';
    return { ...each, findings: [...each.findings, { ...mistake(message), level: 'warning' }] };
  });
}

/** Models whose tensors are not known, since their code was not run, and ensembles that have one. */
function openModels(models: readonly CheckedModel[]): ReadonlySet<string> {
  const isOpen = ({ message }: ConfigFinding) => message.startsWith('not checked:');
  const open = new Set(models.filter(({ findings }) => findings.some(isOpen)).map(({ model }) => model));
  // The set grows while it is walked.
  for (const each of open) {
    for (const { model, source } of models) {
      if (source !== undefined && ensembleModels(source.config).includes(each)) open.add(model);
    }
  }
  return open;
}

/** What the directory would have of it; one that is wrong has no version. */
function expectedRecord(checked: CheckedModel): ModelRecord {
  const { model, versions, source } = checked;
  if (source === undefined) {
    const config = decodeModelConfig(JSON.stringify({ name: model }));
    return { name: model, config, labels: {}, versions: [], contentHash: '' };
  }
  const { config, labels, contentHash } = source;
  const isRight = errorsOf(checked).length === 0 || ensembleModels(config).length > 0;
  const ready = versions.map((version) => ({ version, state: 'READY', reason: '' }) as const);
  return { name: model, config, labels, versions: isRight ? ready : [], contentHash };
}

/**
 * `nereid models check`: reads, completes and checks every model of the folders as `serve` does, but loads none, and tells
 * all that it finds; ensembles with the models of the folders that they are made of. Exit code 4 if one is wrong.
 */
export async function checkModels(options: ModelsCheckOptions): Promise<ExitCode> {
  const alone: CheckedModel[] = [];
  try {
    for (const folder of joined((await Promise.all(options.repositories.map(foldersOf))).flat())) {
      alone.push(await checkModel(folder, options));
    }
  } catch (failure) {
    if (!(failure instanceof NereidError)) throw failure;
    options.stderr(`nereid models check: ${failure.message}\n`);
    return EXIT_CODE.repository;
  }
  const checked = checkEnsembles(alone);
  options.stdout(options.json ? `${JSON.stringify(checked.map(shown))}\n` : printed(checked));
  return checked.every((each) => errorsOf(each).length === 0) ? EXIT_CODE.stopped : EXIT_CODE.repository;
}

/** By name; a name that is there twice is in conflict, as for `serve`. */
function joined(folders: readonly Folder[]): readonly Folder[] {
  const models = new Map<string, Folder>();
  for (const folder of folders) {
    const first = models.get(folder.name);
    const isOther = first !== undefined && first.directory !== folder.directory;
    const conflict = isOther ? 'model appears in two or more repositories' : folder.conflict;
    models.set(folder.name, { ...(first ?? folder), conflict });
  }
  return [...models.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** `problem` is the first error, '' for none. */
function shown(checked: CheckedModel) {
  const { model, versions, findings } = checked;
  const told = findings.map(({ level, message, field, at }) => ({ level, message, field, ...at }));
  return { model, versions, problem: errorsOf(checked)[0]?.message ?? '', findings: told };
}

/** A table, and below it a line for each finding, which begins with its place as compilers have it. */
function printed(models: readonly CheckedModel[]): string {
  const rows = models.map((each) => [each.model, each.versions.join(', ') || '-', status(each)]);
  const lines = models.flatMap(({ model, findings }) =>
    findings.map(({ level, message, field, at }) => {
      const place = at === undefined ? '' : `${at.file}:${at.line}:${at.column}: `;
      return `${inOneLine(`${place}${level}: ${model}: ${message}${field === undefined ? '' : ` [${field}]`}`)}\n`;
    }),
  );
  return `${renderTable(['Model', 'Versions', 'Status'], rows)}\n${lines.join('')}`;
}

function status(checked: CheckedModel): string {
  const errors = errorsOf(checked).length;
  const warnings = checked.findings.length - errors;
  const counts = [counted(errors, 'error'), counted(warnings, 'warning')].filter((text) => text !== '');
  return errors === 0 ? ['OK', ...counts].join(', ') : counts.join(', ');
}

function counted(count: number, what: string): string {
  return count === 0 ? '' : `${count} ${what}${count === 1 ? '' : 's'}`;
}
