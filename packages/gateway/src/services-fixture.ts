/** The services over a directory; only tests import this. */
import { LIMITS, type ModelRecord, NO_TRACES, type TraceConfig } from '@nereid/config';
import { createLog, type LogControl, virtualClock } from '@nereid/runtime';
import { createLocalUploads, type Directory } from '@nereid/transport';
import { createAliasService } from './aliases.ts';
import { createLogSettings } from './log-settings.ts';
import { createRepository } from './repository.ts';
import type { Services } from './services.ts';
import { createTraceSettings } from './trace-settings.ts';

const CONTROL: LogControl = {
  file: '',
  start: { info: true, warning: true, error: true, verboseLevel: 0, format: 'default' },
  apply: () => {},
};

export function servicesFixture(directory: Directory<ModelRecord>, start: TraceConfig = NO_TRACES): Services {
  return {
    repository: createRepository({
      directory,
      changes: { load: async () => undefined, unload: async () => undefined },
      uploads: createLocalUploads(LIMITS),
      codeRules: { allowed: false, key: undefined },
    }),
    aliases: createAliasService({ directory, log: createLog({ level: 'silent' }) }),
    logSettings: createLogSettings({ values: directory, control: CONTROL }),
    traceSettings: createTraceSettings({
      values: directory,
      start,
      clock: virtualClock(),
      log: createLog({ level: 'silent' }),
    }),
  };
}
