import { type ErrorInfo, errorInfo, NereidError } from '@nereid/protocol';
import type { LogSettings } from '@nereid/runtime';
import { LOG_FILE_REFUSED, LOG_VERBOSE_MAX, type LogChanges, type ShownLogSettings } from '../log-settings.ts';
import { readTraceChange, type TraceAsked } from '../trace-change.ts';
import { shownTraceSettings, traceModelRefusal } from '../trace-settings.ts';
import type { CallContext } from './call-context.ts';
import {
  GRPCInferenceService,
  type LogSettingsRequest_SettingValue as LogSettingValue,
  type TraceSettingRequest,
} from './gen/grpc_service_pb.ts';
import type { GrpcCall } from './transport.ts';
import { unary } from './unary.ts';

/** Log and trace settings, with the texts of Triton's gRPC server, which are not those of its HTTP server (grpc_server.cc). */
export function settingsCalls({ gateway, services }: CallContext): readonly GrpcCall[] {
  const { logSettings, traceSetting } = GRPCInferenceService.method;
  return [
    unary(logSettings, async ({ settings }) => {
      const { changes, error } = readLogChanges(settings);
      const changed = await services.logSettings.change(changes);
      if (!changed.ok) return changed;
      return error === undefined
        ? { ok: true, value: { settings: shownLogSettings(changed.value) } }
        : { ok: false, error };
    }),
    unary(traceSetting, async ({ settings, modelName }) => {
      const refusal = modelName === '' ? undefined : traceModelRefusal(gateway, modelName);
      if (refusal !== undefined) return { ok: false, error: refusal };
      const changed = await services.traceSettings.change(modelName, readTraceChange(askedOf(settings)));
      if (!changed.ok) return changed;
      const shown = shownTraceSettings(changed.value).map(([name, values]) => [name, { value: [...values] }]);
      return { ok: true, value: { settings: Object.fromEntries(shown) } };
    }),
  ];
}

function shownLogSettings({ file, info, warning, error, verboseLevel, format }: ShownLogSettings) {
  const flag = (value: boolean) => ({ parameterChoice: { case: 'boolParam', value } as const });
  const text = (value: string) => ({ parameterChoice: { case: 'stringParam', value } as const });
  return {
    log_file: text(file),
    log_info: flag(info),
    log_warning: flag(warning),
    log_error: flag(error),
    log_verbose_level: { parameterChoice: { case: 'uint32Param', value: verboseLevel } as const },
    log_format: text(format),
  };
}

type Writable = { -readonly [Name in keyof LogSettings]?: LogSettings[Name] };
type LogGiven = Readonly<Record<string, LogSettingValue>>;

/** As over HTTP: those before the first that is wrong, and what is wrong with that. */
function readLogChanges(given: LogGiven): { readonly changes: LogChanges; readonly error: ErrorInfo | undefined } {
  const changes: Writable = {};
  try {
    readInto(changes, given);
    return { changes, error: undefined };
  } catch (thrown) {
    if (!(thrown instanceof NereidError)) throw thrown;
    return { changes, error: errorInfo(thrown) };
  }
}

const FLAGS = [
  ['log_info', 'info'],
  ['log_warning', 'warning'],
  ['log_error', 'error'],
] as const;

function readInto(changes: Writable, given: LogGiven): void {
  if (given.log_file !== undefined) throw new NereidError('UNSUPPORTED', LOG_FILE_REFUSED, { field: 'log_file' });
  for (const [name, key] of FLAGS) {
    const choice = given[name]?.parameterChoice;
    if (choice === undefined) continue;
    if (choice.case !== 'boolParam') throw wrong(name, `expect boolean for '${name}'`);
    changes[key] = choice.value;
  }
  const level = given.log_verbose_level?.parameterChoice;
  if (level !== undefined) {
    if (level.case !== 'uint32Param' || level.value > LOG_VERBOSE_MAX) {
      throw wrong('log_verbose_level', "expect int32 for 'log_verbose_level'");
    }
    changes.verboseLevel = level.value;
  }
  const format = given.log_format?.parameterChoice;
  if (format === undefined) return;
  if (format.case !== 'stringParam') throw wrong('log_format', "expect string for 'log_format'");
  const { value } = format;
  if (value !== 'default' && value !== 'ISO8601')
    throw wrong('log_format', `invalid argument for log_format, got: ${value}`);
  changes.format = value;
}

/** An empty list clears a setting. */
function askedOf(settings: TraceSettingRequest['settings']): TraceAsked {
  return {
    has: (name) => settings[name] !== undefined,
    levels(name) {
      const values = settings[name]?.value;
      return values?.length === 0 ? null : values;
    },
    text(name) {
      const values = settings[name]?.value;
      if (values === undefined) return undefined;
      if (values.length > 1) throw wrong(name, `expect only 1 value for '${name}'`);
      return values[0] ?? null;
    },
  };
}

function wrong(field: string, message: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field });
}
