/** What can be traced of a request (Triton's docs/user_guide/trace.md). */
export type TraceLevel = 'TIMESTAMPS' | 'TENSORS';

/** Every level, in the order in which settings show them. */
export const TRACE_LEVELS: readonly TraceLevel[] = ['TIMESTAMPS', 'TENSORS'];

export type TraceMode = 'triton' | 'opentelemetry';

/** The trace settings that a server begins with. */
export interface TraceConfig {
  readonly mode: TraceMode;
  /** None: nothing is traced. */
  readonly levels: readonly TraceLevel[];
  /** Every so many-th request; 0 for none by itself. */
  readonly rate: number;
  /** How many requests; -1 for any number. */
  readonly count: number;
  /** Of the mode `triton`: traces in one file; 0 for all. */
  readonly logFrequency: number;
  /** Of the mode `triton`; '' for none. */
  readonly file: string;
  /** Of the mode `opentelemetry`: what is told to the exporter, in the order given. */
  readonly exporter: readonly (readonly [setting: string, value: string])[];
}

/** Bounds of the numbers among the settings (server/src/http_server.cc). */
export const TRACE_RANGES = {
  rate: { min: 0, max: 4_294_967_295 },
  count: { min: -1, max: 2_147_483_647 },
  logFrequency: { min: 0, max: 4_294_967_295 },
} as const;

/** Nothing is traced: what holds without any flag. */
export const NO_TRACES: TraceConfig = {
  mode: 'triton',
  levels: [],
  rate: 1_000,
  count: -1,
  logFrequency: 0,
  file: '',
  exporter: [],
};
