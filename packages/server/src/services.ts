/** What the doors serve beside models, made for the process that has them. */
import { type ModelRecord, NO_TRACES } from '@nereid/config';
import {
  adminKey,
  createAliasService,
  createLogSettings,
  createRepository,
  createTraceSettings,
  followLogSettings,
  type Gateway,
  type Services,
  type TraceSettings,
} from '@nereid/gateway';
import type { Log, LogControl } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';
import type { ProcessParts } from './process-parts.ts';
import type { Shared } from './roles.ts';
import type { ServerOptions } from './server-options.ts';

export function addTraceSettings(
  { lifecycle, shared }: ProcessParts,
  { traces }: ServerOptions,
): Promise<TraceSettings> {
  const { directory, clock, log } = shared;
  return lifecycle.add(
    'trace settings',
    async () => createTraceSettings({ values: directory, start: traces ?? NO_TRACES, clock, log }),
    async (settings) => settings.close(),
  );
}

/** `tellRepository`: of the coordinator, where it is in this process. */
export function newServices(
  { directory, log, uploads }: Shared,
  options: ServerOptions,
  { changes }: Gateway,
  traceSettings: TraceSettings,
  tellRepository?: () => Promise<void>,
): Services {
  return {
    repository: createRepository({
      ...{ directory, changes, uploads },
      refresh: tellRepository,
      codeRules: { allowed: options.allowCodeUpload ?? false, key: adminKey(options.http?.adminKey) },
    }),
    aliases: createAliasService({ directory, log }),
    logSettings: createLogSettings({ values: directory, control: logControl(options, log) }),
    traceSettings,
  };
}

/** Keeps the log of a process as the cluster's settings say. */
export function followSettings(directory: Directory<ModelRecord>, options: ServerOptions, log: Log): void {
  followLogSettings({ values: directory, control: logControl(options, log), log });
}

/** Without a control the settings are kept and shown, and each change is told to have no effect here. */
function logControl({ logControl: given }: ServerOptions, log: Log): LogControl {
  if (given !== undefined) return given;
  return {
    file: '',
    start: { info: true, warning: true, error: true, verboseLevel: 0, format: 'default' },
    apply: () => log.warn('the log settings changed, which this log does not follow: it was given without logControl'),
  };
}
