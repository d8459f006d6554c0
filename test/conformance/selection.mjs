import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const CONFORMANCE = dirname(fileURLToPath(import.meta.url));
const MODELS = join(CONFORMANCE, 'repo', 'onnx');
const VARIANT = 'onnx';

/** The groups of cases (files in `cases`) whose subject is served. */
const GROUPS = [
  'json_http',
  'types_http',
  'binary_http',
  'errors_http',
  'health_http',
  'metadata_http',
  'protocol_http',
];

/** What a case may be about that is not served yet; the first rule that applies is the reason that is counted. */
const LEFT_OUT = [
  { why: 'for a Python model', applies: ({ one }) => one.variants !== undefined && !one.variants.includes(VARIANT) },
  { why: 'about restricted access', applies: ({ one }) => one.server === 'restricted' },
  { why: 'for another set-up of the server', applies: ({ one }) => (one.server ?? 'none') !== 'none' },
  { why: 'about compression', applies: ({ requests }) => requests.some(isAboutCompression) },
  { why: 'about shared memory', applies: ({ asked }) => /shared_?memory/.test(asked) },
  { why: 'for a sequence model', applies: ({ asked }) => /\/models\/sequence_/.test(asked) },
  { why: 'for an ensemble', applies: ({ asked }) => /\/models\/ensemble_/.test(asked) },
];

/** Models whose configuration asks for what is not served yet. */
const LEFT_OUT_MODELS = [
  { why: 'sequences', applies: (config) => /^sequence_batching/m.test(config) },
  { why: 'ensembles', applies: (config) => /^ensemble_scheduling/m.test(config) },
  { why: 'priorities and queue policies', applies: (config) => /priority_levels|queue_policy|preserve_/.test(config) },
  { why: 'the response cache', applies: (config) => /^response_cache/m.test(config) },
];

function isAboutCompression({ encode, headers = {} }) {
  const named = Object.entries(headers).filter(([name]) => /^(accept|content)-encoding$/i.test(name));
  return encode !== undefined || named.some(([, value]) => value !== 'identity');
}

/** The requests of a case, scripted or not. */
function requestsOf(part) {
  if (Array.isArray(part)) return part.flatMap(requestsOf);
  return [...(part.request ? [part.request] : []), ...requestsOf(part.steps ?? []), ...requestsOf(part.parallel ?? [])];
}

/**
 * @param {string[]} globs of case names (`*` and `?`); none means all
 * @returns {{ names: string[], leftOut: Map<string, string[]> }} names to run, and those left out by reason
 */
export function selectCases(globs = []) {
  const patterns = globs.map(globPattern);
  const names = [];
  const leftOut = new Map();
  for (const group of GROUPS) {
    for (const one of JSON.parse(readFileSync(join(CONFORMANCE, 'cases', `${group}.json`), 'utf8'))) {
      if (patterns.length > 0 && !patterns.some((pattern) => pattern.test(one.name))) continue;
      const requests = requestsOf(one);
      const facts = { one, requests, asked: JSON.stringify(requests) };
      const rule = LEFT_OUT.find(({ applies }) => applies(facts));
      if (rule === undefined) names.push(one.name);
      else leftOut.set(rule.why, [...(leftOut.get(rule.why) ?? []), one.name]);
    }
  }
  return { names, leftOut };
}

/** The folders of the models that can be served. */
export function selectModels() {
  const isServed = (name) => {
    const config = readFileSync(join(MODELS, name, 'config.pbtxt'), 'utf8');
    return !LEFT_OUT_MODELS.some(({ applies }) => applies(config));
  };
  return readdirSync(MODELS)
    .filter(isServed)
    .sort()
    .map((name) => join(MODELS, name));
}

function globPattern(glob) {
  const escaped = glob.replace(/[.+^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('*', '.*').replaceAll('?', '.')}$`);
}
