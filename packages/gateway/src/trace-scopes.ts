/**
 * Trace settings as the cluster shares them, and the rules by which they fall back on each other
 * (Triton's docs/protocol/extension_trace.md; server/src/tracer.cc). A *scope* is what was set for one
 * model, or for all of them. A model's scope falls back on that of all models, field by field, and that
 * on what the server began with.
 */
import { TRACE_LEVELS, type TraceConfig } from '@nereid/config';
import { objectOf, valueMembers } from './shared-value.ts';

type Settable = Pick<TraceConfig, 'levels' | 'rate' | 'count' | 'logFrequency'>;

/** The fields that were set; what is absent falls back. */
type TraceFields = Partial<Settable>;

export interface TraceScope extends TraceFields {
  /** How often it was set: requests are counted anew from each time. */
  readonly changes: number;
  /** Requests traced since, of those that a count is for. */
  readonly taken: number;
}

export interface TraceScopes {
  readonly all: TraceScope;
  readonly models: ReadonlyMap<string, TraceScope>;
}

/** Null clears a field, absent leaves it. */
export type TraceChange = { readonly [Name in keyof Settable]?: Settable[Name] | null };

/** What holds for a model, or for all. */
export interface TraceState extends TraceConfig {
  /** Changes whenever requests are to be counted anew. */
  readonly counting: string;
}

const FRESH: TraceScope = { changes: 0, taken: 0 };
const FIELDS = ['levels', 'rate', 'count', 'logFrequency'] as const;

/** `model` is '' for all models. A model that has no scope of its own has that of all. */
export function traceState(start: TraceConfig, { all, models }: TraceScopes, model: string): TraceState {
  const scope = models.get(model);
  const general = { ...start, ...fieldsOf(all) };
  if (scope === undefined) return { ...general, count: countLeft(general.count, all), counting: `${all.changes}` };
  const own = { ...general, ...fieldsOf(scope) };
  return { ...own, count: countLeft(own.count, scope), counting: `${all.changes}.${scope.changes}` };
}

function countLeft(count: number, { taken }: TraceScope): number {
  return count < 0 ? count : Math.max(0, count - taken);
}

function fieldsOf({ levels, rate, count, logFrequency }: TraceScope): TraceFields {
  return {
    ...(levels === undefined ? {} : { levels }),
    ...(rate === undefined ? {} : { rate }),
    ...(count === undefined ? {} : { count }),
    ...(logFrequency === undefined ? {} : { logFrequency }),
  };
}

/** A model's scope in which nothing is set any more goes. */
export function changedScopes(scopes: TraceScopes, model: string, change: TraceChange): TraceScopes {
  const scope = (model === '' ? scopes.all : scopes.models.get(model)) ?? FRESH;
  const kept = fieldsOf(scope);
  const fields = {
    ...kept,
    // What was traced is off the count for good.
    ...(kept.count === undefined ? {} : { count: countLeft(kept.count, scope) }),
    ...change,
  };
  const set = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as TraceFields;
  const next: TraceScope = { ...set, changes: scope.changes + 1, taken: 0 };
  if (model === '') return { ...scopes, all: next };
  const models = new Map(scopes.models);
  if (FIELDS.some((field) => set[field] !== undefined)) models.set(model, next);
  else models.delete(model);
  return { ...scopes, models };
}

/** Notes requests that were traced; nothing where they were counted from another time. */
export function takenScopes(
  start: TraceConfig,
  scopes: TraceScopes,
  model: string,
  counting: string,
  count: number,
): TraceScopes {
  if (traceState(start, scopes, model).counting !== counting) return scopes;
  const scope = scopes.models.get(model);
  if (scope === undefined) return { ...scopes, all: { ...scopes.all, taken: scopes.all.taken + count } };
  return { ...scopes, models: new Map(scopes.models).set(model, { ...scope, taken: scope.taken + count }) };
}

/** Triton's text for settings that cannot be: why, of the first scope of which that is so; undefined where all can be. */
export function wrongTraces(start: TraceConfig, scopes: TraceScopes): string | undefined {
  for (const model of ['', ...scopes.models.keys()]) {
    const { mode, levels, rate, file } = traceState(start, scopes, model);
    if (levels.length === 0) continue;
    if (rate === 0) return 'Attempting to set invalid trace setting :sample rate must be non-zero';
    if (mode === 'triton' && file === '') {
      return 'Attempting to set invalid trace setting :trace file name is not given';
    }
  }
  return undefined;
}

export function encodeScopes({ all, models }: TraceScopes): string {
  return JSON.stringify({ all, models: Object.fromEntries(models) });
}

/** Leaves out what is no scope, as of another build. */
export function decodeScopes(text: string | undefined): TraceScopes {
  const { all, models } = valueMembers(text);
  return {
    all: scopeOf(all),
    models: new Map(Object.entries(objectOf(models)).map(([model, scope]) => [model, scopeOf(scope)])),
  };
}

function scopeOf(value: unknown): TraceScope {
  const { levels, rate, count, logFrequency, changes, taken } = objectOf(value);
  return {
    ...(Array.isArray(levels) ? { levels: TRACE_LEVELS.filter((level) => levels.includes(level)) } : {}),
    ...(typeof rate === 'number' ? { rate } : {}),
    ...(typeof count === 'number' ? { count } : {}),
    ...(typeof logFrequency === 'number' ? { logFrequency } : {}),
    changes: typeof changes === 'number' ? changes : 0,
    taken: typeof taken === 'number' ? taken : 0,
  };
}
