import type { Options } from '@nereid/config';
import { createLog, type Log, type LogControl } from '@nereid/runtime';
import { logDestination, lowestLevel, startLogSettings, type WriteText } from './log-destination.ts';

export interface LogHost {
  readonly pid: number;
  readonly hostName: string;
  readonly stdout: WriteText;
  readonly stderr: WriteText;
  /** Opens a log file to append to; throws where it cannot. */
  readonly openLogFile: (path: string) => WriteText;
}

export type OpenedLog =
  | { readonly ok: true; readonly log: Log; readonly control: LogControl }
  | { readonly ok: false; readonly error: string };

/** The log that the `--log-…` flags ask for. `role` is the command that runs. */
export function openLog(role: string, options: Options, host: LogHost): OpenedLog {
  let low = host.stdout;
  let high = host.stderr;
  if (options.logFile !== '') {
    try {
      low = host.openLogFile(options.logFile);
      high = low;
    } catch (failure) {
      const why = failure instanceof Error ? failure.message : String(failure);
      return { ok: false, error: `cannot append to the log file: ${why}; correct --log-file` };
    }
  }
  const start = startLogSettings(options);
  let settings = start;
  const destination = logDestination({
    settings: () => settings,
    output: options.logOutput,
    pid: host.pid,
    low,
    high,
  });
  const node = options.nodeId === '' ? host.hostName : options.nodeId;
  const log = createLog({ level: lowestLevel(start), bindings: { node, role }, destination });
  const control: LogControl = {
    file: options.logFile,
    start,
    apply(wanted) {
      settings = wanted;
      log.level = lowestLevel(wanted);
    },
  };
  return { ok: true, log, control };
}
