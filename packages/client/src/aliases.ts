import type { CallOptions, Http } from './http.ts';
import { jsonText, objectOf } from './json.ts';

/** A version that an alias stands for; its weight's part of all weights is its part of the requests. */
export interface AliasVersion {
  readonly version: string;
  readonly weight: number;
}

/** Copies of requests go to that version too, and are compared (docs/aliases.md). */
export interface AliasShadow {
  readonly version: string;
  /** Of the requests, from 0 to 1; 1 without it. */
  readonly share?: number;
  /** Floating point values are equal within both; bit for bit without them. */
  readonly atol?: number;
  readonly rtol?: number;
}

/** A name that clients use as a model's. */
export interface Alias {
  readonly name: string;
  readonly model: string;
  readonly versions: readonly AliasVersion[];
  readonly shadow?: AliasShadow;
  /** To which a roll back returns; absent where there is nothing to return to. */
  readonly before?: readonly AliasVersion[];
}

/** What became of shadow copies at the gateway that is asked, since its start. */
export interface AliasDetail extends Alias {
  readonly shadow_results: Readonly<Record<'equal' | 'different' | 'failed' | 'dropped' | 'skipped', number>>;
  /** The last ones, the newest first. */
  readonly differences: readonly AliasDifference[];
}

export interface AliasDifference {
  readonly at: string;
  readonly request_id?: string;
  readonly sequence_id?: number | string;
  readonly version: string;
  readonly shadow_version: string;
  readonly kind: string;
  readonly output?: string;
  /** What the client got, and what the copy did. */
  readonly answer: unknown;
  readonly shadow_answer: unknown;
}

/** All but `list` are admin calls: the client's `headers` have `Nereid-Admin-Key` where the server asks for it. */
export interface Aliases {
  /** All of the cluster, by name. */
  list(options?: CallOptions): Promise<readonly Alias[]>;
  /** Throws NOT_FOUND where there is none of that name. */
  get(name: string, options?: CallOptions): Promise<AliasDetail>;
  /** Makes it, or replaces what is there. */
  put(name: string, alias: Omit<Alias, 'name' | 'before'>, options?: CallOptions): Promise<Alias>;
  /** Gives that version all requests. */
  promote(name: string, version: string, options?: CallOptions): Promise<Alias>;
  /** As before the last change of its weights. Throws ALREADY_EXISTS where there is nothing to return to. */
  rollBack(name: string, options?: CallOptions): Promise<Alias>;
  remove(name: string, options?: CallOptions): Promise<void>;
}

const PATH = '/nereid/v1/aliases';

export function createAliases(http: Http): Aliases {
  const change = async (
    options: CallOptions,
    method: 'PUT' | 'POST',
    path: string,
    body: unknown,
    repeatable: 'always' | 'if refused',
  ): Promise<Alias> => {
    const headers = { 'Content-Type': 'application/json' };
    return (await http.json({ ...options, method, path, headers, body: jsonText(body), repeatable })) as Alias;
  };

  return {
    async list(options = {}) {
      const answer = objectOf(
        await http.json({ ...options, method: 'GET', path: PATH, repeatable: 'always' }),
        'aliases',
      );
      return Array.isArray(answer.aliases) ? (answer.aliases as readonly Alias[]) : [];
    },
    async get(name, options = {}) {
      return (await http.json({
        ...options,
        method: 'GET',
        path: aliasPath(name),
        repeatable: 'always',
      })) as AliasDetail;
    },
    put: (name, { model, versions, shadow }, options = {}) =>
      change(options, 'PUT', aliasPath(name), { model, versions, shadow }, 'always'),
    promote: (name, version, options = {}) =>
      change(options, 'POST', `${aliasPath(name)}/promote`, { version }, 'always'),
    // One that has been done is refused, so it is not sent twice where its answer may be lost.
    rollBack: (name, options = {}) => change(options, 'POST', `${aliasPath(name)}/rollback`, {}, 'if refused'),
    async remove(name, options = {}) {
      await http.call({ ...options, method: 'DELETE', path: aliasPath(name), repeatable: 'if refused' });
    },
  };
}

function aliasPath(name: string): string {
  return `${PATH}/${encodeURIComponent(name)}`;
}
