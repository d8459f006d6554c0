/** The flags of tracing, with Triton's names and meanings (server/src/command_line_parser.cc). */
import { z } from 'zod';
import { EVERY_ROLE, type FlagMeta, flagMetas } from './flag-meta.ts';
import {
  NO_TRACES,
  TRACE_LEVELS,
  TRACE_RANGES,
  type TraceConfig,
  type TraceLevel,
  type TraceMode,
} from './trace-config.ts';

const tracing: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'Tracing', roles: EVERY_ROLE };

const bounded = ({ min, max }: { readonly min: number; readonly max: number }, fallback: number) =>
  z.int().min(min).max(max).default(fallback);

export const traceOptions = {
  traceConfig: z
    .array(z.string().min(1))
    .default([])
    .register(flagMetas, {
      ...tracing,
      form: '<mode>,<setting>=<value>',
      description:
        'A setting of tracing. Without a mode: `mode` (triton or opentelemetry), `level` (OFF, TIMESTAMPS or TENSORS), `rate`, `count`. Of `triton`: `file`, `log-frequency`. Of `opentelemetry`: `url`, `resource`, `bsp_max_queue_size`, `bsp_schedule_delay`, `bsp_max_export_batch_size`. Repeat it for several. This version takes and shows the settings and records no traces yet.',
    }),
  traceFile: z
    .string()
    .default('')
    .register(flagMetas, {
      ...tracing,
      form: '<file>',
      deprecated: '--trace-config=triton,file=<file>',
      description: 'The file for traces.',
    }),
  traceLevel: z
    .array(z.string().min(1))
    .default([])
    .register(flagMetas, {
      ...tracing,
      form: 'OFF|TIMESTAMPS|TENSORS',
      deprecated: '--trace-config=level=<level>',
      description: 'What is traced.',
    }),
  traceRate: bounded(TRACE_RANGES.rate, NO_TRACES.rate).register(flagMetas, {
    ...tracing,
    deprecated: '--trace-config=rate=<number>',
    description: 'Trace one request in so many.',
  }),
  traceCount: bounded(TRACE_RANGES.count, NO_TRACES.count).register(flagMetas, {
    ...tracing,
    deprecated: '--trace-config=count=<number>',
    description: 'How many traces are taken; -1 for no end.',
  }),
  traceLogFrequency: bounded(TRACE_RANGES.logFrequency, NO_TRACES.logFrequency).register(flagMetas, {
    ...tracing,
    deprecated: '--trace-config=triton,log-frequency=<number>',
    description: 'Traces in one file; 0 for all.',
  }),
};

/** The values of these flags. */
export interface TraceFlags {
  readonly traceConfig: readonly string[];
  readonly traceFile: string;
  readonly traceLevel: readonly string[];
  readonly traceRate: number;
  readonly traceCount: number;
  readonly traceLogFrequency: number;
}

export type ReadTraceConfig =
  | { readonly ok: true; readonly value: TraceConfig }
  | { readonly ok: false; readonly error: string };

/** Further names of levels, from before there were two of them. Upper and lower case count alike. */
const LEVEL_NAMES: Readonly<Record<string, TraceLevel | 'OFF'>> = {
  off: 'OFF',
  false: 'OFF',
  timestamps: 'TIMESTAMPS',
  true: 'TIMESTAMPS',
  on: 'TIMESTAMPS',
  min: 'TIMESTAMPS',
  max: 'TIMESTAMPS',
  tensors: 'TENSORS',
};

/** By mode, '' for what holds in any. */
const SETTINGS: Readonly<Record<'' | TraceMode, readonly string[]>> = {
  '': ['mode', 'level', 'rate', 'count'],
  triton: ['file', 'log-frequency'],
  opentelemetry: ['url', 'resource', 'bsp_max_queue_size', 'bsp_schedule_delay', 'bsp_max_export_batch_size'],
};

