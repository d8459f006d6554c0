/** What an ensemble costs beside its steps: three that do nothing, against one. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { asBinary, HEADER_LENGTH, readTensors } from '../v2-tensors.mjs';
import { mostBar, quietTurns } from './bars-turns.mjs';
import { COLUMNS } from './columns.mjs';
import { startServers } from './engine.mjs';
import { turn } from './turns.mjs';

const STEPS = 3;
const OVER_STEP_MAX = 3;
const VALUES = Float32Array.of(1, 2, 3, 4);

const NOTHING =
  'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { OUTPUT: inputs.get("INPUT") } }));\n';
const IO = `input [ { name: "INPUT" data_type: TYPE_FP32 dims: [ ${VALUES.length} ] } ]
output [ { name: "OUTPUT" data_type: TYPE_FP32 dims: [ ${VALUES.length} ] } ]\n`;

/** In one process, one client: p50 of the ensemble over that of one step. */
export async function pipelineBar({ folder, generator, times, say }) {
  const models = join(folder, 'models');
  const names = Array.from({ length: STEPS }, (_, index) => `nothing_${index}`);
  for (const name of names) {
    add(models, name, `name: "${name}" backend: "javascript"\n${IO}`, NOTHING);
  }
  add(models, 'three', ensembleOf(names));
  const one = COLUMNS.find(({ name }) => name === 'one');
  const { servers, notRun } = await startServers([one], { models, folder, say });
  const [server] = servers;
  if (server === undefined) throw new Error(notRun.one);
  try {
    const runs = ['three', names[0]].map((name) => {
      const load = (seconds, warmUp) =>
        turn({
          generator,
          server,
          requests: requestTo(name, folder),
          concurrency: 1,
          seconds,
          warmUp,
          file: join(folder, 'answers'),
        });
      return { name, warm: () => load(times.firstWarmUp, 0), take: () => load(times.seconds, times.warmUp) };
    });
    for (const { warm } of runs) await warm();
    const turns = await quietTurns(runs, { times, say });
    const share = turns.three.p50_ms.median / turns[names[0]].p50_ms.median;
    return [
      mostBar(
        `an ensemble of ${STEPS} steps that do nothing over one of them, p50 at one client`,
        share,
        OVER_STEP_MAX,
      ),
    ];
  } finally {
    await server.stop();
  }
}

function add(models, name, config, module) {
  const version = join(models, name, '1');
  mkdirSync(version, { recursive: true });
  writeFileSync(join(models, name, 'config.pbtxt'), config);
  if (module !== undefined) writeFileSync(join(version, 'model.mjs'), module);
}

function ensembleOf(names) {
  const tensor = (index) => (index === 0 ? 'INPUT' : index === names.length ? 'OUTPUT' : `t${index}`);
  const step = (name, index) => `{ model_name: "${name}" model_version: -1
    input_map { key: "INPUT" value: "${tensor(index)}" } output_map { key: "OUTPUT" value: "${tensor(index + 1)}" } }`;
  return `name: "three" platform: "ensemble"\n${IO}ensemble_scheduling { step [ ${names.map(step).join(', ')} ] }\n`;
}

function requestTo(name, folder) {
  const { headers, body } = asBinary([{ name: 'INPUT', datatype: 'FP32', shape: [VALUES.length], values: VALUES }]);
  const file = join(folder, `${name}-body`);
  writeFileSync(file, body);
  return {
    path: `/v2/models/${name}/infer`,
    headers: Object.entries(headers).map(([header, value]) => `${header}: ${value}`),
    bodies: [file],
    checks: [wrong],
  };
}

function wrong(body, headers) {
  const values = [...(readTensors(body, headers.get(HEADER_LENGTH)).get('OUTPUT') ?? [])];
  return `${values}` === `${VALUES}` ? undefined : `the output is ${values}`;
}
