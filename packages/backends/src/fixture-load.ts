import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { modelConfigJson, modelSignature, parseModelConfig } from '@nereid/config';
import type { BackendLog, InstanceLoad } from './backend.ts';
import type { ModelCalls } from './model-calls.ts';

/** The models that tests of backends and worker use, one folder each. */
export const FIXTURES = fileURLToPath(new URL('../fixtures', import.meta.url));

const SILENT: BackendLog = { info() {}, warn() {}, error() {} };

/** Whoever is called is not there. */
const NOBODY: ModelCalls = {
  open({ modelName }) {
    const error = { code: 'NOT_FOUND', message: `nobody serves '${modelName}'` } as const;
    return { next: async () => ({ outcome: { ok: false, error }, last: true, decoupled: false }), cancel() {} };
  },
};

/** For tests: how version 1 of a fixture is loaded on the CPU; `config` is added to its config.pbtxt. */
export async function fixtureLoad(name: string, config = ''): Promise<InstanceLoad> {
  const modelDirectory = join(FIXTURES, name);
  const text = await readFile(join(modelDirectory, 'config.pbtxt'), 'utf8');
  return textLoad(modelDirectory, `${text}\n${config}`);
}

/** For tests: the same for any folder and the text of a config. */
export function textLoad(modelDirectory: string, config: string): InstanceLoad {
  const parsed = parseModelConfig(config, 'config.pbtxt');
  return {
    config: parsed,
    signature: modelSignature(parsed),
    configJson: modelConfigJson(parsed),
    version: '1',
    modelDirectory,
    versionDirectory: join(modelDirectory, '1'),
    instanceName: `${parsed.name}_0`,
    device: { kind: 'cpu', id: 0 },
    settings: {},
    log: SILENT,
    calls: NOBODY,
  };
}
