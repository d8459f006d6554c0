import type { TraceConfig } from '@nereid/config';
import { type ErrorInfo, NereidError } from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import { changeValue, type SharedValues } from '@nereid/transport';
import type { Gateway } from './gateway.ts';
import { type Result, resultOf } from './result.ts';
import {
  changedScopes,
  decodeScopes,
  encodeScopes,
  type TraceChange,
  type TraceScopes,
  type TraceState,
  takenScopes,
  traceState,
  wrongTraces,
} from './trace-scopes.ts';

/** The name under which the cluster shares what was set of them. */
const TRACE_VALUE = 'trace-settings';

const NO_TRACES_YET =
  'trace levels are set: this version chooses and counts the requests to trace, but records no traces';

/** The cluster hears of counts that went down at most so often: each time every process asks for the news. */
const TELL_EVERY_US = 500_000;

/** Which requests are to be traced. */
export interface TraceSampler {
  /** True while anything is traced; asked before each request. */
  readonly on: boolean;
  /** One more request to a model. */
  sample(model: string): void;
}

/**
 * The trace settings of the cluster (Triton's docs/protocol/extension_trace.md). They begin as the
 * flags of each process say; what is set holds in all of them.
 */
export interface TraceSettings extends TraceSampler {
  /** `model` is '' for all models. */
  current(model: string): TraceState;
  /**
   * INVALID_ARG where the result could not be, UNAVAILABLE where the cluster's directory does not
   * answer; the settings are then as before.
   */
  change(model: string, change: TraceChange): Promise<Result<TraceState>>;
  /** Hears of no more changes, and tells of no more requests. */
  close(): void;
}

export interface TraceSettingsParts {
  readonly values: SharedValues;
  readonly start: TraceConfig;
  readonly clock: Clock;
  readonly log: Log;
}

/** Requests counted in one scope since its settings were last set. */
interface Counted {
  readonly counting: string;
  requests: number;
  /** Traced and not told to the cluster yet, where there is a count. */
  untold: number;
}

export function createTraceSettings({ values, start, clock, log }: TraceSettingsParts): TraceSettings {
  let scopes = decodeScopes(values.value(TRACE_VALUE)?.text);
  let on = false;
  let warned = false;
  /** From the beginning of a telling until the next may follow. */
  let resting = false;
  let rest: Timer | undefined;
  let closed = false;
  /** By model that has a scope of its own, '' for all others. */
  const counted = new Map<string, Counted>();

  const scopeOf = (model: string) => (scopes.models.has(model) ? model : '');

  const look = () => {
    scopes = decodeScopes(values.value(TRACE_VALUE)?.text);
    on = ['', ...scopes.models.keys()].some((model) => traceState(start, scopes, model).levels.length > 0);
    for (const [scope, { counting }] of counted) {
      if (traceState(start, scopes, scope).counting !== counting) counted.delete(scope);
    }
    if (on && !warned) log.warn(NO_TRACES_YET);
    warned ||= on;
  };

  const current = (model: string): TraceState => {
    const state = traceState(start, scopes, model);
    const untold = counted.get(scopeOf(model))?.untold ?? 0;
    return untold === 0 ? state : { ...state, count: Math.max(0, state.count - untold) };
  };

  const change = async (make: (scopes: TraceScopes) => TraceScopes) => {
    await changeValue(values, TRACE_VALUE, (text) => encodeScopes(make(decodeScopes(text))));
    look();
  };

  const hasUntold = () => [...counted.values()].some(({ untold }) => untold > 0);

  /** Tells the cluster what was taken off its counts. What it could not be told is told the next time. */
  const tell = async () => {
    resting = true;
    try {
      for (const [scope, one] of [...counted]) {
        const { untold } = one;
        if (untold === 0) continue;
        await change((known) => takenScopes(start, known, scope, one.counting, untold));
        one.untold -= untold;
      }
    } catch (error) {
      log.debug({ err: error }, 'the cluster was not told of traced requests');
    }
    if (closed) return;
    rest = clock.at(clock.nowUs() + TELL_EVERY_US, () => {
      resting = false;
      if (hasUntold()) void tell();
    });
  };

  look();
  const unwatch = values.watch((event) => {
    if (event.type === 'value' && event.name === TRACE_VALUE) look();
  });

  return {
    get on() {
      return on;
    },
    sample(model) {
      const { levels, rate, count, counting } = current(model);
      if (levels.length === 0 || rate === 0 || count === 0) return;
      const scope = scopeOf(model);
      const one = counted.get(scope) ?? { counting, requests: 0, untold: 0 };
      counted.set(scope, one);
      one.requests++;
      if (one.requests % rate !== 0 || count < 0) return;
      one.untold++;
      if (!resting) void tell();
    },
    current,
    change: (model, wanted) =>
      resultOf(async () => {
        if (Object.keys(wanted).length === 0) return current(model);
        await change((known) => {
          const next = changedScopes(known, model, wanted);
          const wrong = wrongTraces(start, next);
          if (wrong !== undefined) throw new NereidError('INVALID_ARG', wrong);
          return next;
        });
        return current(model);
      }),
    close() {
      closed = true;
      rest?.cancel();
      unwatch();
    },
  };
}

/** Settings of one model are for a model that is ready (http_server.cc, HandleTrace). */
export function traceModelRefusal(gateway: Pick<Gateway, 'modelReady'>, model: string): ErrorInfo | undefined {
  if (gateway.modelReady(model, '')) return undefined;
  return { code: 'INVALID_ARG', message: `Request for unknown model : ${model}`, field: 'model' };
}

/** The settings as both doors show them: names in Triton's order, all values as text. */
export function shownTraceSettings(state: TraceState): readonly (readonly [name: string, values: readonly string[]])[] {
  const { levels, rate, count, logFrequency, file, mode, exporter } = state;
  const shown: [string, readonly string[]][] = [
    ['trace_level', levels.length === 0 ? ['OFF'] : levels],
    ['trace_rate', [`${rate}`]],
    ['trace_count', [`${count}`]],
  ];
  if (mode === 'triton') shown.push(['log_frequency', [`${logFrequency}`]], ['trace_file', [file]]);
  shown.push(['trace_mode', [mode]]);
  for (const [name, value] of exporter) {
    const before = shown.findIndex(([known]) => known === name);
    if (before < 0) shown.push([name, [value]]);
    else shown[before] = [name, [...(shown[before]?.[1] ?? []), value]];
  }
  return shown;
}
