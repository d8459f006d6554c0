import { NereidError } from '@nereid/protocol';
import { type LogAsked, readLogChange } from '../log-change.ts';
import { LOG_VERBOSE_MAX, type ShownLogSettings } from '../log-settings.ts';
import { readTraceChange, type TraceAsked } from '../trace-change.ts';
import { shownTraceSettings, traceModelRefusal } from '../trace-settings.ts';
import type { CallContext } from './call-context.ts';
import { GRPCInferenceService, type LogSettingsRequest, type TraceSettingRequest } from './gen/grpc_service_pb.ts';
import type { GrpcCall } from './transport.ts';
import { unary } from './unary.ts';

/** Log and trace settings, with the texts of Triton's gRPC server, which are not those of its HTTP server (grpc_server.cc). */
export function settingsCalls({ gateway, services }: CallContext): readonly GrpcCall[] {
  const { logSettings, traceSetting } = GRPCInferenceService.method;
  return [
    unary(logSettings, async ({ settings }) => {
      const { changes, error } = readLogChange(logAsked(settings));
      const changed = await services.logSettings.change(changes);
      if (!changed.ok) return changed;
      return error === undefined
        ? { ok: true, value: { settings: shownLogSettings(changed.value) } }
        : { ok: false, error };
    }),
    unary(traceSetting, async ({ settings, modelName }) => {
      const refusal = modelName === '' ? undefined : traceModelRefusal(gateway, modelName);
      if (refusal !== undefined) return { ok: false, error: refusal };
      const changed = await services.traceSettings.change(modelName, readTraceChange(traceAsked(settings)));
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

function logAsked(settings: LogSettingsRequest['settings']): LogAsked {
  const given = (name: string) => settings[name]?.parameterChoice;
  return {
    has: (name) => settings[name] !== undefined,
    flag(name) {
      const choice = given(name);
      if (choice === undefined) return undefined;
      if (choice.case === 'boolParam') return choice.value;
      throw wrong(name, `expect boolean for '${name}'`);
    },
    verboseLevel() {
      const choice = given('log_verbose_level');
      if (choice === undefined) return undefined;
      if (choice.case === 'uint32Param' && choice.value <= LOG_VERBOSE_MAX) return choice.value;
      throw wrong('log_verbose_level', "expect int32 for 'log_verbose_level'");
    },
    format() {
      const choice = given('log_format');
      if (choice === undefined) return undefined;
      if (choice.case !== 'stringParam') throw wrong('log_format', "expect string for 'log_format'");
      const { value } = choice;
      if (value === 'default' || value === 'ISO8601') return value;
      throw wrong('log_format', `invalid argument for log_format, got: ${value}`);
    },
  };
}

/** An empty list clears a setting. */
function traceAsked(settings: TraceSettingRequest['settings']): TraceAsked {
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