/** What the exporter of spans is told without a setting, and the variable that says otherwise (OpenTelemetry's). */
const BATCH_DEFAULTS = [
  ['bsp_max_queue_size', 'OTEL_BSP_MAX_QUEUE_SIZE', '2048'],
  ['bsp_schedule_delay', 'OTEL_BSP_SCHEDULE_DELAY', '5000'],
  ['bsp_max_export_batch_size', 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE', '512'],
] as const;

interface Entry {
  /** As given, for error texts. */
  readonly text: string;
  readonly mode: '' | TraceMode;
  readonly setting: string;
  readonly value: string;
}

/**
 * The settings that the flags ask for: those of `--trace-config` before the deprecated ones, levels of
 * both together, `env` for what OpenTelemetry reads from the environment. The error is one line.
 */
export function readTraceConfig(
  flags: TraceFlags,
  env: Readonly<Record<string, string | undefined>> = {},
): ReadTraceConfig {
  const entries: Entry[] = [];
  for (const text of flags.traceConfig) {
    const entry = readEntry(text);
    if (typeof entry === 'string') return { ok: false, error: entry };
    entries.push(entry);
  }
  const last = (mode: Entry['mode'], setting: string) =>
    entries.findLast((entry) => entry.mode === mode && entry.setting === setting)?.value;
  const mode = (last('', 'mode') ?? NO_TRACES.mode).toLowerCase() as TraceMode;
  const levels = traceLevels(flags, entries);
  if (typeof levels === 'string') return { ok: false, error: levels };
  const number = (text: string | undefined, fallback: number) => (text === undefined ? fallback : Number(text));
  return {
    ok: true,
    value: {
      mode,
      levels,
      rate: number(last('', 'rate'), flags.traceRate),
      count: number(last('', 'count'), flags.traceCount),
      logFrequency: number(last('triton', 'log-frequency'), flags.traceLogFrequency),
      file: last('triton', 'file') ?? flags.traceFile,
      exporter: mode === 'opentelemetry' ? exporterSettings(entries, env) : [],
    },
  };
}

/** The parts of one value, or what is wrong with it. */
function readEntry(text: string): Entry | string {
  const wrong = (why: string) => `--trace-config=${text}: ${why}`;
  const comma = text.indexOf(',');
  const equals = text.indexOf('=', comma + 1);
  const mode = comma < 0 ? '' : text.slice(0, comma).toLowerCase();
  const [setting, value] = [text.slice(comma + 1, equals), text.slice(equals + 1)];
  if (comma === 0 || equals < 0 || setting === '' || value === '') {
    return wrong('give <setting>=<value> or <mode>,<setting>=<value>');
  }
  if (mode !== '' && mode !== 'triton' && mode !== 'opentelemetry') {
    return wrong(`there is no trace mode '${mode}': give triton or opentelemetry`);
  }
  const known = SETTINGS[mode];
  if (!known.includes(setting)) return wrong(`there is no setting '${setting}': give ${known.join(', ')}`);
  const allowed = allowedValue(setting, value);
  return allowed === undefined ? { text, mode, setting, value } : wrong(`'${value}' is not allowed: give ${allowed}`);
}

/** What a value of that setting may be, where this one is none. */
function allowedValue(setting: string, value: string): string | undefined {
  switch (setting) {
    case 'mode':
      return /^(?:triton|opentelemetry)$/i.test(value) ? undefined : 'triton or opentelemetry';
    case 'level':
      return Object.hasOwn(LEVEL_NAMES, value.toLowerCase()) ? undefined : 'OFF, TIMESTAMPS or TENSORS';
    case 'resource':
      return /^[^=]+=/.test(value) ? undefined : '<key>=<value>';
    case 'rate':
      return outside(value, TRACE_RANGES.rate);
    case 'count':
      return outside(value, TRACE_RANGES.count);
    case 'file':
    case 'url':
      return undefined;
    default:
      return outside(value, TRACE_RANGES.logFrequency);
  }
}

function outside(value: string, { min, max }: { readonly min: number; readonly max: number }): string | undefined {
  const inside = /^[+-]?\d+$/.test(value) && Number(value) >= min && Number(value) <= max;
  return inside ? undefined : `a whole number from ${min} to ${max}`;
}

/** All that are given, whatever else is; a deprecated OFF beats them, as in Triton. */
function traceLevels(flags: TraceFlags, entries: readonly Entry[]): readonly TraceLevel[] | string {
  const deprecated: string[] = [];
  for (const text of flags.traceLevel) {
    const name = text.toLowerCase();
    const level = Object.hasOwn(LEVEL_NAMES, name) ? LEVEL_NAMES[name] : undefined;
    if (level === undefined) return `--trace-level=${text}: give OFF, TIMESTAMPS or TENSORS`;
    deprecated.push(level);
  }
  if (deprecated.includes('OFF')) return [];
  const given = entries.filter(({ mode, setting }) => mode === '' && setting === 'level');
  const asked = new Set([...deprecated, ...given.map(({ value }) => LEVEL_NAMES[value.toLowerCase()])]);
  return TRACE_LEVELS.filter((level) => asked.has(level));
}

function exporterSettings(entries: readonly Entry[], env: Readonly<Record<string, string | undefined>>) {
  const given = entries.flatMap(({ mode, setting, value }) =>
    mode === 'opentelemetry' ? [[setting, value] as const] : [],
  );
  const defaults = BATCH_DEFAULTS.flatMap(([setting, variable, fallback]) =>
    given.some(([name]) => name === setting) ? [] : [[setting, env[variable] ?? fallback] as const],
  );
  return [...given, ...defaults];
}
