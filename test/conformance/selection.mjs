import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const CONFORMANCE = dirname(fileURLToPath(import.meta.url));
const MODELS = join(CONFORMANCE, 'repo', 'onnx');
const BROKEN_MODELS = join(CONFORMANCE, 'repo', 'broken_onnx');
const PORTED_MODELS = join(CONFORMANCE, 'repo', 'javascript');
const CASES = join(CONFORMANCE, 'cases');
const VARIANT = 'onnx';

/** The Python models of which there are JavaScript ones that do the same. */
export const PORTS = readdirSync(PORTED_MODELS).sort();

/** The groups of cases (files in `cases`) whose subject is served. */
const GROUPS = [
  'batching',
  'binary_http',
  'broken',
  'cache',
  'classification_http',
  'concurrency',
  'config_http',
  'errors_http',
  'errors_grpc',
  'forwarding',
  'generate',
  'health_http',
  'infer_grpc',
  'json_http',
  'lenient',
  'logging',
  'metadata_http',
  'metrics',
  'models_http',
  'parameters_http',
  'priority',
  'protocol_http',
  'queue',
  'rate_limit',
  'repository_grpc',
  'repository_http',
  'repository_refused',
  'restricted',
  'sequence_grpc',
  'sequence_http',
  'service_grpc',
  'shared_memory',
  'statistics_http',
  'stream_grpc',
  'trace',
  'tracing',
  'types_http',
  'types_grpc',
];

/** What a case may be about that is not served yet; the first rule that applies is the reason that is counted. */
const LEFT_OUT = [
  {
    why: 'for a Python model that has no port',
    applies: ({ one, names, also }) => one.variants?.includes(VARIANT) === false && !names(also),
  },
];

/** What `check.py --also` asks as well: whether the case has one of these names of models in it. */
function namesOne(one, models) {
  const text = JSON.stringify({ ...one, name: '' });
  return models.some((model) => new RegExp(`(?<!\\w)${model}(?!\\w)`).test(text));
}

/**
 * @param {string[]} globs of case names (`*` and `?`); none means all
 * @param {readonly string[]} also the Python models of which ports are served
 * @returns {{ names: string[], setUps: Map<string, string[]>, leftOut: Map<string, string[]> }} names to run, the same
 *   by the set-up of the server that they need, and those left out by reason
 */
export function selectCases(globs = [], also = PORTS) {
  const patterns = globs.map(globPattern);
  const names = [];
  const setUps = new Map();
  const leftOut = new Map();
  const append = (map, key, name) => void map.set(key, [...(map.get(key) ?? []), name]);
  for (const group of GROUPS) {
    for (const one of JSON.parse(readFileSync(join(CASES, `${group}.json`), 'utf8'))) {
      if (patterns.length > 0 && !patterns.some((pattern) => pattern.test(one.name))) continue;
      const facts = { one, also, names: (models) => namesOne(one, models) };
      const rule = LEFT_OUT.find(({ applies }) => applies(facts));
      if (rule !== undefined) {
        append(leftOut, rule.why, one.name);
        continue;
      }
      names.push(one.name);
      append(setUps, one.server ?? 'none', one.name);
    }
  }
  return { names, setUps, leftOut };
}

/** Set-ups whose only model does not load: they are live and never ready. */
const NEVER_READY = ['broken', 'lenient'];

/** The folders of the models that a set-up serves; by default those that can be served, and the ports. */
export function selectModels(setUp = 'none') {
  const folders = (of) => readdirSync(of).map((name) => join(of, name));
  if (NEVER_READY.includes(setUp)) return folders(BROKEN_MODELS);
  const models = [...folders(MODELS).sort(), ...PORTS.map((name) => join(PORTED_MODELS, name))];
  return repositoriesOf(setUp).some((name) => name.includes('broken'))
    ? [...models, ...folders(BROKEN_MODELS)]
    : models;
}

/** What a set-up's server becomes once it has started: `ready` or `live`. */
export function becomes(setUp) {
  return NEVER_READY.includes(setUp) ? 'live' : 'ready';
}

/** The flags of a set-up of the server, as `servers.json` has them. */
export function setUpFlags(setUp) {
  return readSetUps()[setUp].flags;
}

function repositoriesOf(setUp) {
  return readSetUps()[setUp].repositories;
}

function readSetUps() {
  return JSON.parse(readFileSync(join(CONFORMANCE, 'servers.json'), 'utf8'));
}

function globPattern(glob) {
  const escaped = glob.replace(/[.+^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('*', '.*').replaceAll('?', '.')}$`);
}
